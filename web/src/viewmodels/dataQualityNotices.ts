import type { AnswerBasis, Side } from "../api/answers.ts";
import { percent, plural } from "../lib/numbers.ts";
import { totalSamples } from "./qualitySummary.ts";
import { formatClock } from "../lib/times.ts";

/** Limits of the data that a reader must know, one sentence each. The checks of a verdict cover comparability. */
export function dataQualityNotices(sides: readonly Side[], names: readonly string[], basis: AnswerBasis): string[] {
  const notices: string[] = [];
  if (basis.unreadable_segments) {
    notices.push(`${plural(basis.unreadable_segments, "stored segment")} could not be read: values are too low. The collector's log names them.`);
  }
  if (basis.unresolved_windows) {
    notices.push(`${plural(basis.unresolved_windows, "window")} ${basis.unresolved_windows === 1 ? "is" : "are"} missing: their stacks are stored merged with others. Filter by service, version, process or thread alone.`);
  }
  const byDay = basis.resolutions?.find(({ resolution }) => resolution === "day");
  if (byDay) {
    notices.push(`Coarse: ${plural(byDay.windows, "window")} from ${formatClock(byDay.from)} to ${formatClock(byDay.until)} are stored as daily sums. A day counts in the range in which it began, and its pods and nodes are merged.`);
  }
  const mixed = (what: string, pick: (side: Side) => readonly string[], why: string) => {
    if (sides.some((side) => pick(side).length > 1)) notices.push(`Sampled with different ${what} (${[...new Set(sides.flatMap(pick))].sort().join(", ")}): ${why}`);
  };
  mixed("samplers", (side) => side.samplers, "frame names can differ between them.");
  mixed("sampling modes", (side) => side.modes, "they differ in waiting threads and in overhead.");
  mixed("readers", (side) => side.quality.readers, "doubt a difference that begins with the reader.");
  mixed("Python versions", (side) => side.python_versions, "the standard library's frames can differ.");
  sides.forEach((side, at) => {
    const prefix = sides.length > 1 ? `${names[at]}: ` : "";
    if (side.modes.includes("nonblocking")) notices.push(`${prefix}stacks may be wrong. Mode nonblocking reads them while the program runs, so some mix two moments.`);
    const missing = side.missing_states.filter((state) => state !== "cpu_wait");
    if (missing.length > 0) {
      notices.push(`${prefix}the sampler did not record ${missing.join(" and ")} samples: ${affectedTypes(missing)} too low.`);
    }
    if (side.truncated_samples > 0) {
      notices.push(`${prefix}${percent(side.truncated_samples / Math.max(totalSamples(side.states), side.truncated_samples))} of all samples were deeper than the sampler's limit and carry a (truncated) frame.`);
    }
    if (sides.length > 1 && side.pods === 0) notices.push(`${prefix}no windows in this range: nothing can be compared.`);
  });
  return notices;
}

/** The types that lack samples when these states were not recorded. */
function affectedTypes(missing: readonly string[]): string {
  const types = [...(missing.includes("idle") ? ["wall time"] : []), ...(missing.includes("gil") ? ["GIL time"] : [])];
  return types.length > 0 ? `${types.join(" and ")} ${types.length > 1 ? "read" : "reads"}` : "types that need them read";
}
