import assert from "node:assert/strict";
import { test } from "node:test";
import type { Deploy } from "../src/api/deploys.ts";
import type { OverviewAnswer, VersionColumns } from "../src/api/grids.ts";
import { labelValue, withLabelValue, filterByName, compareVersions, visibleRows, layoutRows, currentDeploys, batchNameMatchers, coresPerPod, sortServices, trendStep } from "../src/viewmodels/serviceList.ts";
import { findAttention, findingOf, groupServices } from "../src/viewmodels/attention.ts";
import { changeOf } from "../src/flamegraph/tree/compare.ts";
import { barPath, deployMarkers } from "../src/charts/Sparkline.tsx";
import { randomNumbers, seeds } from "./stacks.ts";

const of = (count: number, changes: Partial<VersionColumns> = {}): VersionColumns => ({
  version: Array(count).fill("1"), first_seen: Array(count).fill(100), pods_now: Array(count).fill(1),
  samples: Array(count).fill(1000), seconds: Array(count).fill(10), pod_seconds: Array(count).fill(100), ...changes,
});

const overview = (count: number, changes: Partial<OverviewAnswer> = {}): OverviewAnswer => ({
  type: "cpu",
  service: Array.from({ length: count }, (_, i) => `s${String(i).padStart(3, "0")}`), first_seen: Array(count).fill(0), last_seen: Array(count).fill(900),
  samples: Array(count).fill(9), seconds: Array(count).fill(1), pod_seconds: Array(count).fill(10), cores: Array(count).fill(1), pods: Array(count).fill(1),
  pods_now: Array(count).fill(1), versions: Array(count).fill(1), current: of(count), previous: of(count, { version: Array(count).fill(null) }),
  label: null, omitted: 0, from: 0, until: 1000,
  basis: { windows: 1, pods: 1, samples: 1, unreadable_segments: 0, unresolved_windows: 0, resolutions: [] }, ...changes,
});

const two = (before: [number, number, number], now: [number, number, number]) => ({
  previous: of(1, { samples: [before[0]], seconds: [before[1]], pod_seconds: [before[2]] }),
  current: of(1, { version: ["2"], samples: [now[0]], seconds: [now[1]], pod_seconds: [now[2]] }),
});

test("a service's change is that of the compare page, as a part of the version before", () => {
  for (const seed of seeds(200)) {
    const next = randomNumbers(seed);
    const side = (): [number, number, number] => {
      const samples = Math.floor(next() * 5000);
      return [samples, samples / 100, 1 + next() * 1e4];
    };
    const [a, b] = [side(), side()];
    const change = changeOf([a[1] * 1e6, b[1] * 1e6], [a[0], b[0]], [a[2] * 1e6, b[2] * 1e6]);
    const result = compareVersions(two(a, b), 0);
    if (result.kind !== "few") assert.equal(result.kind, change.direction);
    else assert.equal(change.direction, "unchanged");
    if (a[0] > 0) {
      assert.ok(Math.abs(result.relative - (b[1] / b[2]) / (a[1] / a[2]) + 1) < 1e-9);
      assert.ok(Math.abs(result.relativeNoise - change.threshold / (a[1] / a[2])) < 1e-9);
    }
  }
});

test("what too few samples cannot tell is not called no change", () => {
  assert.equal(compareVersions(two([10, 0.1, 100], [10, 0.1, 100]), 0).kind, "few");
  assert.equal(compareVersions(two([40_000, 400, 1000], [40_000, 400, 1000]), 0).kind, "unchanged");
  assert.equal(compareVersions(two([40_000, 400, 1000], [44_000, 440, 1000]), 0).kind, "increased");
  assert.equal(compareVersions(two([40_000, 400, 1000], [0, 0, 0]), 0).kind, "no_data");
  assert.equal(compareVersions(overview(1), 0).kind, "none");
});

test("services are sorted by any column, those alike by name, and those of which nothing can be said last", () => {
  const answer = overview(4, { cores: [2, null, 5, 2], seconds: [1, 0, 3, 2], pod_seconds: [10, 0, 10, 10], pods_now: [1, 2, 3, 1] });
  const findings = [{ kind: "unverified", relative: 0.5 }, { kind: "none", relative: 0 }, { kind: "unverified", relative: -0.5 }, { kind: "none", relative: 0 }] as const;
  assert.deepEqual([...sortServices(answer, "-cores", findings)], [2, 0, 3, 1]);
  assert.deepEqual([...sortServices(answer, "+cores", findings)], [1, 0, 3, 2]);
  assert.deepEqual([...sortServices(answer, "-cpu", findings)], [2, 3, 0, 1]);
  assert.deepEqual([...sortServices(answer, "-pods", findings)], [2, 1, 0, 3]);
  assert.deepEqual([...sortServices(answer, "-change", findings)], [0, 2, 1, 3]);
  assert.deepEqual([...sortServices(answer, "+change", findings)], [2, 0, 1, 3]);
  assert.deepEqual([...sortServices(answer, "-service", findings)], [3, 2, 1, 0]);
  assert.deepEqual([...sortServices(answer, "-nonsense", findings)], [2, 0, 3, 1]);
  assert.equal(coresPerPod(answer, 1), null);
});

test("a judged change comes before any number that nobody verified", () => {
  const deploy = (direction: string, relative: number | null, state = "pass") => ({ state, analyses: [{ rate: { direction, relative } }] }) as unknown as Deploy;
  const none = { kind: "none", relative: 0, relativeNoise: 0 } as const;
  const drift = (relative: number) => ({ kind: relative > 0 ? "increased" : "decreased", relative, relativeNoise: 0 }) as const;
  const findings = [
    findingOf(undefined, drift(1.8)), findingOf(deploy("increased", 0.08), drift(0.08)), findingOf(deploy("decreased", -0.2), none), findingOf(undefined, none),
    findingOf(deploy("unchanged", 0.01), drift(0.01)), findingOf(deploy("increased", 0.5), drift(0.5)), findingOf(deploy("increased", 0.9, "not_comparable"), drift(0.9)), findingOf(undefined, drift(-0.4)),
  ];
  assert.deepEqual(findings.map(({ kind }) => kind), ["unverified", "regressed", "improved", "none", "unchanged", "regressed", "inconclusive", "unverified"]);
  const answer = overview(8);
  assert.deepEqual([...sortServices(answer, "-change", findings)], [5, 1, 2, 4, 6, 0, 7, 3]);
  assert.deepEqual([...sortServices(answer, "+change", findings)], [2, 1, 5, 4, 6, 7, 0, 3]);
});

test("what needs attention is found, and services are grouped by a label with favourites first", () => {
  const answer = overview(4, {
    cores: [1, 4, null, 3], current: of(4, { first_seen: [0, 90_000, 0, 95_000] }), previous: of(4, { version: [null, "0", null, "0"] }), label: ["web", "db", "web", "db"],
  });
  const findings = [{ kind: "none", relative: 0 }, { kind: "regressed", relative: 0.1 }, { kind: "improved", relative: -0.3 }, { kind: "regressed", relative: 0.5 }] as const;
  assert.deepEqual(findAttention(answer, findings, new Map(), 100_000), { regressed: [3, 1], improved: [2], deployed: [3, 1], hottest: [1, 3, 0] });
  const order = Int32Array.of(0, 1, 2, 3);
  assert.deepEqual(groupServices(answer, order, ["s002"]), {
    rows: Int32Array.of(-1, 1, 3, -2, 2, 0), groups: [
      { name: "db", own: [1, 3], services: 2, cores: 7, pods: 2 }, { name: "web", own: [2, 0], services: 2, cores: 1, pods: 2 },
    ],
  });
  assert.deepEqual([...groupServices({ ...answer, label: null }, order, ["s003"]).rows], [3, 0, 1, 2]);
});

test("a search takes what has the text in it, in whichever case, and keeps the order", () => {
  assert.deepEqual([...filterByName(Int32Array.of(2, 0, 1), ["shop-b", "cart", "my-shop"], "SHOP")], [2, 0]);
});

test("every row is laid out once, in order, and rows and gaps add up to all of them", () => {
  for (const seed of seeds(300)) {
    const next = randomNumbers(seed);
    const count = Math.floor(next() * 200);
    const { first, last } = visibleRows(count, 40, next() * 9000 - 100, next() * 900);
    assert.ok(first >= 0 && first <= last && last <= count);
    const focused = next() < 0.5 ? Math.floor(next() * 220) : null;
    const { rows, after } = layoutRows(count, first, last, focused);
    let at = 0;
    for (const row of rows) {
      at += row.gap;
      assert.equal(row.at, at++);
    }
    assert.equal(at + after, count);
    const shown = new Set(rows.map((row) => row.at));
    for (let row = first; row < last; row++) assert.ok(shown.has(row));
    if (focused !== null && focused < count) assert.ok(shown.has(focused));
  }
});

test("names become matchers that are short enough and match these names and no others", () => {
  const hostile = ["a.b", "a|b", "(x)", "[y]", "q\"uote", "back\\slash", "^$", "שלום", "{z}", "a+b?c*"];
  for (const seed of seeds(100)) {
    const next = randomNumbers(seed);
    const names = [...new Set(Array.from({ length: 1 + Math.floor(next() * 40) }, () => hostile[Math.floor(next() * hostile.length)] + Math.floor(next() * 99)))];
    const batches = batchNameMatchers(names, 200);
    assert.deepEqual(batches.flatMap((batch) => batch.names), names);
    for (const { names: some, matcher } of batches) {
      assert.ok(some.length === 1 || matcher.length <= 200);
      const [, op, text] = /^service(=~?)"(.*)"$/s.exec(matcher) ?? assert.fail(matcher);
      const value = text.replaceAll(/\\(.)/g, "$1");
      const accepts = (name: string) => (op === "=" ? name === value : new RegExp(`^(?:${value})$`).test(name));
      for (const name of names) assert.equal(accepts(name), some.includes(name), `${matcher} on ${name}`);
    }
  }
});

test("the value asked of a label is read from a query and put back into it", () => {
  for (const value of ["prod", 'a"b', "back\\slash", "x, y", ""]) {
    const query = withLabelValue('team="a", namespace="old"', "namespace", value);
    assert.equal(labelValue(query, "namespace"), value);
    assert.equal(labelValue(query, "team"), "a");
  }
  assert.equal(labelValue('other_namespace="x"', "namespace"), "");
  assert.equal(withLabelValue("", "namespace", "b"), 'namespace="b"');
});

test("a trend's bars are empty where nothing was watched and a hairline where nothing was taken", () => {
  assert.equal(barPath([null, null], 1), "");
  assert.equal(barPath([1, 0, null], 1).split("z").length - 1, 2);
  assert.ok(barPath([0], 0).includes("v-0.8"));
  assert.ok(trendStep(86_400) === 1800 && trendStep(3600) <= 300);
});

test("a marker stands where a version after the first was first seen", () => {
  const versions = [{ version: "1", first_seen: 0, last_seen: 50 }, { version: "2", first_seen: 50, last_seen: 99 }, { version: "3", first_seen: 900, last_seen: 999 }];
  const trend = { start: [0, 20, 40, 60, 80], step: 20, value: [1, 1, 1, 1, 1], versions };
  assert.deepEqual(deployMarkers(trend).map(({ version, x }) => [version, x]), [["2", 0.5], ["3", 1]]);
});

test("of a service stands the newest deploy that is the step to the current version", () => {
  const deploy = (id: string, service: string, previous: string, version: string) => ({ id, service, previous, version }) as unknown as Deploy;
  const answer = overview(3, { current: of(3, { version: ["2", "2", "2"] }), previous: of(3, { version: ["1", "1", null] }) });
  const result = currentDeploys(answer, [
    deploy("newest", "s000", "1", "2"), deploy("older", "s000", "1", "2"), deploy("other step", "s001", "2", "3"),
    deploy("none before", "s002", "1", "2"), deploy("not listed", "s003", "1", "2"),
  ]);
  assert.deepEqual([...result].map(([service, { id }]) => [service, id]), [["s000", "newest"]]);
});
