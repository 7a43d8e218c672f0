import assert from "node:assert/strict";
import { test } from "node:test";
import { binWidth, cumulative, axisMaximum, binSamples } from "../src/lib/distribution.ts";
import { microseconds, percent, short } from "../src/lib/numbers.ts";
import { equals, joinMatchers, selectorOf, sideMatchers, sideName } from "../src/lib/selectors.ts";
import { singleSide, swapSides, defaultSides, placeChanges, sameTimeYesterday, sideInForce } from "../src/lib/sides.ts";
import { toAbsolute, formatAgo, parseTime, widerPreset, isRelativeTime, formatRange, inShownZone } from "../src/lib/times.ts";
import { formatPlace, isRangeChosen, onPage, parsePlace, START, type Place } from "../src/lib/url.ts";
import { randomNumbers, seeds } from "./stacks.ts";
import { comparisonParameters, compareQuery } from "../src/lib/queryParameters.ts";

const NOW = Date.parse("2026-11-21T10:00:00Z") / 1000;

test("a place written as an address is read back the same", () => {
  for (const seed of seeds(300)) {
    const next = randomNumbers(seed);
    const one = <Value>(values: readonly Value[]) => values[Math.floor(next() * values.length)];
    const text = () => one(["", "a b", 'pod="x", y!~"z&="', "<img onerror>", "a;b/c?d#e", "שלום", "😀", "-1h", "100%"]);
    const place: Place = {
      page: one(["service", "compare", "depth", "heatmap"] as const), service: text() || "s", capture: "", type: one(["wall", "cpu", "gil"] as const),
      from: text(), until: text(), query: text(), baseline: text(), comparison: text(), baseline_from: text(), baseline_until: text(), comparison_from: text(), comparison_until: text(),
      baseline_requests: text(), comparison_requests: text(), basis: one(["", "concurrent", "per_request", "composition", "equal_load"] as const),
      norm: one(["", "rate", "share"] as const), view: one(["flame", "table", "both", "tree", "sides", "sandwich", "lines", "breakdown"] as const), focus: text(), q: text(), sort: text(),
      fn: text(), t: text(), by: one(["function", "line", "file", "package"] as const), colour: one(["package", "state", "self"] as const),
      sig: next() < 0.5, raw: next() < 0.5, min_depth: text(), max_depth: text(), scope: one(["", "focus", "function"] as const),
      rows: one(["pods", "hours"] as const), cells: text(), span: text(), recording: text(),
      order: one(["", "weight", "name"] as const), roots: one(["top", "bottom"] as const), invert: next() < 0.5, collapse: next() < 0.5, app: next() < 0.5, nodes: one(["", "all"] as const),
      theme: one(["", "light", "dark"] as const), group: text(), state: one(["", "stale", "no_sidecar"] as const), endpoints: next() < 0.5, utc: next() < 0.5, keys: next() < 0.5,
    };
    const at = new URL(formatPlace(place), "http://collector");
    assert.deepEqual(parsePlace(at.pathname, at.search), place);
  }
});

test("an address that says nothing is the start, and nonsense falls back to it", () => {
  assert.deepEqual(parsePlace("/", ""), START);
  assert.equal(formatPlace(START), "/services");
  assert.deepEqual(parsePlace("/services", "?type=heap&view=pie&theme=pink&load=1&foo=1"), START);
  assert.equal(parsePlace("/s/x/unknown", "").page, "unknown");
  assert.equal(parsePlace("/captures/c_1/more", "").page, "unknown");
  assert.deepEqual(parsePlace("/captures/c_1", ""), { ...START, page: "capture", capture: "c_1" });
  assert.equal(formatPlace({ ...START, page: "capture", capture: "c_1" }), "/captures/c_1");
  assert.equal(formatPlace({ ...START, page: "settings" }), "/settings");
  assert.equal(parsePlace("/s/%E0%A4%A", "").service, "%E0%A4%A");
});

test("an address from when lines were a switch still tells lines apart", () => {
  assert.equal(parsePlace("/s/x", "?lines=1").by, "line");
  assert.equal(parsePlace("/s/x", "?lines=1&by=file").by, "file");
  assert.equal(parsePlace("/s/x", "?lines=0").by, "function");
  assert.equal(formatPlace(parsePlace("/s/x", "?lines=1")), "/s/x?by=line");
});

test("another page keeps what is seen and drops how it was read", () => {
  const here = { ...START, page: "service" as const, service: "s", type: "wall" as const, from: "-1d", focus: "x", q: "y", theme: "dark" as const };
  assert.deepEqual(onPage(here, "depth"), { ...here, page: "depth", focus: "", q: "" });
});

test("a filter by version stays behind where sides are compared", () => {
  const here = { ...START, page: "service" as const, service: "s", query: 'version="v, 1", pod=~"a\\"b.*"' };
  assert.equal(onPage(here, "compare").query, 'pod=~"a\\"b.*"');
  assert.equal(onPage(here, "depth", { baseline: "version:1" }).query, 'pod=~"a\\"b.*"');
  assert.equal(onPage(here, "depth").query, here.query);
});

test("times are read as the API reads them", () => {
  assert.equal(parseTime("now", NOW), NOW);
  assert.equal(parseTime("-15m", NOW), NOW - 900);
  assert.equal(parseTime("now-2w", NOW), NOW - 1_209_600);
  assert.equal(parseTime("2026-11-21T09:00:00Z", NOW), NOW - 3600);
  assert.equal(parseTime("1795255200", NOW), 1_795_255_200);
  assert.equal(parseTime("1795255200000", NOW), 1_795_255_200);
  assert.equal(parseTime("soon", NOW), null);
  assert.ok(isRelativeTime("-1h") && isRelativeTime("now-1h") && !isRelativeTime("2026-11-21T09:00:00Z"));
});

test("sharing nails relative times down and leaves fixed ones alone", () => {
  assert.deepEqual(toAbsolute({ from: "-1h", until: "now" }, NOW), { from: "2026-11-21T09:00:00Z", until: "2026-11-21T10:00:00Z" });
  assert.deepEqual(toAbsolute({ from: "2026-01-01T00:00:00Z", until: "now" }, NOW).from, "2026-01-01T00:00:00Z");
});

test("a range is named in words, and clock times with their zone", () => {
  assert.deepEqual(
    [["-1h", "now"], ["now-30m", "now"], ["-24h", "now"], ["-1500m", "-1d"], ["soon", "now"]].map(([from, until]) => formatRange({ from, until })),
    ["last hour", "last 30 minutes", "last 24 hours", "25 hours ago – 1 day ago", "soon – now"],
  );
  const before = process.env.TZ;
  const named = (timezone: string, from: string, until: string) => {
    process.env.TZ = timezone;
    return formatRange({ from, until });
  };
  assert.equal(named("UTC", "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z"), "2026-11-21 09:00:00 – 10:00:00 UTC");
  assert.equal(named("Asia/Kolkata", "2026-11-21T09:00:00Z", "now"), "2026-11-21 14:30:00 UTC+05:30 – now");
  assert.equal(named("America/New_York", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z"), "2026-10-31 08:00:00 UTC−04:00 – 2026-11-02 07:00:00 UTC−05:00");
  process.env.TZ = "America/New_York";
  const told = "both sides ran 2026-11-20 23:30–23:50 UTC; before: 2026-11-20 04:50–05:10, 2026-11-19 03:00 – 2026-11-20 12:00 (UTC)";
  assert.equal(inShownZone(told), "both sides ran 2026-11-20 18:30–18:50 UTC−05:00; before: 2026-11-19 23:50–2026-11-20 00:10, 2026-11-18 22:00 – 2026-11-20 07:00 (UTC−05:00)");
  assert.equal(inShownZone("v2026-11-20 04:50 is a version"), "v2026-11-20 04:50 is a version");
  // The clocks go forward on 2026-03-29 at 01:00 UTC.
  process.env.TZ = "Europe/Berlin";
  const across = [
    ["the 2 hours until 2026-03-29 00:30 UTC and from 2026-03-30 02:00 UTC are compared", "the 2 hours until 2026-03-29 01:30 UTC+01:00 and from 2026-03-30 04:00 UTC+02:00 are compared"],
    ["both ran 2026-03-29 00:30–01:30 UTC.", "both ran 2026-03-29 01:30 UTC+01:00–03:30 UTC+02:00."],
    ["A was watched 2026-03-27 10:00–11:00, B 2026-03-30 10:00–11:00 (UTC)", "A was watched 2026-03-27 11:00–12:00 UTC+01:00, B 2026-03-30 12:00–13:00 (UTC+02:00)"],
  ];
  for (const [utc, shown] of across) assert.equal(inShownZone(utc), shown);
  process.env.TZ = "UTC";
  assert.equal(inShownZone(told), told);
  process.env.TZ = before ?? "UTC";
});

test("an empty range is offered one that it does not hold", () => {
  assert.deepEqual(["-1h", "-7d", "-30d", "2020-01-01T00:00:00Z"].map((from) => widerPreset({ from, until: "now" }, NOW)?.from ?? null), ["-7d", "-30d", null, null]);
  assert.equal(widerPreset({ from: "2020-01-01T00:00:00Z", until: "2020-02-01T00:00:00Z" }, NOW)?.from, "-7d");
});

test("matchers quote what they are given", () => {
  assert.equal(equals("pod", 'a"b\\c\nd'), 'pod="a\\"b\\\\c\\nd"');
  assert.equal(selectorOf("s", ' {pod="x"} '), '{service="s", pod="x"}');
  assert.equal(joinMatchers("", "{}", 'a="b"'), 'a="b"');
  assert.equal(sideMatchers("version:v 1"), 'version="v 1"');
  assert.equal(sideMatchers('match:{node="n"}'), 'node="n"');
  assert.equal(sideMatchers(""), "");
  assert.deepEqual([sideName("version:"), sideName("version:v1"), sideName("match:")], ["(no version)", "v1", "everything"]);
});

test("the usual sides are the newest version and the one before it", () => {
  const seen = (version: string, first_seen: number) => ({ version, first_seen, last_seen: 9 });
  assert.deepEqual(defaultSides([seen("v3", 3), seen("v1", 1), seen("v2", 2)]), { baseline: "version:v2", comparison: "version:v3" });
  assert.equal(defaultSides([seen("v1", 1)]), null);
});

test("sides can be swapped, taken alone, and set against yesterday", () => {
  const place = { ...START, service: "s", query: 'pod="p"', baseline: "version:1", comparison: "version:2", comparison_from: "-2h" };
  assert.deepEqual({ ...place, ...swapSides(place), ...swapSides({ ...place, ...swapSides(place) }) }, place);
  assert.deepEqual(singleSide(place, "comparison", { from: "-1h", until: "now" }), { query: 'pod="p", version="2"', from: "-2h", until: "now", focus: "", invert: false, collapse: false });
  assert.equal(sameTimeYesterday("version:1", { from: "-1h", until: "now" }).baseline_from, "-1500m");
  assert.equal(sameTimeYesterday("version:1", { from: "-1h", until: "now" }).baseline_until, "-1d");
});

test("a comparison names only the sides and times that the address has", () => {
  const place = { ...START, page: "compare" as const, service: "s" };
  const sent = (changes: Partial<Place>) => Object.fromEntries(Object.entries(comparisonParameters({ ...place, ...changes })).filter(([, value]) => value !== ""));
  assert.deepEqual(sent({}), { query: '{service="s"}', type: "cpu" });
  assert.deepEqual(sent({ baseline: "version:1", comparison: "match:", from: "-1d" }), { query: '{service="s"}', type: "cpu", baseline: '{version="1"}', comparison: "{}", from: "-1d" });
  assert.equal(compareQuery({ ...place, basis: "equal_load" })[1].basis, "equal_load");
  assert.equal(compareQuery({ ...place, basis: "composition" })[1].basis, "composition");
  assert.deepEqual([isRangeChosen(place), isRangeChosen({ ...place, until: "now" }), isRangeChosen({ ...place, page: "depth" }), isRangeChosen({ ...place, page: "depth", baseline: "a", comparison: "b" })], [true, false, false, true]);
});

test("a side that the collector chose is named by its own matchers", () => {
  const place = { ...START, page: "compare" as const, service: "s", query: 'node="n"' };
  assert.equal(sideInForce(place, "baseline", '{node="n", service="s", version="v1"}'), "version:v1");
  assert.equal(sideInForce(place, "comparison", '{node="n", service="s", pod=~"a.*", version="v1"}'), 'match:pod=~"a.*", version="v1"');
  assert.equal(sideInForce({ ...place, baseline: "version:v2" }, "baseline", '{version="v1"}'), "version:v2");
  assert.equal(sideInForce(place, "baseline", undefined), "");
});

test("a remedy's parameters are changes of the address", () => {
  const place = { ...START, page: "compare" as const, service: "s", query: 'node="n"' };
  assert.deepEqual(placeChanges(place, { baseline: '{node="n", service="s", version="v1", pod!="p1"}' }), { baseline: 'match:version="v1", pod!="p1"' });
  assert.deepEqual(placeChanges(place, { baseline: '{version="v1"}', comparison: '{pod="p"}', baseline_from: "2026-11-21T09:00:00Z", basis: "equal_load", unknown: "x" }),
    { baseline: "version:v1", comparison: 'match:pod="p"', baseline_from: "2026-11-21T09:00:00Z", basis: "equal_load" });
});

test("a distribution's bins and steps keep every sample", () => {
  const sides = { depth: [1, 3, 12], samples: [2, 3, 5] };
  assert.deepEqual(binSamples(sides, 12, 5), [5, 0, 5]);
  assert.deepEqual(cumulative(sides, 12).map((part) => Math.round(part * 10)), [0, 2, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 10]);
  assert.deepEqual([[40, 48], [60, 48], [3500, 48]].map(([deepest, most]) => binWidth(deepest, most)), [1, 2, 100]);
  assert.deepEqual([0.65, 0.2, 0.055, 1].map(axisMaximum).map((top) => Math.round(top * 1000)), [800, 200, 60, 1000]);
});

test("numbers are short and keep their unit", () => {
  assert.deepEqual([0, 0.0123, 1.234, 56.78, 1234].map(short), ["0", "0.012", "1.23", "56.8", "1,234"]);
  assert.deepEqual([0, 500, 1500, 2_500_000, 900_000_000].map(microseconds), ["0 s", "500 µs", "1.5 ms", "2.50 s", "15.0 min"]);
  assert.equal(percent(0.123), "12.3 %");
  assert.equal(formatAgo(NOW - 240, NOW), "4 min ago");
});
