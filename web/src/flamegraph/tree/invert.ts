import { Growth } from "./treeBuilder.ts";
import { shapeOf, totals, type Column, type Tree } from "./tree.ts";

/** Callers are followed only for groups of at least this part of the whole; smaller ones stay one box. */
export const GROW_AT_LEAST = 1 / 4000;

/**
 * The tree upside down: first the functions in which time was spent, below each its callers.
 *
 * Following every caller of every leaf takes minutes on a large profile and draws boxes nobody can see,
 * so a group is grown only while its `weight` is at least `atLeast` of the whole. What is not grown
 * stays as self of its group: totals are conserved. `weight` is one number a node (self, sides mixed).
 */
export function invert(tree: Tree, weight: Float64Array, atLeast = GROW_AT_LEAST): Tree {
  if (tree.level.length === 0) return tree;
  const { parent } = shapeOf(tree.level);
  const leaves: number[] = [];
  for (let i = 1; i < tree.level.length; i++) if (tree.self.some((side) => side[i] !== 0)) leaves.push(i);
  const growth = new Growth(tree.names, tree.name[0], tree.self.length);
  for (let side = 0; side < tree.self.length; side++) growth.add(0, side, tree.self[side][0], tree.samples[side][0]);
  climb(growth, tree, { parent, starts: leaves, reached: leaves, self: tree.self, samples: tree.samples, weight, atLeast });
  return growth.tree();
}

/**
 * The callers of a function: it is the root, below it who called it, and so on. Each stack counts once, from
 * the function's outermost frame; what it called is in its weight. Small groups are not grown, as above.
 */
export function callers(tree: Tree, name: number, weight: Float64Array, atLeast = GROW_AT_LEAST): Tree {
  const { parent, end } = shapeOf(tree.level);
  const starts: number[] = [];
  for (let i = 1; i < tree.level.length; i = tree.name[i] === name ? end[i] : i + 1) if (tree.name[i] === name) starts.push(i);
  const growth = new Growth(tree.names, name, tree.self.length);
  const self = tree.self.map((column) => totals(tree.level, column));
  const samples = tree.samples.map((column) => totals(tree.level, column));
  climb(growth, tree, { parent, starts, reached: starts.map((node) => parent[node]), self, samples, weight, atLeast });
  return growth.tree();
}

interface Climb {
  readonly parent: Int32Array;
  /** The nodes whose weight is handed up, and the frame at which each one's way begins. */
  readonly starts: readonly number[];
  readonly reached: readonly number[];
  readonly self: readonly Float64Array[];
  readonly samples: readonly Column[];
  readonly weight: Float64Array;
  readonly atLeast: number;
}

/**
 * Hands weights up, group by group. A group is a box of the new tree and a run of `start`, each with the frame its way
 * has reached; its callers are told apart by sorting the run in place, for lists of lists of half a million starts
 * take longer to make than to read.
 */
function climb(growth: Growth, tree: Tree, { parent, starts, reached, self, samples, weight, atLeast }: Climb): void {
  const start = Int32Array.from(starts);
  const frame = Int32Array.from(reached);
  const nextStart = new Int32Array(start.length);
  const nextFrame = new Int32Array(start.length);
  const names = tree.names.length;
  const turnOf = new Int32Array(names);
  const size = new Int32Array(names);
  const place = new Int32Array(names);
  const heavy = new Float64Array(names);
  const callers = new Int32Array(names);
  let whole = 0;
  for (let i = 0; i < start.length; i++) whole += weight[start[i]];
  const keep = (box: number, node: number) => {
    for (let side = 0; side < self.length; side++) growth.add(box, side, self[side][node], samples[side][node]);
  };
  const pending = [{ box: 0, from: 0, until: start.length }];
  for (let group = pending.pop(), turn = 1; group; group = pending.pop(), turn++) {
    let found = 0;
    for (let i = group.from; i < group.until; i++) {
      if (frame[i] <= 0) {
        keep(group.box, start[i]);
        continue;
      }
      const name = tree.name[frame[i]];
      if (turnOf[name] !== turn) {
        turnOf[name] = turn;
        size[name] = 0;
        heavy[name] = 0;
        callers[found++] = name;
      }
      size[name]++;
      heavy[name] += weight[start[i]];
    }
    let end = group.from;
    for (let at = 0; at < found; at++) {
      place[callers[at]] = end;
      end += size[callers[at]];
    }
    for (let i = group.from; i < group.until; i++) {
      if (frame[i] <= 0) continue;
      const to = place[tree.name[frame[i]]]++;
      nextStart[to] = start[i];
      nextFrame[to] = parent[frame[i]];
    }
    start.set(nextStart.subarray(group.from, end), group.from);
    frame.set(nextFrame.subarray(group.from, end), group.from);
    for (let at = 0; at < found; at++) {
      const name = callers[at];
      const box = growth.append(group.box, name);
      const from = place[name] - size[name];
      if (heavy[name] >= whole * atLeast) pending.push({ box, from, until: place[name] });
      else for (let i = from; i < place[name]; i++) keep(box, start[i]);
    }
  }
}
