import { ranks, TreeBuilder } from "./treeBuilder.ts";
import { shapeOf, sortByWeight, totals, type Column, type Tree } from "./tree.ts";

/** Callers are followed only for groups of at least this part of the whole; smaller ones stay one box. */
export const MIN_WEIGHT_SHARE = 1 / 4000;

/**
 * The tree upside down: first the functions in which time was spent, below each its callers.
 *
 * Following every caller of every leaf takes minutes on a large profile and draws boxes nobody can see,
 * so a group is grown only while its `weight` is at least `minShare` of the whole. What is not grown
 * stays as self of its group: totals are conserved. `weight` is one number a node (self, sides mixed). The callers of
 * a frame come by name, or the heaviest first: each has its weight already, and sorting the whole tree takes longer.
 */
export function invert(tree: Tree, weight: Float64Array, minShare = MIN_WEIGHT_SHARE, isByWeight = false): Tree {
  if (tree.level.length === 0) return tree;
  const { parent } = shapeOf(tree.level);
  const leaves = nodesWithSelf(tree.self);
  const builder = new TreeBuilder(tree.names, tree.name[0], tree.self.length, tree.level.length);
  for (let side = 0; side < tree.self.length; side++) builder.add(0, side, tree.self[side][0], tree.samples[side][0]);
  addCallers(builder, tree, { parent, starts: leaves, frames: leaves, self: tree.self, samples: tree.samples, weight, minShare, isByWeight });
  return builder.tree(!isByWeight);
}

/**
 * The callers of a function: it is the root, below it who called it, and so on. Each stack counts once, from
 * the function's outermost frame; what it called is in its weight. Small groups are not grown, as above.
 */
export function callers(tree: Tree, name: number, weight: Float64Array, minShare = MIN_WEIGHT_SHARE): Tree {
  const { parent, end } = shapeOf(tree.level);
  const starts: number[] = [];
  for (let i = 1; i < tree.level.length; i = tree.name[i] === name ? end[i] : i + 1) if (tree.name[i] === name) starts.push(i);
  const builder = new TreeBuilder(tree.names, name, tree.self.length);
  const self = tree.self.map((column) => totals(tree.level, column));
  const samples = tree.samples.map((column) => totals(tree.level, column));
  addCallers(builder, tree, { parent, starts, frames: starts.map((node) => parent[node]), self, samples, weight, minShare });
  return builder.tree();
}

/** The nodes with self time on any side, without the root. */
function nodesWithSelf(self: readonly Float64Array[]): Int32Array {
  const count = self[0].length;
  const leaves = new Int32Array(count);
  const [first, ...others] = self;
  let found = 0;
  for (let i = 1; i < count; i++) if (first[i] !== 0 || others.some((side) => side[i] !== 0)) leaves[found++] = i;
  return leaves.subarray(0, found);
}

interface CallerWalk {
  readonly parent: Int32Array;
  /** The nodes whose weight is handed up, and the frame at which each one's way begins. */
  readonly starts: ArrayLike<number>;
  readonly frames: ArrayLike<number>;
  readonly self: readonly Float64Array[];
  readonly samples: readonly Column[];
  readonly weight: Float64Array;
  readonly minShare: number;
  readonly isByWeight?: boolean;
}

/**
 * Hands weights up, group by group. A group is a box of the new tree and a run of `start`, each with the frame its way
 * has reached; its callers are separated by sorting the run in place, for lists of lists of half a million starts
 * take longer to make than to read. Those of a caller that is not grown go no further than its box.
 */
function addCallers(builder: TreeBuilder, tree: Tree, { parent, starts, frames, self, samples, weight, minShare, isByWeight }: CallerWalk): void {
  const start = Int32Array.from(starts);
  const frame = Int32Array.from(frames);
  const nextStart = new Int32Array(start.length);
  const nextFrame = new Int32Array(start.length);
  const names = tree.names.length;
  const groupOf = new Int32Array(names);
  const size = new Int32Array(names);
  const boxOf = new Int32Array(names);
  /** Where the next start of a caller goes; -1 for one that is not grown. */
  const offset = new Int32Array(names);
  const weightOf = new Float64Array(names);
  const callers = new Int32Array(names);
  const rank = isByWeight ? ranks(tree.names) : callers;
  let whole = 0;
  for (let i = 0; i < start.length; i++) whole += weight[start[i]];
  const addTo = (box: number, node: number) => {
    for (let side = 0; side < self.length; side++) builder.add(box, side, self[side][node], samples[side][node]);
  };
  const pending = [{ box: 0, from: 0, until: start.length }];
  for (let group = pending.pop(), groupIndex = 1; group; group = pending.pop(), groupIndex++) {
    let callerCount = 0;
    for (let i = group.from; i < group.until; i++) {
      if (frame[i] <= 0) continue;
      const name = tree.name[frame[i]];
      if (groupOf[name] !== groupIndex) {
        groupOf[name] = groupIndex;
        size[name] = 0;
        weightOf[name] = 0;
        callers[callerCount++] = name;
      }
      size[name]++;
      weightOf[name] += weight[start[i]];
    }
    if (isByWeight) sortByWeight(callers, 0, callerCount, weightOf, (a, b) => rank[a] - rank[b]);
    let end = group.from;
    for (let at = 0; at < callerCount; at++) {
      const name = callers[at];
      const box = builder.append(group.box, name);
      const isGrown = weightOf[name] >= whole * minShare;
      boxOf[name] = box;
      offset[name] = isGrown ? end : -1;
      if (isGrown) pending.push({ box, from: end, until: (end += size[name]) });
    }
    for (let i = group.from; i < group.until; i++) {
      const name = frame[i] <= 0 ? -1 : tree.name[frame[i]];
      if (name < 0 || offset[name] < 0) {
        addTo(name < 0 ? group.box : boxOf[name], start[i]);
        continue;
      }
      const to = offset[name]++;
      nextStart[to] = start[i];
      nextFrame[to] = parent[frame[i]];
    }
    start.set(nextStart.subarray(group.from, end), group.from);
    frame.set(nextFrame.subarray(group.from, end), group.from);
  }
}
