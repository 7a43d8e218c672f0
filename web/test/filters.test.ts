import assert from "node:assert/strict";
import { test } from "node:test";
import { exactAlternatives, joinMatchers, onlyLabel, MATCH_OPERATORS, parseMatchers, errorPosition, withoutLabel, formatMatcher } from "../src/lib/selectors.ts";
import { timeRangeSide } from "../src/lib/sides.ts";
import { lastAlternative, suggest } from "../src/lib/suggest.ts";
import { randomNumbers, seeds } from "./stacks.ts";

test("matchers that are written are read back the same", () => {
  for (const seed of seeds(300)) {
    const next = randomNumbers(seed);
    const one = <Value>(values: readonly Value[]) => values[Math.floor(next() * values.length)];
    const text = () => Array.from({ length: Math.floor(next() * 8) }, () => one(["a", '"', "\\", "\n", "\t", ",", "}", "{", "'", "=", "😀", "ש", " ", "<b>", "|", ".*"])).join("");
    const matchers = Array.from({ length: Math.floor(next() * 4) }, () => ({ name: one(["pod", "_x9", "node"]), op: one(MATCH_OPERATORS), value: text() }));
    assert.deepEqual(parseMatchers(joinMatchers(...matchers.map(formatMatcher))), matchers);
  }
});

test("matchers are read as the API reads them, or not at all", () => {
  assert.deepEqual(parseMatchers(` { pod = 'a"b' , node!~"\\\\d+", } `), [{ name: "pod", op: "=", value: 'a"b' }, { name: "node", op: "!~", value: "\\d+" }]);
  assert.deepEqual(parseMatchers(""), []);
  for (const wrong of ["pod", "pod=", "pod=x", 'pod="x" node="y"', 'pod="x', '9a="x"', 'pod="\\d"', 'pod=="x"', ',pod="x"']) assert.equal(parseMatchers(wrong), null, wrong);
});

test("one label's matchers are taken out, or kept alone", () => {
  const query = 'version="v, 1", pod=~"a\\"b.*", version!="x"';
  assert.equal(withoutLabel(query, "version"), 'pod=~"a\\"b.*"');
  assert.equal(onlyLabel(query, "version"), 'version="v, 1", version!="x"');
  assert.equal(withoutLabel("pod=", "version"), "pod=", "what cannot be read stays as it is");
  assert.equal(timeRangeSide('node="n", version="2"'), 'match:version="2"');
  assert.equal(timeRangeSide("pod="), "match:");
});

test("picked values become a pattern that matches exactly them", () => {
  const values = ["a.b", "a+b|c", "x[1](2){3}^$?*\\", "plain-1"];
  const pattern = new RegExp(`^(?:${exactAlternatives(values)})$`);
  for (const value of values) assert.ok(pattern.test(value), value);
  for (const other of ["aXb", "a", "c", ""]) assert.ok(!pattern.test(other), other);
  assert.deepEqual(lastAlternative("a|b|c"), { head: "a|b|", tail: "c" });
  assert.deepEqual(lastAlternative(""), { head: "", tail: "" });
});

test("values that begin with what was typed come first, and only so many are offered", () => {
  assert.deepEqual(suggest(["shop-2", "web-shop", "Shop-1", "cart"], "shop", 10), { shown: ["shop-2", "Shop-1", "web-shop"], omitted: 0 });
  const many = Array.from({ length: 30_000 }, (_, i) => `web-${i}`);
  assert.deepEqual(suggest(many, "", 50), { shown: many.slice(0, 50), omitted: 29_950 });
  assert.deepEqual(suggest(many, "2999", 50).shown.slice(0, 1), ["web-2999"]);
  assert.equal(suggest(many, "9999", 2).shown[0], "web-9999");
  assert.equal(suggest(many, "nothing", 5).shown.length, 0);
});

test("a refusal's position is read", () => {
  assert.equal(errorPosition("selector, position 17: a label name was expected"), 17);
  assert.equal(errorPosition("something else"), null);
});
