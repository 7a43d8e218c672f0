import assert from "node:assert/strict";
import { test } from "node:test";
import { Camera, clamp, MIN_SPAN, zoomed } from "../src/flamegraph/render/camera.ts";
import { frameColour, heatColour, textColourOn, stateColour, STATE_COLOURS } from "../src/flamegraph/render/colour.ts";
import { FillColours } from "../src/flamegraph/render/draw.ts";
import { pictureSvg, xml } from "../src/flamegraph/render/pictureFile.ts";
import { boxAt, boxOf, Layout, type Range } from "../src/flamegraph/render/layout.ts";
import { boxStyles, packageLegend } from "../src/flamegraph/render/colourSchemes.ts";
import { countBefore, computeMetrics } from "../src/flamegraph/analysis/treeMetrics.ts";
import { shapeOf, STATES, totals } from "../src/flamegraph/tree/tree.ts";
import { buildTree, randomNumbers, randomStacks, seeds } from "./stacks.ts";

function laidOut(seed: number) {
  const tree = buildTree(randomStacks(seed, 1), 1);
  const shape = shapeOf(tree.level);
  const total = totals(tree.level, tree.self[0]);
  return { tree, shape, total, layout: new Layout(tree.level, shape, total) };
}

function someRange(next: () => number, total: number): Range {
  const from = next() * total * 0.9;
  return { from, span: Math.max(next() * (total - from), total * 0.01) };
}

test("a frame begins where its caller does, after its elder siblings", () => {
  for (const seed of seeds(50)) {
    const { tree, shape, total, layout } = laidOut(seed);
    for (let i = 1; i < tree.level.length; i++) {
      let before = layout.rangeOf(shape.parent[i]).from;
      for (let elder = shape.parent[i] + 1; elder < i; elder = shape.end[elder]) before += total[elder];
      assert.deepEqual(layout.rangeOf(i), { from: before, span: total[i] });
    }
  }
});

test("of any range the boxes are those of the whole, cut to it and stretched", () => {
  for (const seed of seeds(100)) {
    const { tree, total, layout } = laidOut(seed);
    if (total[0] === 0) continue;
    const next = randomNumbers(seed);
    const range = someRange(next, total[0]);
    const pixels = 4000;
    const scale = pixels / range.span;
    const boxes = layout.place(range, pixels, null);
    const boxOfNode = new Map(Array.from(boxes.node, (node, i) => [node, i]));
    for (let node = 0; node < tree.level.length; node++) {
      const { from } = layout.rangeOf(node);
      const left = Math.max(from - range.from, 0) * scale;
      const right = Math.min(from + total[node] - range.from, range.span) * scale;
      const i = boxOfNode.get(node);
      if (right - left < 1.001) continue;
      assert.ok(i !== undefined && boxes.sliver[i] === 0);
      assert.ok(Math.abs(boxes.x[i] - left) < 0.01 && Math.abs(boxes.width[i] - (right - left)) < 0.01);
    }
    for (let i = 0; i < boxes.count; i++) assert.ok(boxes.x[i] >= 0 && boxes.x[i] + boxes.width[i] <= pixels + 1);
  }
});

test("the box under a point is found as if all were looked at", () => {
  for (const seed of seeds(60)) {
    const { tree, total, layout } = laidOut(seed);
    if (total[0] === 0) continue;
    const next = randomNumbers(seed + 1);
    const hit = Uint8Array.from(tree.name, () => (next() < 0.3 ? 1 : 0));
    const boxes = layout.place(someRange(next, total[0]), 40, countBefore(hit));
    for (let turn = 0; turn < 200; turn++) {
      const x = next() * 42 - 1;
      const row = Math.floor(next() * (boxes.rows + 2)) - 1;
      const under = Array.from(boxes.node.keys()).filter((i) => boxes.level[i] === row && boxes.x[i] <= x && x < boxes.x[i] + boxes.width[i]);
      const slivers = under.filter((i) => boxes.sliver[i] === 1);
      const at = boxAt(boxes, x, row);
      if (under.length === 0) assert.equal(at, -1);
      else assert.ok((slivers.length > 0 ? slivers : under).includes(at));
    }
  }
});

test("rows hold all boxes, from left to right but for slivers off their place", () => {
  for (const seed of seeds(40)) {
    const { total, layout } = laidOut(seed);
    const boxes = layout.place({ from: 0, span: total[0] }, 300, null);
    const seen = new Set<number>();
    for (let row = 0; row < boxes.rows; row++) {
      for (let at = boxes.rowStart[row]; at < boxes.rowStart[row + 1]; at++) {
        assert.equal(boxes.level[boxes.order[at]], row);
        if (at > boxes.rowStart[row]) assert.ok(boxes.x[boxes.order[at]] >= boxes.x[boxes.order[at - 1]] - 1);
        seen.add(boxes.order[at]);
      }
    }
    assert.equal(seen.size, boxes.count);
    assert.equal(boxOf(boxes, boxes.node[boxes.count - 1]), boxes.count - 1);
  }
});

test("columns that were too short grow, and are used again", () => {
  const stacks = Array.from({ length: 6000 }, (_, at) => ({ path: [`f${at}`], us: [1000] }));
  const tree = buildTree(stacks, 1);
  const layout = new Layout(tree.level, shapeOf(tree.level), totals(tree.level, tree.self[0]));
  const whole = { from: 0, span: 6_000_000 };
  assert.equal(layout.place(whole, 12_000, null).count, 6001);
  assert.equal(layout.place({ from: 0, span: 3000 }, 12_000, null).count, 4);
  assert.deepEqual([...layout.place(whole, 12_000, null).node.subarray(0, 3)], [0, 1, 2]);
});

test("a camera keeps what it looks at relative to what is zoomed into", () => {
  const camera = new Camera();
  const focus = { from: 200, span: 100 };
  let checked = 0;
  const forget = camera.listen(() => checked++);
  assert.deepEqual([camera.moved, camera.range(focus, 1000)], [false, focus]);
  camera.show({ from: 250, span: 100 }, focus, 1000);
  assert.deepEqual([camera.moved, checked], [true, 1]);
  assert.deepEqual(camera.range(focus, 1000), { from: 250, span: 100 });
  assert.deepEqual(camera.range({ from: 20, span: 10 }, 1000), { from: 25, span: 10 });
  camera.show(focus, focus, 1000);
  assert.deepEqual([camera.moved, checked], [false, 2]);
  camera.reset();
  forget();
  camera.show({ from: 0, span: 10 }, focus, 1000);
  assert.equal(checked, 2);
});

test("a range stays in the whole, is never too narrow, and zooms around a point", () => {
  for (const seed of seeds(200)) {
    const next = randomNumbers(seed);
    const total = 1 + next() * 1e9;
    const range = clamp({ from: (next() * 3 - 1) * total, span: next() * 3 * total * next() }, total);
    assert.ok(range.from >= 0 && range.from + range.span <= total * (1 + 1e-12) && range.span >= total * MIN_SPAN * 0.999);
    const part = next();
    const nearer = zoomed(range, part, 0.3);
    assert.ok(Math.abs(nearer.from + nearer.span * part - (range.from + range.span * part)) <= total * 1e-9);
  }
});

test("ink is read on every colour of states, heat and groups, and on faded ones in both themes", () => {
  const fills = [...seeds(101).map((at) => heatColour((at - 1) / 100)), ...seeds(300).map((at) => frameColour(`f (${["jinja2", "shop", "json"][at % 3]}/m${at}.py)`))];
  for (let idle = 0; idle <= 10; idle++) for (let gil = 0; gil <= 10 - idle; gil++) {
    for (const other of [[], ["cpu_wait"], ["gil_wait"], ["cpu_wait", "gil_wait"], ["lock", "io"], ["poll", "sleep"]]) {
      fills.push(stateColour((state) => (other.includes(state) ? 3 : ({ idle, running: 10 - idle - gil, gil } as Record<string, number>)[state] ?? 0)));
    }
  }
  for (const ground of [0xffffff, 0x171a20]) {
    const colours = new FillColours(ground);
    for (const fill of fills) {
      for (const faded of [false, true]) {
        const drawn = colours.of(fill, faded);
        assert.equal(drawn.textColour, textColourOn(Number.parseInt(drawn.fill.slice(1), 16)));
        assert.ok(contrast(Number.parseInt(drawn.fill.slice(1), 16), drawn.textColour) >= 4.5);
      }
    }
  }
});

test("states and heat are told apart by how light they are", () => {
  const { idle, running, gil, cpu_wait, gil_wait } = STATE_COLOURS;
  const steps = [idle, running, cpu_wait, gil_wait, gil].map(light);
  assert.ok(steps.slice(1).every((lightness, at) => steps[at] - lightness > 0.1));
  const heats = seeds(33).map((at) => light(heatColour(((at - 1) / 32) ** 2)));
  assert.ok(heats.every((heat, at) => at === 0 || heat <= heats[at - 1] + 1e-9));
});

test("all states stay apart for any kind of colour vision", () => {
  for (const matrix of COLOUR_VISION) {
    const colours = STATES.map((state) => perceived(STATE_COLOURS[state], matrix));
    colours.forEach((one, at) => colours.slice(at + 1).forEach((other) => assert.ok(Math.hypot(...one.map((value, axis) => value - other[axis])) > 12)));
  }
});

test("a legend has the widest packages of each group, and its parts are of what is zoomed into", () => {
  const tree = buildTree([
    { path: ["a (shop/a.py)"], us: [50] }, { path: ["b (django/b.py)"], us: [20] }, { path: ["c (json/c.py)"], us: [20] }, { path: ["(other)"], us: [10] },
  ], 1);
  const metrics = computeMetrics(tree, [1], { invert: false, collapse: false, norm: "rate" });
  assert.deepEqual(packageLegend(metrics, 0, 5).map(({ group, name, value }) => `${group}: ${name} ${value}`), [
    "application: shop 50.0 %", "third party: django 20.0 %", "standard library: json 20.0 %", "no file: (other), frames without a file 10.0 %",
  ]);
});

test("an SVG holds hostile text as text", () => {
  const bad = `<script>"&'\u0000\u0008\ud800\u202e</text>`;
  assert.equal(xml(bad), "&#60;script&#62;&#34;&#38;&#39;\ufffd\ufffd\ufffd\u202e&#60;/text&#62;");
  const tree = buildTree([{ path: [bad], us: [5000] }], 1);
  const metrics = computeMetrics(tree, [1], { invert: false, collapse: false, norm: "rate" });
  const picture = {
    tree, shape: metrics.shape, total: metrics.total, style: boxStyles(metrics, 0, "package"), describe: () => ({ title: bad, rows: [[bad, bad]] as const }),
    hit: null, marksBefore: null, focus: 0, label: "", isNoted: (node: number) => node === 1,
  };
  const boxes = new Layout(tree.level, metrics.shape, metrics.total).place({ from: 0, span: 5000 }, 800, null);
  const svg = pictureSvg({ picture, boxes, width: 800, top: 0, height: 40, focusRow: 0 }, {
    title: bad, lines: [bad], legend: [{ name: bad, colour: `red"/>${bad}` }], ground: 0xffffff, text: 0,
  });
  assert.ok(!/<script|<\/text>[^\n<]*"|[\u0000-\u0008]/.test(svg));
  assert.equal(svg.split("<script").length, 1);
  assert.equal(svg.match(/<path d="M[\d.]+ [\d.]+h-9l9 9z"/g)?.length, 1, "the mark of the note");
});

function light(fill: number): number {
  const linear = [fill >> 16, (fill >> 8) & 255, fill & 255].map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/** Normal sight, and a lack of each kind of cone (Machado et al. 2009), as matrices of linear RGB. */
const COLOUR_VISION = [
  [1, 0, 0, 0, 1, 0, 0, 0, 1],
  [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
];

/** CIE L*a*b* of a fill, in which distances are as large as they look. */
function perceived(fill: number, matrix: readonly number[]): number[] {
  const linear = [fill >> 16, (fill >> 8) & 255, fill & 255].map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
  const [r, g, b] = [0, 3, 6].map((row) => Math.min(Math.max(matrix[row] * linear[0] + matrix[row + 1] * linear[1] + matrix[row + 2] * linear[2], 0), 1));
  const [x, y, z] = [(0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047, 0.2126 * r + 0.7152 * g + 0.0722 * b, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883]
    .map((value) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const contrast = (fill: number, ink: "#000" | "#fff") => (ink === "#000" ? (light(fill) + 0.05) / 0.05 : 1.05 / (light(fill) + 0.05));
