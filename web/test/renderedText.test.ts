import { findAll, render, textOf, textsOf } from "./rendered.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { h, type FunctionComponent } from "preact";
import type { AnswerBasis } from "../src/api/answers.ts";
import type { Deploy } from "../src/api/deploys.ts";
import type { Verdict, Direction } from "../src/api/verdict.ts";
import { change, place } from "../src/lib/location.ts";
import { annotatedSource } from "../src/components/controls/SourceLink.tsx";
import { formatDeployState, deployPlace } from "../src/components/services/DeployList.tsx";
import { TimeCells } from "../src/components/ui/Controls.tsx";
import { ComparabilityChecks, RemedyButton } from "../src/components/verdict/ComparabilityChecks.tsx";
import { CulpritRows } from "../src/components/verdict/CulpritTable.tsx";
import { SecondaryEffects } from "../src/components/verdict/SecondaryEffects.tsx";
import { VerdictLine, VerdictReasons } from "../src/components/verdict/VerdictCard.tsx";
import { rateFormats, ServiceRow } from "../src/components/services/ServiceTable.tsx";
import { START } from "../src/lib/url.ts";
import type { OverviewAnswer, VersionColumns } from "../src/api/grids.ts";
import { compareVersions } from "../src/viewmodels/serviceList.ts";
import { check, columns, culprit, depthOf, effect, verdict } from "./verdicts.ts";

const draw = <Props>(component: FunctionComponent<Props>, props: Props) => render(h(component as FunctionComponent<unknown>, props as object));

const besides = (of: Partial<Verdict>) => textsOf(draw(SecondaryEffects, { verdict: verdict(of) }), "li");

test("depth, idle time and event loop are words about B for every direction", () => {
  const ways: [Direction, number, string[]][] = [
    ["increased", 1, ["Stacks deeper", "Threads wait more", "Event loop busier"]],
    ["decreased", -1, ["Stacks shallower", "Threads wait less", "Event loop less busy"]],
    ["unchanged", 0, ["Stack depth unchanged", "Wait time unchanged", "Event loop unchanged"]],
    ["inconclusive", -1, ["Stack depth: inconclusive", "Wait time: inconclusive", "Event loop: inconclusive"]],
    ["minor", 1, ["Stack depth: minor change", "Wait time: minor change", "Event loop: minor change"]],
    ["not_judged", 1, ["Stack depth: not judged", "Wait time: not judged", "Event loop: not judged"]],
  ];
  for (const [direction, delta, expected] of ways) {
    const found = effect(0.4, 0.4 + 0.1 * delta, 0.05, direction);
    assert.deepEqual(besides({ depth: depthOf(found), idle: found, loop: { busy: found, blockers: [] } }).map((line) => line.split(/ \d/)[0]), expected);
  }
});

test("secondary effects carry numbers, intervals, threads and what holds the loop", () => {
  const holder = (name: string, a: number, b: number) => ({ function: name, file: "app.py", baseline: a, comparison: b, effect: effect(a, b, 0.02) });
  const rendered = draw(SecondaryEffects, { verdict: verdict({
    loop: { busy: effect(0.4, 0.55, 0.02), blockers: [holder("hash", 0.1, 0.3), holder("rare", 0.008, 0.009)] },
    thread_kinds: [{ thread: "main", idle: effect(0.2, 0.1, 0.02) }, { thread: "other", idle: effect(0.9, 0.9, 0.02) }],
  }) });
  assert.deepEqual(textsOf(rendered, "li"), [
    "Stacks deeper 40.7 → 46.1 frames",
    "Threads wait more 58.0 % → 62.0 % (main threads 20.0 % → 10.0 %, others 90.0 %)",
    "Event loop busier 40.0 % → 55.0 %, held by hash 10.0 % → 30.0 %",
  ]);
  assert.deepEqual(findAll(rendered, "li").map(({ props }) => props.title), [
    "Stack depth: +5.4 (+4.9 … +5.9), 95 % interval", "Wait time: +4.0 (+3.0 … +5.0) points, 95 % interval", "Event loop: +15.0 (+13.0 … +17.0) points, 95 % interval",
  ]);
  assert.equal(besides({ depth: depthOf({ ...effect(3, 3, 0), direction: "minor" }) })[0], "Stack depth: minor change 3.00 frames", "not deeper by nothing");
});

test("a culprit has its folded frames, delta, part, relative change, q and pods", () => {
  const { culprits: { rows: [row] } } = verdict();
  const table = (changes: Partial<Verdict>, shown = 4) => draw(CulpritRows, { verdict: verdict(changes), shown });
  const cells = (changes: Partial<Verdict>) => textsOf(table(changes), "td").slice(0, 6);
  assert.deepEqual(cells({}), ["+40 m", "80 %", "+50 % (+38 … +63)", ".001", "6/6", ""]);
  assert.deepEqual(cells({ culprits: { share: 1, rows: [{ ...row, direction: "new", relative: null }] } })[2], "new");
  assert.deepEqual(cells({ basis: "composition", method: { ...verdict().method, unit: "share" } })[0], "+4.0");
  assert.deepEqual(textsOf(table({ basis: "composition", method: { ...verdict().method, unit: "share" } }), "th")[1], "Δ share (points)");
  assert.deepEqual(cells({ method: { ...verdict().method, unit: "request" } })[0], "+40 ms");
  const three = table({ culprits: { share: 1, rows: [culprit(0), culprit(1), culprit(2)] } }, 2);
  assert.deepEqual(textsOf(three, "th").slice(7), ["▲ f0 app.py", "▲ f1 › deepcopy app.py"], "as many rows as are shown");
  const functions = { ...verdict().functions, function: ["f0", "query"], file: ["app.py", "shop/db.py"], renamed_from: ["old (app.py)", null] };
  assert.match(textOf(table({ functions })), /f0 app\.py was old \(app\.py\)/);
});

test("a bar has a column of its own, as long as its part of the largest", () => {
  const cells = findAll(draw(TimeCells, { us: 250, whole: 1000, format: String, most: 500 }), "td");
  assert.deepEqual(cells.map((cell) => [cell.props.class, textOf([cell])]), [["number", "25.00 %"], ["meter", ""], ["number time", "250"]]);
  assert.deepEqual(findAll(cells, "span").map(({ props }) => props.style), [{ width: "30px" }]);
});

test("a culprit leads to its source code, where it has some", () => {
  const [own, library] = [culprit(0), { ...culprit(1), function: "loads", file: "json/decoder.py" }];
  const links = () => findAll(draw(CulpritRows, { verdict: verdict({ culprits: { share: 1, rows: [own, library] } }), shown: 4 }), "a", "source").map(({ props }) => props.href);
  assert.deepEqual(links(), []);
  annotatedSource.value = { service: "shop", url: "https://git.example/{file}" };
  assert.deepEqual(links(), ["https://git.example/app.py"]);
  annotatedSource.value = { service: "", url: "" };
});

test("where no function changed, it is said how much would have shown", () => {
  const none = { share: null, rows: [] };
  const said = (changes: Partial<Verdict>) => textOf(draw(CulpritRows, { verdict: verdict({ culprits: none, ...changes }), shown: 4 }));
  assert.match(said({}), /^No function changed\. A change of \d+\.\d % of the profile would have shown\. All 2 functions$/);
  const untested = columns([], [], []);
  assert.equal(said({ direction: "inconclusive", functions_total: 0, functions: { function: [], file: [], renamed_from: [], self: untested, total: untested } }), "No function could be tested: too little data.");
  assert.deepEqual(draw(CulpritRows, { verdict: verdict({ direction: "not_comparable" }), shown: 4 }), []);
});

test("a warning is a line with what differs, what to do and a button for it, and the other checks are folded", () => {
  const remedy = { action: "compare_overlap" as const, label: "Compare 22:41–23:41, while both ran", parameters: { baseline_from: "2026-11-20T22:41:00Z" } };
  const load = check("load", { state: "mismatch", severity: "warn", text: "A's processes were busier", hint: "Count requests.", remedy });
  const of = verdict({ checks: [check("mode", { text: "gil on both sides" }), load] });
  const rendered = draw(ComparabilityChecks, { verdict: of });
  assert.deepEqual(textsOf(rendered, "li"), ["load A's processes were busier. Count requests. Compare 22:41–23:41, while both ran"]);
  (findAll(rendered, "button")[0].props.onClick as () => void)();
  assert.equal(place.value.baseline_from, "2026-11-20T22:41:00Z");
  change({ baseline_from: "" }, "replace");
  assert.deepEqual(textsOf(rendered, "summary"), ["✓ 1 check passed"]);
  assert.deepEqual([textsOf(rendered, "dt"), textsOf(rendered, "dd")], [["mode", "measured"], ["gil on both sides", "in samples"]]);
  assert.deepEqual(textsOf(draw(ComparabilityChecks, { verdict: verdict() }), "summary"), ["✓ 1 check passed, 1 unknown"]);
  assert.deepEqual(draw(ComparabilityChecks, { verdict: verdict({ direction: "no_data" }) }), [], "of a side without windows nothing is said");
  assert.deepEqual(textsOf(draw(ComparabilityChecks, { verdict: of, isOffline: true }), "button"), [], "a file has no address to change");
});

test("numbers that only a person has are asked for", () => {
  const remedy = { action: "enter_requests" as const, label: "Enter request counts", parameters: { baseline_requests: "", comparison_requests: "" } };
  let asked = 0;
  const [button] = findAll(draw(RemedyButton, { remedy, enterRequests: () => asked++ }), "button");
  (button.props.onClick as () => void)();
  assert.equal(asked, 1);
  assert.deepEqual(draw(RemedyButton, { remedy }), [], "no button where there are no fields");
});

test("the checks say whether samples or the kernel's clock measured the whole", () => {
  const method = { ...verdict().method, rate_source: "clock" as const };
  const clock = draw(ComparabilityChecks, { verdict: verdict({ method, sampling_only: effect(0.12, 0.18, 0.01) }) });
  assert.equal(textsOf(clock, "dd").at(-1), "total from the kernel's clock; call path samples add up to 120 m/pod → 180 m/pod");
});

test("an answer without a verdict says so, and one on its way that it loads", () => {
  assert.match(textOf(draw(VerdictLine, { verdict: null })), /^This answer has no verdict\./);
  assert.equal(textOf(draw(VerdictLine, { verdict: undefined })), "Loading the comparison…");
  assert.equal(textOf(draw(VerdictLine, { verdict: verdict() })), "▲ CPU +45.5 % (+36.4 … +54.5) · 110 → 160 m/pod · 12 pods");
  const reasons = draw(VerdictReasons, { verdict: verdict() });
  assert.match(textOf(reasons), /Both sides ran 10:00–11:00 UTC\..* false-discovery rate 5 % .* detectable/);
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
  current, previous, label: null, omitted: 0, from: NOW - 3600, until: NOW, basis: BASIS, ...changes,
});
const row = (answer: OverviewAnswer, found?: Deploy) =>
  draw(ServiceRow, { answer, index: 0, at: 0, change: compareVersions(answer, 0), deploy: found, maximum: 2, formats: rateFormats(answer), trend: null });

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
  const changeText = (answer: OverviewAnswer) => textOf(findAll(row(answer), "td", "finding"));
  assert.equal(changeText(service(of("v2", 960, 160), of("v1", 660, 110))), "+45.5 % unverified against v1: compare");
  assert.equal(changeText(service(of("v2", 9000, 90), of("v1", 9000, 90))), "0.0 % unverified against v1: compare");
  assert.equal(changeText(service(of("v2", 6, 0.1), of("v1", 6, 0.1))), "Too few samples against v1: compare");
  assert.equal(changeText(service(of("v2", 6, 0.1, { first_seen: [Date.now() / 1000 - 60] }), of("v1", 6, 0.1))), "Collecting against v1: compare");
  assert.equal(changeText(service(of("v2", 9, 1, { pod_seconds: [0] }), of("v1", 9, 1))), "no data against v1: compare");
  assert.equal(changeText(service(of("v2", 9, 1), of(null, 0, 0))), "–");
});

test("a service's row tells the cost of all pods from that of one, and how far a version is rolled out", () => {
  const cells = textsOf(row(service(of("v2", 9, 1, { pods_now: [1] }), of("v1", 9, 1), { seconds: [5], pod_seconds: [10] })), "td");
  assert.deepEqual(cells.slice(1, 3), ["1.5", "500"]);
  assert.equal(cells[5], "1/4 pods have the current version");
  assert.match(cells[4], /^v2 \(/);
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
