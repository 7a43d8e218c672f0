import { TreeBuilder } from "./treeBuilder.ts";
import type { Tree } from "./tree.ts";

/** Marks a level whose frames have no place in the new tree. */
const DROPPED = -1;

/**
 * Where the frames of the path in view go: `at` is the level of the frame being placed, and the levels above
 * it have been placed. Exactly one of the methods is called for each frame.
 */
export interface FramePlacement {
  /** The same frame below the place of its caller, under another name if one is given. */
  keep(name?: number): void;
  /** No frame of its own: its time, and what it calls, belongs to the frame placed at `level` above it. */
  mergeInto(level: number): void;
  /** Nothing of it, and of what it calls nothing unless that says otherwise. */
  drop(): void;
  /** The first frame below the root. */
  startAt(name?: number): void;
}

/** What a step learns of a frame: its node and its level. */
export type PlaceFrame = (node: number, at: number, path: FramePlacement) => void;

/**
 * A tree made from another by saying of each frame where it goes. Call paths that end up with no time of
 * their own below them are not drawn. The root stays; `countsSelf` false leaves a frame's own time out.
 */
export function rebuildTree(
  tree: Tree, names: readonly string[], placeFrame: PlaceFrame, countsSelf: (node: number, at: number) => boolean = () => true, root = tree.name[0],
): Tree {
  if (tree.level.length === 0) return tree;
  let deepest = 0;
  for (const at of tree.level) if (at > deepest) deepest = at;
  const builder = new TreeBuilder(names, root, tree.self.length);
  // Of each level: the level its frame became part of, the level that is its caller's, its name, its new node.
  const mergedLevel = new Int32Array(deepest + 1);
  const caller = new Int32Array(deepest + 1);
  const label = new Int32Array(deepest + 1);
  const newNode = new Int32Array(deepest + 1).fill(-1);
  newNode[0] = 0;
  let node = 0;
  let at = 0;
  const setPlace = (callerLevel: number, name: number) => {
    mergedLevel[at] = callerLevel === DROPPED ? DROPPED : at;
    caller[at] = callerLevel;
    label[at] = name;
    newNode[at] = -1;
  };
  const placement: FramePlacement = {
    keep: (name = tree.name[node]) => setPlace(mergedLevel[at - 1], name),
    mergeInto: (level) => (mergedLevel[at] = mergedLevel[level]),
    drop: () => (mergedLevel[at] = DROPPED),
    startAt: (name = tree.name[node]) => setPlace(0, name),
  };
  const missing: number[] = [];
  const createNode = (level: number): number => {
    for (let callerLevel = level; newNode[callerLevel] < 0; callerLevel = caller[callerLevel]) missing.push(callerLevel);
    for (let callerLevel = missing.pop(); callerLevel !== undefined; callerLevel = missing.pop()) newNode[callerLevel] = builder.child(newNode[caller[callerLevel]], label[callerLevel]);
    return newNode[level];
  };
  const sides = tree.self.length;
  for (; node < tree.level.length; node++) {
    at = tree.level[node];
    if (at > 0) placeFrame(node, at, placement);
    if (mergedLevel[at] === DROPPED || !countsSelf(node, at) || !hasTime(tree, node)) continue;
    const target = createNode(mergedLevel[at]);
    for (let side = 0; side < sides; side++) builder.add(target, side, tree.self[side][node], tree.samples[side][node]);
  }
  return builder.tree();
}

function hasTime(tree: Tree, node: number): boolean {
  for (let side = 0; side < tree.self.length; side++) if (tree.self[side][node] !== 0 || tree.samples[side][node] !== 0) return true;
  return false;
}
