import { change, place } from "../lib/location.ts";
import { SegmentedControl } from "../components/ui/Controls.tsx";
import { useSharedView } from "../components/controls/sharedView.ts";
import { HourRows, hourRowParameters, PodRows, podRowParameters } from "../components/heatmap/HeatmapRows.tsx";
import { selectorOf } from "../lib/selectors.ts";
import { pageRange } from "../lib/url.ts";
import type { HeatRows } from "../lib/viewOptions.ts";
import * as strings from "../strings/heatmapStrings.tsx";

/** What a service took, row by row over time; each kind of rows is a part of its own over the same grid. */
export function HeatmapPage({ refreshCount }: { refreshCount: number }) {
  const { service, query, type, rows, from } = place.value;
  const range = pageRange(place.value);
  const parameters = { query: selectorOf(service, query), ...range, type, ...(rows === "hours" ? hourRowParameters() : podRowParameters(range)) };
  useSharedView(["heatmap", parameters]);
  return (
    <>
      <h1 class="unseen">{strings.heatmapOf(<bdi>{service.slice(0, 200)}</bdi>)}</h1>
      <div class="controls">
        <SegmentedControl<HeatRows> label={strings.rows} value={rows === "hours" ? "hours" : "pods"} options={[["pods", strings.podsTime], ["hours", strings.hourDay]]}
          onSelect={(next) => change({ rows: next, cells: "", ...(next === "hours" && from === "" ? { from: "-7d" } : {}) })} />
      </div>
      {rows === "hours" ? <HourRows range={range} refreshCount={refreshCount} /> : <PodRows range={range} refreshCount={refreshCount} />}
    </>
  );
}
