import type { Change } from "../flame/compare.ts";

/** Says that only one side has it. */
export function Badge({ of: { direction } }: { of: Change }) {
  return direction === "new" || direction === "gone" ? <> <span class={`badge ${direction}`}>{direction}</span></> : null;
}
