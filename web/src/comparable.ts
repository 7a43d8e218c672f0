import type { Side } from "./api/answers.ts";
import { plural } from "./numbers.ts";
import { allSamples, rates, share } from "./quality.ts";

/** One thing that must be alike on both sides; `alike` is null where nobody counted it. */
export interface Check {
  readonly name: string;
  readonly alike: boolean | null;
  readonly text: string;
}

const COVERAGE_POINTS = 0.1;
const TRUNCATED_POINTS = 0.005;

/** All that makes two sides comparable or not, always in this order. */
export function checks([a, b]: readonly Side[]): Check[] {
  const words = (name: string, pick: (side: Side) => readonly string[], why: string): Check => {
    const [inA, inB] = [a, b].map((side) => [...pick(side)].sort().join(", "));
    if (inA === "" || inB === "") return { name, alike: null, text: `not told by ${inA === "" && inB === "" ? "either side" : inA === "" ? "A" : "B"}` };
    return inA === inB ? { name, alike: true, text: `${inA} on both sides` } : { name, alike: false, text: `A ${inA}, B ${inB}: ${why}` };
  };
  const [cutA, cutB] = [a, b].map((side) => side.truncated_samples / Math.max(allSamples(side.states), side.truncated_samples, 1));
  const [inA, inB] = [a.quality.coverage, b.quality.coverage];
  const told = inA !== null && inB !== null;
  const rate = ({ periods_us }: Side) => (periods_us.length > 0 ? [rates(periods_us)] : []);
  return [
    words("mode", (side) => side.modes, "they see waiting threads, and hold the process up, differently."),
    words("rate", rate, "time is samples × period, so sums stay right; the slower side is noisier."),
    words("sampler", (side) => side.samplers, "frame names can differ between them."),
    words("reader", (side) => side.quality.readers, "doubt a difference that begins with the reader."),
    words("states", (side) => (side.windows > 0 ? [side.missing_states.length > 0 ? `no ${[...side.missing_states].sort().join(", no ")}` : "all recorded"] : []),
      "types that need what is missing read too low."),
    words("Python", (side) => side.pythons, "the standard library's frames can differ."),
    { name: "truncation", alike: Math.abs(cutA - cutB) <= TRUNCATED_POINTS, text: `${share(cutA)} of A's stacks and ${share(cutB)} of B's lost their middle${Math.abs(cutA - cutB) <= TRUNCATED_POINTS ? "" : ": paths end in (truncated) more often on one side"}` },
    { name: "pods", alike: a.pods === b.pods, text: a.pods === b.pods ? `${plural(a.pods, "pod")} on both sides` : `A ${plural(a.pods, "pod")}, B ${plural(b.pods, "pod")}: rates are per pod-second, so they allow for it` },
    { name: "coverage", alike: told ? Math.abs(inA - inB) <= COVERAGE_POINTS : null, text: told ? `ticks gave stacks in ${share(inA)} of A's time and ${share(inB)} of B's; rates allow for it` : "not told by the windows" },
    { name: "load", alike: null, text: "not known: profiles count time, not requests. A busier side takes more without costing more per request" },
  ];
}

/** The checks in a few words. */
export function checksTitle(all: readonly Check[]): string {
  const apart = all.filter(({ alike }) => alike === false).map(({ name }) => name);
  const open = all.filter(({ alike }) => alike === null).map(({ name }) => name);
  const unknown = open.length > 0 ? `; not known: ${open.join(", ")}` : "";
  return apart.length > 0 ? `The sides differ in ${apart.join(", ")}${unknown}` : `The sides were taken alike${unknown}`;
}
