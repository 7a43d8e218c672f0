import { Growth } from "./grow.ts";
import type { Tree } from "./tree.ts";

/**
 * Draws a function that calls itself once: a frame equal to its caller is folded into it, and what it
 * called becomes what the caller called. Totals are conserved.
 */
export function collapseRecursion(tree: Tree): Tree {
  if (tree.level.length === 0) return tree;
  const growth = new Growth(tree.names, tree.name[0], tree.self.length);
  const placed = [0];
  const placedName = [tree.name[0]];
  for (let i = 0; i < tree.level.length; i++) {
    const at = tree.level[i];
    if (at > 0) {
      const same = at > 1 && placedName[at - 1] === tree.name[i];
      placed[at] = same ? placed[at - 1] : growth.child(placed[at - 1], tree.name[i]);
      placedName[at] = tree.name[i];
    }
    for (let side = 0; side < tree.self.length; side++) {
      growth.add(placed[at], side, tree.self[side][i], tree.samples[side][i]);
    }
  }
  return growth.tree();
}
