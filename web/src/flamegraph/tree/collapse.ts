import { rebuildTree } from "./rebuildTree.ts";
import type { Tree } from "./tree.ts";

/**
 * Draws a function that calls itself once: a frame equal to its caller is folded into it, and what it
 * called becomes what the caller called. Totals are conserved.
 */
export function collapseRecursion(tree: Tree): Tree {
  const name: number[] = [];
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    name[at] = tree.name[node];
    if (at > 1 && name[at - 1] === name[at]) placement.mergeInto(at - 1);
    else placement.keep();
  });
}
