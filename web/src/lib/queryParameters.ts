/** API parameters that follow from an address. */

import { parseDepthRange } from "./depthRange.ts";
import { selectorOf, sideMatchers } from "./selectors.ts";
import type { Range } from "./times.ts";
import { pageRange, type Place } from "./url.ts";

/** The parameters of a comparison of two sides. */
export function comparisonParameters(place: Place, range: Range): Record<string, string> {
  return {
    query: selectorOf(place.service, place.query),
    baseline: `{${sideMatchers(place.baseline)}}`,
    comparison: `{${sideMatchers(place.comparison)}}`,
    ...range,
    baseline_from: place.baseline_from,
    baseline_until: place.baseline_until,
    comparison_from: place.comparison_from,
    comparison_until: place.comparison_until,
    type: place.type,
  };
}

/** The parameters that select samples: a depth range and, on the depth page, a function or a call path. */
export function sampleFilterParameters(place: Place): Record<string, string> {
  const { min_depth, max_depth, scope, fn, focus, invert } = place;
  const range = parseDepthRange(place, 0);
  return {
    min_depth: range && min_depth !== "" ? String(range.from) : "",
    max_depth: range && max_depth !== "" ? String(range.until) : "",
    function: scope === "function" ? fn : "",
    focus: scope === "focus" && !invert && /^[0-9a-f]{16}\../.test(focus) ? focus : "",
  };
}

/** The parameters of a call tree: how frames are distinguished, how many nodes, and whether states are included. */
export const treeParameters = ({ by, nodes, colour, type }: Place): Record<string, string> =>
  ({ lines: by === "line" ? "1" : "0", nodes, states: colour === "state" && type === "wall" ? "1" : "" });

/** The API request of the compare page. */
export const compareQuery = (here: Place): readonly ["compare", Record<string, string>] =>
  ["compare", { ...comparisonParameters(here, pageRange(here)), load: here.load, ...sampleFilterParameters({ ...here, scope: "" }), ...treeParameters(here) }];
