import assert from "node:assert/strict";
import { test } from "node:test";
import { changeColour, frameColour, textColourOn, NEUTRAL } from "../src/flamegraph/render/colour.ts";
import { boxAt, Layout, MARK_PIXELS } from "../src/flamegraph/render/layout.ts";
import { frameParts, packageOf } from "../src/flamegraph/tree/packages.ts";
import { countBefore } from "../src/flamegraph/analysis/treeMetrics.ts";
import { pathTo, shapeOf, totals, type Shape } from "../src/flamegraph/tree/tree.ts";
import { buildTree, randomStacks, seeds } from "./stacks.ts";

/** The boxes of the subtree of `focus`. */
function layout(level: Int32Array, shape: Shape, total: Float64Array, focus: number, pixels: number, marks: Uint32Array | null) {
  const made = new Layout(level, shape, total);
  return made.place(made.rangeOf(focus), pixels, marks, focus);
}

test("each box is as wide as its part of what is zoomed into, inside its caller", () => {
  for (const seed of seeds(100)) {
    const tree = buildTree(randomStacks(seed, 1), 1);
    const shape = shapeOf(tree.level);
    const total = totals(tree.level, tree.self[0]);
    for (let focus = 0; focus < tree.level.length; focus++) {
      if (total[focus] === 0) continue;
      const boxes = layout(tree.level, shape, total, focus, 1000, null);
      const at = new Map(Array.from(boxes.node, (node, i) => [node, i]));
      for (let i = 0; i < boxes.count; i++) {
        const node = boxes.node[i];
        const above = node < focus || node === focus;
        assert.ok(Math.abs(boxes.width[i] - (above ? 1000 : (1000 * total[node]) / total[focus])) < 0.01 || boxes.sliver[i] === 1);
        const caller = at.get(shape.parent[node]);
        if (caller === undefined || boxes.sliver[i]) continue;
        assert.ok(boxes.x[i] >= boxes.x[caller] - 0.01);
        assert.ok(boxes.x[i] + boxes.width[i] <= boxes.x[caller] + boxes.width[caller] + 0.01);
      }
      assert.deepEqual(pathTo(shape, focus), [...boxes.node].slice(0, tree.level[focus] + 1));
    }
  }
});

test("what is too narrow shares one sliver a pixel", () => {
  const stacks = Array.from({ length: 5000 }, (_, at) => ({ path: ["a", `f${String(at).padStart(5, "0")}`], us: [1] }));
  const tree = buildTree(stacks, 1);
  const boxes = layout(tree.level, shapeOf(tree.level), totals(tree.level, tree.self[0]), 0, 500, null);
  assert.equal(boxes.count, 2 + 500);
});

test("a hit is at least two pixels wide, or the box that hides it is", () => {
  for (const seed of seeds(50)) {
    const stacks = [{ path: ["huge"], us: [50_000_000] }, ...randomStacks(seed, 1)];
    const tree = buildTree(stacks, 1);
    const shape = shapeOf(tree.level);
    const hit = Uint8Array.from(tree.name, (name) => (tree.names[name] === "b" ? 1 : 0));
    const total = totals(tree.level, tree.self[0]);
    const boxes = layout(tree.level, shape, total, 0, 300, countBefore(hit));
    const widths = new Map(Array.from(boxes.node, (node, i) => [node, boxes.width[i]]));
    if (!hit.includes(1)) continue;
    assert.ok([...widths].some(([node, width]) => hit[node] === 1 && (width >= MARK_PIXELS || total[node] * 300 >= total[0])));
  }
});

test("the box under a point is the one drawn there", () => {
  const tree = buildTree([{ path: ["a"], us: [1] }, { path: ["b", "c"], us: [3] }], 1);
  const boxes = layout(tree.level, shapeOf(tree.level), totals(tree.level, tree.self[0]), 0, 400, null);
  const under = (x: number, level: number) => {
    const box = boxAt(boxes, x, level);
    return box < 0 ? "" : tree.names[tree.name[boxes.node[box]]];
  };
  assert.deepEqual([under(5, 0), under(99, 1), under(101, 1), under(399, 2), under(5, 2)], ["total", "a", "b", "c", ""]);
});

test("a stack of 3,500 frames has 3,501 rows", () => {
  const tree = buildTree([{ path: Array.from({ length: 3500 }, (_, at) => `f${at % 7}`), us: [1] }], 1);
  assert.equal(layout(tree.level, shapeOf(tree.level), totals(tree.level, tree.self[0]), 0, 800, null).rows, 3501);
});

test("a frame's text has a function, a file and perhaps a line", () => {
  assert.deepEqual(frameParts("get (shop/views.py:42)"), { function: "get", file: "shop/views.py", line: "42" });
  assert.deepEqual(frameParts("get (a) (x.py)"), { function: "get (a)", file: "x.py", line: "" });
  assert.deepEqual(frameParts("(other)"), { function: "(other)", file: "", line: "" });
});

test("packages are told apart, and the standard library from the rest", () => {
  assert.deepEqual(packageOf("run (asyncio/base_events.py:3)"), { name: "asyncio", kind: "stdlib" });
  assert.deepEqual(packageOf("get (tornado/web.py)"), { name: "tornado", kind: "package" });
  assert.deepEqual(packageOf("select (selectors.py)"), { name: "selectors", kind: "stdlib" });
  assert.deepEqual(packageOf("main (app.py)"), { name: "app", kind: "package" });
  assert.deepEqual(packageOf("total"), { name: "", kind: "none" });
});

test("one symbol has one colour, and its lines share it", () => {
  assert.equal(frameColour("get (shop/views.py:1)"), frameColour("get (shop/views.py:2)"));
  assert.notEqual(frameColour("get (shop/views.py)"), frameColour("get (tornado/web.py)"));
});

test("ink has a contrast of at least 4.5 on every fill that is used", () => {
  for (const seed of seeds(2000)) assert.ok(contrast(frameColour(`f${seed} (p${seed % 97}/m.py)`)) >= 4.5);
  for (let doublings = -2; doublings <= 2; doublings += 0.05) {
    assert.ok(contrast(changeColour({ delta: doublings, doublings, direction: doublings > 0 ? "increased" : "decreased", threshold: 0 })) >= 4.5);
  }
  assert.equal(changeColour({ delta: 1, doublings: 1, direction: "unchanged", threshold: 0 }), NEUTRAL);
});

function contrast(fill: number): number {
  const linear = [fill >> 16, (fill >> 8) & 255, fill & 255].map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return textColourOn(fill) === "#000" ? (light + 0.05) / 0.05 : 1.05 / (light + 0.05);
}

test("folded levels leave no box, and the first level that is drawn is row 0", () => {
  const tree = buildTree([{ path: ["a", "b", "c"], us: [1] }, { path: ["a", "d"], us: [3] }], 1);
  const shape = shapeOf(tree.level);
  const made = new Layout(tree.level, shape, totals(tree.level, tree.self[0]));
  const boxes = made.place(made.rangeOf(0), 400, null, 0, 2);
  assert.deepEqual(Array.from(boxes.node, (node, at) => [tree.names[tree.name[node]], boxes.level[at], boxes.width[at]]), [["b", 0, 100], ["c", 1, 100], ["d", 0, 300]]);
  assert.equal(boxes.rows, 2);
  assert.equal(boxAt(boxes, 200, 0), 2);
});
