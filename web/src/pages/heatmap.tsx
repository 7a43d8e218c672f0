import { change, place } from "../location.ts";
import { Link, Segments } from "../parts/basics.tsx";
import { Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { HourRows, PodRows } from "../parts/heatrows.tsx";
import { rangeOf } from "../parts/range.tsx";
import { onPage, type HeatRows } from "../url.ts";

/** What a service took, row by row over time; each kind of rows is a part of its own over the same grid. */
export function Heatmap({ turn }: { turn: number }) {
  const { service, rows, from } = place.value;
  const range = rangeOf(place.value);
  return (
    <>
      <div class="heading">
        <h1>Heatmap of <bdi>{service.slice(0, 200)}</bdi></h1>
        <Share />
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
