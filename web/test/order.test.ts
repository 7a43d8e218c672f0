import { strict as assert } from "node:assert";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { deflateRawSync, gzipSync } from "node:zlib";
import { ordered } from "../build/order.ts";

const SCRIPT = `
var told = [], count = 0;
function first(n) { return n < 1 ? 0 : second(n - 1) + 1 }
class Held { constructor(value) { this.value = value } twice() { return double(this.value) } }
const double = (n) => n * 2, half = (n) => n / 2;
function second(n) { return n < 1 ? 0 : first(n - 1) + 1 }
let next = () => { told.push("before"); return ++count };
told.push(first(5), next());
next = () => { told.push("after"); return ++count };
const made = new Held(next());
var plain = { a: 1 }, other = [half(8), made.twice()];
told.push(plain.a, ...other, typeof third)
function third() { return told.join() }
third()
`;

test("a script in another order does the same", () => {
  assert.equal(runInNewContext(ordered(SCRIPT)), runInNewContext(SCRIPT));
});

test("a script whose functions were moved about does the same, is no longer, and comes out the same again", () => {
  const moved = ordered(SCRIPT, 200);
  assert.equal(runInNewContext(moved), runInNewContext(SCRIPT));
  assert.ok(deflateRawSync(moved).length <= deflateRawSync(ordered(SCRIPT)).length);
  assert.equal(ordered(SCRIPT, 200), moved);
});

test("functions that are alike come to lie near each other, and nothing is lost", () => {
  const noise = (seed: number) => Array.from({ length: 6000 }, (_, at) => ((Math.imul(at + seed * 7919, 2_654_435_761) >>> 7) % 36).toString(36)).join("");
  const like = (seed: number) => [0, 1].map((half) => `function f${seed}_${half}() { return "${noise(seed)}" }`);
  const pairs = Array.from({ length: 8 }, (_, seed) => like(seed));
  const script = [...pairs.map(([one]) => one), ...pairs.map(([, other]) => other)].join("");
  const made = ordered(script);
  assert.equal(made.length, script.length);
  assert.deepEqual(made.match(/function f\d_\d/g)?.sort(), script.match(/function f\d_\d/g)?.sort());
  assert.ok(gzipSync(made).length < gzipSync(script).length * 0.7, `${gzipSync(made).length} of ${gzipSync(script).length}`);
});
