import type { Change } from "./compare.ts";
import { changeIn } from "./ranking.ts";
import type { Reading } from "./reading.ts";
import { functionSums } from "./sums.ts";

/** One function on both sides: its time with what it calls, and how that and its own time changed. */
export interface Changed {
  readonly name: number;
  readonly us: readonly [number, number];
  readonly total: Change;
  readonly self: Change;
}

export const isChange = ({ direction }: Change): boolean => direction !== "same" && direction !== "unknown";

/** The functions whose time with what they call changed most, or, with `significant`, beyond noise. */
export function changesOf(reading: Reading, most: number, significant: boolean): Changed[] {
  const { tree, shape, divisor } = reading;
  const sums = functionSums(tree, shape);
  return Array.from(sums.name, (name, row) => ({ name, row, total: changeIn(sums, row, divisor, "total") }))
    .filter(({ total }) => total.delta !== 0 && (!significant || isChange(total)))
    .sort((a, b) => Number(isChange(b.total)) - Number(isChange(a.total)) || Math.abs(b.total.delta) - Math.abs(a.total.delta) || (tree.names[a.name] < tree.names[b.name] ? -1 : 1))
    .slice(0, most)
    .map(({ name, row, total }) => ({ name, total, us: [sums.total[0][row], sums.total[1][row]], self: changeIn(sums, row, divisor, "self") }));
}
