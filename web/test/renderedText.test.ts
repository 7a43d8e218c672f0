import { findAll, render, textOf, textsOf } from "./rendered.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { h, type FunctionComponent } from "preact";
import type { AnswerBasis } from "../src/api/answers.ts";
import type { Deploy } from "../src/api/deploys.ts";
import type { Verdict, Direction } from "../src/api/verdict.ts";
import { change } from "../src/lib/location.ts";
import { ChangeTable } from "../src/components/profile/ChangeTable.tsx";
import { formatDeployState, deployPlace } from "../src/components/services/DeployList.tsx";
import { ComparabilityChecks, VerdictSummary } from "../src/components/profile/VerdictSummary.tsx";
import { ServiceRow } from "../src/components/services/ServiceTable.tsx";
import { START } from "../src/lib/url.ts";
import type { OverviewAnswer, VersionColumns } from "../src/api/grids.ts";
import { compareVersions } from "../src/viewmodels/serviceList.ts";
import { check, columns, culprit, depthOf, effect, verdict } from "./verdicts.ts";

const draw = <Props>(component: FunctionComponent<Props>, props: Props) => render(h(component as FunctionComponent<unknown>, props as object));

const besides = (of: Partial<Verdict>) => textsOf(draw(VerdictSummary, { verdict: verdict(of) }), "li").filter((line) => !/[▲▼]/.test(line));

const WAYS: [Direction, number, string[]][] = [
  ["increased", 1, ["Stacks are deeper in B", "Threads wait more in B", "The event loop is busier in B"]],
  ["decreased", -1, ["Stacks are shallower in B", "Threads wait less in B", "The event loop is less busy in B"]],
  ["unchanged", 0, ["Stacks are as deep in B as in A", "Threads wait as much in B as in A", "The event loop is as busy in B as in A"]],
  ["inconclusive", -1, ["Stack depth: inconclusive", "Wait time: inconclusive", "Event loop: inconclusive"]],
];

test("depth, idle time and event loop are sentences about B for every direction", () => {
  for (const [direction, delta, expected] of WAYS) {
    const found = effect(0.4, 0.4 + 0.1 * delta, 0.05, direction);
    const changeText = besides({ depth: depthOf(found), idle: found, loop: { busy: found, blockers: [] } });
    assert.deepEqual(changeText.map((line) => line.split(/[:,] [\d.]+ /)[0]), expected);
  }
});

test("sentences about depth, idle time and event loop carry numbers, intervals, threads and holders", () => {
  const holder = (name: string, a: number, b: number) => ({ function: name, file: "app.py", baseline: a, comparison: b, effect: effect(a, b, 0.02) });
  const rendered = draw(VerdictSummary, { verdict: verdict({
    loop: { busy: effect(0.4, 0.55, 0.02), blockers: [holder("hash", 0.1, 0.3), holder("rare", 0.008, 0.009)] },
    thread_kinds: [{ thread: "main", idle: effect(0.2, 0.1, 0.02) }, { thread: "other", idle: effect(0.9, 0.9, 0.02) }],
  }) });
  assert.deepEqual(textsOf(findAll(rendered, "ul", "besides"), "li"), [
    "Stacks are deeper in B: 40.7 → 46.1 frames on average (+5.4, between +4.9 and +5.9).",
    "Threads wait more in B: 58.0 % → 62.0 % of their time (+4.0 points, between +3.0 and +5.0); main threads 20.0 % → 10.0 %; others 90.0 % → 90.0 %.",
    "The event loop is busier in B: 40.0 % → 55.0 % of its time (+15.0 points, between +13.0 and +17.0); held by hash (10.0 % → 30.0 %).",
  ]);
  assert.deepEqual(findAll(rendered, "span", "quiet").map(({ props }) => props.title).filter(Boolean), Array(3).fill("95 % interval"));
});

test("intervals that are missing are left out", () => {
  const mean = { ...effect(3, 4, 0.1), low: null, high: null };
  const total = { ...verdict().functions.total, low: [null, null] };
  const blank = verdict({ idle: null, depth: depthOf(mean), functions: { ...verdict().functions, total } });
  assert.deepEqual(textsOf(findAll(draw(VerdictSummary, { verdict: blank }), "ul", "besides"), "li"), ["Stacks are deeper in B: 3.00 → 4.00 frames on average (+1.0)."]);
  const cells = textsOf(draw(ChangeTable, { verdict: blank }), "td");
  assert.deepEqual(cells.slice(0, 6), ["20.0 ms/s", "60.0 ms/s", "▲ +40.0 ms/s", "▲ +40.0 ms/s +36.0 to +44.0", "5 of 6", "<.001"]);
});

test("the functions where a change starts have their delta and share", () => {
  const why = (direction: Verdict["direction"], share: number | null, rows: number) =>
    textOf(findAll(draw(VerdictSummary, { verdict: verdict({ direction, culprits: { share, rows: Array.from({ length: rows }, (_, at) => culprit(at)) } }) }), "div", "why"));
  assert.equal(why("increased", 0.8, 1), "The change starts here (80 % of it): f0 ▲ +40.0 ms/s (80 %)");
  assert.equal(why("decreased", 0.99, 2), "The change starts here (99 % of it): f0 ▲ +40.0 ms/s (80 %) f1 › deepcopy ▲ +40.0 ms/s (80 %)");
  assert.equal(why("unchanged", 1, 1), "Functions that changed anyway: f0 ▲ +40.0 ms/s (80 %)");
  assert.equal(why("increased", null, 0), "");
});

test("an incomparable pair has its sentence alone, and no verdict says so", () => {
  const rendered = draw(VerdictSummary, { verdict: verdict({ direction: "not_comparable", summary: "CPU time cannot be compared." }) });
  assert.equal(textOf(rendered), "CPU time cannot be compared.");
  assert.match(textOf(draw(VerdictSummary, { verdict: null })), /^This answer has no verdict\./);
  assert.equal(textOf(draw(VerdictSummary, { verdict: undefined })), "Loading the comparison…");
});

test("a warning is a line with what differs and what to do, and the other checks are folded", () => {
  const load = check("load", { state: "mismatch", severity: "warn", text: "A's processes were busier", hint: "Count requests." });
  const rendered = draw(ComparabilityChecks, { verdict: verdict({ checks: [check("mode", { text: "gil on both sides" }), load] }) });
  assert.deepEqual(textsOf(rendered, "li"), ["load A's processes were busier. Count requests."]);
  assert.deepEqual(textsOf(rendered, "summary"), ["✓ 1 comparability check passed"]);
  assert.deepEqual([textsOf(rendered, "dt"), textsOf(rendered, "dd")], [["mode", "measured"], ["gil on both sides", "in samples"]]);
  assert.deepEqual(textsOf(draw(ComparabilityChecks, { verdict: verdict() }), "summary"), ["✓ 1 comparability check passed; unknown: load"]);
  assert.deepEqual(draw(ComparabilityChecks, { verdict: verdict({ direction: "no_data" }) }), [], "of a side without windows nothing is said");
});

test("what the sentence says of an incomparable pair is not repeated by its check", () => {
  const mode = check("mode", { state: "mismatch", severity: "blocking", text: "A command, B gil.", hint: "Set the same --mode on both sides." });
  assert.deepEqual(textsOf(draw(ComparabilityChecks, { verdict: verdict({ checks: [mode] }), isCauseShown: true }), "li"), ["mode Set the same --mode on both sides."]);
  assert.deepEqual(textsOf(draw(ComparabilityChecks, { verdict: verdict({ checks: [mode] }) }), "li"), ["mode A command, B gil. Set the same --mode on both sides."]);
});

test("the checks say whether samples or the kernel's clock measured the whole", () => {
  const method = { ...verdict().method, rate_source: "clock" as const };
  const clock = draw(ComparabilityChecks, { verdict: verdict({ method, sampling_only: effect(0.12, 0.18, 0.01) }) });
  assert.equal(textsOf(clock, "dd").at(-1), "total from the kernel's clock; call path samples add up to 120 ms/s → 180 ms/s");
});

test("changes have intervals, agreeing pods, q and the former name", () => {
  const functions = { ...verdict().functions, renamed_from: ["render_page (jinja2/runtime.py)", null] };
  const rendered = draw(ChangeTable, { verdict: verdict({ functions }) });
  const change = "▲ +40.0 ms/s +36.0 to +44.0";
  assert.deepEqual(textsOf(rendered, "td").slice(0, 6), ["20.0 ms/s", "60.0 ms/s", change, change, "5 of 6", "<.001"]);
  assert.equal(findAll(rendered, "tr").length, 2, "a function that did not change has no row");
  assert.match(textsOf(rendered, "th").at(-1) as string, /^render jinja2\/runtime\.py was render_page \(jinja2\/runtime\.py\)/);
  const request = draw(ChangeTable, { verdict: verdict({ method: { ...verdict().method, unit: "request" } }) });
  assert.equal(textsOf(request, "td")[0], "20.0 ms/request");
  const none = columns([effect(1, 1, 0)], [[0, 0]], [1]);
  const nothing = { function: ["f"], file: ["f.py"], renamed_from: [null], total: none, self: none };
  assert.match(textOf(draw(ChangeTable, { verdict: verdict({ functions: nothing }) })), /No function changed beyond noise\.$/);
});

const deploy = (changes: Partial<Deploy> = {}, direction: Direction = "unchanged"): Deploy => ({
  id: "1", namespace: "", service: "shop", version: "v2", previous: "v1", started: "2026-11-20T10:00:00Z", first_seen: "2026-11-20T10:00:00Z", rollout: null, state: "pass", conclusion: "pass",
  firing: false, summary: "B takes 8.1 % more CPU time than A.", next_analysis: null, finished: null, resolved: null, alerts: [],
  analyses: [{
    index: 1, at: "2026-11-20T10:20:00Z", seconds: 1200, state: "pass", comparison_mode: "canary", baseline: null, comparison: null, summary: "", conditions: [], problem: "",
    rate: effect(0.1, 0.1081, 0.0022, direction),
  }],
  links: {
    self: "/api/v1/deploys/1", verdict: null, resolve: "/api/v1/deploys/1/resolve",
    view: "/s/shop/compare?from=2026-11-20T10%3A00%3A00Z&until=2026-11-20T10%3A20%3A00Z&baseline=version%3Av1&comparison=version%3Av2",
  },
  ...changes,
});

const NOW = Math.floor(Date.now() / 1000);
const of = (version: string | null, samples: number, seconds: number, changes: Partial<VersionColumns> = {}): VersionColumns => ({
  version: [version], first_seen: [NOW - 7200], pods_now: [1], samples: [samples], seconds: [seconds], pod_seconds: [1000], ...changes,
});
const BASIS: AnswerBasis = { windows: 1, pods: 1, samples: 1, unreadable_segments: 0, unresolved_windows: 0, resolutions: [] };
const service = (current: VersionColumns, previous: VersionColumns, changes: Partial<OverviewAnswer> = {}): OverviewAnswer => ({
  type: "cpu",
  service: ["shop"], first_seen: [0], last_seen: [NOW], samples: [9], seconds: [1], pod_seconds: [10], cores: [1.5], pods: [4], pods_now: [4], versions: [2],
  current, previous, omitted: 0, from: NOW - 3600, until: NOW, basis: BASIS, ...changes,
});
const row = (answer: OverviewAnswer, found?: Deploy) =>
  draw(ServiceRow, { answer, index: 0, at: 0, change: compareVersions(answer, 0), deploy: found, maximum: { cores: 2, pod: 2 }, trend: null });

test("a service's row says what the comparison of its latest deploy found", () => {
  const cases: [Deploy["state"], Direction, string][] = [
    ["regressed", "increased", "▲ +8.1 % +5.9 to +10.3 against v1: compare"],
    ["pass", "decreased", "▼ +8.1 % +5.9 to +10.3 against v1: compare"],
    ["pass", "unchanged", "≈ unchanged against v1: compare"],
    ["pass", "new", "▲ from 0 against v1: compare"],
    ["pass", "removed", "▼ to 0 against v1: compare"],
    ["watching", "inconclusive", "… inconclusive against v1: compare"],
    ["not_comparable", "not_comparable", "not comparable against v1: compare"],
  ];
  for (const [state, direction, expected] of cases) {
    const rendered = findAll(row(service(of("v2", 9, 9), of("v1", 9, 9)), deploy({ state }, direction)), "a", "drift");
    assert.equal(textOf(rendered), expected);
    assert.equal(rendered[0].props.title, "B takes 8.1 % more CPU time than A.");
  }
});

test("a service's row makes no claim about a change that was not compared", () => {
  const changeText = (answer: OverviewAnswer) => textOf(findAll(row(answer), "td", "number").slice(2, 3));
  assert.equal(changeText(service(of("v2", 960, 160), of("v1", 660, 110))), "+45.5 % unverified against v1: compare");
  assert.equal(changeText(service(of("v2", 9000, 90), of("v1", 9000, 90))), "0.0 % unverified against v1: compare");
  assert.equal(changeText(service(of("v2", 6, 0.1), of("v1", 6, 0.1))), "Too few samples against v1: compare");
  assert.equal(changeText(service(of("v2", 6, 0.1, { first_seen: [Date.now() / 1000 - 60] }), of("v1", 6, 0.1))), "Collecting against v1: compare");
  assert.equal(changeText(service(of("v2", 9, 1, { pod_seconds: [0] }), of("v1", 9, 1))), "no data against v1: compare");
  assert.equal(changeText(service(of("v2", 9, 1), of(null, 0, 0))), "–");
});

test("a service's row tells the cost of all pods from that of one, and how far a version is rolled out", () => {
  const cells = textsOf(row(service(of("v2", 9, 1, { pods_now: [1] }), of("v1", 9, 1), { seconds: [5], pod_seconds: [10] })), "td");
  assert.deepEqual(cells.slice(0, 2), ["1.50", "0.500"]);
  assert.equal(cells[5], "1/4 pods have the current version");
  assert.match(cells[3], /^v2 \(/);
});

test("the state of a deploy is a word or two", () => {
  assert.equal(formatDeployState(deploy({ state: "watching" })), "Analysing");
  assert.equal(formatDeployState(deploy({ state: "regressed" })), "▲ regressed");
  assert.equal(formatDeployState(deploy({ state: "finished", conclusion: "regressed", finished: { at: "2026-11-20T11:00:00Z", reason: "rolled_back", successor: "v1" } })), "rolled back, was ▲ regressed");
  assert.equal(formatDeployState(deploy({ state: "finished", conclusion: null, finished: { at: "2026-11-20T11:00:00Z", reason: "replaced", successor: "v3" } })), "replaced");
  assert.equal(formatDeployState(deploy({ state: "unheard of" as Deploy["state"] })), "unheard of");
});

test("a deploy leads to its comparison at its times, in the theme of the page", () => {
  change({ theme: "dark" }, "replace");
  const there = deployPlace(deploy());
  assert.deepEqual(there, {
    ...START, page: "compare", service: "shop", baseline: "version:v1", comparison: "version:v2", theme: "dark", from: "2026-11-20T10:00:00Z", until: "2026-11-20T10:20:00Z",
  });
  assert.equal(deployPlace(deploy({ links: { ...deploy().links, view: "/s/shop" } })).page, "compare", "before the first analysis too");
  change({ theme: "" }, "replace");
});
