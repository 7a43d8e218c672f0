/** API parameters that follow from an address. */

import { parseDepthRange } from "./depthRange.ts";
import { selectorOf, sideMatchers } from "./selectors.ts";
import type { Place } from "./url.ts";
import { hasStateColours } from "./viewOptions.ts";

/** The parameters of a comparison of two sides. The collector chooses the sides and the times that the address does not name. */
export function comparisonParameters(place: Place): Record<string, string> {
  const matchers = (side: string) => (side === "" ? "" : `{${sideMatchers(side)}}`);
  return {
    query: selectorOf(place.service, place.query),
    baseline: matchers(place.baseline),
    comparison: matchers(place.comparison),
    from: place.from,
    until: place.until,
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

/** Whether some stacks are left out. */
export const hasSampleFilter = (place: Place): boolean => Object.values(sampleFilterParameters(place)).some((value) => value !== "");

/** The parameters of a call tree: how frames are distinguished, how many nodes, and whether states are included. */
export const treeParameters = ({ by, nodes, colour, type, endpoints, t }: Place): Record<string, string> =>
  ({ ...(endpoints ? { group_by: "endpoint" } : {}), lines: by === "line" ? "1" : "0", nodes, states: (colour === "state" || /(^|\*)state:/.test(t)) && hasStateColours(type) ? "1" : "" });

/** What is tested, and the counts that a test per request needs. */
const basisParameters = ({ basis, baseline_requests, comparison_requests }: Place): Record<string, string> =>
  ({ basis, baseline_requests, comparison_requests });

/** The API request of the compare page. */
export const compareQuery = (here: Place): readonly ["compare", Record<string, string>] =>
  ["compare", { ...comparisonParameters(here), ...basisParameters(here), ...sampleFilterParameters({ ...here, scope: "" }), ...treeParameters(here) }];
