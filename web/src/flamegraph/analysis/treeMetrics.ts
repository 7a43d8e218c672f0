import { heaviestFirst, reorder, reorderSignificance } from "./childOrder.ts";
import { collapseRecursion } from "../tree/collapse.ts";
import { changeOf, divisors, meanOf, type Change } from "../tree/compare.ts";
import { applyNodeSignificance, isSignificant, testedChanges, type Significance } from "./significance.ts";
import { invert, MIN_WEIGHT_SHARE } from "../tree/invert.ts";
import { shapeOf, totals, sum, type Shape, type States, type Tree } from "../tree/tree.ts";
import { collapseStates, statesOf, expandStates } from "../tree/expandStates.ts";
import { rateUnit, type RateUnit } from "../../lib/quantities.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";

/** The options of a view that change the metrics of its tree. */
export interface MetricsOptions {
  readonly invert: boolean;
  readonly collapse: boolean;
  readonly norm: Normalisation;
  /** Whether the heaviest callees come first; else they are in the order of their names. */
  readonly isByWeight?: boolean;
  /** How rates are written. */
  readonly unit?: RateUnit;
  /** The significant changes; without them, a change beyond counting noise counts. */
  readonly significance?: Significance | null;
}

/** What the numbers of two sides are divided by. */
export interface Scale {
  readonly norm: Normalisation;
  readonly unit: RateUnit;
  readonly divisor: readonly number[];
  /** Differences are of what was tested: of shares where load can differ, whatever the widths are. */
  readonly changeDivisor: readonly number[];
}

/** A tree with the sums that graphs, tables and tooltips show. */
export interface TreeMetrics extends Scale {
  readonly tree: Tree;
  readonly shape: Shape;
  /** Microseconds and samples per side and node, callees included. */
  readonly us: readonly Float64Array[];
  readonly samples: readonly Float64Array[];
  /** Widths: microseconds of one side, or the mean of two normalised sides. */
  readonly total: Float64Array;
  /** By side, if the tree has them: microseconds by state, callees included. */
  readonly states?: readonly States[];
  readonly significance?: Significance | null;
  /** Of a tree that is upside down, the one it was made from. Shares of stacks are the same in both, but small groups of callers are merged here. */
  readonly upright: TreeMetrics | null;
  /** For each node, the topmost of its ancestors that only the same side has; itself where both have its caller. */
  readonly oneSidedTop: Int32Array;
}

export function computeMetrics(tree: Tree, podSeconds: readonly number[], options: MetricsOptions): TreeMetrics {
  const { norm, significance, unit = rateUnit("cpu") } = options;
  const shares = norm === "share" || significance?.isByShare ? tree.self.map(sum) : [];
  const divisor = divisors(norm, podSeconds, shares);
  const changeDivisor = significance?.isByShare ? shares : divisor;
  const sides = tree.self.length;
  const expanded = expandStates(tree);
  const collapsed = options.collapse ? collapseRecursion(expanded) : expanded;
  const inverted = options.invert ? invert(collapsed, meanOf(collapsed.self.slice(0, sides), divisor), MIN_WEIGHT_SHARE, options.isByWeight) : collapsed;
  const scale = { norm, unit, divisor, changeDivisor };
  const upright = options.invert ? () => metricsOf({ ...collapseStates(collapsed, sides), by: tree.by }, scale, significance, collapsed.self) : null;
  if (!options.isByWeight || options.invert) return metricsOf({ ...collapseStates(inverted, sides), by: tree.by }, scale, significance, inverted.self, upright);
  const order = heaviestFirst(inverted, meanOf(inverted.self.slice(0, sides).map((self) => totals(inverted.level, self)), divisor));
  const ordered = reorder(inverted, order);
  return metricsOf({ ...collapseStates(ordered, sides), by: tree.by }, scale, significance && reorderSignificance(significance, inverted, ordered, order), ordered.self);
}

/** The metrics of a tree without further changes. `columns` are the self time of its sides and states. */
export function metricsOf(
  tree: Tree, { norm, unit, divisor, changeDivisor }: Scale, significance: Significance | null = null, columns: readonly Float64Array[] = expandStates(tree).self, uprightOf: (() => TreeMetrics) | null = null,
): TreeMetrics {
  const sides = tree.self.length;
  const shape = shapeOf(tree.level, columns[0]);
  const columnTotals = columns.map((self, at) => (at === 0 ? shape.total : totals(tree.level, self)));
  const us = columnTotals.slice(0, sides);
  let samples: readonly Float64Array[] | null = null;
  let oneSidedTop: Int32Array | null = null;
  let upright: TreeMetrics | null = null;
  return {
    tree,
    shape,
    us,
    // No picture of one side is drawn from them.
    get samples() { return (samples ??= tree.samples.map((self) => totals(tree.level, self))); },
    total: meanOf(us, divisor),
    norm,
    unit,
    divisor,
    changeDivisor,
    significance,
    get upright() { return (upright ??= uprightOf?.() ?? null); },
    get oneSidedTop() { return (oneSidedTop ??= findOneSidedTops(shape, us)); },
    ...(columnTotals.length > sides && { states: statesOf(columnTotals, sides) }),
  };
}

/** The change of one node, callees included. What one side alone calls below a new or removed frame is new or removed too. */
export function changeAt(metrics: TreeMetrics, node: number): Change {
  const { us, oneSidedTop } = metrics;
  const change = ownChangeAt(metrics, node);
  if (us[0][node] !== 0 && us[1][node] !== 0) return change;
  const top = oneSidedTop[node];
  const { direction } = top === node ? change : ownChangeAt(metrics, top);
  return direction === "new" || direction === "removed" ? { ...change, direction } : change;
}

function ownChangeAt(metrics: TreeMetrics, node: number): Change {
  const { us, samples, changeDivisor, significance, tree } = metrics;
  const pair = [us[0][node], us[1][node]] as const;
  const change = changeOf(pair, [samples[0][node], samples[1][node]], changeDivisor);
  return significance ? applyNodeSignificance(significance, tree, node, pair, change) : change;
}

function findOneSidedTops({ parent }: Shape, us: readonly Float64Array[]): Int32Array {
  const top = new Int32Array(parent.length);
  const [a, b] = us;
  for (let node = 0; node < top.length; node++) {
    const caller = parent[node];
    const isLikeCaller = caller > 0 && ((a[node] === 0 && a[caller] === 0 && b[node] > 0) || (b[node] === 0 && b[caller] === 0 && a[node] > 0));
    top[node] = isLikeCaller ? top[caller] : node;
  }
  return top;
}

/** Marks the nodes whose change is new, gone, or at least half or twice, so that narrow ones stay visible. */
export function markChanges(metrics: TreeMetrics): Uint8Array {
  const mark = new Uint8Array(metrics.tree.level.length);
  const { us: [a, b], oneSidedTop, significance } = metrics;
  // Most nodes were tested and did not change: the first picture does not wait for their numbers.
  const changed = significance ? testedChanges(significance, metrics.tree) : null;
  for (let i = 1; i < mark.length; i++) {
    if (changed && changed[i] === 0 && ((a[i] !== 0 && b[i] !== 0) || changed[oneSidedTop[i]] === 0)) continue;
    const { direction, doublings } = changeAt(metrics, i);
    if (isSignificant(direction) && Math.abs(doublings) >= 1) mark[i] = 1;
  }
  return mark;
}

/** The number of marked nodes before each node, with one more entry than there are nodes. */
export function countBefore(...marks: readonly (Uint8Array | null)[]): Uint32Array | null {
  const present = marks.filter((mark) => mark !== null);
  if (present.length === 0) return null;
  const [first, ...others] = present;
  const either = others.length === 0 ? first : first.map((mark, i) => (mark === 1 || others.some((other) => other[i] === 1) ? 1 : 0));
  const counts = new Uint32Array(first.length + 1);
  for (let i = 0; i < either.length; i++) counts[i + 1] = counts[i] + (either[i] === 1 ? 1 : 0);
  return counts;
}
