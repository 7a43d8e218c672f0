import { epoch, type VersionRow } from "./api/answers.ts";
import { joined, only, selectorOf, sideMatchers } from "./selectors.ts";
import type { Range } from "./times.ts";
import type { Place } from "./url.ts";

type Versions = readonly Pick<VersionRow, "version" | "first_seen" | "last_seen">[];

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

/** What the API is asked for a comparison of two sides. */
export function comparison(place: Place, range: Range): Record<string, string> {
  return {
    query: selectorOf(place.service, place.query),
    baseline: `{${sideMatchers(place.a)}}`,
    comparison: `{${sideMatchers(place.b)}}`,
    ...range,
    baseline_from: place.a_from,
    baseline_until: place.a_until,
    comparison_from: place.b_from,
    comparison_until: place.b_until,
    type: place.type,
  };
}

/** The same place with its sides exchanged. */
export const swapped = (place: Place): Partial<Place> => ({
  a: place.b, b: place.a, a_from: place.b_from, a_until: place.b_until, b_from: place.a_from, b_until: place.a_until,
});

/** One side alone, as filters of the service page. */
export function alone(place: Place, side: "a" | "b", range: Range): Partial<Place> {
  const from = side === "a" ? place.a_from : place.b_from;
  const until = side === "a" ? place.a_until : place.b_until;
  return { query: joined(place.query, sideMatchers(place[side])), from: from || range.from, until: until || range.until, focus: place.focus };
}
