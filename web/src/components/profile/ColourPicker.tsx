import { selfLegend, stateLegend, packageLegend, type LegendEntry } from "../../flamegraph/render/colourSchemes.ts";
import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import { change, place } from "../../lib/location.ts";
import { SegmentedControl } from "../ui/Controls.tsx";
import { hasStateColours, type ColourBy } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** What the colours of a graph tell. A differential graph has none to choose: its colours are the change. */
export function ColourPicker() {
  return (
    <span class="colouring">
      <span class="quiet" aria-hidden="true">{strings.colour}</span>
      <SegmentedControl<ColourBy> label={strings.colourBy} value={place.value.colour} onSelect={(colour) => change({ colour })}
        options={[["package", strings.packageLabel, strings.packageColourHint], ["state", strings.state, strings.stateColourHint], ["self", strings.self, strings.selfTime]]} />
    </span>
  );
}

/** Why colours by state cannot be drawn from this answer; "" where they can. */
export function missingStatesReason(metrics: TreeMetrics): string {
  if (metrics.states) return "";
  return hasStateColours(place.value.type)
    ? strings.noStates
    : strings.onlyWallHasStates;
}

/** What a legend shows for the colours in force, of what is zoomed into. */
export function legendEntries(metrics: TreeMetrics, by: ColourBy, side: number, focus: number): LegendEntry[] {
  if (by === "self") return selfLegend(metrics, side);
  if (by === "state" && metrics.states) return stateLegend(metrics, side, focus);
  return packageLegend(metrics, focus, 5);
}

export function MissingStatesNotice({ metrics }: { metrics: TreeMetrics }) {
  const reason = missingStatesReason(metrics);
  if (place.value.colour !== "state" || reason === "") return null;
  return (
    <p class="notices single" role="status">
      {reason}{" "}
      {!hasStateColours(place.value.type) && <button type="button" onClick={() => change({ type: "wall" })}>{strings.showWallTime}</button>}
    </p>
  );
}
