import { changeOf, divisors, type Change } from "./compare.ts";
import { sum } from "./reading.ts";
import type { Column, Tree } from "./tree.ts";

export interface Reason {
  readonly name: string;
  /** Of the function's own time, seconds per pod-second. */
  readonly change: Change;
}

export interface Explanation {
  readonly reasons: readonly Reason[];
  /** What the reasons add up to over the whole difference; null where that is within the noise. */
  readonly share: number | null;
}

const ENOUGH = 0.8;
const MOST = 5;

/**
 * The functions that explain a difference.
 *
 * Own times add up to the whole, so the differences of own times add up to the whole difference, and each is
 * a share of it. Reasons are the functions whose own difference goes the same way and beyond its noise, the
 * largest first, until they make 80 % of the whole, and five at most. What others take less may make that
 * more than all of it. Where the whole differs by no more than noise, they are the largest in either way.
 * Frames that stand for others, such as `(other)`, explain nothing.
 */
export function explain(tree: Tree, podSeconds: readonly number[]): Explanation {
  const divisor = divisors("rate", podSeconds, []);
  const by = (columns: readonly Column[]) => columns.map((column) => {
    const sums = new Float64Array(tree.names.length);
    for (let i = 0; i < column.length; i++) sums[tree.name[i]] += column[i];
    return sums;
  });
  const [us, samples] = [by(tree.self), by(tree.samples)];
  const pair = (columns: readonly Float64Array[], at: number) => [columns[0][at], columns[1][at]] as const;
  const totals = (columns: readonly Float64Array[]) => [sum(columns[0]), sum(columns[1])] as const;
  const whole = changeOf(totals(us), totals(samples), divisor);
  const beyond = whole.direction !== "same" && whole.direction !== "unknown";
  const reasons = tree.names
    .map((name, at) => ({ name, change: changeOf(pair(us, at), pair(samples, at), divisor) }))
    .filter(({ name, change }) => change.direction !== "same" && change.direction !== "unknown" && !/^\(.*\)$/.test(name)
      && (!beyond || change.delta > 0 === whole.delta > 0))
    .sort((a, b) => Math.abs(b.change.delta) - Math.abs(a.change.delta) || (a.name < b.name ? -1 : 1));
  if (!beyond) return { reasons: reasons.slice(0, MOST), share: null };
  let taken = 0;
  let share = 0;
  while (taken < Math.min(reasons.length, MOST) && share < ENOUGH) share += reasons[taken++].change.delta / whole.delta;
  return { reasons: reasons.slice(0, taken), share };
}
