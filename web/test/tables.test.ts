import assert from "node:assert/strict";
import { test } from "node:test";
import { functionChange, rankFunctions } from "../src/flamegraph/analysis/ranking.ts";
import { functionSums } from "../src/flamegraph/analysis/functionSums.ts";
import { shapeOf } from "../src/flamegraph/tree/tree.ts";
import { visibleWindow } from "../src/lib/windowing.ts";
import { buildTree, randomStacks, seeds } from "./stacks.ts";

test("a table stands in the order that was asked for, equal rows by name", () => {
  for (const seed of seeds(100)) {
    const tree = buildTree(randomStacks(seed, 2), 2);
    const sums = functionSums(tree, shapeOf(tree.level));
    const name = (row: number) => tree.names[sums.name[row]];
    const delta = (row: number, of: "self" | "total") => Math.abs(functionChange(sums, row, [1, 2], of).delta);
    const columns: Record<string, (row: number) => number> = {
      selfa: (row) => sums.self[0][row], selfb: (row) => sums.self[1][row], self: (row) => delta(row, "self"),
      totala: (row) => sums.total[0][row], totalb: (row) => sums.total[1][row], total: (row) => delta(row, "total"), package: () => 0,
    };
    for (const [column, value] of Object.entries(columns)) {
      for (const sign of [-1, 1]) {
        const sorted = [...rankFunctions(sums, tree.names, [1, 2], `${sign < 0 ? "-" : "+"}${column}`)];
        const plain = [...sums.name.keys()].sort((a, b) => sign * (value(a) - value(b)) || (name(a) < name(b) ? -1 : 1));
        assert.deepEqual(sorted, plain, column);
      }
    }
    assert.deepEqual([...rankFunctions(sums, tree.names, [1, 2], "+name")].map(name), [...sums.name].map((at) => tree.names[at]).sort());
    assert.deepEqual([...rankFunctions(sums, tree.names, [1, 2], "-name", (row) => name(row) === "b")].map(name), tree.names.includes("b") ? ["b"] : []);
  }
});

test("a long table draws the rows in view and leaves room for the others", () => {
  assert.deepEqual(visibleWindow(120, 5000, 600, 37), { from: 0, until: 120, above: 0, below: 0 });
  for (const count of [121, 5_000, 100_000]) {
    for (const top of [0, 36, 37 * 60, 37 * (count - 10)]) {
      const { from, until, above, below } = visibleWindow(count, top, 600, 37);
      assert.ok(from * 37 <= top && until * 37 >= Math.min(top + 600, count * 37));
      assert.ok(until - from < 60 && from >= 0 && until <= count);
      assert.equal(above + below + (until - from) * 37, count * 37);
    }
  }
  assert.equal(visibleWindow(500, 1e9, 600, 37).until, 500);
});
