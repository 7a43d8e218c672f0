import { ownerOf } from "./packages.ts";
import { rebuildTree } from "./rebuildTree.ts";
import type { Tree } from "./tree.ts";
import type { MergeBy } from "../../lib/viewOptions.ts";

/**
 * Frames of one file or package that stand next to each other on a stack become one frame, named after it.
 * A frame without a file keeps its own name. Totals are conserved.
 */
export function mergeBy(tree: Tree, by: MergeBy): Tree {
  if (by === "function" || by === "line" || tree.level.length === 0) return tree;
  const { names, merged } = renameFrames(tree, (text) => ownerOf(text, by));
  const label: number[] = [];
  const rebuilt = rebuildTree(tree, names, (node, at, placement) => {
    label[at] = merged[tree.name[node]];
    if (at > 1 && label[at - 1] === label[at]) placement.mergeInto(at - 1);
    else placement.keep(label[at]);
  }, undefined, merged[tree.name[0]]);
  return { ...rebuilt, by };
}

/** Names under which several may be one now, and for each old name which. The root's stays first. */
function renameFrames(tree: Tree, rename: (text: string) => string): { names: string[]; merged: Int32Array } {
  const indexOf = new Map<string, number>();
  const merged = Int32Array.from(tree.names, (text) => {
    const newName = rename(text);
    const index = indexOf.get(newName);
    if (index !== undefined) return index;
    indexOf.set(newName, indexOf.size);
    return indexOf.size - 1;
  });
  return { names: [...indexOf.keys()], merged };
}

/** A text with the right package for a name of a tree, whatever its names are. */
export const colourText = (name: string, by?: "file" | "package"): string => (by === undefined || name.startsWith("(") ? name : `x (${name})`);
