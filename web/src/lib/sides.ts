import { formatMatcher, joinMatchers, onlyLabel, parseMatchers, selectorOf, sideMatchers } from "./selectors.ts";
import { parseTime, rfc3339, toEpochSeconds, type Range } from "./times.ts";
import { START, type Place } from "./url.ts";
import * as strings from "../strings/comparisonStrings.tsx";

/** The sides of a comparison, as addresses name them. */
export type SideName = "baseline" | "comparison";
/** The short labels of the sides. */
export const LETTERS: Readonly<Record<SideName, string>> = { baseline: "A", comparison: "B" };

/** When a version was seen. */
export interface VersionSpan {
  readonly version: string;
  readonly first_seen: string | number;
  readonly last_seen: string | number;
}

type Versions = readonly VersionSpan[];

/** The default sides: the version before the newest, and the newest; null with fewer than two. */
export function defaultSides(versions: Versions): { baseline: string; comparison: string } | null {
  const ordered = [...versions].sort((a, b) => toEpochSeconds(a.first_seen) - toEpochSeconds(b.first_seen) || (a.version < b.version ? -1 : 1));
  if (ordered.length < 2) return null;
  const [previous, newest] = ordered.slice(-2);
  return { baseline: `version:${previous.version}`, comparison: `version:${newest.version}` };
}

/** The same matchers yesterday and today. */
export const sameTimeYesterday = (side: string, range: Range): Partial<Place> =>
  ({ baseline: side, comparison: side, baseline_from: dayBefore(range.from), baseline_until: dayBefore(range.until), comparison_from: range.from, comparison_until: range.until });

function dayBefore(text: string): string {
  if (text === "now") return "-1d";
  const relative = /^(?:now)?-(\d+)([smhdw])$/.exec(text);
  if (relative) {
    const minutes: Record<string, number> = { s: 1 / 60, m: 1, h: 60, d: 1440, w: 10_080 };
    return `-${Math.round(Number(relative[1]) * minutes[relative[2]]) + 1440}m`;
  }
  const at = Date.parse(text);
  return Number.isNaN(at) ? text : new Date(at - 86_400_000).toISOString();
}

/** A side that is a time range of the present query. It keeps a filter by version, which comparisons leave to their sides. */
export const timeRangeSide = (query: string): string => `match:${onlyLabel(query, "version")}`;
/**
 * A version as a side: over the page's range where it ran then, else over the last part, as long, of when it ran.
 */
export function versionSide(which: SideName, row: Versions[number], range: Range, now: number): Partial<Place> {
  const [from, until] = [parseTime(range.from, now) ?? now - 3600, parseTime(range.until, now) ?? now];
  const [first, last] = [toEpochSeconds(row.first_seen), toEpochSeconds(row.last_seen)];
  const runs = last >= from && first < until;
  const end = last + 1;
  return {
    [which]: `version:${row.version}`,
    [`${which}_from`]: runs ? "" : rfc3339(Math.floor(Math.max(first, end - (until - from)))),
    [`${which}_until`]: runs ? "" : rfc3339(Math.ceil(end)),
  };
}

/** A selector as a side: a version where it selects nothing else. */
function sideOfMatchers(matchers: string): string {
  const parsed = parseMatchers(matchers);
  return parsed?.length === 1 && parsed[0].name === "version" && parsed[0].op === "=" ? `version:${parsed[0].value}` : `match:${joinMatchers(matchers)}`;
}

/** A side of the address, or the one that the collector chose, whose whole selector is in the answer. */
export function sideInForce(place: Place, which: SideName, selector: string | undefined): string {
  return place[which] !== "" || selector === undefined ? place[which] : sideOfSelector(place, selector);
}

/** A whole selector as a side, without what the place selects for both sides. */
function sideOfSelector(place: Place, selector: string): string {
  const shared = (parseMatchers(selectorOf(place.service, place.query)) ?? []).map(formatMatcher);
  return sideOfMatchers(joinMatchers(...(parseMatchers(selector) ?? []).map(formatMatcher).filter((matcher) => !shared.includes(matcher))));
}

/** The changes of a place that parameters of an API request make. */
export function placeChanges(place: Place, parameters: Readonly<Record<string, string>>): Partial<Place> {
  const changes: Record<string, string> = {};
  for (const [name, value] of Object.entries(parameters)) {
    if (name === "baseline" || name === "comparison") changes[name] = sideOfSelector(place, value);
    else if (typeof START[name as keyof Place] === "string") changes[name] = value;
  }
  return changes as Partial<Place>;
}

/** No range of the address: the collector chooses one. */
export const CHOSEN_RANGE = { from: "", until: "", baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "" } as const;

/** The capture ID of a side, empty while none is selected; null for other kinds of sides. */
export const captureOfSide = (side: string): string | null => /^match:capture="([^"\\]*)"$/.exec(side)?.[1] ?? null;

/** Earlier ranges to compare with, each with a name. */
export function earlierRanges(range: Range, now: number): (Range & { readonly name: string })[] {
  const [from, until] = [parseTime(range.from, now), parseTime(range.until, now)];
  if (from === null || until === null) return [];
  const shifted = (name: string, seconds: number) => ({ name, from: rfc3339(Math.floor(from - seconds)), until: rfc3339(Math.floor(until - seconds)) });
  return [shifted(strings.justBefore, until - from), shifted(strings.dayBefore, 86_400), shifted(strings.weekBefore, 604_800)];
}

/** The same place with its sides exchanged. */
export const swapSides = (place: Place): Partial<Place> => ({
  baseline: place.comparison, comparison: place.baseline, baseline_from: place.comparison_from, baseline_until: place.comparison_until, comparison_from: place.baseline_from, comparison_until: place.baseline_until,
  baseline_requests: place.comparison_requests, comparison_requests: place.baseline_requests,
});

/** One side alone, as filters of the service page. */
export function singleSide(place: Place, side: SideName, range: Range): Partial<Place> {
  const from = side === "baseline" ? place.baseline_from : place.comparison_from;
  const until = side === "baseline" ? place.baseline_until : place.comparison_until;
  return { query: joinMatchers(place.query, sideMatchers(place[side])), from: from || range.from, until: until || range.until, focus: place.focus, invert: place.invert, collapse: place.collapse };
}
