import assert from "node:assert/strict";
import { test } from "node:test";
import type { Quality } from "../src/api/answers.ts";
import { formatRates, qualityRemarks, type QualitySource } from "../src/viewmodels/qualitySummary.ts";
import { NO_SAMPLES } from "./stacks.ts";

const QUALITY: Quality = {
  readers: ["own"], coverage: 0.998, failed_share: 0.002, errors: { moved: 18, slow: 2 }, stops: 400, stopped_seconds: 0.07, stopped_share: 0.0007,
  longest_stop_seconds: 0.00031, other_samples: 0, preempted_seconds: 0, reduced: [],
};

const watched = ({ quality, ...changes }: Partial<Omit<QualitySource, "quality">> & { quality?: Partial<Quality> } = {}): QualitySource => ({
  modes: ["gil"], sampling_periods_us: [10_000], states: { ...NO_SAMPLES, idle: 900, gil: 90, cpu_wait: 10 }, truncated_samples: 0, ...changes, quality: { ...QUALITY, ...quality },
});

const line = (of: QualitySource) => qualityRemarks(of).map(({ text, isDoubtful }) => (isDoubtful ? `! ${text}` : text));

test("mode, rate, coverage and overhead are always said, and what went wrong if anything did", () => {
  assert.deepEqual(line(watched()), [
    "mode gil, own reader", "100 Hz", "coverage 99.8 %", "overhead: paused 0.070 %, max 310 µs", "0.2 % of ticks failed",
  ]);
  assert.match(qualityRemarks(watched())[4].why, /moved 18, slow 2/);
  assert.deepEqual(line(watched({ quality: { coverage: 1, failed_share: 0, errors: {}, stops: 0, stopped_share: 0 } })).slice(2), ["coverage 100 %", "overhead: no pauses"]);
});

test("stacks that may be wrong, a fallback and a low coverage are marked in words", () => {
  assert.equal(line(watched({ modes: ["nonblocking"], quality: { readers: ["py-spy"] } }))[0], "! mode nonblocking: stacks may be wrong, py-spy reader");
  assert.deepEqual(line(watched({ modes: ["command"], quality: { readers: [], coverage: 0.5, stopped_share: null, failed_share: 0 } })), [
    "! mode command: fallback", "100 Hz", "! coverage 50.0 % (low)", "overhead unknown",
  ]);
  assert.deepEqual(line(watched({ modes: ["gil", "nonblocking"], quality: { readers: [] } })).slice(0, 2), ["mode gil", "! mode nonblocking: stacks may be wrong"]);
});

test("what nobody told is not made up", () => {
  const silent = { readers: [], coverage: null, failed_share: null, errors: {}, stopped_share: null };
  assert.deepEqual(line(watched({ modes: [], quality: silent })), ["mode unknown", "100 Hz", "coverage unknown", "overhead unknown"]);
});

test("why there are fewer ticks, and samples without their stack, are said", () => {
  const remarks = line(watched({ sampling_periods_us: [10_000, 40_000], truncated_samples: 20, quality: { reduced: ["cgroup", "cpu", "new"], other_samples: 5, preempted_seconds: 12 } }));
  assert.equal(remarks[2], "fewer ticks than requested (CPU limit, CPU budget, new)");
  assert.deepEqual(remarks.slice(-3), ["2.0 % truncated", "0.5 % under (other)", "preempted 12.0 s"]);
});

test("every remark says what it means", () => {
  for (const of of [watched(), watched({ modes: ["new"] }), watched({ modes: [], quality: { coverage: null } })]) {
    for (const { text, why } of qualityRemarks(of)) assert.ok(why.endsWith("."), text);
  }
});

test("rates are said once and as a range", () => {
  assert.equal(formatRates([10_000]), "100 Hz");
  assert.equal(formatRates([1000, 10_101.01, 20_000]), "50–1000 Hz");
});
