import type { Effect, Effects } from "../../api/verdict.ts";
import { isSignificant } from "../../flamegraph/analysis/significance.ts";
import { interval, signed } from "../../lib/numbers.ts";
import * as strings from "../../strings/comparisonStrings.tsx";

/** A difference with its sign and its interval; a minor one has no sign. */
export function Delta({ effect: { delta, low, high, direction }, format }: {
  effect: Pick<Effect, "delta" | "low" | "high" | "direction">; format: (value: number) => string;
}) {
  if (direction === "minor") return <>≈ <span class="quiet" title={interval(low ?? 0, high ?? 0, format)}>{strings.minor}</span></>;
  return (
    <>
      {isSignificant(direction) ? (delta > 0 ? "▲" : "▼") : "≈"} {signed(format(delta), delta)}
      {low !== null && high !== null && (low !== 0 || high !== 0) && <><br /><span class="quiet">{interval(low, high, format)}</span></>}
    </>
  );
}

export const formatQ = (q: number): string => (q < 0.001 ? "<.001" : q.toFixed(3).replace(/^0/, ""));

export const formatPods = (agreeing: number, total: number): string => (total > 0 ? `${agreeing}/${total}` : "–");

/** How many of B's pods went the same way, and q: the part of changes this sure that is none. */
export function CertaintyCells({ effects, row }: { effects: Effects; row: number }) {
  return <><td class="number">{formatPods(effects.pods_agreeing[row], effects.pods_total[row])}</td><td class="number">{formatQ(effects.q[row])}</td></>;
}
