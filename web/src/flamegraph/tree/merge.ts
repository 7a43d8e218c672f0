import { groupOf } from "./groups.ts";
import { ownerOf, packageOf } from "./packages.ts";
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

/**
 * The application's own frames, and one frame for each run of library frames between them: named after the package that
 * the run begins with, which is the one that the application called. Frames without a file stay. Totals are conserved.
 */
export function foldLibraries(tree: Tree): Tree {
  const { names, merged } = renameFrames(tree, libraryName);
  const isLibrary = Uint8Array.from(tree.names, (text) => (libraryName(text) === text ? 0 : 1));
  const isInRun: boolean[] = [];
  return rebuildTree(tree, names, (node, at, placement) => {
    isInRun[at] = isLibrary[tree.name[node]] === 1;
    if (at > 1 && isInRun[at] && isInRun[at - 1]) placement.mergeInto(at - 1);
    else placement.keep(merged[tree.name[node]]);
  }, undefined, merged[tree.name[0]]);
}

/** The name of a run of library frames that begins with this one; of another frame its own. */
export function libraryName(text: string): string {
  const group = groupOf(text);
  if (group !== "standard library" && group !== "third party") return text;
  const { name } = packageOf(text);
  const one = `${name} (${name})`;
  return groupOf(one) === group ? one : `${name} (site-packages/${name})`;
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
