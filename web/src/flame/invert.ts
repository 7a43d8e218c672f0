import { Growth } from "./grow.ts";
import { shapeOf, type Tree } from "./tree.ts";

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
  const { parent } = shapeOf(tree.level);
  const growth = new Growth(tree.names, tree.name[0], tree.self.length);
  let whole = 0;
  const leaves: number[] = [];
  for (let i = 0; i < tree.level.length; i++) {
    whole += weight[i];
    if (i > 0 && tree.self.some((side) => side[i] !== 0)) leaves.push(i);
  }
  const keep = (node: number, leaf: number) => {
    for (let side = 0; side < tree.self.length; side++) growth.add(node, side, tree.self[side][leaf], tree.samples[side][leaf]);
  };
  if (tree.level.length > 0) keep(0, 0);

  // A group is (box in the new tree, leaves in it, the frame each leaf's path has reached).
  const pending: { box: number; leaf: number[]; reached: number[] }[] = [{ box: 0, leaf: leaves, reached: leaves }];
  for (let group = pending.pop(); group; group = pending.pop()) {
    const byName = new Map<number, { leaf: number[]; reached: number[]; weight: number }>();
    for (let i = 0; i < group.leaf.length; i++) {
      const frame = group.reached[i];
      if (frame <= 0) {
        keep(group.box, group.leaf[i]);
        continue;
      }
      let callers = byName.get(tree.name[frame]);
      if (!callers) byName.set(tree.name[frame], (callers = { leaf: [], reached: [], weight: 0 }));
      callers.leaf.push(group.leaf[i]);
      callers.reached.push(parent[frame]);
      callers.weight += weight[group.leaf[i]];
    }
    for (const [name, callers] of byName) {
      const box = growth.append(group.box, name);
      if (callers.weight >= whole * atLeast) pending.push({ box, leaf: callers.leaf, reached: callers.reached });
      else for (const leaf of callers.leaf) keep(box, leaf);
    }
  }
  return growth.tree();
}
