import type { Tree } from "./tree.ts";

const FIRST_NODES = 64;

/**
 * Grows a tree by (parent, name) and gives it back in pre-order with children sorted by name, so that
 * two trees with the same call paths come out node for node the same; or in the order in which they were made.
 */
export class TreeBuilder {
  private readonly children = new Map<number, number>();
  private count = 1;
  private parent: Int32Array;
  private name: Int32Array;
  private self: Float64Array[];
  private samples: Float64Array[];

  /** `nodes`: how many there will be, about. */
  constructor(
    private readonly names: readonly string[],
    rootName: number,
    sides: number,
    nodes = FIRST_NODES,
  ) {
    this.parent = new Int32Array(nodes);
    this.name = new Int32Array(nodes);
    this.parent[0] = -1;
    this.name[0] = rootName;
    this.self = Array.from({ length: sides }, () => new Float64Array(nodes));
    this.samples = Array.from({ length: sides }, () => new Float64Array(nodes));
  }

  /** The child of `parent` called `name`, made on first use. */
  child(parent: number, name: number): number {
    const key = parent * this.names.length + name;
    const existing = this.children.get(key);
    if (existing !== undefined) return existing;
    const node = this.append(parent, name);
    this.children.set(key, node);
    return node;
  }

  /** A new child of `parent`; the caller knows that it has none of this name yet. */
  append(parent: number, name: number): number {
    const node = this.count++;
    if (node === this.parent.length) this.reserve(2 * node);
    this.parent[node] = parent;
    this.name[node] = name;
    return node;
  }

  /** Half a million nodes in arrays that grow one by one are mostly work for the garbage collector. */
  private reserve(nodes: number): void {
    const longer = <Column extends Int32Array | Float64Array>(column: Column, next: Column): Column => {
      next.set(column);
      return next;
    };
    this.parent = longer(this.parent, new Int32Array(nodes));
    this.name = longer(this.name, new Int32Array(nodes));
    this.self = this.self.map((column) => longer(column, new Float64Array(nodes)));
    this.samples = this.samples.map((column) => longer(column, new Float64Array(nodes)));
  }

  add(node: number, side: number, self: number, samples: number): void {
    this.self[side][node] += self;
    this.samples[side][node] += samples;
  }

  tree(isByName = true): Tree {
    const { count } = this;
    const { first, next } = this.childLists(isByName);
    const order = new Int32Array(count);
    const level = new Int32Array(count);
    const pending = [0];
    const levels = [0];
    for (let at = 0; pending.length > 0; at++) {
      const node = pending.pop() as number;
      const depth = levels.pop() as number;
      order[at] = node;
      level[at] = depth;
      for (let child = first[node]; child >= 0; child = next[child]) {
        pending.push(child);
        levels.push(depth + 1);
      }
    }
    // Loops: a callback for each of half a million nodes takes three times as long.
    const pick = <Column extends Int32Array | Float64Array>(from: Column, to: Column): Column => {
      for (let i = 0; i < count; i++) to[i] = from[order[i]];
      return to;
    };
    const sums = (columns: readonly Float64Array[]) => columns.map((column) => pick(column, new Float64Array(count)));
    return {
      names: this.names,
      level,
      name: pick(this.name, new Int32Array(count)),
      self: sums(this.self),
      samples: sums(this.samples),
    };
  }

  /** Linked child lists with the last child first: a stack of pending nodes turns that around. */
  private childLists(isByName: boolean): { first: Int32Array; next: Int32Array } {
    const { count } = this;
    const first = new Int32Array(count).fill(-1);
    const next = new Int32Array(count).fill(-1);
    const order = isByName ? sortByRank(this.name.subarray(0, count), ranks(this.names)) : null;
    for (let at = 0; at < count; at++) {
      const node = order ? order[at] : at;
      if (node === 0) continue;
      next[node] = first[this.parent[node]];
      first[this.parent[node]] = node;
    }
    return { first, next };
  }
}

/** The nodes by the rank of their names: a counting sort, for comparing half a million takes seconds. */
function sortByRank(name: Int32Array, rank: Int32Array): Int32Array {
  const start = new Int32Array(rank.length + 1);
  for (const nameIndex of name) start[rank[nameIndex] + 1]++;
  for (let at = 1; at < start.length; at++) start[at] += start[at - 1];
  const order = new Int32Array(name.length);
  name.forEach((nameIndex, node) => (order[start[rank[nameIndex]]++] = node));
  return order;
}

/** The place of each name among all by alphabet. */
export function ranks(names: readonly string[]): Int32Array {
  const order = names.map((_, i) => i).sort((a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b));
  const rank = new Int32Array(names.length);
  order.forEach((name, position) => (rank[name] = position));
  return rank;
}
