import { ownerOf } from "./packages.ts";
import { regrow } from "./rebuildTree.ts";
import type { Tree } from "./tree.ts";
import type { MergeBy } from "../../lib/viewOptions.ts";

/**
 * Frames of one file or package that stand next to each other on a stack become one frame, named after it.
 * A frame without a file keeps its own name. Totals are conserved.
 */
export function mergeBy(tree: Tree, by: MergeBy): Tree {
  if (by === "function" || by === "line" || tree.level.length === 0) return tree;
  const { names, merged } = renamed(tree, (text) => ownerOf(text, by));
  const label: number[] = [];
  const made = regrow(tree, names, (node, at, path) => {
    label[at] = merged[tree.name[node]];
    if (at > 1 && label[at - 1] === label[at]) path.into(at - 1);
    else path.keep(label[at]);
  }, undefined, merged[tree.name[0]]);
  return { ...made, by };
}

/** Names under which several may be one now, and for each old name which. The root's stays first. */
function renamed(tree: Tree, rename: (text: string) => string): { names: string[]; merged: Int32Array } {
  const number = new Map<string, number>();
  const merged = Int32Array.from(tree.names, (text) => {
    const to = rename(text);
    const known = number.get(to);
    if (known !== undefined) return known;
    number.set(to, number.size);
    return number.size - 1;
  });
  return { names: [...number.keys()], merged };
}

/** A text with the right package for a name of a tree, whatever its names are. */
export const colourText = (name: string, by?: "file" | "package"): string => (by === undefined || name.startsWith("(") ? name : `x (${name})`);
