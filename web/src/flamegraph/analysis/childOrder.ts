import { shapeOf, type Column, type States, type Tree } from "../tree/tree.ts";
import { byState } from "../tree/tree.ts";
import type { Significance } from "./significance.ts";

/**
 * The nodes of a tree with the heaviest callees of each frame first, in pre-order. Callees of one weight stay in the
 * order they have, which is by name.
 */
export function heaviestFirst({ level, name }: Pick<Tree, "level" | "name">, weight: Float64Array): Int32Array {
  const { end } = shapeOf(level);
  const order = new Int32Array(name.length);
  const pending = [0];
  const callees: number[] = [];
  for (let at = 0; pending.length > 0; at++) {
    const node = pending.pop() as number;
    order[at] = node;
    callees.length = 0;
    let isSorted = true;
    for (let callee = node + 1; callee < end[node]; callee = end[callee]) {
      if (callees.length > 0 && weight[callees[callees.length - 1]] < weight[callee]) isSorted = false;
      callees.push(callee);
    }
    if (!isSorted) callees.sort((a, b) => weight[b] - weight[a]);
    for (let i = callees.length - 1; i >= 0; i--) pending.push(callees[i]);
  }
  return order;
}

/** A tree with its nodes in another order. */
export function reorder(tree: Tree, order: Int32Array): Tree {
  const moved = (column: Column): Float64Array => {
    const to = new Float64Array(order.length);
    for (let at = 0; at < order.length; at++) to[at] = column[order[at]];
    return to;
  };
  return {
    ...tree,
    level: Int32Array.from(order, (node) => tree.level[node]),
    name: Int32Array.from(order, (node) => tree.name[node]),
    self: tree.self.map(moved),
    samples: tree.samples.map(moved),
    ...(tree.states && { states: tree.states.map((states): States => byState((state) => moved(states[state]))) }),
  };
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
