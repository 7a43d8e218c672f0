import type { Side } from "../api/answers.ts";
import { percent } from "../lib/numbers.ts";
import * as strings from "../strings/profileStrings.tsx";

const MIN_SAMPLES = 1000;
const MIN_SHARE = 0.1;

/** What the GIL costs a service, where its threads wait for it for a good part of the time in which they want to run; else "". */
export function describeGilContention({ states, missing_states }: Pick<Side, "states" | "missing_states">): string {
  const wanted = states.gil + states.running + states.cpu_wait + states.gil_wait;
  if (missing_states.includes("gil_wait") || wanted < MIN_SAMPLES || states.gil_wait < MIN_SHARE * wanted) return "";
  return strings.gilContention(percent(states.gil_wait / wanted));
}
