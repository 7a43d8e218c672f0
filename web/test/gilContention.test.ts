import assert from "node:assert/strict";
import { test } from "node:test";
import { describeGilContention } from "../src/viewmodels/gilContention.ts";

test("GIL contention comes with its interval and what to do", () => {
  const advice = "threads that want to run wait for the GIL. More threads will not help, more processes will.";
  assert.equal(describeGilContention({ gil_contention: { share: 0.4, low: 0.352, high: 0.448 } }), `GIL contention 40.0 % (95 % interval 35.2 % to 44.8 %): ${advice}`);
  assert.equal(describeGilContention({ gil_contention: { share: 0.4, low: null, high: null } }), `GIL contention 40.0 %: ${advice}`);
  assert.equal(describeGilContention({}), "");
});
