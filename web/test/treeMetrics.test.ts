import assert from "node:assert/strict";
import { test } from "node:test";
import { changeOf } from "../src/flamegraph/tree/compare.ts";
import { findPathKey, firstLevel, pathKeyName, pathKey } from "../src/flamegraph/tree/focus.ts";
import { changeAt, countBefore, markChanges, computeMetrics } from "../src/flamegraph/analysis/treeMetrics.ts";
import { matchedShare, nextHit, search, searchable } from "../src/flamegraph/analysis/search.ts";
import { pathTo, shapeOf, totals, sum } from "../src/flamegraph/tree/tree.ts";
import { nextFrame } from "../src/flamegraph/render/walk.ts";
import { buildTree, randomStacks, seeds } from "./stacks.ts";

test("every way of looking at two sides keeps both totals", () => {
  for (const seed of seeds(100)) {
    const tree = buildTree(randomStacks(seed, 2), 2);
    for (const invert of [false, true]) for (const collapse of [false, true]) for (const norm of ["rate", "share"] as const) {
      const metrics = computeMetrics(tree, [3, 7], { invert, collapse, norm });
      assert.deepEqual(metrics.us.map((us) => us[0]), tree.self.map(sum));
      assert.deepEqual(metrics.samples.map((samples) => samples[0]), tree.samples.map(sum));
    }
  }
});

test("a width is the mean of the two sides put on one scale", () => {
  const tree = buildTree([{ path: ["a"], us: [3_000_000, 0] }, { path: ["b"], us: [0, 8_000_000] }], 2);
  assert.deepEqual([...computeMetrics(tree, [10, 20], { invert: false, collapse: false, norm: "rate" }).total], [0.35, 0.15, 0.2]);
  assert.deepEqual([...computeMetrics(tree, [10, 20], { invert: false, collapse: false, norm: "share" }).total], [1, 0.5, 0.5]);
});

test("code that did not change keeps its rate when something else grows, and loses share", () => {
  const tree = buildTree([{ path: ["steady"], us: [1_000_000, 1_000_000] }, { path: ["growing"], us: [1_000_000, 8_000_000] }], 2);
  const steady = [...tree.name.keys()].find((node) => tree.names[tree.name[node]] === "steady") as number;
  const by = (norm: "rate" | "share") => changeAt(computeMetrics(tree, [60, 60], { invert: false, collapse: false, norm }), steady).direction;
  assert.deepEqual([by("rate"), by("share")], ["unchanged", "decreased"]);
});

test("a difference within twice the counting noise is no change", () => {
  assert.equal(changeOf([100, 120], [100, 120], [1, 1]).direction, "unchanged");
  assert.equal(changeOf([100, 140], [100, 140], [1, 1]).direction, "increased");
  assert.equal(changeOf([140, 100], [140, 100], [1, 1]).direction, "decreased");
  assert.equal(changeOf([0, 2], [0, 2], [1, 1]).direction, "unchanged");
  assert.equal(changeOf([0, 50], [0, 50], [1, 1]).direction, "new");
  assert.equal(changeOf([50, 0], [50, 0], [1, 1]).direction, "removed");
  assert.equal(changeOf([0, 0], [0, 0], [1, 1]).direction, "unchanged");
  assert.equal(changeOf([0, 50], [0, 50], [0, 1]).direction, "no_data");
});

test("swapping the sides turns every change round", () => {
  for (const seed of seeds(100)) {
    const tree = buildTree(randomStacks(seed, 2), 2);
    const swapped = { ...tree, self: [tree.self[1], tree.self[0]], samples: [tree.samples[1], tree.samples[0]] };
    const [forward, backward] = [tree, swapped].map((one) => computeMetrics(one, [1, 1], { invert: false, collapse: false, norm: "rate" }));
    assert.deepEqual(markChanges(forward), markChanges(backward));
    assert.deepEqual(forward.total, backward.total);
  }
});

test("a search finds what a plain look through the names finds", () => {
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 1);
    const tree = buildTree(stacks, 1);
    const result = search(tree, "B");
    assert.ok(result);
    tree.name.forEach((name, node) => assert.equal(result.hit[node], node > 0 && tree.names[name] === "b" ? 1 : 0));
    const whole = stacks.reduce((all, { us }) => all + us[0], 0);
    const holding = stacks.filter(({ path }) => path.includes("b")).reduce((all, { us }) => all + us[0], 0);
    const share = matchedShare(result, shapeOf(tree.level), totals(tree.level, tree.self[0]), 0);
    assert.ok(Math.abs(share - (whole > 0 ? holding / whole : 0)) < 1e-12);
  }
});

test("next and previous go round the hits below the frame in view", () => {
  const tree = buildTree([{ path: ["a", "b"], us: [1] }, { path: ["b", "b"], us: [1] }], 1);
  const shape = shapeOf(tree.level);
  const result = search(tree, "b");
  assert.ok(result);
  assert.deepEqual([...result.nodes], [2, 3, 4]);
  assert.deepEqual([0, 2, 3, 4].map((from) => nextHit(result, shape, 0, from, 1)), [2, 3, 4, 2]);
  assert.deepEqual([2, 4].map((from) => nextHit(result, shape, 0, from, -1)), [4, 3]);
  assert.equal(nextHit(result, shape, 1, 2, 1), 2);
});

test("a regular expression stands between slashes, and half of one is searched for as it stands", () => {
  const tree = buildTree([{ path: ["run (a/b.py)"], us: [1] }, { path: ["/(/"], us: [1] }], 1);
  assert.equal(search(tree, "/^run/")?.nodes.length, 1);
  assert.equal(search(tree, "/(/")?.nodes.length, 1);
  assert.equal(search(tree, ""), null);
});

test("a focus word finds its path again in another tree, and only there", () => {
  for (const seed of seeds(200)) {
    const tree = buildTree(randomStacks(seed, 1), 1);
    const other = buildTree([...randomStacks(seed, 1), ...randomStacks(seed + 1000, 1)], 1);
    const names = (of: typeof tree, node: number) => pathTo(shapeOf(of.level), node).map((at) => of.names[of.name[at]]);
    for (let node = 1; node < tree.level.length; node++) {
      const word = pathKey(tree, node);
      assert.equal(findPathKey(tree, word), node);
      assert.deepEqual(names(other, findPathKey(other, word)), names(tree, node));
      assert.equal(pathKeyName(word), tree.names[tree.name[node]]);
    }
  }
  const [here, elsewhere] = [buildTree([{ path: ["a", "b"], us: [1] }], 1), buildTree([{ path: ["b", "a"], us: [1] }], 1)];
  assert.equal(findPathKey(elsewhere, pathKey(here, 2)), -1);
  assert.equal(findPathKey(here, ""), 0);
});

test("callers are folded above the focus, and above the first frames that differ from all time", () => {
  const level = (paths: [string[], number][], focus = 0) => {
    const tree = buildTree(paths.map(([path, us]) => ({ path, us: [us] })), 1);
    return firstLevel(tree, shapeOf(tree.level), totals(tree.level, tree.self[0]), focus);
  };
  assert.equal(level([[["boot", "run", "f"], 5], [["boot", "run", "g"], 5]]), 3);
  assert.equal(level([[["boot", "run", "f"], 5], [["boot"], 5]]), 0, "half of the time is boot's own");
  assert.equal(level([[["f"], 5], [["g"], 5]]), 0, "the root alone stays");
  assert.equal(level([[["boot", "run", "f"], 5]]), 0, "one stack stays whole");
  assert.equal(level([[["boot", "run", "f"], 5], [["boot", "run", "g"], 5]], 3), 3, "the focus is the first row");
});

test("arrow keys lead to the caller, the widest callee and the siblings", () => {
  const tree = buildTree([{ path: ["a", "b"], us: [1] }, { path: ["a", "c"], us: [5] }, { path: ["d"], us: [1] }], 1);
  const shape = shapeOf(tree.level);
  const total = totals(tree.level, tree.self[0]);
  assert.deepEqual((["up", "down", "left", "right"] as const).map((step) => nextFrame(shape, total, 1, step)), [0, 3, 1, 4]);
  assert.equal(nextFrame(shape, total, 0, "up"), 0);
  assert.equal(nextFrame(shape, total, 2, "down"), 2);
});

test("marks are counted before each node", () => {
  assert.deepEqual([...(countBefore(Uint8Array.of(0, 1, 0), null, Uint8Array.of(0, 0, 1)) ?? [])], [0, 0, 1, 2]);
  assert.equal(countBefore(null), null);
});

test("a long name is cut between characters for the address", () => {
  assert.equal(searchable("😀".repeat(1000)), "😀".repeat(200));
  assert.equal(searchable(`a${"😀".repeat(1000)}`), `a${"😀".repeat(199)}`);
});
