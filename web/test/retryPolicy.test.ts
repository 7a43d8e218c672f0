import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf, pause, retryAfter } from "../src/api/retryPolicy.ts";
import { otherBuild } from "../src/api/buildVersion.ts";

test("who is away is waited for, who is busy says when, and the rest is final", () => {
  assert.deepEqual(["unreachable", "offline", "shutting_down", "502", "503"].map(kindOf), Array(5).fill("away"));
  assert.deepEqual(["overloaded", "query_timeout", "store_unavailable", "engine_unavailable", "504"].map(kindOf), Array(5).fill("busy"));
  assert.deepEqual(["bad_selector", "unauthorized", "given_up", "not_json", "500", "internal"].map(kindOf), Array(6).fill("final"));
});

test("pauses double up to a bound, are spread, and never end before the collector said", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 50].map((tries) => pause(tries, null, 1)), [1, 2, 4, 8, 15, 15]);
  assert.equal(pause(2, null, 0), 3);
  assert.equal(pause(0, 60, 0.5), 60);
});

test("Retry-After is seconds or a date", () => {
  const now = Date.parse("2026-11-21T10:00:00Z") / 1000;
  assert.equal(retryAfter("2", now), 2);
  assert.equal(retryAfter("Sat, 21 Nov 2026 10:00:30 GMT", now), 30);
  assert.equal(retryAfter("Sat, 21 Nov 2026 09:00:00 GMT", now), 0);
  assert.equal(retryAfter("soon", now), null);
  assert.equal(retryAfter(null, now), null);
});

test("another build is told from one's own, by its version where that differs", () => {
  assert.equal(otherBuild("0.1.0+aaaa", "0.1.0+aaaa"), null);
  assert.deepEqual(otherBuild("0.1.0+aaaa", "0.1.0+bbbb"), { own: "0.1.0+aaaa", heard: "0.1.0+bbbb" });
  assert.deepEqual(otherBuild("0.1.0+aaaa", "0.2.0+bbbb"), { own: "0.1.0", heard: "0.2.0" });
  assert.equal(otherBuild("0.1.0+aaaa", ""), null, "a collector that does not say is not another one");
  assert.equal(otherBuild("__sidelight_build__", "0.1.0+aaaa"), null, "pages served by a development server have no build");
});
