import type { FlameAnswer, FlameSide } from "../../api/answers.ts";

/**
 * A call tree as columns, in pre-order: node 0 is the root, a node's subtree follows it without a gap.
 *
 * `level[i]` is the depth of node i (root 0), `name[i]` indexes `names`. `self[side][i]` is microseconds
 * of sampled time that ended in node i, `samples[side][i]` the samples behind it. One side is a flame
 * graph, two are a comparison (baseline, comparison). Nothing here recurses: stacks may be thousands deep.
 */
export interface Tree {
  readonly names: readonly string[];
  readonly level: Int32Array;
  readonly name: Int32Array;
  readonly self: readonly Float64Array[];
  readonly samples: readonly Column[];
  /** By side, if it was asked for: the parts of `self` by state. */
  readonly states?: readonly States[];
  /** Set when names are files or packages and not frames. */
  readonly by?: "file" | "package";
}

/** A number a node; as it came in the answer where no picture is made of it. */
export type Column = Float64Array | readonly number[];

/** What a thread or an asyncio task did, in the order of the API's columns. */
export const STATES = ["idle", "running", "gil", "cpu_wait", "gil_wait", "lock", "poll", "io", "sleep", "task_running", "task_ready", "task_waiting"] as const;
export type State = (typeof STATES)[number];

/** Of a thread that waits for something other than a CPU or the GIL. */
export const OFF_CPU_STATES = ["lock", "poll", "io", "sleep", "idle"] as const satisfies readonly State[];
/** What a reader looks for first: who uses a CPU, who wants one, who waits for something else. */
export const THREAD_STATES_BY_WORK = ["gil", "running", "cpu_wait", "gil_wait", ...OFF_CPU_STATES] as const satisfies readonly State[];
/** Of an asyncio task. */
export const TASK_STATES = ["task_running", "task_ready", "task_waiting"] as const satisfies readonly State[];
export const STATES_BY_WORK: readonly State[] = [...THREAD_STATES_BY_WORK, ...TASK_STATES];

/** Microseconds by state, a number a node. */
export type States = Readonly<Record<State, Float64Array>>;

/** An object with a value for each state. */
export const byState = <T>(valueOf: (state: State, at: number) => T): Record<State, T> =>
  Object.fromEntries(STATES.map((state, at) => [state, valueOf(state, at)])) as Record<State, T>;

/** What follows from the levels alone: `end[i]` is one past node i's subtree, `parent[0]` is -1. */
export interface Shape {
  readonly end: Int32Array;
  readonly parent: Int32Array;
  readonly deepest: number;
}

/** What a tree is made of in an answer. */
export type WireTree = Pick<FlameAnswer, "names" | "level" | "name"> & { readonly sides: readonly Pick<FlameSide, "self_us" | "self_samples" | "self_us_by_state">[] };

export function treeOf(wire: WireTree): Tree {
  const columns = wire.sides.flatMap(({ self_us_by_state: states }) => states ?? []);
  return {
    names: wire.names,
    level: new Int32Array(wire.level),
    name: new Int32Array(wire.name),
    self: wire.sides.map((side) => new Float64Array(side.self_us)),
    samples: wire.sides.map((side) => side.self_samples),
    ...(columns.length === wire.sides.length && { states: columns.map(statesOf) }),
  };
}

const statesOf = (columns: Readonly<Record<State, readonly number[]>>): States => byState((state) => new Float64Array(columns[state]));

/**
 * Where each subtree ends and what `self` adds up to over it, in one pass from the back: the first picture of a large
 * tree waits for it. Parents are worked out when something asks for them.
 */
export function shapeOf(level: Int32Array, self: Column = new Float64Array(level.length)): Shape & { readonly total: Float64Array } {
  const count = level.length;
  const end = new Int32Array(count);
  const total = new Float64Array(count);
  // Of each level: time and nodes of the subtrees whose parent is still to come. Sums need no branches, which would miss.
  const time = new Float64Array(count + 1);
  const nodes = new Int32Array(count + 1);
  let deepest = 0;
  for (let i = count - 1; i >= 0; i--) {
    const at = level[i];
    if (at > deepest) deepest = at;
    const sum = self[i] + time[at + 1];
    const size = 1 + nodes[at + 1];
    time[at + 1] = 0;
    nodes[at + 1] = 0;
    time[at] += sum;
    nodes[at] += size;
    total[i] = sum;
    end[i] = i + size;
  }
  let parent: Int32Array | null = null;
  return { end, total, deepest, get parent() { return (parent ??= parents(level)); } };
}

function parents(level: Int32Array): Int32Array {
  const parent = new Int32Array(level.length);
  const open = [-1];
  for (let i = 0; i < level.length; i++) {
    parent[i] = open[level[i]];
    open[level[i] + 1] = i;
  }
  return parent;
}

/** The sum of `self` over each node's subtree. */
export const totals = (level: Int32Array, self: Column): Float64Array => shapeOf(level, self).total;

/** The nodes from the root down to `node`, both included. */
export function pathTo(shape: Shape, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at >= 0; at = shape.parent[at]) path.push(at);
  return path.reverse();
}

export function childrenOf(shape: Shape, node: number): number[] {
  const children: number[] = [];
  for (let child = node + 1; child < shape.end[node]; child = shape.end[child]) children.push(child);
  return children;
}

export function sum(column: Column): number {
  let all = 0;
  for (let i = 0; i < column.length; i++) all += column[i];
  return all;
}

/** Runs of so many nodes are sorted by insertion, and then merged: a call of `sort` with a comparison takes longer. */
const RUN = 24;

/** Sorts a part of `nodes` by weight, heaviest first; those of one weight by `tie`, else they keep their order. */
export function sortByWeight(nodes: Int32Array, from: number, until: number, weight: Float64Array, tie: (a: number, b: number) => number = () => 0): void {
  const isBefore = (a: number, b: number) => weight[a] > weight[b] || (weight[a] === weight[b] && tie(a, b) < 0);
  for (let start = from; start < until; start += RUN) {
    for (let at = start + 1; at < Math.min(start + RUN, until); at++) {
      const node = nodes[at];
      let to = at;
      for (; to > start && isBefore(node, nodes[to - 1]); to--) nodes[to] = nodes[to - 1];
      nodes[to] = node;
    }
  }
  if (until - from <= RUN) return;
  const left = new Int32Array(until - from);
  for (let size = RUN; size < until - from; size *= 2) {
    for (let start = from; start + size < until; start += 2 * size) {
      for (let at = 0; at < size; at++) left[at] = nodes[start + at];
      const end = Math.min(start + 2 * size, until);
      for (let at = 0, right = start + size, to = start; at < size; to++) nodes[to] = right < end && isBefore(nodes[right], left[at]) ? nodes[right++] : left[at++];
    }
  }
}
