import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { collapseRecursion } from "../src/flamegraph/tree/collapse.ts";
import { meanOf } from "../src/flamegraph/tree/compare.ts";
import { pathKey } from "../src/flamegraph/tree/focus.ts";
import { invert } from "../src/flamegraph/tree/invert.ts";
import { transformTree } from "../src/flamegraph/tree/transformedTree.ts";
import { mergeBy } from "../src/flamegraph/tree/merge.ts";
import { resolveFunction, frameActions, sandwichPlace } from "../src/viewmodels/frameActions.ts";
import { computeMetrics } from "../src/flamegraph/analysis/treeMetrics.ts";
import { sandwich } from "../src/flamegraph/tree/sandwich.ts";
import { functionSums } from "../src/flamegraph/analysis/functionSums.ts";
import { applyTransforms, formatTransforms, MAX_TRANSFORMS, parseTransforms, transform, describeTransform, removeTransform, appendTransform } from "../src/flamegraph/tree/transforms.ts";
import { byState, pathTo, shapeOf, STATES, totals, sum, type Tree } from "../src/flamegraph/tree/tree.ts";
import { START, type Place } from "../src/lib/url.ts";
import { buildTree, randomNumbers, randomStacks, seeds, sumStacks, formatStacks } from "./stacks.ts";

type Node = [level: number, name: string, self: number[], total: number[]];
interface OperationCase {
  readonly transform?: [kind: string, name: string];
  readonly path?: string[];
  readonly by?: "file" | "package";
  readonly collapse?: true;
  readonly invert?: true;
  readonly sandwich?: string;
  readonly left?: number[];
  readonly tree: Node[];
  readonly callers: Node[];
  readonly callees: Node[];
  readonly functions?: [name: string, self: number[], total: number[]][];
}
interface Profile {
  readonly profile: string;
  readonly stacks: [path: string[], samples: number[]][];
  readonly ways: OperationCase[];
}

// The Python side checks the same file: tests/model/lenses.py.
const shared = new URL("../../../../tests/model/golden/lenses.json", import.meta.url);
const PROFILES = JSON.parse(readFileSync(shared, "utf8")) as Profile[];

const nodes = (tree: Tree): Node[] => {
  const total = tree.samples.map((column) => totals(tree.level, column));
  return Array.from(tree.level, (level, i) => [
    level, tree.names[tree.name[i]], tree.samples.map((column) => column[i]), total.map((column) => column[i]),
  ]);
};

/** The root of a sandwich is its function. */
const lifted = (tree: Node[]): Node[] => tree.slice(1).map(([level, ...rest]) => [level - 1, ...rest]);

function nodeOf(tree: Tree, path: string[]): number {
  const shape = shapeOf(tree.level);
  const text = path.join("\n");
  return [...tree.level.keys()].find((node) => pathTo(shape, node).slice(1).map((at) => tree.names[tree.name[at]]).join("\n") === text) ?? -1;
}

function functions(tree: Tree): OperationCase["functions"] {
  const sums = functionSums(tree, shapeOf(tree.level));
  const rows = Array.from(sums.name, (name, at): [string, number[], number[]] => [
    tree.names[name], sums.selfSamples.map((column) => column[at]), sums.totalSamples.map((column) => column[at]),
  ]);
  return rows.sort(([a], [b]) => (a < b ? -1 : 1));
}

for (const { profile, stacks, ways } of PROFILES) {
  const sides = stacks[0][1].length;
  const tree = buildTree(stacks.map(([path, samples]) => ({ path, us: samples.map((count) => count * 1000) })), sides);

  test(`shared trees of ${profile}`, () => {
    for (const operation of ways) {
      if (operation.transform || operation.path) {
        const t = operation.transform ? formatTransforms([{ text: operation.transform.join(":") }]) : `path:${pathKey(tree, nodeOf(tree, operation.path ?? []))}`;
        const result = applyTransforms(tree, t);
        assert.deepEqual(nodes(result.tree), operation.tree, t);
        assert.deepEqual(result.omitted.map(({ samples }) => samples), operation.left, t);
      } else if (operation.by) assert.deepEqual(nodes(mergeBy(tree, operation.by)), operation.tree, operation.by);
      else if (operation.collapse) assert.deepEqual(nodes(collapseRecursion(tree)), operation.tree);
      else if (operation.invert) assert.deepEqual(nodes(invert(tree, meanOf(tree.self, [1, 1]), 0)), operation.tree);
      else if (operation.sandwich !== undefined) {
        const both = sandwich(tree, operation.sandwich, [1, 1], 0);
        assert.ok(both);
        assert.deepEqual(nodes(both.callers), lifted(operation.callers), `callers of ${operation.sandwich}`);
        assert.deepEqual(nodes(both.callees), lifted(operation.callees), `callees of ${operation.sandwich}`);
      } else if (operation.functions) assert.deepEqual(functions(tree), operation.functions);
      else assert.fail("a way that this test does not know");
    }
  });
}

const VERBS: Record<string, (path: readonly string[], name: string) => readonly string[] | null> = {
  focus: (path, name) => (path.includes(name) ? path.slice(path.indexOf(name)) : null),
  with: (path, name) => (path.includes(name) ? path : null),
  drop: (path, name) => (path.includes(name) ? null : path),
  fold: (path, name) => path.filter((frame) => frame !== name),
  below: (path, name) => (path.includes(name) ? path.slice(0, path.indexOf(name) + 1) : path),
  collapse: (path, name) => (path.includes(name) ? [...path.slice(0, path.indexOf(name) + 1), ...path.slice(path.lastIndexOf(name) + 1)] : path),
};

test("transforms one after the other do to a tree what they do to its stacks", () => {
  for (const seed of seeds(400)) {
    const next = randomNumbers(seed);
    const stacks = randomStacks(seed, 2).filter(({ us }) => us.some((weight) => weight > 0));
    if (stacks.length === 0) continue;
    const tree = buildTree(stacks, 2);
    let expected = stacks;
    let t = "";
    for (let step = 0; step < 3; step++) {
      const [verb, change] = Object.entries(VERBS)[Math.floor(next() * 6)];
      const name = "abcdef"[Math.floor(next() * 6)];
      t = appendTransform(t, transform(verb as "focus", "function", name));
      if (!expected.some(({ path }) => path.includes(name))) continue;
      expected = expected.flatMap(({ path, us }) => {
        const changed = change(path, name);
        return changed ? [{ path: changed, us }] : [];
      });
    }
    const result = applyTransforms(tree, t);
    assert.deepEqual(formatStacks(result.tree), sumStacks(expected, (path) => path), t);
    [0, 1].forEach((side) => {
      const whole = stacks.reduce((all, { us }) => all + us[side] / 1000, 0);
      assert.equal(result.omitted[side].total, whole);
      assert.equal(result.omitted[side].samples, whole - expected.reduce((all, { us }) => all + us[side] / 1000, 0));
    });
  }
});

test("a sandwich has the function's total at both ends, however often it recurs", () => {
  for (const seed of seeds(200)) {
    const stacks = randomStacks(seed, 2);
    const tree = buildTree(stacks, 2);
    const holding = stacks.filter(({ path }) => path.includes("b"));
    const whole = [0, 1].map((side) => holding.reduce((all, { us }) => all + us[side], 0));
    const both = sandwich(tree, "b", [1, 1], 0);
    if (!both) {
      assert.equal(holding.length, 0);
      continue;
    }
    assert.deepEqual(both.callees.self.map(sum), whole);
    assert.deepEqual(both.callers.self.map(sum), whole);
    assert.deepEqual(both.callers.samples.map(sum), whole.map((us) => us / 1000));
    assert.deepEqual(formatStacks(both.callees), sumStacks(holding, (path) => path.slice(path.indexOf("b") + 1)));
    assert.deepEqual(formatStacks(both.callers), sumStacks(holding, (path) => path.slice(0, path.indexOf("b")).reverse()));
    const limited = sandwich(tree, "b", [1, 1]);
    assert.deepEqual(limited?.callers.self.map(sum), whole);
  }
});

test("one state alone has its time, and its part of the samples of each node", () => {
  const tree = buildTree([{ path: ["a (a.py)"], us: [30_000, 10_000] }, { path: ["a (a.py)", "b (b.py)"], us: [20_000, 0] }], 2);
  const columns = (gil: number[], idle: number[]) => byState((state) => Float64Array.from(state === "gil" ? gil : state === "idle" ? idle : [0, 0, 0]));
  const withStates: Tree = { ...tree, states: [columns([0, 10_000, 0], [0, 20_000, 20_000]), columns([0, 0, 0], [0, 10_000, 0])] };
  const gil = transformTree(withStates, "state:gil", "function");
  assert.deepEqual(formatStacks(gil.tree), ["a (a.py) 10000/0"]);
  assert.deepEqual(gil.tree.samples.map((column) => sum(column)), [10, 0]);
  assert.deepEqual(gil.omitted, [{ samples: 40, total: 50 }, { samples: 10, total: 10 }]);
  assert.deepEqual(gil.tree.states?.map(({ gil, idle }) => [sum(gil), sum(idle)]), [[10_000, 0], [0, 0]]);
  assert.equal(describeTransform(transform("state", "function", "cpu_wait")), "only waiting for a CPU");
  for (const [shown, t] of [[tree, "state:gil"], [withStates, "state:nap"]] as const) assert.equal(transformTree(shown, t, "function").steps[0].fate, "missing");
});

test("states add up to the sides whatever is done to the tree", () => {
  for (const seed of seeds(100)) {
    const stacks = randomStacks(seed, STATES.length);
    const wide = buildTree(stacks, STATES.length);
    const self = wide.self[0].map((_, i) => sum(wide.self.map((column) => column[i])));
    const samples = self.map((us) => us / 1000);
    const tree: Tree = { ...wide, self: [self], samples: [samples], states: [byState((_, at) => Float64Array.from(wide.self[at]))] };
    for (const t of ["", "drop:a*fold:b", "focus:c"]) {
      for (const lens of [{ invert: false, collapse: true }, { invert: true, collapse: false }]) {
        const transformed = transformTree(tree, t, "function");
        const metrics = computeMetrics(transformed.tree, [60], { ...lens, norm: "rate" });
        assert.ok(metrics.states);
        const [states] = metrics.states;
        metrics.us[0].forEach((us, i) => assert.equal(sum(STATES.map((state) => states[state][i])), us));
        assert.equal(metrics.us.length, 1);
      }
    }
    assert.equal(computeMetrics(buildTree(stacks, STATES.length), STATES.map(() => 1), { invert: false, collapse: true, norm: "rate" }).states, undefined);
  }
});

test("any names come back from the address in order", () => {
  const names = ["a*b", "*", "**", "x:y", "-", "%2A;&=", "</script>", "‮שלום", "a (b*c/*.py)", "*:drop:f"];
  const all = names.flatMap((name) => [transform("drop", "function", name), transform("fold", "package", name)]);
  const t = all.reduce((text, entry) => appendTransform(text, entry), "");
  assert.deepEqual(parseTransforms(t), all);
  assert.equal(formatTransforms(parseTransforms(t)), t);
  assert.equal(new URLSearchParams(new URLSearchParams({ t }).toString()).get("t"), t);
  assert.deepEqual(parseTransforms(removeTransform(t, 1)), all.filter((_, at) => at !== 1));
});

test("a transform made twice in a row is made once", () => {
  const once = appendTransform("", transform("drop", "function", "f"));
  assert.equal(appendTransform(once, transform("drop", "function", "f")), once);
});

test("what is not understood and what is not there do nothing and say so", () => {
  const tree = buildTree([{ path: ["a", "b"], us: [1000] }], 1);
  const result = applyTransforms(tree, "explode:a*drop-planet:a*one:a*drop:*drop*focus:gone*path:0123456789abcdef.gone*fold:a");
  assert.deepEqual(result.steps.map(({ fate }) => fate), ["unknown", "unknown", "unknown", "unknown", "unknown", "missing", "missing", "made"]);
  assert.deepEqual(formatStacks(result.tree), ["b 1000"]);
  assert.deepEqual(result.omitted, [{ samples: 0, total: 1 }]);
});

test("an address with thousands of transforms makes the first and says which it did not", () => {
  const tree = buildTree([{ path: ["a", "b"], us: [1000] }], 1);
  const result = applyTransforms(tree, `${"with:a*".repeat(MAX_TRANSFORMS)}drop:a`);
  assert.deepEqual(result.steps.map(({ fate }) => fate), [...Array.from({ length: MAX_TRANSFORMS }, () => "made"), "beyond"]);
  assert.deepEqual(formatStacks(result.tree), ["a;b 1000"]);
});

test("leaving out everything leaves an empty tree and says how much it was", () => {
  const result = applyTransforms(buildTree([{ path: ["a", "b"], us: [3000] }], 1), "drop:a");
  assert.equal(result.tree.level.length, 1);
  assert.deepEqual(result.omitted, [{ samples: 3, total: 3 }]);
});

test("a function's lines are meant together, and one line can be meant alone", () => {
  const tree = buildTree([{ path: ["f (a.py:1)", "g (b.py:2)"], us: [1000] }, { path: ["f (a.py:3)"], us: [2000] }], 1);
  assert.deepEqual(formatStacks(applyTransforms(tree, "fold:f (a.py)").tree), [" 2000", "g (b.py:2) 1000"]);
  assert.deepEqual(formatStacks(applyTransforms(tree, "drop:f (a.py:3)").tree), ["f (a.py:1);g (b.py:2) 1000"]);
  assert.deepEqual(sandwich(tree, "f (a.py)", [1], 0)?.callees.self.map(sum), [3000]);
});

test("a name too long for an address is found by its word", () => {
  const long = `${"x".repeat(2000)} (long.py)`;
  const like = `${"x".repeat(2000)}y (long.py)`;
  const tree = buildTree([{ path: [long, "b"], us: [1000] }, { path: [`${like.slice(0, -1)}:7)`], us: [2000] }], 1);
  const t = appendTransform("", transform("drop", "function", long));
  assert.ok(t.length < 130);
  assert.deepEqual(applyTransforms(tree, t).omitted, [{ samples: 1, total: 3 }]);
  assert.equal(describeTransform(transform("drop", "function", long)), `without ${"x".repeat(80)}…`);
  const [word, other] = [long, like].map((name) => sandwichPlace(name).fn as string);
  assert.equal(resolveFunction(tree.names, word), long);
  assert.equal(resolveFunction(tree.names, other), like);
  assert.deepEqual(sandwich(tree, word, [1], 0)?.callees.self.map(sum), [1000]);
  const both = sandwich(tree, other, [1], 0);
  assert.equal(both && both.callees.names[both.callees.name[0]], like);
});

test("offers make what they say, and the root has none", () => {
  const tree = buildTree([{ path: ["f (a/x.py:1)", "g (b/y.py)"], us: [1000] }], 1);
  const here: Place = { ...START, page: "service", t: "drop:old" };
  assert.deepEqual(frameActions(tree, 0, here), []);
  const result = frameActions(tree, 1, here);
  assert.equal(new Set(result.map(({ label }) => label)).size, result.length);
  for (const { label, changes } of result) {
    if (changes.t === undefined) assert.equal(changes.fn, "f (a/x.py)", label);
    else assert.equal(applyTransforms(tree, changes.t).steps.at(-1)?.fate, "made", label);
  }
  assert.ok(!frameActions(tree, 1, { ...here, invert: true }).some(({ changes }) => changes.t?.includes("path:")));
  const merged = mergeBy(tree, "package");
  const fromPackage = frameActions(merged, 1, here);
  assert.ok(fromPackage.every(({ changes }) => changes.t === undefined || applyTransforms(tree, changes.t).steps.at(-1)?.fate === "made"));
  assert.deepEqual(fromPackage.filter(({ changes }) => changes.t?.includes("drop-package:a")).length, 1);
});

test("a stack twenty thousand frames deep is transformed, merged and sandwiched", () => {
  const deep = buildTree([{ path: Array.from({ length: 20_000 }, (_, at) => (at % 2 ? "f (a/x.py)" : "g (b/y.py)")), us: [1000] }], 1);
  for (const t of ["focus:f (a/x.py)", "with:f (a/x.py)", "fold:g (b/y.py)", "below-package:b", "one-package:a", "collapse:f (a/x.py)"]) {
    assert.equal(applyTransforms(deep, t).steps[0].fate, "made");
  }
  assert.equal(mergeBy(deep, "package").level.length, 20_001);
  assert.equal(sandwich(deep, "f (a/x.py)", [1])?.callers.level.length, 2);
});
