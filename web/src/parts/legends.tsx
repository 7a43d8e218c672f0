import type { LegendEntry } from "../flame/pictures.ts";
import { percent } from "../numbers.ts";

export function PackageLegend({ entries }: { entries: readonly LegendEntry[] }) {
  return (
    <ul class="legend" aria-label="Packages by own time">
      {entries.map(({ name, colour, share }) => (
        <li key={name}><span class="swatch" style={{ background: colour }} aria-hidden="true" /><bdi>{name}</bdi> <span class="quiet">{percent(share)}</span></li>
      ))}
    </ul>
  );
}

export function ChangeLegend() {
  return (
    <p class="legend change">
      <span>▼ half or less in B</span>
      <span class="scale" aria-hidden="true" />
      <span>▲ twice or more in B</span>
      <span><span class="swatch hatch-new" aria-hidden="true" /> new in B</span>
      <span><span class="swatch hatch-gone" aria-hidden="true" /> gone in B</span>
      <span><span class="swatch neutral" aria-hidden="true" /> within counting noise</span>
    </p>
  );
}
