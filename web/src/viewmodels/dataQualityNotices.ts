import type { Basis, Side } from "../api/answers.ts";
import { percent, plural } from "../lib/numbers.ts";
import { allSamples } from "./qualitySummary.ts";
import { clock } from "../lib/times.ts";

/** What a reader must know before trusting a picture: one sentence each. What sets two sides apart, a verdict's checks say. */
export function notices(sides: readonly Side[], names: readonly string[], basis: Basis): string[] {
  const said: string[] = [];
  if (basis.unreadable_segments) {
    said.push(`${plural(basis.unreadable_segments, "stored segment")} could not be read: what you see is too low. The collector's log names them.`);
  }
  if (basis.unresolved_windows) {
    said.push(`${plural(basis.unresolved_windows, "window")} of this time ${basis.unresolved_windows === 1 ? "is" : "are"} left out: their stacks are kept only together with those of others. Filter by service, version, process or thread alone.`);
  }
  const byDay = basis.resolutions?.find(({ resolution }) => resolution === "day");
  if (byDay) {
    said.push(`Coarse: ${plural(byDay.windows, "window")} from ${clock(byDay.from)} to ${clock(byDay.until)} are kept added up by the day. A day belongs to a range in which it began, and its pods and nodes cannot be told apart.`);
  }
  const mixed = (what: string, pick: (side: Side) => readonly string[], why: string) => {
    if (sides.some((side) => pick(side).length > 1)) said.push(`Taken with different ${what} (${[...new Set(sides.flatMap(pick))].sort().join(", ")}): ${why}`);
  };
  mixed("samplers", (side) => side.samplers, "frame names can differ between them.");
  mixed("sampling modes", (side) => side.modes, "they see waiting threads, and hold the process up, differently.");
  mixed("readers", (side) => side.quality.readers, "doubt a difference that begins with the reader.");
  mixed("Python versions", (side) => side.pythons, "the standard library's frames can differ.");
  sides.forEach((side, at) => {
    const who = sides.length > 1 ? `${names[at]}: ` : "";
    if (side.modes.includes("nonblocking")) said.push(`${who}stacks may be wrong. They were read while the program ran (mode nonblocking), and nothing tells which of them mix two moments.`);
    if (side.missing_states.length > 0) {
      said.push(`${who}the sampler did not record ${side.missing_states.join(" and ")} samples: ${tooLow(side.missing_states)} too low.`);
    }
    if (side.truncated_samples > 0) {
      said.push(`${who}${percent(side.truncated_samples / Math.max(allSamples(side.states), side.truncated_samples))} of all samples were deeper than the sampler's limit and carry a (truncated) frame.`);
    }
    if (sides.length > 1 && side.pods === 0) said.push(`${who}no windows in this range: nothing can be compared.`);
  });
  return said;
}

/** The types that lack samples when these states were not recorded. */
function tooLow(missing: readonly string[]): string {
  const types = [...(missing.includes("idle") ? ["wall time"] : []), ...(missing.includes("gil") ? ["GIL time"] : [])];
  return types.length > 0 ? `${types.join(" and ")} ${types.length > 1 ? "read" : "reads"}` : "types that need them read";
}
