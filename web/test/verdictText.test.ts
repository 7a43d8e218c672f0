import assert from "node:assert/strict";
import { test } from "node:test";
import type { Verdict } from "../src/api/verdict.ts";
import { formatColumn, formatRate, formatRatePair, rateUnit } from "../src/lib/quantities.ts";
import { describeVerdict } from "../src/viewmodels/verdictText.ts";
import { check, effect, verdict } from "./verdicts.ts";

const line = (changes: Partial<Verdict>, type: "cpu" | "wall" | "gil" = "cpu") => {
  const { sign, headline, facts } = describeVerdict(verdict(changes), type);
  return [`${sign} ${headline}`.trim(), ...facts].join(" · ");
};
const rate = effect(0.071, 0.077, 0.0006);

test("the card leads with the change, its interval, the rates and the pods", () => {
  assert.equal(line({ rate }), "▲ CPU +8.5 % (+7.6 … +9.3) · 71 → 77 m/pod · 12 pods");
  assert.equal(line({ direction: "decreased", rate: effect(0.077, 0.071, 0.0006) }), "▼ CPU −7.8 % (−8.6 … −7.0) · 77 → 71 m/pod · 12 pods");
  assert.equal(line({ direction: "unchanged", rate: effect(0.071, 0.0711, 0.0006) }), "≈ CPU unchanged: +0.1 % (−0.7 … +1.0) · 71.0 → 71.1 m/pod · 12 pods");
  assert.equal(line({ direction: "minor", rate: effect(0.071, 0.0714, 0.0001) }), "≈ CPU +0.6 % (+0.4 … +0.7), minor · 71.0 → 71.4 m/pod · 12 pods");
  assert.equal(line({ direction: "new", rate: { ...effect(0, 0.02, 0.001), relative: null } }), "▲ CPU new in B · 0 → 20 m/pod · 12 pods");
  assert.equal(line({ direction: "removed", rate: effect(0.02, 0, 0.001) }), "▼ CPU removed in B · 20 → 0 m/pod · 12 pods");
  assert.equal(line({ rate: effect(1.2, 1.5, 0.1) }, "wall"), "▲ Wall time +25.0 % (+16.7 … +33.3) · 1.2 → 1.5 threads/pod · 12 pods");
});

test("with composition the total is shown in a neutral way, and is never a change", () => {
  const composition = verdict({ basis: "composition", direction: "not_judged", rate: { ...rate, direction: "not_judged", low: null, high: null, relative_low: null, relative_high: null } });
  const card = describeVerdict(composition, "cpu");
  assert.deepEqual([card.sign, card.direction, card.headline], ["", "", "CPU 71 → 77 m/pod, +8.5 % – may be load"]);
});

test("an unclear result says what would make it clear", () => {
  const unclear = { direction: "inconclusive" as const, rate: effect(0.018, 0.0146, 0.004) };
  assert.equal(line({ ...unclear, required: { minutes: 11.2, pods: null } }), "CPU inconclusive: −18.9 % (−41.1 … +3.3) · 18 → 15 m/pod · 12 pods · 12 more minutes of both sides would detect 5 %");
  assert.match(line({ ...unclear, required: { minutes: null, pods: 40 } }), /40 pods per side would detect 5 %$/);
  assert.match(line({ ...unclear, required: { minutes: null, pods: null } }), /pods differ too much to detect 5 %$/);
});

test("an incomparable pair names the cause, and a side without data the collector's sentence", () => {
  const mode = check("mode", { state: "mismatch", severity: "blocking", text: "A command, B gil." });
  assert.equal(line({ direction: "not_comparable", checks: [check("pods"), mode] }), "CPU not comparable: A command, B gil");
  assert.equal(line({ direction: "no_data", summary: "A has no windows." }), "A has no windows.");
});

test("pods of both sides count once where they are the same", () => {
  assert.match(line({ method: { ...verdict().method, pods: [4, 16] } }), / 20 pods$/);
  assert.match(line({ method: { ...verdict().method, pods: [6, 6], same_pods: true } }), / 6 pods$/);
});

test("a pair of rates has one unit and one precision, and shows a difference that there is", () => {
  assert.equal(formatRatePair(0.0123, 0.0124, rateUnit("cpu")), "12.3 → 12.4 m/pod");
  assert.equal(formatRatePair(0.98, 1.2, rateUnit("cpu")), "1.0 → 1.2 cores/pod");
  assert.equal(formatRatePair(0.0001, 0.0002, rateUnit("cpu")), "0.10 → 0.20 m/pod");
  assert.equal(formatRatePair(0.05, 0.06, rateUnit("cpu", "request")), "50 → 60 ms/request");
  assert.equal(formatRatePair(0, 0, rateUnit("gil")), "0 → 0 threads/pod");
  assert.equal(formatRate(0.06, rateUnit("cpu")), "60.0 m/pod");
});

test("a column of differences has one precision", () => {
  assert.deepEqual(formatColumn([6.1, -1.25, 0], "m"), ["+6.1 m", "−1.3 m", "0.0 m"]);
  assert.deepEqual(formatColumn([61.4, 20.2], ""), ["+61", "+20"]);
  assert.deepEqual(formatColumn([], "m"), []);
});
