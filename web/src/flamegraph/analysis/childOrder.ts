import { shapeOf, sortByWeight, type Column, type States, type Tree } from "../tree/tree.ts";
import { byState } from "../tree/tree.ts";
import type { Significance } from "./significance.ts";

/**
 * The nodes of a tree with the heaviest callees of each frame first, in pre-order. Callees of one weight stay in the
 * order they have, which is by name.
 */
export function heaviestFirst({ level, name }: Pick<Tree, "level" | "name">, weight: Float64Array): Int32Array {
  const { end } = shapeOf(level);
  const order = new Int32Array(name.length);
  // The next node is on top: callees are put on it with the lightest first.
  const pending = new Int32Array(name.length);
  for (let at = 0, from = 1; at < order.length; at++) {
    const node = pending[--from];
    order[at] = node;
    let until = from;
    for (let callee = node + 1; callee < end[node]; callee = end[callee]) pending[until++] = callee;
    sortByWeight(pending, from, until, weight);
    for (let first = from, last = until - 1; first < last; first++, last--) [pending[first], pending[last]] = [pending[last], pending[first]];
    from = until;
  }
  return order;
}

/** A tree with its nodes in another order. */
export function reorder(tree: Tree, order: Int32Array): Tree {
  const moved = (column: Column): Float64Array => move(column, order, new Float64Array(order.length));
  return {
    ...tree,
    level: move(tree.level, order, new Int32Array(order.length)),
    name: move(tree.name, order, new Int32Array(order.length)),
    self: tree.self.map(moved),
    samples: tree.samples.map(moved),
    ...(tree.states && { states: tree.states.map((states): States => byState((state) => moved(states[state]))) }),
  };
}

/** Copies a column in another order. A loop takes a twentieth of the time of `Int32Array.from` with a function. */
function move<To extends Int32Array | Float64Array>(column: Column | Int32Array, order: Int32Array, to: To): To {
  for (let at = 0; at < order.length; at++) to[at] = column[order[at]];
  return to;
}

/** The verdict on nodes in another order: `tree` is the one that was tested, `reordered` what became of it. */
export function reorderSignificance(significance: Significance, tree: Tree, reordered: Tree, order: Int32Array): Significance {
  if (tree.level !== significance.level) return significance;
  const { names, row, functions, isByShare, label, flags } = significance;
  return {
    names, row, functions, isByShare, label,
    level: reordered.level,
    flags: Uint8Array.from(order, (node) => flags[node] ?? 0),
    get unjudged() { return significance.unjudged; },
  };
}
