/**
 * How long it takes to look at a tree in another way, in Node: medians of nine, milliseconds, as a Markdown table.
 *
 *     web/node_modules/.bin/rolldown bench/web/src/lenses.ts --file /tmp/lenses.mjs && node /tmp/lenses.mjs
 */
import { collapseRecursion } from "../../../web/src/flamegraph/tree/collapse.ts";
import { meanOf } from "../../../web/src/flamegraph/tree/compare.ts";
import { invert } from "../../../web/src/flamegraph/tree/invert.ts";
import { mergeBy } from "../../../web/src/flamegraph/tree/merge.ts";
import { rankFunctions } from "../../../web/src/flamegraph/analysis/ranking.ts";
import { computeMetrics } from "../../../web/src/flamegraph/analysis/treeMetrics.ts";
import { sandwich } from "../../../web/src/flamegraph/tree/sandwich.ts";
import { functionSums } from "../../../web/src/flamegraph/analysis/functionSums.ts";
import { applyTransforms } from "../../../web/src/flamegraph/tree/transforms.ts";
import { shapeOf, treeOf, type Tree } from "../../../web/src/flamegraph/tree/tree.ts";
import { columns, grow } from "./trees.ts";

const SIZES = [100_000, 500_000];
const AGAIN = 9;

/** The function that is in most stacks: the worst one to see from both ends. */
function widest(tree: Tree): string {
  const sums = functionSums(tree, shapeOf(tree.level));
  return tree.names[sums.name[sums.total[0].indexOf(Math.max(...sums.total[0]))]];
}

/** A tree whose functions are all different. */
const scattered = (tree: Tree): Tree => ({
  ...tree, names: Array.from(tree.level, (_, node) => (node === 0 ? "total" : `function_${node} (package${node % 40}/x.py)`)), name: Int32Array.from(tree.level.keys()),
});

const WAYS: Record<string, (tree: Tree, fn: string) => unknown> = {
  read: (tree) => computeMetrics(tree, [1], { invert: false, collapse: false, norm: "rate" }),
  invert: (tree) => invert(tree, meanOf(tree.self, [1])),
  collapse: (tree) => collapseRecursion(tree),
  "merge by package": (tree) => mergeBy(tree, "package"),
  "drop one function": (tree, fn) => applyTransforms(tree, `drop:${fn}`),
  "focus, then fold a package": (tree, fn) => applyTransforms(tree, `focus:${fn}*fold-package:package7`),
  sandwich: (tree, fn) => sandwich(tree, fn, [1]),
  "table, 900 functions": (tree) => rankFunctions(functionSums(tree, shapeOf(tree.level)), tree.names, [1], "-self"),
};

const median = (times: number[]) => times.sort((a, b) => a - b)[times.length >> 1];

function timed(work: () => unknown): number {
  return median(Array.from({ length: AGAIN }, () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  }));
}

console.log(`| ms | ${SIZES.map((size) => size.toLocaleString("en-US")).join(" | ")} |\n|---|${"---|".repeat(SIZES.length)}`);
const trees = SIZES.map((size) => treeOf(columns(grow(size))));
const fns = trees.map(widest);
for (const [name, way] of Object.entries(WAYS)) {
  console.log(`| ${name} | ${trees.map((tree, at) => timed(() => way(tree, fns[at])).toFixed(0)).join(" | ")} |`);
}
const many = trees.map(scattered);
console.log(`| table, as many functions as nodes | ${many.map((tree) => timed(() => WAYS["table, 900 functions"](tree, "")).toFixed(0)).join(" | ")} |`);
