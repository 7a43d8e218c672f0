import { regrow } from "./rebuildTree.ts";
import type { Tree } from "./tree.ts";

/**
 * Draws a function that calls itself once: a frame equal to its caller is folded into it, and what it
 * called becomes what the caller called. Totals are conserved.
 */
export function collapseRecursion(tree: Tree): Tree {
  const name: number[] = [];
  return regrow(tree, tree.names, (node, at, path) => {
    name[at] = tree.name[node];
    if (at > 1 && name[at - 1] === name[at]) path.into(at - 1);
    else path.keep();
  });
}
