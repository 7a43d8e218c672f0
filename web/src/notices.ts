import type { Basis, Side } from "./api/answers.ts";
import { percent, plural } from "./numbers.ts";
import { allSamples, rates, share } from "./quality.ts";

/** What a reader must know before trusting a picture or a comparison: one sentence each. */
export function notices(sides: readonly Side[], names: readonly string[], basis: Basis): string[] {
  const said: string[] = [];
  if (basis.unreadable_segments) {
    said.push(`${plural(basis.unreadable_segments, "stored segment")} could not be read: what you see is too low. The collector's log names them.`);
  }
  if (basis.unresolved_windows) {
    said.push(`${plural(basis.unresolved_windows, "window")} of this time ${basis.unresolved_windows === 1 ? "is" : "are"} left out: their stacks are kept only together with those of others. Filter by service, version, process or thread alone.`);
  }
  const mixed = (what: string, pick: (side: Side) => readonly string[], why: string) => {
    const own = sides.map((side) => [...pick(side)].sort().join(", "));
    const apart = new Set(own.filter((words) => words !== ""));
    const all = new Set(sides.flatMap((side) => [...pick(side)]));
    if (apart.size > 1) said.push(`A and B were taken with different ${what} (A ${own[0]}; B ${own[1]}): ${why}`);
    else if (all.size > 1) said.push(`Taken with different ${what} (${[...apart].join()}): ${why}`);
  };
  mixed("samplers", (side) => side.samplers, "frame names can differ between them.");
  mixed("sampling modes", (side) => side.modes, "they see waiting threads, and hold the process up, differently.");
  mixed("readers", (side) => side.quality.readers, "doubt a difference that begins with the reader.");
  mixed("Python versions", (side) => side.pythons, "the standard library's frames can differ.");
  if (new Set(sides.flatMap((side) => (side.windows > 0 ? [rates(side.periods_us)] : []))).size > 1) {
    said.push(`A and B were sampled at different rates (A ${rates(sides[0].periods_us)}; B ${rates(sides[1].periods_us)}): time is samples × period, so sums stay right; the slower side is noisier.`);
  }
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
  if (sides.length === 2 && sides.every((side) => side.pods > 0)) {
    const [a, b] = sides;
    const [inA, inB] = [a.quality.coverage, b.quality.coverage];
    if (inA !== null && inB !== null && Math.abs(inA - inB) > 0.1) {
      said.push(`Ticks gave stacks in ${share(inA)} of A's time and ${share(inB)} of B's: rates allow for it, but what was missed may differ from what was seen.`);
    }
    if (a.pods !== b.pods) said.push(`A watched ${a.pods} pods, B ${b.pods}; rates are per pod-second.`);
    const few = sides.flatMap((side, at) => (side.samples > 0 && side.samples < 1000 ? [`${names[at]} has only ${plural(side.samples, "sample")}`] : []));
    if (few.length > 0) said.push(`${few.join(", ")}: small differences cannot be told from chance.`);
  }
  return said;
}

/** The types that lack samples when these states were not recorded. */
function tooLow(missing: readonly string[]): string {
  const types = [...(missing.includes("idle") ? ["wall time"] : []), ...(missing.includes("gil") ? ["GIL time"] : [])];
  return types.length > 0 ? `${types.join(" and ")} ${types.length > 1 ? "read" : "reads"}` : "types that need them read";
}
