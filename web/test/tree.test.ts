import assert from "node:assert/strict";
import { test } from "node:test";
import { collapseRecursion } from "../src/flamegraph/tree/collapse.ts";
import { meanOf } from "../src/flamegraph/tree/compare.ts";
import { invert } from "../src/flamegraph/tree/invert.ts";
import { functionSums } from "../src/flamegraph/analysis/functionSums.ts";
import { pathTo, shapeOf, totals, treeOf, sum, type Tree } from "../src/flamegraph/tree/tree.ts";
import { buildTree, randomStacks, seeds, sumStacks, formatStacks } from "./stacks.ts";

test("a tree tells the same stacks it was grown from", () => {
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 2);
    assert.deepEqual(formatStacks(buildTree(stacks, 2)), sumStacks(stacks, (path) => path));
  }
});

test("a total is the sum of the self times below it, and the root's is the whole", () => {
  for (const seed of seeds(200)) {
    const tree = buildTree(randomStacks(seed, 1), 1);
    const { end } = shapeOf(tree.level);
    const total = totals(tree.level, tree.self[0]);
    total.forEach((value, node) => assert.equal(value, sum(tree.self[0].subarray(node, end[node]))));
    assert.equal(total[0], sum(tree.self[0]));
  }
});

test("a subtree ends where the level falls back, and a parent is the last node one level up", () => {
  const tree = buildTree([{ path: ["a", "b"], us: [1] }, { path: ["a", "c", "d"], us: [1] }, { path: ["e"], us: [1] }], 1);
  const shape = shapeOf(tree.level);
  assert.deepEqual([...tree.level], [0, 1, 2, 2, 3, 1]);
  assert.deepEqual([...shape.end], [6, 5, 3, 5, 5, 6]);
  assert.deepEqual([...shape.parent], [-1, 0, 1, 1, 3, 0]);
  assert.equal(shape.deepest, 3);
});

test("an inverted tree tells every stack from its leaf to its root", () => {
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 2);
    const tree = buildTree(stacks, 2);
    assert.deepEqual(formatStacks(invert(tree, meanOf(tree.self, [1, 1]), 0)), sumStacks(stacks, (path) => [...path].reverse()));
  }
});

test("inverting with a limit keeps the total of every function on top", () => {
  for (const seed of seeds(200)) {
    const tree = buildTree(randomStacks(seed, 2), 2);
    const limited = invert(tree, meanOf(tree.self, [1, 1]), 0.2);
    assert.deepEqual(topTotals(limited), topTotals(invert(tree, meanOf(tree.self, [1, 1]), 0)));
    assert.deepEqual(limited.self.map(sum), tree.self.map(sum));
    assert.deepEqual(limited.samples.map(sum), tree.samples.map(sum));
  }
});

/** A stack less each repetition of the frames before it. */
function withoutCycles(path: readonly string[]): string[] {
  const frames: string[] = [];
  for (const frame of path) {
    frames.push(frame);
    for (let length = 1; 2 * length <= frames.length; length++) {
      if (frames.slice(-length).join() !== frames.slice(-2 * length, -length).join()) continue;
      frames.length -= length;
      break;
    }
  }
  return frames;
}

test("collapsed recursion tells each stack without repeats of what is before them", () => {
  assert.deepEqual(withoutCycles([..."xababaaby"]), [..."xaby"]);
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 2);
    const once = sumStacks(stacks, withoutCycles);
    assert.deepEqual(formatStacks(collapseRecursion(buildTree(stacks, 2))), once);
  }
});

test("a function counts once per stack, however often it is in it", () => {
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 2);
    const tree = buildTree(stacks, 2);
    const sums = functionSums(tree, shapeOf(tree.level));
    sums.name.forEach((name, row) => {
      const text = tree.names[name];
      for (const side of [0, 1]) {
        const holding = stacks.filter(({ path }) => path.includes(text));
        const ending = stacks.filter(({ path }) => path.at(-1) === text);
        assert.equal(sums.total[side][row], holding.reduce((all, { us }) => all + us[side], 0));
        assert.equal(sums.self[side][row], ending.reduce((all, { us }) => all + us[side], 0));
        assert.equal(sums.totalSamples[side][row], sums.total[side][row] / 1000);
      }
    });
  }
});

test("the sums below a frame are those of its subtree alone", () => {
  const tree = buildTree([{ path: ["a", "b", "a"], us: [3] }, { path: ["b"], us: [5] }], 1);
  const shape = shapeOf(tree.level);
  const top = [...tree.name.keys()].find((node) => pathTo(shape, node).length === 3) as number;
  const sums = functionSums(tree, shape, top);
  assert.deepEqual([...sums.name].map((name) => tree.names[name]), ["b", "a"]);
  assert.deepEqual([...sums.total[0]], [3, 3]);
});

test("a stack twenty thousand frames deep is grown, inverted and collapsed", () => {
  const deep: Tree = treeOf({
    names: ["total", "f", "g"],
    level: Array.from({ length: 20_001 }, (_, at) => at),
    name: Array.from({ length: 20_001 }, (_, at) => (at === 0 ? 0 : 1 + (at % 2))),
    sides: [{ self_us: Array.from({ length: 20_001 }, (_, at) => (at === 20_000 ? 10 : 0)), self_samples: new Array<number>(20_001).fill(0) }],
  });
  assert.equal(totals(deep.level, deep.self[0])[0], 10);
  assert.equal(invert(deep, deep.self[0]).level.length, 20_001);
  // total and both functions: an indirect cycle is drawn once.
  assert.equal(collapseRecursion(deep).level.length, 3);
});

function topTotals(tree: Tree): Map<string, number[]> {
  const columns = tree.self.map((self) => totals(tree.level, self));
  const tops = [...tree.level.keys()].filter((node) => tree.level[node] === 1);
  return new Map(tops.map((node) => [tree.names[tree.name[node]], columns.map((column) => column[node])]));
}
