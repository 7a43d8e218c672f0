import type { Tree } from "./tree.ts";

/**
 * Grows a tree by (parent, name) and gives it back in pre-order with children sorted by name, so that
 * two trees with the same call paths come out node for node the same; or in the order in which they were made.
 */
export class TreeBuilder {
  private readonly children = new Map<number, number>();
  private readonly parent: number[] = [-1];
  private readonly name: number[];
  private readonly self: number[][];
  private readonly samples: number[][];

  constructor(
    private readonly names: readonly string[],
    rootName: number,
    sides: number,
  ) {
    this.name = [rootName];
    this.self = Array.from({ length: sides }, () => [0]);
    this.samples = Array.from({ length: sides }, () => [0]);
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
    const node = this.parent.length;
    this.parent.push(parent);
    this.name.push(name);
    for (const column of this.self) column.push(0);
    for (const column of this.samples) column.push(0);
    return node;
  }

  add(node: number, side: number, self: number, samples: number): void {
    this.self[side][node] += self;
    this.samples[side][node] += samples;
  }

  tree(isByName = true): Tree {
    const count = this.parent.length;
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
    const pick = <Column extends Int32Array | Float64Array>(from: readonly number[], to: Column): Column => {
      for (let i = 0; i < count; i++) to[i] = from[order[i]];
      return to;
    };
    const sums = (columns: readonly number[][]) => columns.map((column) => pick(column, new Float64Array(count)));
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
    const count = this.parent.length;
    const first = new Int32Array(count).fill(-1);
    const next = new Int32Array(count).fill(-1);
    const order = isByName ? sortByRank(this.name, ranks(this.names)) : this.name.keys();
    for (const node of order) {
      if (node === 0) continue;
      next[node] = first[this.parent[node]];
      first[this.parent[node]] = node;
    }
    return { first, next };
  }
}

/** The nodes by the rank of their names: a counting sort, for comparing half a million takes seconds. */
function sortByRank(name: readonly number[], rank: Int32Array): Int32Array {
  const start = new Int32Array(rank.length + 1);
  for (const nameIndex of name) start[rank[nameIndex] + 1]++;
  for (let at = 1; at < start.length; at++) start[at] += start[at - 1];
  const order = new Int32Array(name.length);
  name.forEach((nameIndex, node) => (order[start[rank[nameIndex]]++] = node));
  return order;
}

function ranks(names: readonly string[]): Int32Array {
  const order = names.map((_, i) => i).sort((a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b));
  const rank = new Int32Array(names.length);
  order.forEach((name, position) => (rank[name] = position));
  return rank;
}
