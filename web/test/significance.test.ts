import assert from "node:assert/strict";
import { test } from "node:test";
import type { Effects, Verdict, Way } from "../src/api/verdict.ts";
import { changeOf, wayOf } from "../src/flamegraph/tree/compare.ts";
import { judgedBy } from "../src/flamegraph/analysis/significance.ts";
import { look } from "../src/flamegraph/tree/transformedTree.ts";
import { changeWords } from "../src/flamegraph/analysis/frameDescription.ts";
import { changeAt, markChanges, read } from "../src/flamegraph/analysis/treeMetrics.ts";
import type { Tree } from "../src/flamegraph/tree/tree.ts";
import { grow, numbers, randomStacks, seeds } from "./stacks.ts";

const NO_EFFECTS: Effects = { a: [], b: [], delta: [], low: [], high: [], direction: [], q: [], agree: [], of: [] };

const verdict = (direction: Way = "more"): Verdict => ({
  direction, functions: { function: [], file: [], renamed_from: [], self: NO_EFFECTS, total: NO_EFFECTS },
}) as unknown as Verdict;

const POD_SECONDS = [60, 90];

/** A tree of two sides and, by luck, which of its nodes are outside noise. */
function judgedTree(seed: number): { tree: Tree; changed: number[] } {
  const next = numbers(seed);
  const tree = grow(randomStacks(seed, 2), 2);
  return { tree, changed: Array.from(tree.level, () => (next() < 0.3 ? 1 : 0)) };
}

const plain = { invert: false, collapse: false, norm: "rate" } as const;

test("of the tree that was tested exactly the nodes outside noise have a direction, however large any difference is", () => {
  let [told, silenced] = [0, 0];
  for (const seed of seeds(60)) {
    const { tree, changed } = judgedTree(seed);
    const reading = read(tree, POD_SECONDS, { ...plain, judged: judgedBy(tree, changed, verdict()) });
    tree.level.forEach((_, node) => {
      const { direction, delta } = changeAt(reading, node);
      const raw = changeAt({ ...reading, judged: null }, node);
      assert.equal(direction, changed[node] ? wayOf([reading.us[0][node], reading.us[1][node]], delta) : "same");
      assert.equal(delta, raw.delta, "numbers stay as they are");
      if (raw.direction === "same" && direction !== "same") told++;
      if (raw.direction !== "same" && direction === "same") silenced++;
    });
    assert.ok(markChanges(reading).every((mark, node) => mark === 0 || changed[node] === 1));
  }
  assert.ok(told > 0 && silenced > 0, "both kinds of disagreement with counting noise were seen");
});

test("of a tree that was put together anew, only names outside noise that are beyond counting noise too have a direction", () => {
  let coloured = 0;
  for (const seed of seeds(40)) {
    const { tree, changed } = judgedTree(seed);
    for (const lens of [{ ...plain, invert: true }, { ...plain, collapse: true }]) {
      const judged = judgedBy(tree, changed, verdict());
      const reading = read(tree, POD_SECONDS, { ...lens, judged });
      const same = reading.tree.level === tree.level;
      reading.tree.level.forEach((_, node) => {
        const { us, samples, divisor } = reading;
        const raw = changeOf([us[0][node], us[1][node]], [samples[0][node], samples[1][node]], divisor);
        const { direction } = changeAt(reading, node);
        if (!same) assert.equal(direction, judged.names.has(reading.tree.names[reading.tree.name[node]]) ? raw.direction : "same");
        if (direction !== "same") coloured++;
      });
    }
  }
  assert.ok(coloured > 0);
});

test("frames merged by file keep the verdict of what is in the file", () => {
  const tree = grow([{ path: ["f (a.py)", "g (b.py)"], us: [1e6, 9e6] }, { path: ["f (a.py)", "h (c.py)"], us: [1e6, 9e6] }], 2);
  const at = (name: string) => Array.from(tree.name).findIndex((each) => tree.names[each] === name);
  const changed = Array.from(tree.level, (_, node) => (node === at("g (b.py)") ? 1 : 0));
  const looked = look(tree, "", "file");
  const reading = read(looked.tree, POD_SECONDS, { ...plain, judged: judgedBy(tree, changed, verdict(), "file") });
  const ways = Array.from(reading.tree.name, (name, node) => [reading.tree.names[name], changeAt(reading, node).direction]).filter(([, way]) => way !== "same");
  assert.deepEqual(ways, [["b.py", "more"]]);
});

test("of sides that cannot be compared nothing has a direction", () => {
  const { tree } = judgedTree(5);
  const judged = judgedBy(tree, Array.from(tree.level, () => 1), verdict("incomparable"));
  const reading = read(tree, POD_SECONDS, { ...plain, judged });
  assert.deepEqual([...new Set(Array.from(tree.level, (_, node) => changeAt(reading, node).direction))], ["same"]);
});

test("of a side that was not watched nothing follows, whatever was found", () => {
  const { tree, changed } = judgedTree(7);
  const reading = read(tree, [0, 90], { ...plain, judged: judgedBy(tree, changed, verdict()) });
  assert.deepEqual([...new Set(Array.from(tree.level, (_, node) => changeAt(reading, node).direction))], ["unknown"]);
});

test("the words say which noise a difference is within", () => {
  const change = changeOf([100, 120], [100, 120], [1, 1]);
  assert.deepEqual([changeWords(change), changeWords(change, "within noise")], ["within counting noise", "within noise"]);
});
