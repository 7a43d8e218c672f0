import assert from "node:assert/strict";
import { test } from "node:test";
import { describeGilContention } from "../src/viewmodels/gilContention.ts";
import { NO_SAMPLES } from "./stacks.ts";

const side = (gil_wait: number, missing_states: string[] = []) =>
  ({ states: { ...NO_SAMPLES, poll: 9000, running: 100, gil: 800, gil_wait }, missing_states });

test("a service whose threads wait for the GIL is told that more threads do not help", () => {
  assert.equal(describeGilContention(side(600)), "GIL contention 40.0 %: threads that want to run wait for the GIL. More threads will not help, more processes will.");
  for (const quiet of [side(0), side(90), side(600, ["gil_wait"])]) assert.equal(describeGilContention(quiet), "");
  assert.equal(describeGilContention({ states: { ...NO_SAMPLES, gil: 9, gil_wait: 900 }, missing_states: [] }), "");
});
