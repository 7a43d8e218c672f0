import { withoutLabel } from "./selectors.ts";
import type { BasisName, ChildOrder, ColourBy, CoverageState, HeatRows, MergeBy, Normalisation, ProfileType, Roots, Scope, Theme, ViewName } from "./viewOptions.ts";
import type { Range } from "./times.ts";

export type Page = "services" | "service" | "compare" | "depth" | "heatmap" | "fleet" | "functions" | "captures" | "capture" | "files" | "settings" | "unknown";

/** Everything a page shows follows from its Place, and a Place is exactly a URL. Empty text = the default. */
export interface Place {
  readonly page: Page;
  readonly service: string;
  /** The id of a capture, on its page. */
  readonly capture: string;
  readonly type: ProfileType;
  readonly from: string;
  readonly until: string;
  /** Matchers without braces, e.g. `namespace="prod", pod!="x"`. */
  readonly query: string;
  /** A side: `version:2026.11.20` or `match:pod="x"`. */
  readonly baseline: string;
  readonly comparison: string;
  readonly baseline_from: string;
  readonly baseline_until: string;
  readonly comparison_from: string;
  readonly comparison_until: string;
  /** How many requests each side served, where a person counted them. */
  readonly baseline_requests: string;
  readonly comparison_requests: string;
  readonly basis: BasisName;
  /** Empty: as the basis of the comparison needs it. */
  readonly norm: "" | Normalisation;
  readonly view: ViewName;
  /** A call path (see flamegraph/tree/focus). */
  readonly focus: string;
  readonly q: string;
  /** The function that a sandwich or a list of lines is about, as frames name it. */
  readonly fn: string;
  /** Transforms in the order in which they are made (see flamegraph/tree/transforms). */
  readonly t: string;
  readonly by: MergeBy;
  readonly colour: ColourBy;
  /** Whether changes within the noise are left out. */
  readonly sig: boolean;
  /** Whether a comparison shows what is beyond counting noise instead of what is outside noise. */
  readonly raw: boolean;
  /** Only samples whose stacks are so many frames deep, both included. */
  readonly min_depth: string;
  readonly max_depth: string;
  /** On the depth page: all samples, those below `focus`, or those with `fn` on the stack. */
  readonly scope: Scope;
  readonly rows: HeatRows;
  /** The block of a heatmap that is selected (see charts/cellSelection). */
  readonly cells: string;
  /** Of a capture: the seconds that are looked at, `12.34-12.56` (`,rest`: against the others), and the one process. */
  readonly span: string;
  readonly recording: string;
  readonly sort: string;
  /** On the list of services: the label that groups them. On a profile: what a breakdown groups by; empty for versions. */
  readonly group: string;
  /** On the coverage page: the only state of pods that is listed. */
  readonly state: CoverageState;
  /** Whether each stack begins with a frame for its endpoint. */
  readonly endpoints: boolean;
  readonly order: ChildOrder;
  readonly roots: Roots;
  readonly invert: boolean;
  readonly collapse: boolean;
  /** Whether each run of library frames is one frame. */
  readonly app: boolean;
  readonly nodes: "" | "all";
  readonly theme: Theme;
  /** Whether times are in UTC instead of the browser's zone. */
  readonly utc: boolean;
  readonly keys: boolean;
}

export const START: Place = {
  page: "services", service: "", capture: "", type: "cpu", from: "", until: "", query: "", baseline: "", comparison: "",
  baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "", baseline_requests: "", comparison_requests: "", basis: "", norm: "", view: "flame", focus: "", q: "",
  fn: "", t: "", by: "function", colour: "package", sig: false, raw: false, min_depth: "", max_depth: "", scope: "", rows: "pods", cells: "", span: "", recording: "", sort: "", group: "", state: "",
  endpoints: false, order: "", roots: "top", invert: false, collapse: false, app: false, nodes: "", theme: "", utc: false, keys: true,
};

/** How a person wants pages to look and to react, which a link to any other page takes along. */
export const appearanceOf = ({ theme, utc, keys }: Place): Pick<Place, "theme" | "utc" | "keys"> => ({ theme, utc, keys });

type Parameter = Exclude<keyof Place, "page" | "service" | "capture">;

const CHOICES: Partial<Record<Parameter, readonly string[]>> = {
  type: ["wall", "cpu", "gil", "gil_wait", "off_cpu", "tasks"],
  basis: ["", "concurrent", "per_request", "composition", "equal_load"],
  norm: ["", "rate", "share"],
  view: ["flame", "table", "both", "tree", "sides", "sandwich", "lines", "breakdown"],
  order: ["", "weight", "name"],
  roots: ["top", "bottom"],
  by: ["function", "line", "file", "package"],
  colour: ["package", "state", "self"],
  scope: ["", "focus", "function"],
  rows: ["pods", "hours"],
  nodes: ["", "all"],
  state: ["", "no_sidecar", "dead", "stale", "starting", "profiled"],
  theme: ["", "light", "dark"],
};

const PARAMETERS = Object.keys(START).filter((name): name is Parameter => name !== "page" && name !== "service" && name !== "capture");

/** Reads a URL below the path prefix; a value that no page knows falls back to the default. */
export function parsePlace(path: string, search: string): Place {
  const place: Record<string, unknown> = { ...START, ...parsePath(path) };
  const parameters = new URLSearchParams(search);
  if (place.page === "captures") place.service = parameters.get("service") ?? "";
  for (const name of PARAMETERS) {
    const value = parameters.get(name);
    if (value === null) continue;
    if (typeof START[name] === "boolean") place[name] = value === "1";
    else if (CHOICES[name]?.includes(value) ?? true) place[name] = value;
  }
  // Addresses from before frames could be merged by more than lines.
  if (parameters.get("lines") === "1" && !parameters.has("by")) place.by = "line";
  return place as unknown as Place;
}

/** Reads a URL below the path prefix, as `formatPlace` writes it. */
export function parseAddress(address: string): Place {
  const { pathname, search } = new URL(address, "http://collector");
  return parsePlace(pathname, search);
}

export function formatPlace(place: Place): string {
  const search = new URLSearchParams();
  if (place.page === "captures" && place.service !== "") search.set("service", place.service);
  for (const name of PARAMETERS) {
    const value = place[name];
    if (value === START[name]) continue;
    search.set(name, typeof value === "boolean" ? (value ? "1" : "0") : value);
  }
  const text = search.toString();
  return formatPath(place) + (text === "" ? "" : `?${text}`);
}

function parsePath(path: string): Pick<Place, "page" | "service" | "capture"> {
  const parts = path.split("/").filter((part) => part !== "");
  const at = (page: Page, service = "", capture = "") => ({ page, service, capture });
  const [first = "services", second, third] = parts;
  if (first === "s" && parts.length === 2) return at("service", decode(second));
  if (first === "s" && parts.length === 3 && isOfService(third)) return at(third, decode(second));
  if (first === "fleet" && parts.length === 2 && second === "functions") return at("functions");
  if (first === "captures" && parts.length === 2) return at("capture", "", decode(second));
  if (parts.length <= 1 && (first === "services" || first === "fleet" || first === "captures" || first === "files" || first === "settings")) return at(first);
  return at("unknown");
}

const isOfService = (part: string): part is "compare" | "depth" | "heatmap" => ["compare", "depth", "heatmap"].includes(part);

function formatPath(place: Place): string {
  const { page, service, capture } = place;
  if (page === "service") return `/s/${encodeURIComponent(service)}`;
  if (isOfService(page)) return `/s/${encodeURIComponent(service)}/${page}`;
  if (page === "functions") return "/fleet/functions";
  if (page === "capture") return `/captures/${encodeURIComponent(capture)}`;
  return page === "unknown" ? "/services" : `/${page}`;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A link to another page: what is seen (service, time, type, filters, appearance) is kept, how it is read
 * is not. Where sides are compared they say the version, so a filter by version does not come along.
 */
export function onPage(place: Place, page: Page, changes: Partial<Place> = {}): Place {
  const { service, type, from, until, query, baseline, comparison, baseline_from, baseline_until, comparison_from, comparison_until, baseline_requests, comparison_requests, basis, by, endpoints, theme, utc, keys } = place;
  const shared = { service, type, from, until, query, baseline, comparison, baseline_from, baseline_until, comparison_from, comparison_until, baseline_requests, comparison_requests, basis, by, endpoints, theme, utc, keys };
  // A list of services shows a day where its address names no time, and so does the profile that it leads to.
  const times = page === "service" && place.service === "" && from === "" && until === "" ? { from: pageRange(place).from } : {};
  const to = { ...START, ...shared, ...times, page, ...changes };
  return page === "compare" || to.baseline !== "" ? { ...to, query: withoutLabel(to.query, "version") } : to;
}

/** Whether the collector chooses the times: two sides are compared and the address names none. */
export function isRangeChosen({ page, from, until, baseline, comparison, baseline_from, baseline_until, comparison_from, comparison_until }: Place): boolean {
  const isComparison = page === "compare" || (page === "depth" && baseline !== "" && comparison !== "");
  return isComparison && [from, until, baseline_from, baseline_until, comparison_from, comparison_until].every((time) => time === "");
}

/** The range a page shows when the address names none. */
export function pageRange(at: Place): Range {
  const defaultFrom = at.page === "services" || at.page === "functions" ? "-1d" : "-1h";
  return { from: at.from || defaultFrom, until: at.until || "now" };
}
