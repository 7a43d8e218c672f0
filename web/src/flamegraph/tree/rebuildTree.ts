import { Growth } from "./treeBuilder.ts";
import type { Tree } from "./tree.ts";

/** Marks a level whose frames have no place in the new tree. */
const NOWHERE = -1;

/**
 * Where the frames of the path in view go: `at` is the level of the frame being placed, and the levels above
 * it have been placed. Exactly one of the methods is called for each frame.
 */
export interface Path {
  /** The same frame below the place of its caller, under another name if one is given. */
  keep(name?: number): void;
  /** No frame of its own: its time, and what it calls, belongs to the frame placed at `level` above it. */
  into(level: number): void;
  /** Nothing of it, and of what it calls nothing unless that says otherwise. */
  nowhere(): void;
  /** The first frame below the root. */
  begin(name?: number): void;
}

/** What a step learns of a frame: its node and its level. */
export type Placing = (node: number, at: number, path: Path) => void;

/**
 * A tree made from another by saying of each frame where it goes. Call paths that end up with no time of
 * their own below them are not drawn. The root stays; `counts` false leaves a frame's own time out.
 */
export function regrow(
  tree: Tree, names: readonly string[], place: Placing, counts: (node: number, at: number) => boolean = () => true, root = tree.name[0],
): Tree {
  if (tree.level.length === 0) return tree;
  let deepest = 0;
  for (const at of tree.level) if (at > deepest) deepest = at;
  const growth = new Growth(names, root, tree.self.length);
  // Of each level: the level its frame became part of, the level that is its caller's, its name, its new node.
  const home = new Int32Array(deepest + 1);
  const caller = new Int32Array(deepest + 1);
  const label = new Int32Array(deepest + 1);
  const made = new Int32Array(deepest + 1).fill(-1);
  made[0] = 0;
  let node = 0;
  let at = 0;
  const put = (above: number, name: number) => {
    home[at] = above === NOWHERE ? NOWHERE : at;
    caller[at] = above;
    label[at] = name;
    made[at] = -1;
  };
  const path: Path = {
    keep: (name = tree.name[node]) => put(home[at - 1], name),
    into: (level) => (home[at] = home[level]),
    nowhere: () => (home[at] = NOWHERE),
    begin: (name = tree.name[node]) => put(0, name),
  };
  const missing: number[] = [];
  const make = (level: number): number => {
    for (let above = level; made[above] < 0; above = caller[above]) missing.push(above);
    for (let above = missing.pop(); above !== undefined; above = missing.pop()) made[above] = growth.child(made[caller[above]], label[above]);
    return made[level];
  };
  const sides = tree.self.length;
  for (; node < tree.level.length; node++) {
    at = tree.level[node];
    if (at > 0) place(node, at, path);
    if (home[at] === NOWHERE || !counts(node, at) || !hasTime(tree, node)) continue;
    const target = make(home[at]);
    for (let side = 0; side < sides; side++) growth.add(target, side, tree.self[side][node], tree.samples[side][node]);
  }
  return growth.tree();
}

function hasTime(tree: Tree, node: number): boolean {
  for (let side = 0; side < tree.self.length; side++) if (tree.self[side][node] !== 0 || tree.samples[side][node] !== 0) return true;
  return false;
}
