import type { ComponentChildren } from "preact";
import type { Effect, Verdict } from "../../api/verdict.ts";
import { formatFrame } from "../../flamegraph/analysis/significance.ts";
import { sandwichPlace } from "../../viewmodels/frameActions.ts";
import { DEPTH, describeDirection, formatDepths, formatDifference, formatShares, LOOP, WAITING } from "../../viewmodels/verdictText.ts";
import { place } from "../../lib/location.ts";
import { confidenceLabel } from "../../lib/numbers.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

const formatPoints = (value: number): string => (value * 100).toFixed(1);

/** What became of depth, waiting and the event loop, in one line, each with the way to where it is shown. */
export function SecondaryEffects({ verdict: { depth, idle, thread_kinds: kinds, loop, direction, method: { alpha_spent: level } }, isOffline = false }: { verdict: Verdict; isOffline?: boolean }) {
  if (direction === "not_comparable" || direction === "no_data") return null;
  const here = place.value;
  const line = (wording: typeof DEPTH, { baseline: a, comparison: b, delta, low, high, direction: way }: Effect, to: Place | null, more?: ComponentChildren) => {
    const words = describeDirection(wording, way);
    const difference = wording === DEPTH ? formatDifference(delta, low, high, (value) => value.toFixed(1)) : strings.points(formatDifference(delta, low, high, formatPoints));
    return (
      <li title={`${wording[3]}: ${difference}, ${confidenceLabel(level)}`}>
        {to && !isOffline ? <Link to={to}>{words}</Link> : words} {wording === DEPTH ? formatDepths(a, b) : formatShares(a, b)}{more}
      </li>
    );
  };
  const hasIdle = idle && (idle.baseline > 0 || idle.comparison > 0);
  const blockers = loop?.blockers.filter(({ effect: { baseline, comparison } }) => baseline + comparison > 0.02).slice(0, 3) ?? [];
  if (!depth && !hasIdle && !loop) return null;
  return (
    <ul class="besides" aria-label={strings.otherEffects}>
      {depth && line(DEPTH, depth.mean, onPage(here, "depth", { focus: here.focus }))}
      {hasIdle && line(WAITING, idle, here.type === "wall" ? null : { ...here, type: "wall", colour: "state", view: "sides" }, kinds.length > 1 && ` (${kinds.map(({ thread, idle: effect }) => `${thread === "main" ? strings.mainThreads : strings.others} ${formatShares(effect.baseline, effect.comparison)}`).join(", ")})`)}
      {loop && line(LOOP, loop.busy, null, blockers.map(({ function: fn, file, effect }, at) => (
        <span key={fn + file}>{at > 0 ? ", " : strings.heldBy}<Link to={{ ...here, ...sandwichPlace(formatFrame(fn, file)) }}><bdi>{fn.slice(0, 120)}</bdi></Link> {formatShares(effect.baseline, effect.comparison)}</span>
      )))}
    </ul>
  );
}
