import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import type { LegendEntry } from "../../flamegraph/render/colourSchemes.ts";
import * as strings from "../../strings/profileStrings.tsx";

const GROUP_LABELS = { "application": strings.application, "third party": strings.thirdParty, "standard library": strings.standardLibrary, "no file": "", "": "" } as const;

/** What the colours stand for; packages come in groups, by whose code they are. */
export function ColourLegend({ entries, label }: { entries: readonly LegendEntry[]; label: string }) {
  return (
    <ul class="legend" aria-label={label}>
      {entries.map(({ name, colour, value, group }, at) => (
        <li key={name + at}>
          {group !== entries[at - 1]?.group && GROUP_LABELS[group] !== "" && <span class="group" title={GROUP_TITLES[group]}>{GROUP_LABELS[group]}</span>}{" "}
          <span class="swatch" style={{ background: colour }} aria-hidden="true" />{name !== "" && <><bdi>{name}</bdi> </>}<span class="quiet">{value}</span>
        </li>
      ))}
    </ul>
  );
}

const GROUP_TITLES: Record<LegendEntry["group"], string> = {
  "application": strings.applicationHint,
  "third party": strings.thirdPartyHint,
  "standard library": strings.standardLibraryHint,
  "no file": "", "": "",
};

export const CHANGE_LEGEND = [
  { name: strings.halfOrLess, colour: "#1f74c4" },
  { name: strings.withinNoise, colour: "#c9ccd3" },
  { name: strings.twiceOrMore, colour: "#e06b00" },
  { name: strings.newInB, colour: "#e06b00", hatch: "new" },
  { name: strings.removedInB, colour: "#1f74c4", hatch: "removed" },
  { name: strings.notJudged, colour: "#ebecf0" },
] as const;

/** What width and colour stand for in a graph of two sides. */
export const describeScale = ({ norm, significance }: Pick<TreeMetrics, "norm" | "significance">): string =>
  strings.scaleDescription(norm === "rate" ? strings.meanPerPod : strings.meanShare, significance?.isByShare || norm === "share" ? strings.ofShare : strings.perPod);

export function ChangeLegend({ metrics }: { metrics: TreeMetrics }) {
  return (
    <p class="legend change">
      <span>{strings.halfOrLess}</span>
      <span class="scale" aria-hidden="true" />
      <span>{strings.twiceOrMore}</span>
      <span>{strings.newInBEntry(<span class="swatch hatch-new" aria-hidden="true" />)}</span>
      <span>{strings.removedInBEntry(<span class="swatch hatch-removed" aria-hidden="true" />)}</span>
      <span>{strings.withinNoiseEntry(<span class="swatch neutral" aria-hidden="true" />)}</span>
      {metrics.significance && <span>{strings.notJudgedEntry(<span class="swatch not-judged" aria-hidden="true" />)}</span>}
      <span class="quiet">{describeScale(metrics)}</span>
    </p>
  );
}
