import { joined, only, sideMatchers } from "./selectors.ts";
import { instant, rfc3339, epoch, type Range } from "./times.ts";
import type { Place } from "./url.ts";

/** When a version was seen. */
export interface VersionSpan {
  readonly version: string;
  readonly first_seen: string | number;
  readonly last_seen: string | number;
}

type Versions = readonly VersionSpan[];

/** The sides to start from: the version before the newest, and the newest; null with fewer than two. */
export function usualSides(versions: Versions): { a: string; b: string } | null {
  const ordered = [...versions].sort((a, b) => epoch(a.first_seen) - epoch(b.first_seen) || (a.version < b.version ? -1 : 1));
  if (ordered.length < 2) return null;
  const [before, newest] = ordered.slice(-2);
  return { a: `version:${before.version}`, b: `version:${newest.version}` };
}

/** The same matchers yesterday and today. */
export const yesterday = (side: string, range: Range): Partial<Place> =>
  ({ a: side, b: side, a_from: dayBefore(range.from), a_until: dayBefore(range.until), b_from: range.from, b_until: range.until });

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

/** A side that is a time of what is shown: a filter by version comes along in it, as comparisons leave that to their sides. */
export const sideOfTime = (query: string): string => `match:${only(query, "version")}`;
/**
 * A version as a side: over the page's range where it ran then, else over the last part, as long, of when it ran.
 */
export function versionSide(which: "a" | "b", row: Versions[number], range: Range, now: number): Partial<Place> {
  const [from, until] = [instant(range.from, now) ?? now - 3600, instant(range.until, now) ?? now];
  const [first, last] = [epoch(row.first_seen), epoch(row.last_seen)];
  const runs = last >= from && first < until;
  const end = last + 1;
  return {
    [which]: `version:${row.version}`,
    [`${which}_from`]: runs ? "" : rfc3339(Math.floor(Math.max(first, end - (until - from)))),
    [`${which}_until`]: runs ? "" : rfc3339(Math.ceil(end)),
  };
}

/** The capture a side is, empty while none is chosen; null for a side that is something else. */
export const captureOf = (side: string): string | null => /^match:capture="([^"\\]*)"$/.exec(side)?.[1] ?? null;

/** Other times to set a side against: each as a name and the ends of its range. */
export function earlier(range: Range, now: number): (Range & { readonly name: string })[] {
  const [from, until] = [instant(range.from, now), instant(range.until, now)];
  if (from === null || until === null) return [];
  const back = (name: string, seconds: number) => ({ name, from: rfc3339(Math.floor(from - seconds)), until: rfc3339(Math.floor(until - seconds)) });
  return [back("just before", until - from), back("the day before", 86_400), back("the week before", 604_800)];
}

/** The same place with its sides exchanged. */
export const swapped = (place: Place): Partial<Place> => ({
  a: place.b, b: place.a, a_from: place.b_from, a_until: place.b_until, b_from: place.a_from, b_until: place.a_until,
});

/** One side alone, as filters of the service page. */
export function alone(place: Place, side: "a" | "b", range: Range): Partial<Place> {
  const from = side === "a" ? place.a_from : place.b_from;
  const until = side === "a" ? place.a_until : place.b_until;
  return { query: joined(place.query, sideMatchers(place[side])), from: from || range.from, until: until || range.until, focus: place.focus, invert: place.invert, collapse: place.collapse };
}
