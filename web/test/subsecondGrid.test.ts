import assert from "node:assert/strict";
import { test } from "node:test";
import { comparesWithRest, busiestCells, cellAt, cellsInSpan, buildGrid, GUTTER_PIXELS, parseSpan, cellSize, formatSpan, moveCell } from "../src/charts/subsecondGrid.ts";
import type { SubsecondHeatmapAnswer } from "../src/api/captures.ts";
import { randomNumbers, seeds } from "./stacks.ts";

const STEPS = [5, 10, 20, 50, 125, 250, 1000];

function randomAnswer(seed: number): SubsecondHeatmapAnswer {
  const next = randomNumbers(seed);
  const step_ms = STEPS[Math.floor(next() * STEPS.length)];
  const [seconds, rows] = [1 + Math.floor(next() * 8), 1000 / step_ms];
  const cells = Array.from({ length: seconds * rows }, (_, cell) => cell).filter(() => next() < 0.3);
  const sampled = cells.map(() => 1 + Math.floor(next() * 9));
  return {
    capture: "c_1", type: "wall", start: 1_795_253_400, seconds, step_ms, recordings: [],
    second: cells.map((cell) => Math.floor(cell / rows)), bucket: cells.map((cell) => cell % rows),
    samples: sampled.map((most) => Math.floor(next() * (most + 1))), all_samples: sampled,
  };
}

test("every cell of an answer is in the grid where its time is, and nothing else", () => {
  for (const seed of seeds(200)) {
    const answer = randomAnswer(seed);
    const grid = buildGrid(answer);
    assert.equal(grid.samples.length, answer.seconds * Math.round(1000 / answer.step_ms));
    const expected = new Map(answer.second.map((second, i) => [second * grid.rows + answer.bucket[i], i]));
    grid.sampled.forEach((sampled, cell) => {
      const at = expected.get(cell);
      assert.deepEqual([grid.samples[cell], sampled], at === undefined ? [0, 0] : [answer.samples[at], answer.all_samples[at]]);
    });
    assert.equal(grid.maximum, Math.max(0, ...answer.samples));
    const sorted = [...answer.samples].filter((samples) => samples > 0).sort((a, b) => b - a);
    assert.deepEqual(busiestCells(grid, 5).map((cell) => grid.samples[cell]), sorted.slice(0, 5));
  }
});

test("a span of cells written as an address is read back as these cells, whichever end was first", () => {
  for (const seed of seeds(300)) {
    const grid = buildGrid(randomAnswer(seed));
    const next = randomNumbers(seed + 1);
    const [a, b] = [0, 0].map(() => Math.floor(next() * grid.samples.length));
    const span = parseSpan(formatSpan(grid, [a, b]));
    assert.ok(span);
    assert.deepEqual(cellsInSpan(grid, span), [Math.min(a, b), Math.max(a, b)]);
    assert.equal(span[1] - span[0], (Math.abs(a - b) + 1) * grid.step * 1000);
  }
});

test("what is no span is none", () => {
  for (const text of ["", "1", "2-1", "1-1", "-1-2", "1e3-2e3", "a-b", "1-2-3", "1.0000001-2", "9999999-99999999", "1–2"]) assert.equal(parseSpan(text), null, text);
  assert.deepEqual(parseSpan("12.34-12.56"), [12_340_000, 12_560_000]);
  assert.deepEqual(parseSpan("0-0.000001"), [0, 1]);
  assert.deepEqual([parseSpan("1-2,rest"), comparesWithRest("1-2,rest"), comparesWithRest("1-2"), parseSpan("1-2,rests"), parseSpan(",rest")], [[1e6, 2e6], true, false, null, null]);
});

test("arrow keys lead to the neighbour in time and stay within the picture", () => {
  for (const seed of seeds(100)) {
    const grid = buildGrid(randomAnswer(seed));
    const last = grid.samples.length - 1;
    for (let cell = 0; cell <= last; cell += Math.ceil((last + 1) / 20)) {
      const moves = { ArrowUp: 1, ArrowDown: -1, ArrowRight: grid.rows, ArrowLeft: -grid.rows };
      for (const [key, by] of Object.entries(moves)) assert.equal(moveCell(grid, cell, key), cell + by < 0 || cell + by > last ? cell : cell + by);
      assert.deepEqual([moveCell(grid, cell, "Home"), moveCell(grid, cell, "End"), moveCell(grid, cell, "x")], [0, last, null]);
    }
  }
});

test("a point of the picture is the cell drawn there, and one beside it the nearest", () => {
  for (const seed of seeds(100)) {
    const grid = buildGrid(randomAnswer(seed));
    const size = cellSize(grid, 900);
    for (let cell = 0; cell < grid.samples.length; cell++) {
      const x = GUTTER_PIXELS + (Math.floor(cell / grid.rows) + 0.5) * size.column;
      const y = (grid.rows - 1 - (cell % grid.rows) + 0.5) * size.row;
      assert.equal(cellAt(grid, size, x, y), cell);
    }
    assert.equal(cellAt(grid, size, -50, 1e6), 0);
    assert.equal(cellAt(grid, size, 1e6, -50), grid.samples.length - 1);
  }
});
