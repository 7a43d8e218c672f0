import assert from "node:assert/strict";
import { test } from "node:test";
import { sumCells, selectionBetween, hourSpan, podMatchers, parseSelection, complementSide, formatSelection } from "../src/charts/cellSelection.ts";
import { geometry, maxValue, cellsAt, type Grid } from "../src/charts/heatmapDrawing.ts";
import { colourOnScale } from "../src/charts/pen.ts";
import { fromCss } from "../src/flamegraph/render/colour.ts";
import { randomNumbers, seeds } from "./stacks.ts";

const NAMES = ["", "p-1", "a~b", "x y", "שלום", "100%", "*", "<img>", "a/b", "p-2"];

test("a block written into an address is read back, also when rows have another order", () => {
  for (const seed of seeds(300)) {
    const next = randomNumbers(seed);
    const rows = NAMES.map((key) => ({ key }));
    const columns = Array.from({ length: 12 }, (_, i) => ({ start: 1000 + 60 * i }));
    const cell = () => ({ row: Math.floor(next() * rows.length), column: Math.floor(next() * columns.length) });
    const block = selectionBetween(cell(), cell());
    const text = formatSelection({ rows, columns }, block);
    assert.deepEqual(parseSelection({ rows, columns }, text), block);
    const turned = [...rows].reverse();
    const result = parseSelection({ rows: turned, columns }, text);
    assert.deepEqual(new Set(result?.rows.map((row) => turned[row].key)), new Set(block.rows.map((row) => rows[row].key)));
    assert.deepEqual([result?.first, result?.last], [block.first, block.last]);
  }
});

test("an address that selects nothing here, or says nonsense, selects nothing", () => {
  const grid = { rows: [{ key: "a" }], columns: [{ start: 10 }, { start: 20 }] };
  for (const text of ["", "~", "10", "10~20", "20~10~a", "x~y~a", "10~20~b", "30~40~a", "NaN~NaN~*"]) assert.equal(parseSelection(grid, text), null, text);
  assert.deepEqual(parseSelection(grid, "5~15~a"), { rows: [0], first: 0, last: 0 });
});

test("a block adds up its cells and passes over those that were not watched", () => {
  for (const seed of seeds(100)) {
    const next = randomNumbers(seed);
    const make = () => Array.from({ length: 5 }, () => Array.from({ length: 6 }, () => Math.floor(next() * 100)));
    const missing = Array.from({ length: 5 }, () => Array.from({ length: 6 }, () => next() < 0.3));
    const hole = (values: number[][]) => values.map((row, i) => row.map((value, j) => (missing[i][j] ? null : value)));
    const [seconds, watched, samples] = [hole(make()), hole(make()), hole(make())];
    const block = selectionBetween({ row: Math.floor(next() * 5), column: Math.floor(next() * 6) }, { row: Math.floor(next() * 5), column: Math.floor(next() * 6) });
    const expected = { seconds: 0, podSeconds: 0, samples: 0, cells: 0 };
    for (let row = 0; row < 5; row++) {
      for (let column = 0; column < 6; column++) {
        if (!block.rows.includes(row) || column < block.first || column > block.last || missing[row][column]) continue;
        expected.seconds += seconds[row][column] ?? 0;
        expected.podSeconds += watched[row][column] ?? 0;
        expected.samples += samples[row][column] ?? 0;
        expected.cells++;
      }
    }
    assert.deepEqual(sumCells(block, seconds, watched, samples), expected);
  }
});

test("a point is in the cell that is drawn there", () => {
  for (const [rows, columns, width] of [[3, 10, 800], [100, 130, 320], [1, 1, 300]] as const) {
    const of = geometry(rows, columns, width);
    assert.ok(of.wide >= 4 && of.high >= 24);
    assert.ok(of.gutter >= 120, "names of pods of two releases differ where they are cut");
    for (const [row, column] of [[0, 0], [rows - 1, columns - 1], [rows >> 1, columns >> 1]]) {
      const cell = { row, column };
      assert.deepEqual(cellsAt(of, rows, columns, of.gutter + (column + 0.5) * of.wide, of.top + (row + 0.5) * of.high), { from: cell, to: cell });
    }
    assert.deepEqual(cellsAt(of, rows, columns, 3, of.top + 1), { from: { row: 0, column: 0 }, to: { row: 0, column: columns - 1 } });
    assert.deepEqual(cellsAt(of, rows, columns, of.gutter + 1, 3), { from: { row: 0, column: 0 }, to: { row: rows - 1, column: 0 } });
    assert.equal(cellsAt(of, rows, columns, 3, 3), null);
    assert.equal(cellsAt(of, rows, columns, of.width + 1, of.top + 1), null);
    assert.equal(cellsAt(of, rows, columns, of.gutter + 1, of.height + 1), null);
  }
});

test("the scale goes one way in lightness, so that it reads without hue", () => {
  const light = (colour: number) => 0.2126 * (colour >> 16) + 0.7152 * ((colour >> 8) & 255) + 0.0722 * (colour & 255);
  for (const stops of [["#fdefdf", "#f3a75a", "#b34d00", "#451a00"], ["#2d1c10", "#8a4109", "#e88a35", "#ffe4c6"]]) {
    const scale = Array.from({ length: 50 }, (_, i) => light(colourOnScale(stops.map(fromCss), i / 49)));
    const ways = scale.slice(1).map((value, i) => Math.sign(value - scale[i]));
    assert.equal(new Set(ways).size, 1);
  }
  assert.equal(colourOnScale([0, 0x0a141e], 2), 0x0a141e);
  assert.equal(maxValue({ value: [[null, 2], [1, null]] } as unknown as Grid), 2);
});

test("selected pods are compared with other pods at that time, or all of them with the longer time outside", () => {
  const span = { from: 200, until: 300 };
  const pods = [{ namespace: "", name: "a.1" }, { namespace: "", name: "b" }];
  assert.deepEqual(podMatchers(pods), { selected: 'pod=~"a\\\\.1|b"', others: 'pod!~"a\\\\.1|b"' });
  assert.deepEqual(podMatchers(pods.slice(1)), { selected: 'pod="b"', others: 'pod!="b"' });
  assert.deepEqual(complementSide(pods, false, span, { from: 0, until: 400 })?.side, { match: 'pod!~"a\\\\.1|b"', ...span });
  assert.deepEqual(complementSide(pods, true, span, { from: 0, until: 400 })?.side, { match: "", from: 0, until: 200 });
  assert.deepEqual(complementSide(pods, true, span, { from: 150, until: 400 })?.side, { match: "", from: 300, until: 400 });
  assert.equal(complementSide(pods, true, span, span), null);
});

test("an hour of a day is when this browser's clocks show it", () => {
  for (let day = 0; day < 400; day++) {
    const start = new Date(2026, 0, 1 + day).getTime() / 1000;
    const end = new Date(2026, 0, 2 + day).getTime() / 1000;
    let all = 0;
    for (let hour = 0; hour < 24; hour++) {
      const result = hourSpan(start, end, hour);
      if (result === null) continue;
      assert.equal(new Date(result.from * 1000).getHours(), hour);
      assert.equal(new Date((result.until - 1) * 1000).getHours(), hour);
      all += result.until - result.from;
    }
    assert.equal(all, end - start);
  }
});
