import assert from "node:assert/strict";
import { test } from "node:test";
import type { Agent, CaptureAnswer, CapturePart } from "../src/api/captures.ts";
import { captureCommand, coresByPod, sortByCores, describeCost, captureCurl, describeObstacle, parsePods, topFunctions, compareWithYesterday, type CaptureRequest } from "../src/viewmodels/captureRequest.ts";
import { formatPlace, onPage, parsePlace, START } from "../src/lib/url.ts";

const WISH: CaptureRequest = { service: "shop", query: "", pods: 1, seconds: 60, rate: 100, mode: "auto", timeline: true };

test("pods are a number, names, or all", () => {
  assert.deepEqual(["", "3", " all ", "p-1, p-2,", "007"].map(parsePods), [1, 3, "all", ["p-1", "p-2"], 7]);
});

test("a command says what is not usual, and nothing else", () => {
  assert.equal(captureCommand(WISH, "http://c:1"), "sidelight capture --collector=http://c:1 shop");
  const all: CaptureRequest = { service: "list", query: 'pod="x"', pods: ["a", "b"], seconds: 5, rate: 200, mode: "gil", timeline: false };
  assert.equal(captureCommand(all, "http://c:1"),
    "sidelight capture --collector=http://c:1 --pods=a,b --seconds=5 --rate=200 --mode=gil --query='pod=\"x\"' --no-timeline start list");
  assert.match(captureCommand({ ...WISH, service: "-x" }, "http://c:1"), / -- -x$/);
  const [, body] = /--json '(.*)' http/.exec(captureCurl(WISH, "http://c:1")) ?? [];
  assert.deepEqual(JSON.parse(body), WISH);
});

test("the cost is told in words, for each pod", () => {
  assert.match(describeCost(WISH), /^The pod is sampled 100 times a second for 60 s: 6,000 ticks\. Only the thread with the GIL/);
  assert.match(describeCost({ ...WISH, pods: "all", mode: "blocking" }), /^Each pod .* All threads stop/);
  assert.match(describeCost({ ...WISH, pods: ["a", "b"], mode: "nonblocking" }), /^Each of the pods .* stacks may be wrong/);
});

test("what keeps a sidecar from a capture is said, the first cause first", () => {
  const agent: Agent = {
    agent: "a", labels: { service: "shop" }, sidelight_version: "", sampler: "", modes: [], max_seconds: 600, max_rate: 1000, processes: [],
    ready: true, problem: "", hint: "", paused: false, active_capture: "", dedicated_capture: "", node_agent: false, last_seen: "",
  };
  assert.equal(describeObstacle(agent), "");
  assert.equal(describeObstacle({ ...agent, active_capture: "c_1" }), "busy with another capture");
  assert.equal(describeObstacle({ ...agent, ready: false, problem: "ptrace denied" }), "ptrace denied");
  assert.equal(describeObstacle({ ...agent, ready: false, paused: true }), "paused");
});

test("the functions on top are those of all pods together", () => {
  const part = (...top: [string, number][]): CapturePart =>
    ({ agent: "", labels: {}, state: "sampling", problem: "", hint: "", ephemeral_container: "", top_functions: top.map(([name, samples]) => ({ function: name, self_samples: samples })) });
  assert.deepEqual(topFunctions([part(["a", 3], ["b", 4]), part(["a", 2], ["c", 1]), { ...part(), top_functions: undefined }], 2), [["a", 5], ["b", 4]]);
});

test("the same window yesterday is that of the ordinary windows a day before", () => {
  const capture = {
    id: "c_1", service: "shop", query: '{version="2"}', created: "2026-11-21T09:30:00Z", ended: "2026-11-21T09:31:00Z", from: 1795253340, until: 1795253520,
  } as unknown as CaptureAnswer;
  const place = onPage(START, "compare", compareWithYesterday(capture));
  assert.equal(place.baseline, 'match:capture="", version="2"');
  assert.deepEqual([place.baseline_from, place.baseline_until], ["2026-11-20T09:30:00Z", "2026-11-20T09:31:00Z"]);
  assert.equal(place.comparison, 'match:capture="c_1"');
  assert.deepEqual([place.comparison_from, place.comparison_until], ["2026-11-21T09:29:00Z", "2026-11-21T09:32:00Z"]);
});

test("the list of captures keeps its service in its address", () => {
  const place = { ...START, page: "captures" as const, service: "a b/&?" };
  const at = new URL(formatPlace(place), "http://collector");
  assert.deepEqual(parsePlace(at.pathname, at.search), place);
  assert.equal(formatPlace({ ...START, page: "captures" }), "/captures");
  assert.deepEqual(onPage({ ...START, page: "service", service: "shop" }, "captures").service, "shop");
});

test("pods to capture are listed with the hottest first, and those without data last by name", () => {
  const cores = coresByPod({ row: ["p-1", "p-2", "p-3"], seconds: [[10, null], [30, 40], [null, null]], pod_seconds: [[100, null], [100, 100], [null, null]] });
  assert.deepEqual([...cores], [["p-1", 0.1], ["p-2", 0.35]]);
  const agents = ["p-4", "p-1", "", "p-3", "p-2"].map((pod) => ({ labels: { pod } }) as unknown as Agent);
  assert.deepEqual(sortByCores(agents, cores).map(({ labels }) => labels.pod), ["p-2", "p-1", "p-3", "p-4"]);
});
