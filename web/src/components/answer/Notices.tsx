import type { ComponentChildren } from "preact";
import type { AnswerBasis } from "../../api/answers.ts";
import { seconds as duration } from "../../lib/numbers.ts";
import * as strings from "../../strings/answerStrings.tsx";

export function BasisLine({ basis, sampled, children }: { basis: Pick<AnswerBasis, "windows" | "pods" | "samples">; sampled?: number; children?: ComponentChildren }) {
  return (
    <p class="basis">
      {strings.sampleCount(basis.samples)} · {strings.podCount(basis.pods)} · {strings.windowCount(basis.windows)}
      {sampled !== undefined && <>{" "}{strings.sampledTime(duration(sampled))}</>}
      {children}
    </p>
  );
}

export function Notices({ notices }: { notices: readonly string[] }) {
  if (notices.length === 0) return null;
  return (
    <ul class="notices" aria-label={strings.beforeYouRead}>
      {notices.map((sentence) => <li key={sentence}>{sentence}</li>)}
    </ul>
  );
}
