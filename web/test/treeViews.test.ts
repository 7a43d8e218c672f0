import assert from "node:assert/strict";
import { test } from "node:test";
import { heaviestFirst, reorder } from "../src/flamegraph/analysis/childOrder.ts";
import { describeFrame } from "../src/flamegraph/analysis/frameDescription.ts";
import { joinTrees, largestDifferences, packageGroup, packageShares, stateGroup } from "../src/flamegraph/analysis/groupTrees.ts";
import { expressionError, matchedShare, search } from "../src/flamegraph/analysis/search.ts";
import { computeMetrics } from "../src/flamegraph/analysis/treeMetrics.ts";
import { firstExpanded, nodeOrder, treeRows } from "../src/flamegraph/analysis/treeRows.ts";
import { packageLegend } from "../src/flamegraph/render/colourSchemes.ts";
import { boxAt, Layout, turnUpward } from "../src/flamegraph/render/layout.ts";
import { foldLibraries } from "../src/flamegraph/tree/merge.ts";
import { byState, childrenOf, shapeOf, sum, totals } from "../src/flamegraph/tree/tree.ts";
import { evenColumn, differenceColumn, orZero, rateUnit, shareColumn, shareOrZero, timeColumn, valueColumn } from "../src/lib/quantities.ts";
import type { HeatmapAnswer } from "../src/api/grids.ts";
import { groupQuery, groupSide, inOrder, meanRate, readGroups, stack } from "../src/charts/stackedGroups.ts";
import { parseSources, repositoryPath, sourceUrl } from "../src/flamegraph/analysis/sourceLinks.ts";
import { buildTree, formatStacks, randomStacks, seeds } from "./stacks.ts";

const OPTIONS = { invert: false, collapse: false, norm: "rate" } as const;

test("heaviest first keeps every call path, and orders callees by weight and then by name", () => {
  for (const seed of seeds(100)) {
    const invert = seed % 2 === 1;
    // The weights of two sides are fractions, whose sums differ in their last digit.
    const tree = buildTree(randomStacks(seed, invert ? 1 : 2), invert ? 1 : 2);
    const metrics = computeMetrics(tree, [1, 2], { ...OPTIONS, invert, isByWeight: true });
    assert.deepEqual(formatStacks(metrics.tree), formatStacks(computeMetrics(tree, [1, 2], { ...OPTIONS, invert }).tree));
    for (let node = 0; node < metrics.tree.level.length; node++) {
      const callees = childrenOf(metrics.shape, node);
      callees.slice(1).forEach((callee, at) => {
        const [before, after] = [metrics.total[callees[at]], metrics.total[callee]];
        const [earlier, later] = [callees[at], callee].map((each) => metrics.tree.names[metrics.tree.name[each]]);
        assert.ok(before > after || (before === after && earlier < later));
      });
    }
  }
  const alone = buildTree([{ path: ["a"], us: [1] }], 1);
  assert.deepEqual([...heaviestFirst(alone, Float64Array.of(1, 1))], [0, 1]);
  assert.deepEqual(formatStacks(reorder(alone, Int32Array.of(0, 1))), ["a 1"]);
});

test("a verdict stays with its call paths when the heaviest come first", () => {
  const tree = buildTree([{ path: ["a"], us: [1000, 1000] }, { path: ["b"], us: [9000, 1000] }], 2);
  const significance = { level: tree.level, flags: [0, 0, 1], names: new Set<string>(), unjudged: new Set<string>(), row: new Map(), functions: {} as never, isByShare: false, label: "noise" };
  const { tree: ordered, significance: moved } = computeMetrics(tree, [1, 1], { ...OPTIONS, significance, isByWeight: true });
  assert.deepEqual([...ordered.name].map((name) => ordered.names[name]), ["total", "b", "a"]);
  assert.equal(moved?.level, ordered.level);
  assert.deepEqual([...(moved?.flags as Uint8Array)], [0, 1, 0]);
});

test("a graph with its roots at the bottom has the same boxes, found at their new rows", () => {
  for (const seed of seeds(50)) {
    const tree = buildTree(randomStacks(seed, 1), 1);
    const shape = shapeOf(tree.level);
    const total = totals(tree.level, tree.self[0]);
    if (total[0] === 0) continue;
    const place = () => new Layout(tree.level, shape, total).place({ from: 0, span: total[0] }, 1000, null);
    const down = place();
    const rows = down.rows + (seed % 3);
    const up = turnUpward(place(), rows);
    assert.equal(up.rows, rows);
    for (let i = 0; i < up.count; i++) {
      assert.equal(up.level[i], rows - 1 - down.level[i]);
      assert.equal(boxAt(up, up.x[i] + up.width[i] / 2, up.level[i]), boxAt(down, down.x[i] + down.width[i] / 2, down.level[i]));
    }
    for (let row = 0; row < rows - down.rows; row++) assert.equal(boxAt(up, 500, row), -1);
  }
});

test("my code only keeps the application's frames and folds each run of library frames under the package it begins with", () => {
  const handler = "handle (shop/views.py)";
  const tree = buildTree([
    { path: ["run (threading.py)", "call (flask/app.py)", handler, "execute (sqlalchemy/orm.py)", "send (socket.py)"], us: [3] },
    { path: ["run (threading.py)", "call (flask/app.py)", handler, "query (sqlalchemy/engine.py)", "parse (shop/sql.py)", "loads (json/decoder.py)"], us: [5] },
    { path: ["run (threading.py)", "get (site-packages/odd/x.py)", "(truncated)"], us: [7] },
  ], 1);
  const folded = foldLibraries(tree);
  assert.deepEqual(formatStacks(folded), [
    `threading (threading);(truncated) 7`,
    `threading (threading);${handler};sqlalchemy (sqlalchemy) 3`,
    `threading (threading);${handler};sqlalchemy (sqlalchemy);parse (shop/sql.py);json (json) 5`,
  ]);
  for (const seed of seeds(50)) {
    const random = buildTree(randomStacks(seed, 2), 2);
    assert.deepEqual(foldLibraries(random).self.map(sum), random.self.map(sum));
  }
});

test("a call tree shows the callees of expanded rows alone, in the order of a column", () => {
  const tree = buildTree([
    { path: ["a", "b"], us: [30_000] }, { path: ["a", "c"], us: [40_000] }, { path: ["a"], us: [1000] }, { path: ["z", "y"], us: [5000] },
  ], 1);
  const metrics = computeMetrics(tree, [1], OPTIONS);
  const text = (expanded: ReadonlySet<number>, sort: string) => treeRows(metrics.shape, expanded, nodeOrder(metrics, sort))
    .map(({ node, position, siblings }) => `${tree.level[node]} ${tree.names[tree.name[node]]} ${position}/${siblings}`);
  assert.deepEqual(text(new Set(), "-total"), ["1 a 1/2", "1 z 2/2"]);
  assert.deepEqual(text(new Set(tree.level.keys()), "-total"), ["1 a 1/2", "2 c 1/2", "2 b 2/2", "1 z 2/2", "2 y 1/1"]);
  assert.deepEqual(text(new Set(tree.level.keys()), "-name"), ["1 z 1/2", "2 y 1/1", "1 a 2/2", "2 c 1/2", "2 b 2/2"]);
  assert.deepEqual(text(firstExpanded(metrics, 0), "+total"), ["1 z 1/2", "1 a 2/2", "2 b 1/2", "2 c 2/2"]);
});

test("upside down, shares of a search and of packages are those of the upright tree", () => {
  const stacks = Array.from({ length: 8000 }, (_, at) => ({ path: ["run (threading.py)", "hit (shop/a.py)", `f${at} (pkg/b.py)`], us: [1000] }));
  const tree = buildTree([...stacks, { path: ["run (threading.py)", "other (yaml/c.py)"], us: [8_000_000] }], 1);
  const metrics = computeMetrics(tree, [1], { ...OPTIONS, invert: true });
  const found = search(metrics.tree, "hit");
  assert.ok(found && metrics.upright);
  const upright = search(metrics.upright.tree, "hit");
  assert.ok(upright);
  assert.equal(matchedShare(found, metrics.shape, metrics.total, 0), 0, "groups so small are not followed to their callers");
  assert.equal(matchedShare(upright, metrics.upright.shape, metrics.upright.total, 0), 0.5);
  assert.deepEqual(packageLegend(metrics, 0, 5).map(({ name, value }) => `${name} ${value}`), ["pkg 50.0 %", "yaml 50.0 %"]);
});

test("the numbers of one column have one unit and one precision", () => {
  assert.deepEqual([744e6, 573e6, 1000, 0].map(timeColumn(744e6)), ["12.40 min", "9.55 min", "<0.01 min", "–"]);
  assert.deepEqual([12_400, 900, 4].map(timeColumn(12_400)), ["12.40 ms", "0.90 ms", "<0.01 ms"]);
  assert.deepEqual([0.4, 0.00073, 0.00001, 0].map(shareColumn), ["40.00 %", "0.07 %", "<0.01 %", "–"]);
  assert.deepEqual([0.012, 0.00863, 0.00001, 0].map(valueColumn(0.012, rateUnit("cpu")).write), ["12.0", "8.6", "<0.1", "–"]);
  assert.deepEqual([12_502.5, 0.11, 0.0002, 0].map(evenColumn([12_502.5, null, 0.11, 0.0002])), ["12,502.500", "0.110", "<0.001", "–"]);
  assert.deepEqual([1, 0, null].map(orZero(evenColumn([1]))), ["1.0", "0", "–"]);
  assert.deepEqual([0.5, 0.00001, 0, null].map(shareOrZero), ["50.00 %", "<0.01 %", "0 %", "–"]);
  assert.deepEqual([0.645, 0.0712].map(evenColumn([0.645, 0.0712], 1000, 1)), ["645", "71"]);
  assert.deepEqual([0.012, -0.00863, 0].map(differenceColumn(0.012, rateUnit("cpu"), "points").write), ["+12.0", "−8.6", "–"]);
});

test("a frame tells its part of its caller and of the zoomed frame, its package and its line", () => {
  const tree = buildTree([
    { path: ["main (app.py:3)", "handle (shop/views.py:9)", "loads (json/decoder.py:7)"], us: [25_000] }, { path: ["main (app.py:3)", "handle (shop/views.py:9)"], us: [25_000] },
    { path: ["main (app.py:3)"], us: [50_000] },
  ], 1);
  const metrics = computeMetrics(tree, [1], OPTIONS);
  const rows = (node: number, focus: number) => Object.fromEntries(describeFrame(metrics, node, focus).rows);
  assert.deepEqual(rows(3, 1), {
    total: "25.00 % · 25 ms · 25 samples", self: "25 ms · 25 samples", "of caller": "50.00 %", "of zoomed frame": "25.00 %", package: "json (standard library)", line: "7", depth: "3",
  });
  assert.equal(rows(2, 1)["of zoomed frame"], undefined, "it is the caller");
  assert.equal(rows(1, 0)["of caller"], undefined);
});

test("a frame of two sides tells the difference with its interval", () => {
  const tree = buildTree([{ path: ["main (app.py)"], us: [1_000_000, 2_000_000] }, { path: ["other (b.py)"], us: [1_000_000, 1_000_000] }], 2);
  const difference = (norm: "rate" | "share") => describeFrame(computeMetrics(tree, [10, 10], { ...OPTIONS, norm }), 1).rows.find(([head]) => head === "Δ")?.[1];
  assert.equal(difference("rate"), "+100 m/pod (+89.0 m/pod … +111 m/pod, counting noise)");
  assert.equal(difference("share"), "+16.67 points (+12.32 points … +21.01 points, counting noise)");
});

test("a frame of asyncio tasks tells how many there are on average", () => {
  const tree = buildTree([{ path: ["query (db.py)", "acquire (pool.py)"], us: [12_400_000] }, { path: ["query (db.py)"], us: [1_000_000] }], 1);
  const rowsAs = (type: "tasks" | "wall", norm: "rate" | "share") => describeFrame(computeMetrics(tree, [1], { ...OPTIONS, norm, unit: rateUnit(type) }), 2).rows;
  assert.deepEqual(rowsAs("tasks", "rate")[1], ["on average", "12.4 tasks here per pod"]);
  for (const rows of [rowsAs("wall", "rate"), rowsAs("tasks", "share")]) assert.ok(rows.every(([head]) => head !== "on average"));
});

test("what is wrong with a regular expression is said", () => {
  assert.equal(expressionError("/[a/"), "invalid regular expression: missing ]");
  assert.equal(expressionError("/(?=x)/"), "invalid regular expression: lookaround is not supported");
  for (const fine of ["", "/", "//", "[a", "/a+/", "/[a"]) assert.equal(expressionError(fine), "");
});

test("a group is a side beside all of the profile, also with call paths that only it has", () => {
  for (const seed of seeds(50)) {
    const [all, group] = [randomStacks(seed, 1), randomStacks(seed + 1000, 1)];
    const joined = joinTrees(buildTree(all, 1), buildTree(group, 1));
    const both = [...all.map(({ path, us }) => ({ path, us: [us[0], 0] })), ...group.map(({ path, us }) => ({ path, us: [0, us[0]] }))];
    assert.deepEqual(formatStacks(joined), formatStacks(buildTree(both, 2)));
  }
});

test("a package and a state are groups of the tree at hand, and say where they differ from the mean", () => {
  const tree = buildTree([{ path: ["a (shop/a.py)", "b (yaml/b.py)"], us: [60_000] }, { path: ["a (shop/a.py)"], us: [40_000] }], 1);
  assert.deepEqual(packageShares(tree), [{ name: "yaml", share: 0.6 }, { name: "shop", share: 0.4 }]);
  const yaml = packageGroup(tree, "yaml");
  assert.deepEqual(formatStacks(yaml), ["a (shop/a.py) 40000/0", "a (shop/a.py);b (yaml/b.py) 60000/60000"]);
  const differences = largestDifferences(computeMetrics(yaml, [0, 0], { ...OPTIONS, norm: "share" }), 3);
  assert.deepEqual(differences.map(({ name, delta }) => `${name} ${delta.toFixed(2)}`), ["a (shop/a.py) -0.40", "b (yaml/b.py) 0.40"]);
  assert.equal(stateGroup(tree, ["gil"]), null);
  const zero = new Float64Array(3);
  const withStates = { ...tree, states: [{ ...byState(() => zero), gil: Float64Array.of(0, 10_000, 5000) }] };
  assert.deepEqual(stateGroup(withStates, ["gil", "idle"])?.self[1], Float64Array.of(0, 10_000, 5000));
});

test("groups are stacked, and the time of the others is one group more", () => {
  const answer = {
    row: ["v2", "v1", "v0"], seconds: [[3, null], [1, 2], [0, null]], pod_seconds: [[10, null], [10, 10], [1, null]], others: { rows: 2, seconds: [1, 0], pod_seconds: [5, 5], samples: [1, 0] },
  } as unknown as HeatmapAnswer;
  const groups = readGroups(answer, "(others)");
  assert.equal(meanRate(answer), 7 / 41);
  assert.deepEqual(groups.map(({ name, total, rate }) => [name, total, rate]), [["v2", 3, 0.3], ["v1", 3, 0.15], ["(others)", 1, null]]);
  assert.deepEqual(stack(groups).map((parts) => parts.map(({ from, until }) => `${from}-${until}`)), [["0-3", "0-0"], ["3-4", "0-2"], ["4-5", "2-2"]]);
  const ordered = inOrder(groups, [{ name: "v1" }, { name: "v3" }]);
  assert.deepEqual(ordered.map(({ name, seconds }) => `${name} ${seconds.join()}`), ["v1 1,2", "v3 0,0", "v2 3,0", "(others) 1,0"]);
  assert.equal(groupQuery('pod="a"', "version", 'x"'), 'pod="a", version="x\\""');
  assert.deepEqual([groupSide("version", "v1"), groupSide("node", "n")], ["version:v1", 'match:node="n"']);
});

test("frames of the application lead to their source code, at the version that ran", () => {
  const sources = parseSources('{"urls": {"": "https://git.example/{service}/blob/{version}/{file}#L{line}", "cart": "https://hg.example/cart/{file}?at={line}"}, "strip": ["opt/shop/", "opt/"]}');
  const url = (frame: string, service = "shop", version = "v1") => sourceUrl(sources, service, version, frame);
  assert.equal(url("handle (shop/views.py:9)"), "https://git.example/shop/blob/v1/shop/views.py#L9");
  assert.equal(url("handle (shop/views.py)", "shop", ""), "https://git.example/shop/blob/HEAD/shop/views.py");
  assert.equal(url("handle (opt/shop/my views.py:9)", "a/b", "release/1 2"), "https://git.example/a%2Fb/blob/release/1%202/my%20views.py#L9");
  assert.equal(url("handle (shop/views.py)", "cart"), "https://hg.example/cart/shop/views.py?at=1");
  for (const frame of ["loads (json/decoder.py:3)", "get (flask/app.py:3)", "total", "(other)", "x (../etc/passwd:1)", "x (app/../y.py:1)"]) assert.equal(url(frame), null, frame);
  const paths = ["/app/shop/a.py", "usr/src/app/shop/a.py", "venv/lib/python3.11/site-packages/shop/a.py", "/shop/a.py", "app/a.py"];
  assert.deepEqual(paths.map((path) => repositoryPath(path, [])), ["shop/a.py", "shop/a.py", "shop/a.py", "shop/a.py", "app/a.py"]);
  assert.equal(parseSources("__sidelight_sources__"), null);
  assert.equal(parseSources(""), null);
  assert.equal(sourceUrl(null, "shop", "v1", "handle (shop/views.py:9)"), null);
  // Pods name their own, which comes after that of the service.
  const ofPods = (service: string, template: string) => sourceUrl(sources, service, "v1", "handle (opt/shop/views.py:9)", template);
  assert.equal(ofPods("shop", "https://pods.example/{file}#L{line}"), "https://pods.example/views.py#L9");
  assert.equal(ofPods("cart", "https://pods.example/{file}"), "https://hg.example/cart/views.py?at=9");
  assert.equal(sourceUrl(null, "shop", "v1", "handle (shop/views.py)", "https://pods.example/{file}"), "https://pods.example/shop/views.py");
  assert.equal(ofPods("shop", "javascript:alert('{file}')"), null);
});
