import assert from "node:assert/strict";
import { test } from "node:test";
import type { FunctionsAnswer } from "../src/api/answers.ts";
import { formatTypedTime, parseTypedTime, setUtc, shiftRange, formatClock } from "../src/lib/times.ts";
import { formatPlace, START } from "../src/lib/url.ts";
import { describePods, podsOfChoice } from "../src/viewmodels/captureRequest.ts";
import { toMarkdown } from "../src/viewmodels/markdownSummary.ts";
import { bestMatches, paletteItems, parseRange, serviceInText, type PaletteContext } from "../src/viewmodels/paletteItems.ts";
import { culprit, verdict } from "./verdicts.ts";

const NOW = Date.parse("2026-11-26T12:00:00Z") / 1000;
const SERVICES = ["cart", "checkout-api", "checkout-worker", "shop"];
const context = (changes: Partial<PaletteContext> = {}): PaletteContext => ({ here: START, services: SERVICES, favourites: [], versions: ["1.0", "1.1", "2.0"], functions: null, views: [], canPin: true, now: NOW, ...changes });
const addresses = (text: string, changes: Partial<PaletteContext> = {}) => paletteItems(text, context(changes)).map(({ to }) => (to ? formatPlace(to) : ""));

test("names are found by their parts, the closest first", () => {
  assert.deepEqual(bestMatches(SERVICES, "check"), ["checkout-api", "checkout-worker"]);
  assert.deepEqual(bestMatches(SERVICES, "api"), ["checkout-api"]);
  assert.deepEqual(bestMatches(SERVICES, "cka"), ["checkout-api"]);
  assert.deepEqual(bestMatches(SERVICES, "SHOP"), ["shop"]);
  assert.deepEqual(bestMatches(SERVICES, "nobody"), []);
});

test("a comparison is typed as service and versions", () => {
  assert.deepEqual(addresses("compare checkout-api 1.0 2"), ["/s/checkout-api/compare?baseline=version%3A1.0&comparison=version%3A2.0"]);
  assert.deepEqual(addresses("compare shop"), ["/s/shop/compare"]);
  assert.equal(addresses("compare shop 2")[0], "/s/shop/compare?baseline=version%3A1.1&comparison=version%3A2.0");
  assert.deepEqual(addresses("compare nobody 1 2"), []);
  assert.equal(serviceInText("compare worker 1", SERVICES, START), "checkout-worker");
  assert.equal(serviceInText("x", SERVICES, { ...START, page: "service", service: "shop" }), "shop");
});

test("ranges, services, pages, views and actions are found", () => {
  const here = { ...START, page: "depth" as const, service: "shop", from: "-1d", query: 'pod="x"', theme: "dark" as const };
  assert.equal(addresses("now-3h", { here })[0], "/s/shop/depth?from=-3h&until=now&query=pod%3D%22x%22&theme=dark");
  assert.equal(addresses("cart", { here })[0], "/s/cart/depth?from=-1d&theme=dark");
  assert.equal(addresses("coverage")[0], "/fleet");
  assert.equal(addresses("service", { favourites: ["shop"] }).includes("/services"), true);
  assert.equal(paletteItems("service ", context({ favourites: ["shop"] }))[0].text, "shop");
  assert.equal(addresses("mine", { views: [{ name: "mine", path: "/s/shop?type=wall" }] })[0], "/s/shop?type=wall");
  assert.deepEqual(paletteItems("capture shop", context()).map(({ action }) => action), [{ capture: "shop" }]);
  assert.deepEqual(paletteItems("save view as my view", context()).map(({ action }) => action), [{ save: "my view", isPinned: false }]);
  assert.deepEqual(paletteItems("Pin comparison as v2", context()).map(({ action }) => action), [{ save: "v2", isPinned: true }]);
  assert.deepEqual(paletteItems("Pin comparison as v2", context({ canPin: false })), []);
  assert.equal(paletteItems("utc", context())[0].action, "utc");
  const functions = { search: "dumps", rows: { function: ["dumps"], file: ["json/__init__.py"], services_total: [63] } } as unknown as FunctionsAnswer;
  assert.deepEqual(addresses("dumps", { functions }), ["/fleet/functions?q=dumps+%28json%2F__init__.py%29", "/fleet/functions?q=dumps"]);
});

test("a range is typed in words, relative times or dates, and nonsense is none", () => {
  assert.deepEqual(parseRange("now-3h", NOW), { from: "-3h", until: "now" });
  assert.deepEqual(parseRange("last 2 days", NOW), { from: "-2d", until: "now" });
  assert.deepEqual(parseRange("now-3h to now-1h", NOW), { from: "-3h", until: "-1h" });
  for (const text of ["now", "12", "now-1h to now-3h", "shop", "a to b to c"]) assert.equal(parseRange(text, NOW), null, text);
});

test("typed times are read in the zone in use and written back the same", () => {
  setUtc(true);
  assert.equal(parseTypedTime("2026-11-26 09:30", NOW), "2026-11-26T09:30:00Z");
  assert.equal(parseTypedTime("2026-11-26", NOW), "2026-11-26T00:00:00Z");
  assert.equal(formatTypedTime("2026-11-26T09:30:00Z"), "2026-11-26 09:30:00");
  assert.equal(formatClock(NOW), "2026-11-26 12:00:00");
  setUtc(false);
  for (const text of ["2026-11-26 09:30:00", "2026-06-01 23:59:59"]) assert.equal(formatTypedTime(parseTypedTime(text, NOW) ?? ""), text);
  assert.equal(parseTypedTime(" now-3h ", NOW), "-3h");
  assert.equal(parseTypedTime("5m ago", NOW), "-5m");
  assert.equal(formatTypedTime("-3h"), "now-3h");
  for (const text of ["", "yesterday", "2026-13-40", "now+1h", "25:00"]) assert.equal(parseTypedTime(text, NOW), null, text);
});

test("a range moves by its own length and never past now", () => {
  const earlier = shiftRange({ from: "-1h", until: "now" }, -1, NOW);
  assert.deepEqual(earlier, { from: "2026-11-26T10:00:00Z", until: "2026-11-26T11:00:00Z" });
  assert.deepEqual(shiftRange(earlier, 1, NOW), { from: "-3600s", until: "now" });
  assert.deepEqual(shiftRange({ from: "-3h", until: "-2h" }, 1, NOW), { from: "2026-11-26T10:00:00Z", until: "2026-11-26T11:00:00Z" });
});

test("pods of a capture are a number, all, or those chosen", () => {
  assert.deepEqual([podsOfChoice("2", []), podsOfChoice("all", ["a"]), podsOfChoice("chosen", ["a"]), podsOfChoice("chosen", [])], [2, "all", ["a"], 1]);
  assert.deepEqual([describePods(1), describePods("all"), describePods(["p-1"]), describePods(["a", "b"])], ["1 pod", "all pods", "p-1", "2 chosen pods"]);
});

test("a comparison as Markdown has its result, sides, culprits and link, and hostile names stay text", () => {
  const row = { ...culprit(1), function: "a|b`<img>", file: "x.py" };
  const text = toMarkdown(verdict({ culprits: { share: 1, rows: [row] } }), { service: "shop", type: "cpu", sides: [{ selector: '{version="1"}', from: "10:00", until: "11:00" }, { selector: '{version="2"}', from: "10:00", until: "11:00" }], link: "http://c/l/1" });
  assert.match(text, /^\*\*`shop`: ▲ CPU \+45\.5 % \(.*\)\*\* · 110 → 160 m\/pod/);
  assert.match(text, /- A: `\{version="1"\}`, 10:00 – 11:00\n- B: /);
  assert.match(text, /\| `a\\\|b'<img> › deepcopy` `x\.py` \| \+40 m \| \+50\.0 % \(\+37\.5 … \+62\.5\) \| \.001 \| 6\/6 \|/);
  assert.match(text, /\[Comparison in Sidelight\]\(http:\/\/c\/l\/1\)\n$/);
});
