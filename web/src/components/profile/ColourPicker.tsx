import { selfLegend, stateLegend, packageLegend, type LegendEntry } from "../../flamegraph/render/colourSchemes.ts";
import type { Reading } from "../../flamegraph/analysis/treeMetrics.ts";
import { change, place } from "../../lib/location.ts";
import { Segments } from "../ui/Controls.tsx";
import type { ColourBy } from "../../lib/viewOptions.ts";

/** What the colours of a graph tell. A differential graph has none to choose: its colours are the change. */
export function Colouring() {
  return (
    <span class="colouring">
      <span class="quiet" aria-hidden="true">Colour</span>
      <Segments<ColourBy> label="Colour by" value={place.value.colour} choose={(colour) => change({ colour })}
        options={[["package", "Package", "By whose code it is"], ["state", "State", "Waiting, running, holding the GIL"], ["self", "Self", "Own time"]]} />
    </span>
  );
}

/** Why colours by state cannot be drawn from this answer; "" where they can. */
export function withoutStates(reading: Reading): string {
  if (reading.states) return "";
  return place.value.type === "wall"
    ? "This answer has no states to colour by, so packages are coloured."
    : "Only wall time is told apart into waiting, running and holding the GIL, so packages are coloured.";
}

/** What a legend shows for the colours in force, of what is zoomed into. */
export function entriesOf(reading: Reading, by: ColourBy, side: number, focus: number): LegendEntry[] {
  if (by === "self") return selfLegend(reading, side);
  if (by === "state" && reading.states) return stateLegend(reading, side, focus);
  return packageLegend(reading, focus, 5);
}

export function NoStates({ reading }: { reading: Reading }) {
  const why = withoutStates(reading);
  if (place.value.colour !== "state" || why === "") return null;
  return (
    <p class="notices single" role="status">
      {why}{" "}
      {place.value.type !== "wall" && <button type="button" onClick={() => change({ type: "wall" })}>Show wall time</button>}
    </p>
  );
}
