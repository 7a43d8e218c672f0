import assert from "node:assert/strict";
import { test } from "node:test";
import { bandOf, dragged, pickedBy, stepped, written } from "../src/band.ts";
import { checks, checksTitle } from "../src/comparable.ts";
import type { Side } from "../src/api/answers.ts";
import { cycles } from "../src/flame/cycles.ts";
import { explain } from "../src/flame/explain.ts";
import { changeOf } from "../src/flame/compare.ts";
import { earlier, versionSide } from "../src/sides.ts";
import { START } from "../src/url.ts";
import { minutesMore } from "../src/verdict.ts";
import { grow, numbers, randomStacks, seeds } from "./stacks.ts";

const side = (changes: Partial<Side> = {}): Side => ({
  selector: "{}", from: 0, until: 1, windows: 1, pods: 1, samples: 5000, seconds: 50, pod_seconds: 100,
  states: { idle: 0, running: 0, gil: 5000 }, idle_share: 0, target_cpu_seconds: 0, truncated_samples: 0,
  modes: ["gil"], samplers: ["sidelight 0.1.0"], pythons: ["3.11.7"], missing_states: [], periods_us: [10_000],
  quality: {
    readers: ["own"], coverage: 1, failed_share: 0, errors: {}, stops: 400, stopped_seconds: 0.06, stopped_share: 0.0006,
    longest_stop_seconds: 0.0003, other_samples: 0, paused_seconds: 0, reduced: [],
  },
  ...changes,
});

test("a band of depths is read from an address, whichever end comes first, and is open at an end left out", () => {
  const band = (depth_from: string, depth_until: string) => bandOf({ depth_from, depth_until }, 90);
  assert.equal(band("", ""), null);
  assert.equal(band("x", "-4"), null);
  assert.deepEqual(band("3", "8"), { from: 3, until: 8 });
  assert.deepEqual(band("8", "3"), { from: 3, until: 8 });
  assert.deepEqual(band("8", ""), { from: 8, until: 90 });
  assert.deepEqual(band("", "8"), { from: 1, until: 8 });
  assert.deepEqual(band("120", ""), { from: 120, until: 120 });
});

test("a drag covers whole bins, from either end", () => {
  const next = numbers(3);
  for (let turn = 0; turn < 500; turn++) {
    const [bins, width, a, b] = [1 + Math.floor(next() * 60), 1 + Math.floor(next() * 20), next() * 1.2 - 0.1, next() * 1.2 - 0.1];
    const band = dragged(a, b, bins, width);
    assert.deepEqual(band, dragged(b, a, bins, width));
    assert.ok(band.from >= 1 && band.until >= band.from && band.until < Math.max(bins * width, 2));
    assert.ok(band.from === 1 || band.from % width === 0);
    for (const part of [a, b]) {
      const depth = Math.min(Math.max(Math.floor(part * bins), 0), bins - 1) * width;
      assert.ok(depth + width - 1 <= band.until && (band.from <= depth || band.from === 1), "both ends are inside");
    }
  }
});

test("arrow keys move a band and stay inside the depths there are", () => {
  const next = numbers(5);
  for (let turn = 0; turn < 500; turn++) {
    const deepest = 1 + Math.floor(next() * 90);
    const step = 1 + Math.floor(next() * 9);
    let band = stepped(null, next() < 0.5 ? "ArrowRight" : "ArrowLeft", false, step, deepest);
    for (let press = 0; press < 20 && band; press++) {
      const moved = stepped(band, ["ArrowLeft", "ArrowRight"][Math.floor(next() * 2)], next() < 0.5, step, deepest);
      assert.ok(moved && moved.from >= 1 && moved.until >= moved.from && moved.until <= deepest);
      band = moved;
    }
  }
  assert.deepEqual(stepped({ from: 5, until: 8 }, "ArrowRight", false, 2, 9), { from: 6, until: 9 });
  assert.deepEqual(stepped({ from: 5, until: 8 }, "ArrowRight", true, 1, 9), { from: 5, until: 9 });
  assert.equal(stepped({ from: 5, until: 8 }, "Enter", false, 1, 9), null);
});

test("a question names only what is picked", () => {
  const none = { min_depth: "", max_depth: "", function: "", focus: "" };
  assert.deepEqual(pickedBy({ ...START, fn: "f (a.py)", focus: "x" }), none);
  assert.deepEqual(pickedBy({ ...START, ...written({ from: 3, until: 9 }) }), { ...none, min_depth: "3", max_depth: "9" });
  assert.deepEqual(pickedBy({ ...START, depth_from: "9", depth_until: "3" }), { ...none, min_depth: "3", max_depth: "9" });
  assert.deepEqual(pickedBy({ ...START, depth_from: "9" }), { ...none, min_depth: "9" });
  assert.deepEqual(pickedBy({ ...START, scope: "function", fn: "f (a.py)", focus: "x" }), { ...none, function: "f (a.py)" });
  const focus = "0123456789abcdef.main (app.py)";
  assert.deepEqual(pickedBy({ ...START, scope: "focus", fn: "f (a.py)", focus }), { ...none, focus });
  assert.deepEqual(pickedBy({ ...START, scope: "focus", focus, invert: true }), none, "an inverted path begins elsewhere");
  assert.deepEqual(pickedBy({ ...START, scope: "focus", focus: `^${focus}` }), none, "so does a caller's");
});

test("folded cycles written out are the stack", () => {
  for (const seed of seeds(300)) {
    const next = numbers(seed);
    const some = () => Array.from({ length: Math.floor(next() * 6) }, () => "abc"[Math.floor(next() * 3)]);
    const stack = Array.from({ length: 5 }, () => {
      const part = some();
      return Array.from({ length: 1 + Math.floor(next() * 5) }, () => part).flat();
    }).flat();
    const runs = cycles(stack);
    assert.deepEqual(runs.flatMap(({ frames, times }) => Array.from({ length: times }, () => frames).flat()), stack);
    assert.ok(runs.every(({ frames, times }, at) => frames.length > 0 && (times > 1 || runs[at + 1]?.times !== 1)));
  }
});

test("what repeats is folded into the shortest cycle that says it", () => {
  const told = (text: string) => cycles([...text]).map(({ frames, times }) => `${frames.join("")}×${times}`).join(" ");
  assert.equal(told("abcccccd"), "ab×1 c×5 d×1");
  assert.equal(told("mxyxyxyz"), "m×1 xy×3 z×1");
  assert.equal(told("aaaa"), "a×4");
  assert.equal(told("abc"), "abc×1");
  const deep = cycles(Array.from({ length: 20_000 }, (_, at) => `f${at % 7}`));
  assert.deepEqual(deep.map(({ frames, times }) => [frames.length, times]), [[7, 2857], [1, 1]]);
});

test("own differences add up to the whole, and reasons are the largest of them that go its way", () => {
  for (const seed of seeds(300)) {
    const stacks = randomStacks(seed, 2);
    const podSeconds = [1 + (seed % 3), 1 + (seed % 2)];
    const { reasons, share } = explain(grow(stacks, 2), podSeconds);
    const own = new Map<string, number[]>();
    for (const { path, us } of stacks) {
      const known = own.get(path.at(-1) as string) ?? [0, 0];
      own.set(path.at(-1) as string, known.map((sum, at) => sum + us[at]));
    }
    const divisor = podSeconds.map((seconds) => seconds * 1e6);
    const changed = (us: readonly number[]) => changeOf([us[0], us[1]], [us[0] / 1000, us[1] / 1000], divisor);
    const whole = changed(stacks.reduce((sum, { us }) => [sum[0] + us[0], sum[1] + us[1]], [0, 0]));
    const all = [...own.values()].reduce((sum, us) => sum + changed(us).delta, 0);
    assert.ok(Math.abs(all - whole.delta) < 1e-9);
    assert.ok(reasons.length <= 5);
    for (const { name, change } of reasons) {
      assert.deepEqual(change, changed(own.get(name) as number[]));
      assert.notEqual(change.direction, "same");
      if (whole.direction !== "same") assert.equal(change.delta > 0, whole.delta > 0);
    }
    if (whole.direction === "same") assert.equal(share, null);
    else {
      const told = reasons.reduce((sum, { change }) => sum + change.delta, 0) / whole.delta;
      assert.ok(share !== null && Math.abs(share - told) < 1e-9);
      const others = [...own].filter(([name]) => !reasons.some((reason) => reason.name === name)).map(([, us]) => changed(us))
        .filter(({ direction, delta }) => direction !== "same" && delta > 0 === whole.delta > 0);
      assert.ok(reasons.length === 5 || share >= 0.8 || others.length === 0);
      assert.ok(others.every(({ delta }) => Math.abs(delta) <= Math.abs(reasons.at(-1)?.change.delta ?? Infinity) + 1e-12));
    }
  }
});

test("frames that stand for others explain nothing", () => {
  const stacks = [{ path: ["main", "(other)"], us: [0, 900_000] }, { path: ["main", "work (a.py)"], us: [0, 100_000] }];
  const { reasons, share } = explain(grow(stacks, 2), [1, 1]);
  assert.deepEqual(reasons.map(({ name }) => name), ["work (a.py)"]);
  assert.equal(share?.toFixed(2), "0.10");
});

test("every check is listed whether the sides are alike or not", () => {
  const alike = checks([side(), side()]);
  assert.deepEqual(alike.map(({ name }) => name), ["mode", "rate", "sampler", "reader", "states", "Python", "truncation", "pods", "coverage", "load"]);
  assert.deepEqual([...new Set(alike.map(({ alike: ok }) => ok))], [true, null]);
  assert.equal(checksTitle(alike), "The sides were taken alike; not known: load");
  const other = side({
    modes: ["blocking"], pythons: ["3.12.1"], samplers: [], pods: 4, truncated_samples: 500, missing_states: ["gil"], periods_us: [20_000],
    quality: { ...side().quality, coverage: 0.5, readers: ["py-spy"] },
  });
  const apart = checks([side(), other]);
  assert.equal(checksTitle(apart), "The sides differ in mode, rate, reader, states, Python, truncation, pods, coverage; not known: sampler, load");
  assert.match(apart[0].text, /^A gil, B blocking: /);
  assert.equal(apart[2].text, "not told by B");
});

test("few samples say how many more minutes are needed", () => {
  const few = (seconds: number, samples: number) => [side({ seconds, samples, pod_seconds: 100 }), side({ seconds, samples, pod_seconds: 100 })];
  assert.equal(minutesMore(few(50, 5000), [5000, 5000]), 0);
  // 100 samples a side: twice √200 of 100 is 28 %, 32 times the samples for 5 %, 31 more times 100 s.
  assert.equal(minutesMore(few(1, 100), [100, 100]), 52);
  assert.equal(minutesMore(few(0, 0), [0, 0]), null);
  assert.equal(minutesMore([side({ pod_seconds: 0, pods: 0 }), side()], [0, 5000]), null);
});

test("a version that ran before the page's range is taken when it ran", () => {
  const range = { from: "-1h", until: "now" };
  const now = 1_800_000_000;
  const row = (first_seen: number, last_seen: number) => ({ version: "7", first_seen, last_seen });
  assert.deepEqual(versionSide("a", row(now - 9000, now - 60), range, now), { a: "version:7", a_from: "", a_until: "" });
  assert.deepEqual(versionSide("b", row(now - 20_000, now - 10_000), range, now), {
    b: "version:7", b_from: new Date((now - 13_599) * 1000).toISOString().replace(".000Z", "Z"), b_until: new Date((now - 9999) * 1000).toISOString().replace(".000Z", "Z"),
  });
  assert.deepEqual(versionSide("b", row(now - 10_500, now - 10_000), range, now).b_from, new Date((now - 10_500) * 1000).toISOString().replace(".000Z", "Z"));
  assert.deepEqual(earlier(range, now).map(({ name }) => name), ["just before", "the day before", "the week before"]);
  assert.deepEqual(earlier({ from: "soon", until: "now" }, now), []);
});
