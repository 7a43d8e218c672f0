import { collapseRecursion } from "../tree/collapse.ts";
import { changeOf, divisors, meanOf, type Change } from "../tree/compare.ts";
import { nodeSettled, type Judged } from "./significance.ts";
import { invert } from "../tree/invert.ts";
import { shapeOf, totals, sum, type Shape, type States, type Tree } from "../tree/tree.ts";
import { narrow, statesOf, widen } from "../tree/expandStates.ts";
import type { Norm } from "../../lib/viewOptions.ts";

/** How a tree is looked at. */
export interface Lens {
  readonly invert: boolean;
  readonly collapse: boolean;
  readonly norm: Norm;
  /** What is outside noise; without it, what is beyond counting noise counts as changed. */
  readonly judged?: Judged | null;
}

/** A tree with everything that drawing, tables and tooltips add up from it. */
export interface Reading {
  readonly tree: Tree;
  readonly shape: Shape;
  /** Microseconds and samples per side and node, callees included. */
  readonly us: readonly Float64Array[];
  readonly samples: readonly Float64Array[];
  /** What decides widths: microseconds of one side, or the mean of two normalised sides. */
  readonly total: Float64Array;
  readonly divisor: readonly number[];
  /** By side, if the tree has them: microseconds by state, callees included. */
  readonly states?: readonly States[];
  readonly judged?: Judged | null;
}

export function read(tree: Tree, podSeconds: readonly number[], lens: Lens): Reading {
  const divisor = divisors(lens.norm, podSeconds, lens.norm === "share" ? tree.self.map(sum) : []);
  const sides = tree.self.length;
  const wide = widen(tree);
  const folded = lens.collapse ? collapseRecursion(wide) : wide;
  const turned = lens.invert ? invert(folded, meanOf(folded.self.slice(0, sides), divisor)) : folded;
  return added({ ...narrow(turned, sides), by: tree.by }, divisor, lens.judged, turned.self);
}

/** A tree that is shown as it is, with what follows from it. `columns` are its sides' own time and its states'. */
export function added(
  tree: Tree, divisor: readonly number[], judged: Judged | null = null, columns: readonly Float64Array[] = widen(tree).self,
): Reading {
  const sides = tree.self.length;
  const shape = shapeOf(tree.level, columns[0]);
  const all = columns.map((self, at) => (at === 0 ? shape.total : totals(tree.level, self)));
  const us = all.slice(0, sides);
  let samples: readonly Float64Array[] | null = null;
  return {
    tree,
    shape,
    us,
    // No picture of one side is drawn from them.
    get samples() { return (samples ??= tree.samples.map((self) => totals(tree.level, self))); },
    total: meanOf(us, divisor),
    divisor,
    judged,
    ...(all.length > sides && { states: statesOf(all, sides) }),
  };
}

/** The change of one node, callees included. */
export function changeAt(reading: Reading, node: number): Change {
  const { us, samples, divisor, judged, tree } = reading;
  const pair = [us[0][node], us[1][node]] as const;
  const change = changeOf(pair, [samples[0][node], samples[1][node]], divisor);
  return judged ? nodeSettled(judged, tree, node, pair, change) : change;
}

/** Marks the nodes whose change is new, gone, or at least half or twice, so that narrow ones stay visible. */
export function markChanges(reading: Reading): Uint8Array {
  const mark = new Uint8Array(reading.tree.level.length);
  for (let i = 1; i < mark.length; i++) {
    const { direction, doublings } = changeAt(reading, i);
    if (direction !== "same" && direction !== "unknown" && Math.abs(doublings) >= 1) mark[i] = 1;
  }
  return mark;
}

/** How many marked nodes lie before each node, one entry more than nodes. */
export function countBefore(...marks: readonly (Uint8Array | null)[]): Uint32Array | null {
  const given = marks.filter((mark) => mark !== null);
  if (given.length === 0) return null;
  const before = new Uint32Array(given[0].length + 1);
  for (let i = 0; i < given[0].length; i++) before[i + 1] = before[i] + (given.some((mark) => mark[i] === 1) ? 1 : 0);
  return before;
}

