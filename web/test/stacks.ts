import { TreeBuilder } from "../src/flamegraph/tree/treeBuilder.ts";
import { byState, pathTo, shapeOf, type Tree } from "../src/flamegraph/tree/tree.ts";

/** One stack with its weight on each side: what a tree is checked against, the slow and plain way. */
export interface WeightedStack {
  readonly path: readonly string[];
  readonly us: readonly number[];
}

/** A small generator (mulberry32): the same seed gives the same numbers everywhere. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export function randomStacks(seed: number, sides: number): WeightedStack[] {
  const next = randomNumbers(seed);
  const letters = "abcdef".slice(0, 2 + Math.floor(next() * 5));
  return Array.from({ length: 1 + Math.floor(next() * 40) }, () => ({
    path: Array.from({ length: 1 + Math.floor(next() * 9) }, () => letters[Math.floor(next() * letters.length)]),
    us: Array.from({ length: sides }, () => Math.floor(next() * 4) * 1000),
  }));
}

/** The tree of some stacks; a sample is 1000 µs. */
export function buildTree(stacks: readonly WeightedStack[], sides: number): Tree {
  const names = ["total", ...new Set(stacks.flatMap(({ path }) => path))];
  const index = new Map(names.map((name, at) => [name, at]));
  const growth = new TreeBuilder(names, 0, sides);
  for (const { path, us } of stacks) {
    let node = 0;
    for (const name of path) node = growth.child(node, index.get(name) as number);
    us.forEach((weight, side) => growth.add(node, side, weight, weight / 1000));
  }
  return growth.tree();
}

/** Every call path with its self weights, as text: `a;b 3000/0`, root and zero ones left out. */
export function formatStacks(tree: Tree): string[] {
  const shape = shapeOf(tree.level);
  const lines: string[] = [];
  for (let i = 0; i < tree.level.length; i++) {
    const self = tree.self.map((side) => side[i]);
    if (self.every((us) => us === 0)) continue;
    lines.push(`${pathTo(shape, i).slice(1).map((node) => tree.names[tree.name[node]]).join(";")} ${self.join("/")}`);
  }
  return lines.sort();
}

/** Adds up stacks after changing each path, in the format of `formatStacks`. */
export function sumStacks(stacks: readonly WeightedStack[], change: (path: readonly string[]) => readonly string[]): string[] {
  const sums = new Map<string, number[]>();
  for (const { path, us } of stacks) {
    const key = change(path).join(";");
    const existing = sums.get(key) ?? us.map(() => 0);
    sums.set(key, existing.map((sum, side) => sum + us[side]));
  }
  return [...sums].filter(([, us]) => us.some((weight) => weight !== 0)).map(([path, us]) => `${path} ${us.join("/")}`).sort();
}

export const seeds = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

/** Of each state. */
export const NO_SAMPLES = byState(() => 0);
