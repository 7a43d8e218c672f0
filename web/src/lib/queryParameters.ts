/** API parameters that follow from an address. */

import { bandOf } from "./depthRange.ts";
import { selectorOf, sideMatchers } from "./selectors.ts";
import type { Range } from "./times.ts";
import { rangeOf, type Place } from "./url.ts";

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

/** What the API is asked for so that only these samples count: a band of depths, and (on the depth page) more. */
export function pickedBy(place: Place): Record<string, string> {
  const { depth_from, depth_until, scope, fn, focus, invert } = place;
  const band = bandOf(place, 0);
  return {
    min_depth: band && depth_from !== "" ? String(band.from) : "",
    max_depth: band && depth_until !== "" ? String(band.until) : "",
    function: scope === "function" ? fn : "",
    focus: scope === "focus" && !invert && /^[0-9a-f]{16}\../.test(focus) ? focus : "",
  };
}

/** What the API is asked for so that a tree can be looked at as an address says. */
export const treeAsked = ({ by, nodes, colour, type }: Place): Record<string, string> =>
  ({ lines: by === "line" ? "1" : "0", nodes, states: colour === "state" && type === "wall" ? "1" : "" });

/** What the compare page asks for. */
export const compareAsked = (here: Place): readonly ["compare", Record<string, string>] =>
  ["compare", { ...comparison(here, rangeOf(here)), load: here.load, ...pickedBy({ ...here, scope: "" }), ...treeAsked(here) }];
