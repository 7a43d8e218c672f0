import { packageOf } from "../tree/packages.ts";
import { TreeBuilder } from "../tree/treeBuilder.ts";
import { colourText } from "../tree/merge.ts";
import { sum, type State, type Tree } from "../tree/tree.ts";
import { functionSums } from "./functionSums.ts";
import { functionChange, rankFunctions } from "./ranking.ts";
import type { TreeMetrics } from "./treeMetrics.ts";

/** A tree of two sides: all of a profile, and a group of its samples, whose call paths may be others. */
export function joinTrees(all: Tree, group: Tree): Tree {
  const index = new Map<string, number>();
  const numberOf = (name: string): number => {
    const existing = index.get(name);
    if (existing !== undefined) return existing;
    index.set(name, index.size);
    return index.size - 1;
  };
  const numbers = [all, group].map(({ names }) => names.map(numberOf));
  const builder = new TreeBuilder([...index.keys()], numbers[0][all.name[0]], 2);
  for (const [side, { level, name, self, samples }] of [all, group].entries()) {
    const at: number[] = [0];
    for (let node = 0; node < level.length; node++) {
      if (node > 0) at[level[node]] = builder.child(at[level[node] - 1], numbers[side][name[node]]);
      builder.add(at[level[node]], side, self[0][node], samples[0][node]);
    }
  }
  return { ...builder.tree(), by: all.by };
}

/** All of a profile and the time that ended in one package, as two sides. */
export function packageGroup(tree: Tree, name: string): Tree {
  const isOfPackage = tree.names.map((text) => packageOf(colourText(text, tree.by)).name === name);
  const masked = (column: ArrayLike<number>) => Float64Array.from(column, (value, node) => (isOfPackage[tree.name[node]] ? value : 0));
  return twoSides(tree, masked(tree.self[0]), masked(tree.samples[0]));
}

/** All of a profile and the time in some states, as two sides; null where the tree has no states. */
export function stateGroup(tree: Tree, states: readonly State[]): Tree | null {
  const columns = tree.states?.[0];
  if (!columns) return null;
  const column = Float64Array.from(tree.level, (_, node) => states.reduce((us, state) => us + columns[state][node], 0));
  // Samples of a state are not counted one by one: each has its node's part of them.
  return twoSides(tree, column, Float64Array.from(column, (us, node) => (tree.self[0][node] > 0 ? (tree.samples[0][node] * us) / tree.self[0][node] : 0)));
}

function twoSides(tree: Tree, self: Float64Array, samples: Float64Array): Tree {
  const { names, level, name, by } = tree;
  return { names, level, name, by, self: [tree.self[0], self], samples: [tree.samples[0], samples] };
}

/** The packages with their shares of the time, the largest first. */
export function packageShares(tree: Tree): { readonly name: string; readonly share: number }[] {
  const owner = tree.names.map((text) => packageOf(colourText(text, tree.by)).name);
  const us = new Map<string, number>();
  for (let node = 0; node < tree.name.length; node++) us.set(owner[tree.name[node]], (us.get(owner[tree.name[node]]) ?? 0) + tree.self[0][node]);
  const whole = sum(tree.self[0]);
  return [...us].map(([name, time]) => ({ name, share: whole > 0 ? time / whole : 0 })).filter(({ share }) => share > 0).sort((a, b) => b.share - a.share);
}

/** The functions whose share of self time differs most between the two sides, beyond counting noise. */
export function largestDifferences(metrics: TreeMetrics, most: number): { readonly name: string; readonly delta: number }[] {
  const { tree, shape, changeDivisor } = metrics;
  const sums = functionSums(tree, shape);
  const found: { name: string; delta: number }[] = [];
  for (const row of rankFunctions(sums, tree.names, changeDivisor, "-self")) {
    if (found.length === most) break;
    const { delta, direction } = functionChange(sums, row, changeDivisor, "self");
    if (direction !== "unchanged" && direction !== "no_data") found.push({ name: tree.names[sums.name[row]], delta });
  }
  return found;
}
