import type { TreeMetrics } from "../../flamegraph/analysis/treeMetrics.ts";
import type { LegendEntry } from "../../flamegraph/render/colourSchemes.ts";

const GROUP_LABELS = { "application": "Application", "third party": "Third party", "standard library": "Standard library", "no file": "", "": "" } as const;

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
  "application": "Packages that are neither third party nor in the standard library",
  "third party": "Packages in site-packages, or known from PyPI by their name",
  "standard library": "Modules that come with Python",
  "no file": "", "": "",
};

export const CHANGE_LEGEND = [
  { name: "▼ half or less in B", colour: "#1f74c4" },
  { name: "within noise", colour: "#c9ccd3" },
  { name: "▲ twice or more in B", colour: "#e06b00" },
  { name: "new in B", colour: "#e06b00", hatch: "new" },
  { name: "removed in B", colour: "#1f74c4", hatch: "removed" },
  { name: "not judged", colour: "#ebecf0" },
] as const;

/** What width and colour stand for in a graph of two sides. */
export const describeScale = ({ norm, significance }: Pick<TreeMetrics, "norm" | "significance">): string =>
  `width: mean of A and B, ${norm === "rate" ? "per pod" : "share of each profile"}; colour: change ${significance?.isByShare || norm === "share" ? "of the share of the profile" : "per pod"}`;

export function ChangeLegend({ metrics }: { metrics: TreeMetrics }) {
  return (
    <p class="legend change">
      <span>▼ half or less in B</span>
      <span class="scale" aria-hidden="true" />
      <span>▲ twice or more in B</span>
      <span><span class="swatch hatch-new" aria-hidden="true" /> new in B</span>
      <span><span class="swatch hatch-removed" aria-hidden="true" /> removed in B</span>
      <span><span class="swatch neutral" aria-hidden="true" /> within noise</span>
      {metrics.significance && <span><span class="swatch not-judged" aria-hidden="true" /> not judged</span>}
      <span class="quiet">{describeScale(metrics)}</span>
    </p>
  );
}
