import { Growth } from "./grow.ts";
import { shapeOf, totals, type Tree } from "./tree.ts";

/** Callers are followed only for groups of at least this part of the whole; smaller ones stay one box. */
export const GROW_AT_LEAST = 1 / 4000;

/**
 * The tree upside down: first the functions in which time was spent, below each its callers.
 *
 * Following every caller of every leaf takes minutes on a large profile and draws boxes nobody can see,
 * so a group is grown only while its `weight` is at least `atLeast` of the whole. What is not grown
 * stays as self of its group: totals are conserved. `weight` is one number a node (self, sides mixed).
 */
export function invert(tree: Tree, weight: Float64Array, atLeast = GROW_AT_LEAST): Tree {
  if (tree.level.length === 0) return tree;
  const { parent } = shapeOf(tree.level);
  const leaves: number[] = [];
  for (let i = 1; i < tree.level.length; i++) if (tree.self.some((side) => side[i] !== 0)) leaves.push(i);
  const growth = new Growth(tree.names, tree.name[0], tree.self.length);
  for (let side = 0; side < tree.self.length; side++) growth.add(0, side, tree.self[side][0], tree.samples[side][0]);
  climb(growth, tree, { parent, starts: leaves, reached: leaves, self: tree.self, samples: tree.samples, weight, atLeast });
  return growth.tree();
}

/**
 * The callers of a function: it is the root, below it who called it, and so on. Each stack counts once, from
 * the function's outermost frame; what it called is in its weight. Small groups are not grown, as above.
 */
export function callers(tree: Tree, name: number, weight: Float64Array, atLeast = GROW_AT_LEAST): Tree {
  const { parent, end } = shapeOf(tree.level);
  const starts: number[] = [];
  for (let i = 1; i < tree.level.length; i = tree.name[i] === name ? end[i] : i + 1) if (tree.name[i] === name) starts.push(i);
  const growth = new Growth(tree.names, name, tree.self.length);
  const self = tree.self.map((column) => totals(tree.level, column));
  const samples = tree.samples.map((column) => totals(tree.level, column));
  climb(growth, tree, { parent, starts, reached: starts.map((node) => parent[node]), self, samples, weight, atLeast });
  return growth.tree();
}

interface Climb {
  readonly parent: Int32Array;
  /** The nodes whose weight is handed up, and the frame at which each one's way begins. */
  readonly starts: readonly number[];
  readonly reached: readonly number[];
  readonly self: readonly Float64Array[];
  readonly samples: readonly Float64Array[];
  readonly weight: Float64Array;
  readonly atLeast: number;
}

function climb(growth: Growth, tree: Tree, { parent, starts, reached, self, samples, weight, atLeast }: Climb): void {
  let whole = 0;
  for (const start of starts) whole += weight[start];
  const keep = (box: number, start: number) => {
    for (let side = 0; side < self.length; side++) growth.add(box, side, self[side][start], samples[side][start]);
  };
  // A group is (box in the new tree, starts in it, the frame each one's path has reached).
  const pending: { box: number; start: readonly number[]; reached: readonly number[] }[] = [{ box: 0, start: starts, reached }];
  for (let group = pending.pop(); group; group = pending.pop()) {
    const byName = new Map<number, { start: number[]; reached: number[]; weight: number }>();
    for (let i = 0; i < group.start.length; i++) {
      const frame = group.reached[i];
      if (frame <= 0) {
        keep(group.box, group.start[i]);
        continue;
      }
      let above = byName.get(tree.name[frame]);
      if (!above) byName.set(tree.name[frame], (above = { start: [], reached: [], weight: 0 }));
      above.start.push(group.start[i]);
      above.reached.push(parent[frame]);
      above.weight += weight[group.start[i]];
    }
    for (const [name, above] of byName) {
      const box = growth.append(group.box, name);
      if (above.weight >= whole * atLeast) pending.push({ box, start: above.start, reached: above.reached });
      else for (const start of above.start) keep(box, start);
    }
  }
}
