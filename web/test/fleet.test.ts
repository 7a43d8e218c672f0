import assert from "node:assert/strict";
import { test } from "node:test";
import type { FunctionsAnswer, SidecarsAnswer, Workload } from "../src/api/answers.ts";
import { addCounts, buildCoverage, countSidecars, filterCoverage, groupCoverage, profiledShare } from "../src/viewmodels/coverage.ts";
import { dottedName, fleetShare, monthlyCost } from "../src/viewmodels/fleetFunctions.ts";
import { commandOfHint } from "../src/viewmodels/shellCommands.ts";

const BASIS = { windows: 1, pods: 1, samples: 1, unreadable_segments: 0, unresolved_windows: 0, resolutions: [] };

const workload = (name: string, counts: Partial<Workload["pod_counts"]>, changes: Partial<Workload> = {}): Workload => {
  const pod_counts = { profiled: 0, starting: 0, no_sidecar: 0, dead: 0, stale: 0, finished: 0, total: 0, ...counts };
  const total = pod_counts.profiled + pod_counts.starting + pod_counts.no_sidecar + pod_counts.dead + pod_counts.stale;
  return { namespace: "prod", kind: "Deployment", workload: name, service: name, profiling_expected: true, versions: {}, covered_by: { sidecar: 0, agent: 0, other: 0 }, source_url: "", rollouts: [], pods: [], ...changes, pod_counts: { ...pod_counts, total } };
};

const sidecars = (rows: readonly (readonly [cluster: string, namespace: string, service: string, sampler: string, pods: number, age: number])[]): SidecarsAnswer => ({
  cluster: rows.map((row) => row[0]), namespace: rows.map((row) => row[1]), service: rows.map((row) => row[2]), sampler: rows.map((row) => row[3]), mode: rows.map(() => "gil"),
  pods: rows.map((row) => row[4]), last_seen: rows.map((row) => 10_000 - row[5]), coverage: rows.map(() => 0.99), failed_share: rows.map(() => null), stopped_share: rows.map((_, at) => at / 1000),
  longest_stop_seconds: rows.map(() => 0.002), preempted_seconds: rows.map(() => 0), omitted: 0, from: 0, until: 10_000, basis: BASIS,
});

const podWithoutSidecar = (pod: string, attachable: boolean): Workload["pods"][number] =>
  ({ pod, version: "", node: "", phase: "Running", status: "no_sidecar", covered_by: null, attachable, problem: "none", hint: "kubectl x", last_seen: null, sidecar: null });

const ROWS = buildCoverage(
  [workload("shop", { profiled: 8, no_sidecar: 2 }, { pods: [podWithoutSidecar("shop-0", false), podWithoutSidecar("shop-1", true)] }), workload("batch", { no_sidecar: 5 }, { profiling_expected: false, namespace: "jobs" }), workload("cart", { profiled: 3 }, { covered_by: { sidecar: 1, agent: 2, other: 0 } })],
  sidecars([["eu", "prod", "shop", "sidelight 1", 6, 10], ["eu", "prod", "shop", "sidelight 2", 2, 5], ["us", "lab", "vm", "sidelight 1", 4, 5], ["us", "lab", "gone", "sidelight 1", 1, 5000]]),
);

test("coverage has every workload, the worst first, and services that only sidecars name", () => {
  assert.deepEqual(ROWS.map(({ service, pods }) => [service, pods.profiled, pods.total]), [["shop", 8, 10], ["gone", 0, 1], ["cart", 3, 3], ["vm", 4, 4], ["batch", 0, 5]]);
  const [shop, gone, cart] = ROWS;
  assert.deepEqual([shop.byAgent, cart.byAgent], [0, 2]);
  assert.deepEqual([shop.cluster, shop.samplers, shop.modes, shop.stoppedShare, shop.failedShare, shop.lastSeen, shop.attachablePod], ["eu", ["sidelight 1", "sidelight 2"], ["gil"], 0.001, null, 9995, "shop-1"]);
  assert.deepEqual([gone.workload, gone.pods.stale], ["", 1]);
  assert.equal(profiledShare(addCounts(ROWS.map(({ pods }) => pods))), 15 / 23);
});

test("coverage is summed by namespace and filtered by state and text", () => {
  assert.deepEqual(groupCoverage(ROWS).map(({ cluster, namespace, workloads, pods }) => [cluster, namespace, workloads, pods.profiled, pods.total]), [
    ["eu", "jobs", 1, 0, 5], ["eu", "prod", 2, 11, 13], ["us", "lab", 2, 4, 5],
  ]);
  assert.deepEqual(filterCoverage(ROWS, "", "no_sidecar").map(({ service }) => service), ["shop", "batch"]);
  assert.deepEqual(filterCoverage(ROWS, "LAB", "profiled").map(({ service }) => service), ["vm"]);
  assert.deepEqual(countSidecars(sidecars([["", "", "a", "x", 1, 0], ["", "", "b", "y", 9, 0], ["", "", "c", "x", 2, 0]])), [{ sampler: "y", mode: "gil", pods: 9 }, { sampler: "x", mode: "gil", pods: 3 }]);
});

test("the command of a hint is what a shell takes, and labels the namespace where that is needed", () => {
  assert.equal(commandOfHint("kubectl -n shop logs p-1 -c sidelight --previous says why.", "shop"), "kubectl -n shop logs p-1 -c sidelight --previous");
  assert.equal(commandOfHint("create it again: kubectl -n shop delete pod p-1", "shop"), "kubectl -n shop delete pod p-1");
  assert.equal(
    commandOfHint("Label its namespace or its pod template sidelight.dev/inject=true, then: kubectl -n shop rollout restart deployment/shop", "shop"),
    "kubectl label namespace shop sidelight.dev/inject=true && kubectl -n shop rollout restart deployment/shop",
  );
  assert.equal(commandOfHint("", "shop"), "");
});

test("a function has its dotted name, its share of the fleet and its cost", () => {
  assert.equal(dottedName("dumps", "json/__init__.py"), "json.dumps");
  assert.equal(dottedName("get", "django/core/handlers/base.py"), "django.core.handlers.base.get");
  assert.equal(dottedName("<lambda>", "<string>"), "<lambda>");
  const answer = { by: "total", seconds: 200, rows: { self_seconds: [1], total_seconds: [50] } } as unknown as FunctionsAnswer;
  assert.equal(fleetShare(answer, 0), 0.25);
  assert.equal(fleetShare({ ...answer, seconds: 0 }, 0), 0);
  assert.equal(monthlyCost(41, 0.04), "1,197");
  assert.equal(monthlyCost(0.1, 0.04), "2.92");
  assert.equal(monthlyCost(null, 0.04), "");
  assert.equal(monthlyCost(1, null), "");
});
