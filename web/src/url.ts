import type { Norm } from "./flame/compare.ts";
import { without } from "./selectors.ts";

export type Page = "services" | "service" | "compare" | "depth" | "unknown";
export type ProfileType = "wall" | "cpu" | "gil";
export type ViewName = "flame" | "table" | "sides";
export type Theme = "" | "light" | "dark";

/** Everything a page shows follows from its Place, and a Place is exactly a URL. Empty text = the default. */
export interface Place {
  readonly page: Page;
  readonly service: string;
  readonly type: ProfileType;
  readonly from: string;
  readonly until: string;
  /** Matchers without braces, e.g. `namespace="prod", pod!="x"`. */
  readonly query: string;
  /** A side: `version:2026.11.20` or `match:pod="x"`. */
  readonly a: string;
  readonly b: string;
  readonly a_from: string;
  readonly a_until: string;
  readonly b_from: string;
  readonly b_until: string;
  readonly norm: Norm;
  readonly view: ViewName;
  /** A call path (see flame/focus). */
  readonly focus: string;
  readonly q: string;
  readonly sort: string;
  readonly invert: boolean;
  readonly collapse: boolean;
  readonly lines: boolean;
  readonly nodes: "" | "all";
  readonly theme: Theme;
  readonly keys: boolean;
}

export const START: Place = {
  page: "services", service: "", type: "cpu", from: "", until: "", query: "", a: "", b: "",
  a_from: "", a_until: "", b_from: "", b_until: "", norm: "rate", view: "flame", focus: "", q: "", sort: "",
  invert: false, collapse: false, lines: false, nodes: "", theme: "", keys: true,
};

type Parameter = Exclude<keyof Place, "page" | "service">;

const CHOICES: Partial<Record<Parameter, readonly string[]>> = {
  type: ["wall", "cpu", "gil"],
  norm: ["rate", "share"],
  view: ["flame", "table", "sides"],
  nodes: ["", "all"],
  theme: ["", "light", "dark"],
};

const PARAMETERS = Object.keys(START).filter((name): name is Parameter => name !== "page" && name !== "service");

/** Reads a URL below the path prefix; a value that no page knows falls back to the default. */
export function parsePlace(path: string, search: string): Place {
  const place: Record<string, unknown> = { ...START, ...parsePath(path) };
  const given = new URLSearchParams(search);
  for (const name of PARAMETERS) {
    const value = given.get(name);
    if (value === null) continue;
    if (typeof START[name] === "boolean") place[name] = value === "1";
    else if (CHOICES[name]?.includes(value) ?? true) place[name] = value;
  }
  return place as unknown as Place;
}

export function formatPlace(place: Place): string {
  const given = new URLSearchParams();
  for (const name of PARAMETERS) {
    const value = place[name];
    if (value === START[name]) continue;
    given.set(name, typeof value === "boolean" ? (value ? "1" : "0") : value);
  }
  const text = given.toString();
  return formatPath(place) + (text === "" ? "" : `?${text}`);
}

function parsePath(path: string): Pick<Place, "page" | "service"> {
  const parts = path.split("/").filter((part) => part !== "");
  if (parts.length === 0 || (parts.length === 1 && parts[0] === "services")) return { page: "services", service: "" };
  if (parts[0] !== "s" || parts.length < 2 || parts.length > 3) return { page: "unknown", service: "" };
  const service = decode(parts[1]);
  if (parts.length === 2) return { page: "service", service };
  if (parts[2] === "compare" || parts[2] === "depth") return { page: parts[2], service };
  return { page: "unknown", service: "" };
}

function formatPath(place: Place): string {
  if (place.page === "services" || place.page === "unknown") return "/services";
  const service = `/s/${encodeURIComponent(place.service)}`;
  return place.page === "service" ? service : `${service}/${place.page}`;
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
  const { service, type, from, until, query, a, b, a_from, a_until, b_from, b_until, lines, theme, keys } = place;
  const kept = { service, type, from, until, query, a, b, a_from, a_until, b_from, b_until, lines, theme, keys };
  const to = { ...START, ...kept, page, ...changes };
  return page === "compare" || to.a !== "" ? { ...to, query: without(to.query, "version") } : to;
}
