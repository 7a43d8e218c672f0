import { short } from "../lib/numbers.ts";
import type { SeenVersion } from "../api/grids.ts";
import { clock } from "../lib/times.ts";

export interface Trend {
  readonly start: readonly number[];
  readonly step: number;
  readonly value: readonly (number | null)[];
  readonly versions: readonly SeenVersion[];
}

const WIDTH = 132;
const HEIGHT = 28;
const TOP = 3;

/** When a version other than the first was seen first, as a part of the time drawn. */
export function deployed(trend: Trend): { version: string; at: number; x: number }[] {
  const first = trend.start[0] ?? 0;
  const length = trend.start.length * trend.step;
  return trend.versions.slice(1).map(({ version, first_seen }) => ({ version, at: first_seen, x: Math.min(Math.max((first_seen - first) / length, 0), 1) }));
}

/** Bars of what each step took, as one path; a step that took nothing is a hairline, one not watched is empty. */
export function bars(value: readonly (number | null)[], most: number): string {
  const wide = WIDTH / Math.max(value.length, 1);
  return value.map((one, i) => {
    if (one === null) return "";
    const high = Math.max((most > 0 ? one / most : 0) * (HEIGHT - TOP), 0.75);
    return `M${(i * wide).toFixed(1)},${HEIGHT}v${(-high).toFixed(1)}h${Math.max(wide - 0.4, 0.4).toFixed(2)}v${high.toFixed(1)}z`;
  }).join("");
}

export function Sparkline({ trend }: { trend: Trend }) {
  const seen = trend.value.filter((one) => one !== null);
  const most = Math.max(...seen, 0);
  const mean = seen.reduce((all, one) => all + one, 0) / Math.max(seen.length, 1);
  const markers = deployed(trend);
  const said = `CPU cores per pod: mean ${short(mean)}, highest ${short(most)}${markers.map(({ version, at }) => `; ${(version || "(no version)").slice(0, 60)} from ${clock(at).slice(0, -3)}`).join("")}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={said}>
      <title>{said}</title>
      <path class="spark" d={bars(trend.value, most)} />
      {markers.map(({ version, x }) => <path key={version} class="deployed" d={`M${(x * WIDTH).toFixed(1)},0v${HEIGHT}m-3,${-HEIGHT}h6l-3,4z`} />)}
    </svg>
  );
}
