import assert from "node:assert/strict";
import { test } from "node:test";
import { moveBrush, coarseResolution, FLAG_ROWS, layoutFlags, findGaps, brushSpan, stepAt, axisTicks, type BrushSelection } from "../src/charts/timelineLayout.ts";
import { randomNumbers, seeds } from "./stacks.ts";

test("no flag covers another, none leaves the chart, and every marker stands in exactly one", () => {
  for (const seed of seeds(400)) {
    const next = randomNumbers(seed);
    const width = 200 + next() * 1500;
    const markers = Array.from({ length: Math.floor(next() * 40) }, (_, i) => ({ at: next() * 1000, text: "v".repeat(1 + Math.floor(next() * 60)) + i }))
      .sort((a, b) => a.at - b.at);
    const placed = layoutFlags(markers, (at) => (at / 1000) * width, width);
    assert.deepEqual(placed.flatMap((flag) => flag.markers).sort((a, b) => a.at - b.at), markers);
    for (const flag of placed) {
      assert.ok(flag.x >= 0 && flag.x + flag.width <= width + 1e-9 && flag.row < FLAG_ROWS);
      for (const other of placed) {
        if (other === flag || other.row !== flag.row) continue;
        assert.ok(other.x + other.width <= flag.x || flag.x + flag.width <= other.x, "two flags of one row lie beside each other");
      }
    }
    if (markers.length > 0) assert.deepEqual(placed.at(-1)?.markers[0], markers.at(-1));
  }
});

test("far apart each deployment has its own flag, and close together they share one", () => {
  const at = (moments: readonly number[]) => layoutFlags(moments.map((moment) => ({ at: moment, text: "v1" })), (moment) => moment, 1000).map(({ markers }) => markers.length);
  assert.deepEqual(at([0, 300, 600]), [1, 1, 1]);
  assert.deepEqual(at([500, 501, 502, 503]), [3, 1], "the newest has its own");
  assert.deepEqual(at([998, 999]), [1, 1], "at the edge one is moved left and the other up");
});

test("a flag begins at its marker, or where there is no room ends there", () => {
  const [near, far] = layoutFlags([{ at: 500, text: "v1" }, { at: 990, text: "v2" }], (moment) => moment, 1000);
  assert.deepEqual([near.x, near.isBefore], [500, false]);
  assert.deepEqual([far.x + far.width, far.isBefore], [990, true]);
});

test("empty steps are gaps; what may still arrive is none", () => {
  const start = [0, 60, 120, 180, 240, 300];
  const range = { from: 30, until: 360 };
  assert.deepEqual(findGaps(start, 60, [0, 1, 0, 0, 1, 0], range, 360), [{ from: 30, until: 60 }, { from: 120, until: 240 }]);
  assert.deepEqual(findGaps(start, 60, [1, 1, 1, 1, 1, 0], range, 1000), [{ from: 300, until: 360 }], "long ago nothing arrives any more");
  assert.deepEqual(findGaps(start, 60, [1, 0, 0, 0, 0, 0], range, 360), [{ from: 60, until: 360 }], "longer than windows take");
});

test("gaps and watched steps together are the range", () => {
  for (const seed of seeds(200)) {
    const next = randomNumbers(seed);
    const start = Array.from({ length: 1 + Math.floor(next() * 50) }, (_, i) => i * 10);
    const watched = start.map(() => (next() < 0.5 ? 0 : 1));
    const empty = findGaps(start, 10, watched, { from: 0, until: start.length * 10 }, 1e9).reduce((sum, { from, until }) => sum + until - from, 0);
    assert.equal(empty, watched.filter((seconds) => seconds === 0).length * 10);
  }
});

test("keys walk the steps, Shift extends, and nothing leaves the chart", () => {
  const press = (keys: readonly string[], from: BrushSelection | null = null) =>
    keys.reduce<BrushSelection | null>((brush, key) => moveBrush(brush, key.replace("+", ""), key.startsWith("+"), 24) ?? brush, from);
  assert.deepEqual(press(["ArrowLeft"]), { head: 23, anchor: null }, "the first step back begins at the end");
  assert.deepEqual(press(["Home", "ArrowLeft"]), { head: 0, anchor: null });
  assert.deepEqual(press(["Home", "+ArrowRight", "+ArrowRight", "+PageDown"]), { head: 12, anchor: 0 });
  assert.deepEqual(press(["End", "+ArrowLeft", "ArrowLeft"]), { head: 21, anchor: null }, "moving on without Shift lets go");
  assert.equal(moveBrush(null, "a", false, 24), null);
  assert.equal(moveBrush(null, "ArrowLeft", false, 0), null);
});

test("a brush is the time of its steps, within the range, whichever way it was drawn", () => {
  const start = [0, 10, 20, 30];
  const range = { from: 5, until: 38 };
  assert.deepEqual(brushSpan({ head: 1, anchor: 2 }, start, 10, range), { from: 10, until: 30 });
  assert.deepEqual(brushSpan({ head: 2, anchor: 1 }, start, 10, range), { from: 10, until: 30 });
  assert.deepEqual(brushSpan({ head: 0, anchor: 3 }, start, 10, range), { from: 5, until: 38 });
  assert.deepEqual([-5, 0, 19.9, 20, 99].map((at) => stepAt(at, start, 10)), [0, 0, 1, 2, 3]);
});

test("axis marks are on round times and not too many", () => {
  const before = process.env.TZ;
  process.env.TZ = "Asia/Kolkata";
  const from = Date.parse("2026-11-21T09:58:00Z") / 1000;
  assert.deepEqual(axisTicks(from, from + 3600, 6).map(({ text }) => text), ["15:30", "15:40", "15:50", "16:00", "16:10", "16:20"]);
  assert.equal(axisTicks(from, from + 30 * 86_400, 8)[0].text, "11-26");
  process.env.TZ = before ?? "UTC";
});

test("what is kept coarsely is said where it shows", () => {
  const stored = (...resolutions: readonly string[]) => resolutions.map((resolution) => ({ resolution, until: 7 }));
  const hour = { from: 0, until: 3600 };
  assert.equal(coarseResolution(stored("window"), 15, hour), null);
  assert.deepEqual(coarseResolution(stored("window", "hour"), 3600, hour), { every: "hour", until: 7 });
  assert.equal(coarseResolution(stored("hour"), 3600, { from: 0, until: 40 * 86_400 }), null, "such a range is shown by the hour anyway");
  assert.deepEqual(coarseResolution(stored("hour", "day"), 7200, { from: 0, until: 40 * 86_400 }), { every: "day", until: 7 });
});
