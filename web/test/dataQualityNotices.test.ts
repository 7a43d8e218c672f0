import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerBasis, Quality, Side } from "../src/api/answers.ts";
import { dataQualityNotices } from "../src/viewmodels/dataQualityNotices.ts";
import { describeGap } from "../src/lib/distribution.ts";
import { staleNotices } from "../src/viewmodels/staleness.ts";
import { NO_SAMPLES } from "./stacks.ts";

const BASIS: AnswerBasis = { windows: 1, pods: 1, samples: 5000, unreadable_segments: 0, unresolved_windows: 0, resolutions: [] };

const QUALITY: Quality = {
  readers: ["own"], coverage: 1, failed_share: 0, errors: {}, stops: 400, stopped_seconds: 0.06, stopped_share: 0.0006,
  longest_stop_seconds: 0.0003, other_samples: 0, preempted_seconds: 0, reduced: [],
};

const side = ({ quality, ...changes }: Partial<Omit<Side, "quality">> & { quality?: Partial<Quality> } = {}): Side => ({
  selector: "{}", from: 0, until: 1, windows: 1, pods: 1, samples: 5000, seconds: 50, pod_seconds: 100,
  states: { ...NO_SAMPLES, gil: 5000 }, idle_share: 0, target_cpu_seconds: 0, truncated_samples: 0,
  modes: ["gil"], samplers: ["sidelight 0.1.0"], python_versions: ["3.11.7"], missing_states: [], sampling_periods_us: [10_000], ...changes,
  quality: { ...QUALITY, ...quality },
});

test("two sides taken alike need no words", () => {
  assert.deepEqual(dataQualityNotices([side(), side()], ["A", "B"], BASIS), []);
});

test("what makes a side hard to read is said, of each side", () => {
  const notices = dataQualityNotices([side({ pods: 3, missing_states: ["gil"] }), side({ modes: ["nonblocking"], samples: 200, truncated_samples: 50 })], ["A", "B"], BASIS);
  assert.deepEqual(notices.map((sentence) => sentence.slice(0, 22)), ["A: the sampler did not", "B: stacks may be wrong", "B: 1.0 % of all sample"]);
  assert.ok(notices[2].includes("1.0 %"), "of all samples, not of those of the type");
});

test("what sets two sides apart is left to the checks of their verdict", () => {
  const other = side({ samplers: ["py-spy 0.4.3"], sampling_periods_us: [10_000, 20_000], python_versions: ["3.14.0"], pods: 7, quality: { readers: ["py-spy"], coverage: 0.6 } });
  assert.deepEqual(dataQualityNotices([side(), other], ["A", "B"], BASIS), []);
  assert.deepEqual(dataQualityNotices([other], [""], BASIS), [], "one side that changed its rate is no mixture");
});

test("one side that was taken in two ways says so", () => {
  assert.deepEqual(dataQualityNotices([side({ modes: ["blocking", "gil"] })], [""], BASIS), [
    "Sampled with different sampling modes (blocking, gil): they differ in waiting threads and in overhead.",
  ]);
});

test("segments that could not be read are said", () => {
  assert.match(dataQualityNotices([side()], [""], { ...BASIS, unreadable_segments: 2 })[0], /^2 stored segments could not be read/);
});

test("windows that are kept only together with others are said", () => {
  assert.match(dataQualityNotices([side()], [""], { ...BASIS, unresolved_windows: 1 })[0], /^1 window is missing: .* Filter by service/);
  assert.match(dataQualityNotices([side()], [""], { ...BASIS, unresolved_windows: 20 })[0], /^20 windows are missing/);
});

test("windows kept by the day are said, and those by the hour are not, as they may be exact", () => {
  const stored = (resolution: "hour" | "day"): AnswerBasis => ({ ...BASIS, resolutions: [{ resolution, windows: 3, from: 86_400, until: 172_800 }] });
  assert.match(dataQualityNotices([side()], [""], stored("day"))[0], /^Coarse: 3 windows from .* are stored as daily sums/);
  assert.deepEqual(dataQualityNotices([side()], [""], stored("hour")), []);
});

test("a service is stale that was last seen long before now, in a range that reaches to now", () => {
  const now = 1_800_000_000;
  const versions = [{ last_seen: now - 5000 }, { last_seen: now - 3600 }];
  assert.match(staleNotices(versions, { from: "-1d", until: "now" }, now)[0], /^Last seen 1 h ago/);
  assert.deepEqual(staleNotices([{ last_seen: now - 500 }], { from: "-1d", until: "now" }, now), []);
  assert.deepEqual(staleNotices(versions, { from: "-1d", until: String(now - 3600) }, now), [], "a range in the past calls nothing stale");
  assert.deepEqual(staleNotices([], { from: "-1d", until: "now" }, now), []);
});

test("a side that was watched and took no time is told from one that was not watched", () => {
  const idle = side({ samples: 0, seconds: 0 });
  const unwatched = side({ windows: 0, pods: 0, samples: 0, seconds: 0, pod_seconds: 0, modes: [], samplers: [], python_versions: [], sampling_periods_us: [], quality: { readers: [], coverage: null } });
  assert.deepEqual(dataQualityNotices([side(), idle], ["A", "B"], BASIS), []);
  assert.match(dataQualityNotices([side(), unwatched], ["A", "B"], BASIS)[0], /^B: no windows in this range/);
});

test("a type whose state a side did not record is said to read too low", () => {
  assert.deepEqual(dataQualityNotices([side({ missing_states: ["cpu_wait", "gil_wait", "lock", "poll", "io", "sleep"] })], [""], BASIS), dataQualityNotices([side()], [""], BASIS));
  const blind = side({ missing_states: ["gil", "idle"] });
  assert.match(dataQualityNotices([blind], [""], BASIS)[0], /did not record gil and idle samples: wall time and GIL time read too low/);
});

test("the largest gap names both sides", () => {
  const [a, b] = [{ depth: [2, 9], samples: [40, 60] }, { depth: [2, 9], samples: [75, 25] }];
  assert.equal(describeGap([a, b], 2), "Largest gap: 40.0 % of A's samples and 75.0 % of B's are at most 2 frames deep (35.0 points apart).");
  assert.equal(describeGap([a, a], 2), "Both sides have the same depths.");
});
