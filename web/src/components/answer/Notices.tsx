import type { ComponentChildren } from "preact";
import type { Basis } from "../../api/answers.ts";
import { plural, seconds as duration } from "../../lib/numbers.ts";

export function BasisLine({ basis, sampled, children }: { basis: Basis; sampled?: number; children?: ComponentChildren }) {
  return (
    <p class="basis">
      {plural(basis.samples, "sample")} · {plural(basis.pods, "pod")} · {plural(basis.windows, "window")}
      {sampled !== undefined && <> · sampled time {duration(sampled)}</>}
      {children}
    </p>
  );
}

export function Notices({ said }: { said: readonly string[] }) {
  if (said.length === 0) return null;
  return (
    <ul class="notices" aria-label="Before you read this">
      {said.map((sentence) => <li key={sentence}>{sentence}</li>)}
    </ul>
  );
}
