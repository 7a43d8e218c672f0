import { rebuildTree } from "./rebuildTree.ts";
import type { Tree } from "./tree.ts";

/** The longest cycle that is looked for, in frames; the depth page folds as long ones. */
const MAX_CYCLE_FRAMES = 32;

/**
 * Draws recursion once: where the last frames of a stack repeat the ones before them, the repetition is folded into
 * those. A function that calls itself is a cycle of one frame, A→B→A→B one of two. Totals are conserved.
 */
export function collapseRecursion(tree: Tree): Tree {
  // Of each level of the path in view: its name, and the level whose frame it became part of.
  const name: number[] = [];
  const placed: number[] = [0];
  // How often the path has each name: most frames are no recursion.
  const onPath = new Int32Array(tree.names.length);
  const latest = new Int32Array(2 * MAX_CYCLE_FRAMES);
  let deepest = 0;
  return rebuildTree(tree, tree.names, (node, at, placement) => {
    for (; deepest >= at; deepest--) onPath[name[deepest]]--;
    deepest = at;
    name[at] = tree.name[node];
    const start = onPath[name[at]]++ === 0 ? 0 : cycleStart(name, placed, at, latest);
    placed[at] = start || at;
    if (start > 0) placement.mergeInto(start);
    else placement.keep();
  });
}

/** The level of the frame that a frame at level `at` repeats as the last of a cycle, the shortest first; 0 for none. */
function cycleStart(name: readonly number[], placed: readonly number[], at: number, latest: Int32Array): number {
  let count = 0;
  for (let level = placed[at - 1]; level > 0 && count < latest.length; level = placed[level - 1]) latest[count++] = level;
  for (let length = 1; 2 * length - 1 <= count && length <= MAX_CYCLE_FRAMES; length++) {
    if (name[latest[length - 1]] !== name[at]) continue;
    let matching = 0;
    while (matching < length - 1 && name[latest[matching]] === name[latest[length + matching]]) matching++;
    if (matching === length - 1) return latest[length - 1];
  }
  return 0;
}
