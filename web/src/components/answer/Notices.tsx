import type { ComponentChildren } from "preact";
import type { AnswerBasis } from "../../api/answers.ts";
import { plural, seconds as duration } from "../../lib/numbers.ts";

export function BasisLine({ basis, sampled, children }: { basis: Pick<AnswerBasis, "windows" | "pods" | "samples">; sampled?: number; children?: ComponentChildren }) {
  return (
    <p class="basis">
      {plural(basis.samples, "sample")} · {plural(basis.pods, "pod")} · {plural(basis.windows, "window")}
      {sampled !== undefined && <> · sampled time {duration(sampled)}</>}
      {children}
    </p>
  );
}

export function Notices({ notices }: { notices: readonly string[] }) {
  if (notices.length === 0) return null;
  return (
    <ul class="notices" aria-label="Before you read this">
      {notices.map((sentence) => <li key={sentence}>{sentence}</li>)}
    </ul>
  );
}
