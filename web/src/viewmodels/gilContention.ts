import type { FlameSide } from "../api/answers.ts";
import { percent } from "../lib/numbers.ts";
import * as strings from "../strings/profileStrings.tsx";

/** What the GIL costs a service, where its threads wait for it for a good part of the time in which they want to run; else "". */
export function describeGilContention({ gil_contention: contention }: Pick<FlameSide, "gil_contention">): string {
  if (!contention) return "";
  const { share, low, high } = contention;
  return strings.gilContention(percent(share), low === null || high === null ? null : [percent(low), percent(high)]);
}
