import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDepthRange, dragDepthRange, stepDepthRange, depthRangeParameters } from "../src/lib/depthRange.ts";
import { foldCycles } from "../src/flamegraph/tree/cycles.ts";
import { earlierRanges, versionSide } from "../src/lib/sides.ts";
import { START } from "../src/lib/url.ts";
import { randomNumbers, seeds } from "./stacks.ts";
import { sampleFilterParameters, treeParameters } from "../src/lib/queryParameters.ts";

test("a band of depths is read from an address, whichever end comes first, and is open at an end left out", () => {
  const band = (min_depth: string, max_depth: string) => parseDepthRange({ min_depth, max_depth }, 90);
  assert.equal(band("", ""), null);
  assert.equal(band("x", "-4"), null);
  assert.deepEqual(band("3", "8"), { from: 3, until: 8 });
  assert.deepEqual(band("8", "3"), { from: 3, until: 8 });
  assert.deepEqual(band("8", ""), { from: 8, until: 90 });
  assert.deepEqual(band("", "8"), { from: 1, until: 8 });
  assert.deepEqual(band("120", ""), { from: 120, until: 120 });
});

test("a drag covers whole bins, from either end", () => {
  const next = randomNumbers(3);
  for (let turn = 0; turn < 500; turn++) {
    const [bins, width, a, b] = [1 + Math.floor(next() * 60), 1 + Math.floor(next() * 20), next() * 1.2 - 0.1, next() * 1.2 - 0.1];
    const band = dragDepthRange(a, b, bins, width);
    assert.deepEqual(band, dragDepthRange(b, a, bins, width));
    assert.ok(band.from >= 1 && band.until >= band.from && band.until < Math.max(bins * width, 2));
    assert.ok(band.from === 1 || band.from % width === 0);
    for (const part of [a, b]) {
      const depth = Math.min(Math.max(Math.floor(part * bins), 0), bins - 1) * width;
      assert.ok(depth + width - 1 <= band.until && (band.from <= depth || band.from === 1), "both ends are inside");
    }
  }
});

test("arrow keys move a band and stay inside the depths there are", () => {
  const next = randomNumbers(5);
  for (let turn = 0; turn < 500; turn++) {
    const deepest = 1 + Math.floor(next() * 90);
    const step = 1 + Math.floor(next() * 9);
    let band = stepDepthRange(null, next() < 0.5 ? "ArrowRight" : "ArrowLeft", false, step, deepest);
    for (let press = 0; press < 20 && band; press++) {
      const moved = stepDepthRange(band, ["ArrowLeft", "ArrowRight"][Math.floor(next() * 2)], next() < 0.5, step, deepest);
      assert.ok(moved && moved.from >= 1 && moved.until >= moved.from && moved.until <= deepest);
      band = moved;
    }
  }
  assert.deepEqual(stepDepthRange({ from: 5, until: 8 }, "ArrowRight", false, 2, 9), { from: 6, until: 9 });
  assert.deepEqual(stepDepthRange({ from: 5, until: 8 }, "ArrowRight", true, 1, 9), { from: 5, until: 9 });
  assert.equal(stepDepthRange({ from: 5, until: 8 }, "Enter", false, 1, 9), null);
});

test("a question names only what is picked", () => {
  const none = { min_depth: "", max_depth: "", function: "", focus: "" };
  assert.deepEqual(sampleFilterParameters({ ...START, fn: "f (a.py)", focus: "x" }), none);
  assert.deepEqual(sampleFilterParameters({ ...START, ...depthRangeParameters({ from: 3, until: 9 }) }), { ...none, min_depth: "3", max_depth: "9" });
  assert.deepEqual(sampleFilterParameters({ ...START, min_depth: "9", max_depth: "3" }), { ...none, min_depth: "3", max_depth: "9" });
  assert.deepEqual(sampleFilterParameters({ ...START, min_depth: "9" }), { ...none, min_depth: "9" });
  assert.deepEqual(sampleFilterParameters({ ...START, scope: "function", fn: "f (a.py)", focus: "x" }), { ...none, function: "f (a.py)" });
  const focus = "0123456789abcdef.main (app.py)";
  assert.deepEqual(sampleFilterParameters({ ...START, scope: "focus", fn: "f (a.py)", focus }), { ...none, focus });
  assert.deepEqual(sampleFilterParameters({ ...START, scope: "focus", focus, invert: true }), none, "an inverted path begins elsewhere");
  assert.deepEqual(sampleFilterParameters({ ...START, scope: "focus", focus: `^${focus}` }), none, "so does a caller's");
});

test("a question asks for states only where they are drawn", () => {
  const states = (type: "cpu" | "wall", colour: "package" | "state") => treeParameters({ ...START, type, colour }).states;
  assert.deepEqual([states("wall", "state"), states("cpu", "state"), states("wall", "package"), states("cpu", "package")], ["1", "", "", ""]);
});

test("folded cycles written out are the stack", () => {
  for (const seed of seeds(300)) {
    const next = randomNumbers(seed);
    const some = () => Array.from({ length: Math.floor(next() * 6) }, () => "abc"[Math.floor(next() * 3)]);
    const stack = Array.from({ length: 5 }, () => {
      const part = some();
      return Array.from({ length: 1 + Math.floor(next() * 5) }, () => part).flat();
    }).flat();
    const runs = foldCycles(stack);
    assert.deepEqual(runs.flatMap(({ frames, count }) => Array.from({ length: count }, () => frames).flat()), stack);
    assert.ok(runs.every(({ frames, count }, at) => frames.length > 0 && (count > 1 || runs[at + 1]?.count !== 1)));
  }
});

test("what repeats is folded into the shortest cycle that says it", () => {
  const format = (text: string) => foldCycles([...text]).map(({ frames, count }) => `${frames.join("")}×${count}`).join(" ");
  assert.equal(format("abcccccd"), "ab×1 c×5 d×1");
  assert.equal(format("mxyxyxyz"), "m×1 xy×3 z×1");
  assert.equal(format("aaaa"), "a×4");
  assert.equal(format("abc"), "abc×1");
  const deep = foldCycles(Array.from({ length: 20_000 }, (_, at) => `f${at % 7}`));
  assert.deepEqual(deep.map(({ frames, count }) => [frames.length, count]), [[7, 2857], [1, 1]]);
});

test("a version that ran before the page's range is taken when it ran", () => {
  const range = { from: "-1h", until: "now" };
  const now = 1_800_000_000;
  const row = (first_seen: number, last_seen: number) => ({ version: "7", first_seen, last_seen });
  assert.deepEqual(versionSide("baseline", row(now - 9000, now - 60), range, now), { baseline: "version:7", baseline_from: "", baseline_until: "" });
  assert.deepEqual(versionSide("comparison", row(now - 20_000, now - 10_000), range, now), {
    comparison: "version:7", comparison_from: new Date((now - 13_599) * 1000).toISOString().replace(".000Z", "Z"), comparison_until: new Date((now - 9999) * 1000).toISOString().replace(".000Z", "Z"),
  });
  assert.deepEqual(versionSide("comparison", row(now - 10_500, now - 10_000), range, now).comparison_from, new Date((now - 10_500) * 1000).toISOString().replace(".000Z", "Z"));
  assert.deepEqual(earlierRanges(range, now).map(({ name }) => name), ["just before", "the day before", "the week before"]);
  assert.deepEqual(earlierRanges({ from: "soon", until: "now" }, now), []);
});
