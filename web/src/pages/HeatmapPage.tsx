import { change, place } from "../lib/location.ts";
import { Link, Segments } from "../components/ui/Controls.tsx";
import { Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { HourRows, hoursAsked, PodRows, podsAsked } from "../components/heatmap/HeatmapRows.tsx";
import { selectorOf } from "../lib/selectors.ts";
import { onPage, rangeOf } from "../lib/url.ts";
import type { HeatRows } from "../lib/viewOptions.ts";

/** What a service took, row by row over time; each kind of rows is a part of its own over the same grid. */
export function Heatmap({ turn }: { turn: number }) {
  const { service, query, type, rows, from } = place.value;
  const range = rangeOf(place.value);
  const asked = { query: selectorOf(service, query), ...range, type, ...(rows === "hours" ? hoursAsked() : podsAsked(range)) };
  return (
    <>
      <div class="heading">
        <h1>Heatmap of <bdi>{service.slice(0, 200)}</bdi></h1>
        <Share question={["heatmap", asked]} />
      </div>
      <div class="controls">
        <Segments<HeatRows> label="Rows" value={rows === "hours" ? "hours" : "pods"} options={[["pods", "Pods × time"], ["hours", "Hour × day"]]}
          choose={(next) => change({ rows: next, cells: "", ...(next === "hours" && from === "" ? { from: "-7d" } : {}) })} />
        <Link class="button" to={onPage(place.value, "captures")} title="Captures have every sample with its time: their pages show where in each second">Offset in the second: captures</Link>
        <TypePicker />
        <Filters range={range} />
      </div>
      {rows === "hours" ? <HourRows range={range} turn={turn} /> : <PodRows range={range} turn={turn} />}
    </>
  );
}
