import { collapseRecursion } from "../tree/collapse.ts";
import { changeOf, divisors, meanOf, type Change } from "../tree/compare.ts";
import { applyNodeSignificance, type Significance } from "./significance.ts";
import { invert } from "../tree/invert.ts";
import { shapeOf, totals, sum, type Shape, type States, type Tree } from "../tree/tree.ts";
import { collapseStates, statesOf, expandStates } from "../tree/expandStates.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";

/** The options of a view that change the metrics of its tree. */
export interface MetricsOptions {
  readonly invert: boolean;
  readonly collapse: boolean;
  readonly norm: Normalisation;
  /** The significant changes; without them, a change beyond counting noise counts. */
  readonly significance?: Significance | null;
}

/** A tree with the sums that graphs, tables and tooltips show. */
export interface TreeMetrics {
  readonly tree: Tree;
  readonly shape: Shape;
  /** Microseconds and samples per side and node, callees included. */
  readonly us: readonly Float64Array[];
  readonly samples: readonly Float64Array[];
  /** Widths: microseconds of one side, or the mean of two normalised sides. */
  readonly total: Float64Array;
  readonly divisor: readonly number[];
  /** By side, if the tree has them: microseconds by state, callees included. */
  readonly states?: readonly States[];
  readonly significance?: Significance | null;
}

export function computeMetrics(tree: Tree, podSeconds: readonly number[], options: MetricsOptions): TreeMetrics {
  const divisor = divisors(options.norm, podSeconds, options.norm === "share" ? tree.self.map(sum) : []);
  const sides = tree.self.length;
  const expanded = expandStates(tree);
  const collapsed = options.collapse ? collapseRecursion(expanded) : expanded;
  const inverted = options.invert ? invert(collapsed, meanOf(collapsed.self.slice(0, sides), divisor)) : collapsed;
  return metricsOf({ ...collapseStates(inverted, sides), by: tree.by }, divisor, options.significance, inverted.self);
}

/** The metrics of a tree without further changes. `columns` are the self time of its sides and states. */
export function metricsOf(
  tree: Tree, divisor: readonly number[], significance: Significance | null = null, columns: readonly Float64Array[] = expandStates(tree).self,
): TreeMetrics {
  const sides = tree.self.length;
  const shape = shapeOf(tree.level, columns[0]);
  const columnTotals = columns.map((self, at) => (at === 0 ? shape.total : totals(tree.level, self)));
  const us = columnTotals.slice(0, sides);
  let samples: readonly Float64Array[] | null = null;
  return {
    tree,
    shape,
    us,
    // No picture of one side is drawn from them.
    get samples() { return (samples ??= tree.samples.map((self) => totals(tree.level, self))); },
    total: meanOf(us, divisor),
    divisor,
    significance,
    ...(columnTotals.length > sides && { states: statesOf(columnTotals, sides) }),
  };
}

/** The change of one node, callees included. */
export function changeAt(metrics: TreeMetrics, node: number): Change {
  const { us, samples, divisor, significance, tree } = metrics;
  const pair = [us[0][node], us[1][node]] as const;
  const change = changeOf(pair, [samples[0][node], samples[1][node]], divisor);
  return significance ? applyNodeSignificance(significance, tree, node, pair, change) : change;
}

/** Marks the nodes whose change is new, gone, or at least half or twice, so that narrow ones stay visible. */
export function markChanges(metrics: TreeMetrics): Uint8Array {
  const mark = new Uint8Array(metrics.tree.level.length);
  for (let i = 1; i < mark.length; i++) {
    const { direction, doublings } = changeAt(metrics, i);
    if (direction !== "unchanged" && direction !== "no_data" && Math.abs(doublings) >= 1) mark[i] = 1;
  }
  return mark;
}

/** The number of marked nodes before each node, with one more entry than there are nodes. */
export function countBefore(...marks: readonly (Uint8Array | null)[]): Uint32Array | null {
  const present = marks.filter((mark) => mark !== null);
  if (present.length === 0) return null;
  const counts = new Uint32Array(present[0].length + 1);
  for (let i = 0; i < present[0].length; i++) counts[i + 1] = counts[i] + (present.some((mark) => mark[i] === 1) ? 1 : 0);
  return counts;
}

