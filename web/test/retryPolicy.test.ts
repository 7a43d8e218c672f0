import assert from "node:assert/strict";
import { test } from "node:test";
import { classifyFailure, backoffSeconds, parseRetryAfter } from "../src/api/retryPolicy.ts";
import { findBuildMismatch } from "../src/api/buildVersion.ts";

test("who is away is waited for, who is busy says when, and the rest is final", () => {
  assert.deepEqual(["unreachable", "offline", "shutting_down", "502", "503"].map(classifyFailure), Array(5).fill("unreachable"));
  assert.deepEqual(["overloaded", "query_timeout", "store_unavailable", "engine_unavailable", "504"].map(classifyFailure), Array(5).fill("busy"));
  assert.deepEqual(["bad_selector", "unauthorized", "given_up", "not_json", "500", "internal"].map(classifyFailure), Array(6).fill("final"));
});

test("pauses double up to a bound, are spread, and never end before the collector said", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 50].map((tries) => backoffSeconds(tries, null, 1)), [1, 2, 4, 8, 15, 15]);
  assert.equal(backoffSeconds(2, null, 0), 3);
  assert.equal(backoffSeconds(0, 60, 0.5), 60);
});

test("Retry-After is seconds or a date", () => {
  const now = Date.parse("2026-11-21T10:00:00Z") / 1000;
  assert.equal(parseRetryAfter("2", now), 2);
  assert.equal(parseRetryAfter("Sat, 21 Nov 2026 10:00:30 GMT", now), 30);
  assert.equal(parseRetryAfter("Sat, 21 Nov 2026 09:00:00 GMT", now), 0);
  assert.equal(parseRetryAfter("soon", now), null);
  assert.equal(parseRetryAfter(null, now), null);
});

test("another build is told from one's own, by its version where that differs", () => {
  assert.equal(findBuildMismatch("0.1.0+aaaa", "0.1.0+aaaa"), null);
  assert.deepEqual(findBuildMismatch("0.1.0+aaaa", "0.1.0+bbbb"), { loaded: "0.1.0+aaaa", served: "0.1.0+bbbb" });
  assert.deepEqual(findBuildMismatch("0.1.0+aaaa", "0.2.0+bbbb"), { loaded: "0.1.0", served: "0.2.0" });
  assert.equal(findBuildMismatch("0.1.0+aaaa", ""), null, "a collector that does not say is not another one");
  assert.equal(findBuildMismatch("__sidelight_build__", "0.1.0+aaaa"), null, "pages served by a development server have no build");
});
