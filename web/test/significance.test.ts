import assert from "node:assert/strict";
import { test } from "node:test";
import type { Effects, Verdict, Direction } from "../src/api/verdict.ts";
import { changeOf, directionOfDelta } from "../src/flamegraph/tree/compare.ts";
import { significanceOf } from "../src/flamegraph/analysis/significance.ts";
import { transformTree } from "../src/flamegraph/tree/transformedTree.ts";
import { describeChange } from "../src/flamegraph/analysis/frameDescription.ts";
import { changeAt, markChanges, computeMetrics } from "../src/flamegraph/analysis/treeMetrics.ts";
import { changeColour } from "../src/flamegraph/render/colour.ts";
import type { Tree } from "../src/flamegraph/tree/tree.ts";
import { buildTree, randomNumbers, randomStacks, seeds } from "./stacks.ts";

const NO_EFFECTS: Effects = {
  baseline: [], comparison: [], delta: [], low: [], high: [], relative: [], relative_low: [], relative_high: [], p: [], direction: [],
  min_detectable_effect: [], q: [], pods_agreeing: [], pods_total: [],
};

const verdict = (direction: Direction = "increased"): Verdict => ({
  direction, functions: { function: [], file: [], renamed_from: [], self: NO_EFFECTS, total: NO_EFFECTS },
}) as unknown as Verdict;

const POD_SECONDS = [60, 90];

/** A tree of two sides and, by luck, which of its nodes are outside noise. */
function judgedTree(seed: number): { tree: Tree; changed: number[] } {
  const next = randomNumbers(seed);
  const tree = buildTree(randomStacks(seed, 2), 2);
  return { tree, changed: Array.from(tree.level, () => (next() < 0.3 ? 1 : 0)) };
}

const plain = { invert: false, collapse: false, norm: "rate" } as const;

test("of the tree that was tested exactly the nodes outside noise have a direction, however large any difference is", () => {
  let [checked, silenced] = [0, 0];
  for (const seed of seeds(60)) {
    const { tree, changed } = judgedTree(seed);
    const metrics = computeMetrics(tree, POD_SECONDS, { ...plain, significance: significanceOf(tree, changed, verdict()) });
    tree.level.forEach((_, node) => {
      const { direction, delta } = changeAt(metrics, node);
      const raw = changeAt({ ...metrics, significance: null }, node);
      const isInherited = metrics.oneSidedTop[node] !== node && changed[metrics.oneSidedTop[node]] === 1;
      assert.equal(direction, changed[node] || isInherited ? directionOfDelta([metrics.us[0][node], metrics.us[1][node]], delta) : "unchanged");
      assert.equal(delta, raw.delta, "numbers stay as they are");
      if (raw.direction === "unchanged" && direction !== "unchanged") checked++;
      if (raw.direction !== "unchanged" && direction === "unchanged") silenced++;
    });
    assert.ok(markChanges(metrics).every((mark, node) => mark === 0 || changed[node] === 1 || changed[metrics.oneSidedTop[node]] === 1));
  }
  assert.ok(checked > 0 && silenced > 0, "both kinds of disagreement with counting noise were seen");
});

test("of a tree that was put together anew, only names outside noise that are beyond counting noise too have a direction", () => {
  let coloured = 0;
  for (const seed of seeds(40)) {
    const { tree, changed } = judgedTree(seed);
    for (const lens of [{ ...plain, invert: true }, { ...plain, collapse: true }]) {
      const significance = significanceOf(tree, changed, verdict());
      const metrics = computeMetrics(tree, POD_SECONDS, { ...lens, significance });
      const same = metrics.tree.level === tree.level;
      metrics.tree.level.forEach((_, node) => {
        const { us, samples, divisor } = metrics;
        const raw = changeOf([us[0][node], us[1][node]], [samples[0][node], samples[1][node]], divisor);
        const { direction } = changeAt(metrics, node);
        if (!same && metrics.oneSidedTop[node] === node) assert.equal(direction, significance.names.has(metrics.tree.names[metrics.tree.name[node]]) ? raw.direction : "unchanged");
        if (direction !== "unchanged") coloured++;
      });
    }
  }
  assert.ok(coloured > 0);
});

test("frames merged by file keep the verdict of what is in the file", () => {
  const tree = buildTree([{ path: ["f (a.py)", "g (b.py)"], us: [1e6, 9e6] }, { path: ["f (a.py)", "h (c.py)"], us: [1e6, 9e6] }], 2);
  const at = (name: string) => Array.from(tree.name).findIndex((index) => tree.names[index] === name);
  const changed = Array.from(tree.level, (_, node) => (node === at("g (b.py)") ? 1 : 0));
  const transformed = transformTree(tree, "", "file");
  const metrics = computeMetrics(transformed.tree, POD_SECONDS, { ...plain, significance: significanceOf(tree, changed, verdict(), "file") });
  const ways = Array.from(metrics.tree.name, (name, node) => [metrics.tree.names[name], changeAt(metrics, node).direction]).filter(([, direction]) => direction !== "unchanged");
  assert.deepEqual(ways, [["b.py", "increased"]]);
});

test("of sides that cannot be compared nothing has a direction", () => {
  const { tree } = judgedTree(5);
  const significance = significanceOf(tree, Array.from(tree.level, () => 1), verdict("not_comparable"));
  const metrics = computeMetrics(tree, POD_SECONDS, { ...plain, significance });
  assert.deepEqual([...new Set(Array.from(tree.level, (_, node) => changeAt(metrics, node).direction))], ["unchanged"]);
});

test("of a side that was not watched nothing follows, whatever was found", () => {
  const { tree, changed } = judgedTree(7);
  const metrics = computeMetrics(tree, [0, 90], { ...plain, significance: significanceOf(tree, changed, verdict()) });
  assert.deepEqual([...new Set(Array.from(tree.level, (_, node) => changeAt(metrics, node).direction))], ["no_data"]);
});

test("what was not judged is neither changed nor within noise, in the tested tree and in others made of it", () => {
  const tree = buildTree([{ path: ["f (a.py)", "g (b.py)"], us: [1e6, 9e6] }, { path: ["h (c.py)"], us: [1e6, 1e6] }], 2);
  const flags = Array.from(tree.name, (name) => (tree.names[name] === "g (b.py)" ? 2 : 0));
  for (const lens of [plain, { ...plain, invert: true }]) {
    const metrics = computeMetrics(tree, POD_SECONDS, { ...lens, significance: significanceOf(tree, flags, verdict()) });
    const directions = new Map(Array.from(metrics.tree.name, (name, node) => [metrics.tree.names[name], changeAt(metrics, node)] as const));
    const change = directions.get("g (b.py)");
    assert.ok(change);
    assert.equal(change.direction, "not_judged");
    assert.equal(describeChange(change, "within noise"), "not judged");
    assert.equal(directions.get("h (c.py)")?.direction, "unchanged");
    assert.notEqual(changeColour(change), changeColour({ ...change, direction: "unchanged" }));
  }
});

test("what only one side calls below a new or removed frame is new or removed too", () => {
  const tree = buildTree([{ path: ["f", "added", "deep", "deeper"], us: [0, 5e6] }, { path: ["f", "gone", "old"], us: [5e6, 0] }, { path: ["f", "both", "rare"], us: [0, 1000] }, { path: ["f", "both"], us: [9e6, 9e6] }], 2);
  const flags = Array.from(tree.name, (name) => (["added", "gone"].includes(tree.names[name]) ? 1 : tree.names[name] === "deep" ? 2 : 0));
  const metrics = computeMetrics(tree, POD_SECONDS, { ...plain, significance: significanceOf(tree, flags, verdict()) });
  const directions = Object.fromEntries(Array.from(tree.name, (name, node) => [tree.names[name], changeAt(metrics, node).direction]));
  assert.deepEqual(directions, { total: "unchanged", f: "unchanged", added: "new", deep: "new", deeper: "new", gone: "removed", old: "removed", both: "unchanged", rare: "unchanged" });
});

test("where load may differ, colours are of shares whatever the widths are", () => {
  // B is twice as busy: f grows with the load, g grows more.
  const tree = buildTree([{ path: ["f"], us: [8e6, 14e6] }, { path: ["g"], us: [2e6, 6e6] }], 2);
  const significance = significanceOf(tree, [0, 1, 1], { ...verdict(), basis: "composition" });
  for (const norm of ["rate", "share"] as const) {
    const metrics = computeMetrics(tree, [60, 60], { ...plain, norm, significance });
    assert.deepEqual([1, 2].map((node) => changeAt(metrics, node).direction), ["decreased", "increased"]);
    assert.equal(metrics.total[0], norm === "share" ? 1 : (10 / 60 + 20 / 60) / 2);
  }
});

test("the words say which noise a difference is within", () => {
  const change = changeOf([100, 120], [100, 120], [1, 1]);
  assert.deepEqual([describeChange(change), describeChange(change, "within noise")], ["within counting noise", "within noise"]);
});
