import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { changeOf } from "../src/flamegraph/tree/compare.ts";
import { describeChange } from "../src/flamegraph/analysis/frameDescription.ts";
import { percent, short, signedPercent } from "../src/lib/numbers.ts";

interface Vectors {
  readonly changes: readonly { us: [number, number]; samples: [number, number]; divisors: number[]; direction: string; words: string; delta: number; least: number }[];
  readonly numbers: readonly { value: number; short: string; percent: string; signed: string }[];
}

/** The same vectors are put to model/sidelight_model/change.py by tests/model/test_changes.py. */
const vectors = JSON.parse(readFileSync(new URL("../../../test/vectors/changes.json", import.meta.url), "utf8")) as Vectors;

test("a change has the direction, the noise and the words that the command line has", () => {
  for (const { us, samples, divisors, direction, words, delta, least } of vectors.changes) {
    const change = changeOf(us, samples, divisors);
    assert.equal(change.direction, direction);
    assert.equal(describeChange(change), words);
    assert.ok(Math.abs(change.delta - delta) <= 1e-12 && Math.abs(change.threshold - least) <= 1e-12);
  }
});

test("numbers are written as the command line writes them", () => {
  for (const { value, short: text, percent: part, signed } of vectors.numbers) {
    assert.deepEqual([short(value), percent(value), signedPercent(value)], [text, part, signed]);
  }
});
