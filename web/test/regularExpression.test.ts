import assert from "node:assert/strict";
import { test } from "node:test";
import { nameMatcher } from "../src/flamegraph/analysis/search.ts";
import { BadExpression, compileSearch } from "../src/flamegraph/analysis/regularExpression.ts";
import { randomNumbers, seeds } from "./stacks.ts";

test("an expression finds what the browser's matcher finds", () => {
  const atoms = ["a", "b", "_", "1", ".", "^", "$", "\\b", "\\B", "\\d", "\\w", "\\S", "[ab]", "[^a]", "[a-c_]", "\\.", "é", "<"];
  const quantifiers = ["", "*", "+", "?", "*?", "{2}", "{1,2}", "{0,3}", "{2,}"];
  for (const seed of seeds(1500)) {
    const next = randomNumbers(seed);
    const one = <Value>(values: readonly Value[]) => values[Math.floor(next() * values.length)];
    const expression = (depth: number): string => {
      const kind = depth > 3 ? 0 : Math.floor(next() * 4);
      if (kind === 0) return one(atoms);
      if (kind === 1) return `(?:${expression(depth + 1)})${one(quantifiers)}`;
      if (kind === 2) return `(${expression(depth + 1)}|${expression(depth + 1)})`;
      return expression(depth + 1) + expression(depth + 1);
    };
    const written = expression(0);
    const finds = compileSearch(written);
    const expected = new RegExp(written, "iu");
    for (let count = 0; count < 5; count++) {
      const text = Array.from({ length: Math.floor(next() * 7) }, () => one(["a", "B", "b", "1", "_", ".", " ", "\n", "é", "É", "😀"])).join("");
      assert.equal(finds(text), expected.test(text), `/${written}/ in ${JSON.stringify(text)}`);
    }
  }
});

test("no expression takes long", () => {
  const text = "a".repeat(20_000);
  for (const written of ["(a+)+b", "(a|a)*c", "(.*)*x", "(.*)(.*)(.*)(.*)b", "(a?){50}a{50}b"]) assert.equal(compileSearch(written)(text), false, written);
});

test("what cannot be followed in linear time is refused, and searched for as text", () => {
  for (const written of ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(a)\\1", "(", "a)", "[a", "a**", "+", "\\", "a{1001}", "((a{100}){100}){100}", "(".repeat(300)]) {
    assert.throws(() => compileSearch(written), BadExpression, written);
  }
  assert.equal(nameMatcher("/(?=a)/")?.("x/(?=A)/y"), true);
  assert.equal(nameMatcher("/^LOAD|dump$/")?.("json_dump"), true);
});
