import { formatRate, rateUnit } from "../lib/quantities.ts";
import type { VersionSighting } from "../api/grids.ts";
import { formatClock } from "../lib/times.ts";
import * as strings from "../strings/serviceStrings.tsx";

export interface Trend {
  readonly start: readonly number[];
  readonly step: number;
  readonly value: readonly (number | null)[];
  readonly versions: readonly VersionSighting[];
}

const WIDTH = 132;
const HEIGHT = 28;
const TOP = 3;

/** When a version other than the first was seen first, as a part of the time drawn. */
export function deployMarkers(trend: Trend): { version: string; at: number; x: number }[] {
  const start = trend.start[0] ?? 0;
  const length = trend.start.length * trend.step;
  return trend.versions.slice(1).map(({ version, first_seen }) => ({ version, at: first_seen, x: Math.min(Math.max((first_seen - start) / length, 0), 1) }));
}

/** Bars of what each step took, as one path; a step that took nothing is a hairline, one not watched is empty. */
export function barPath(value: readonly (number | null)[], maximum: number): string {
  const barWidth = WIDTH / Math.max(value.length, 1);
  return value.map((rate, i) => {
    if (rate === null) return "";
    const barHeight = Math.max((maximum > 0 ? rate / maximum : 0) * (HEIGHT - TOP), 0.75);
    return `M${(i * barWidth).toFixed(1)},${HEIGHT}v${(-barHeight).toFixed(1)}h${Math.max(barWidth - 0.4, 0.4).toFixed(2)}v${barHeight.toFixed(1)}z`;
  }).join("");
}

export function Sparkline({ trend }: { trend: Trend }) {
  const values = trend.value.filter((one) => one !== null);
  const maximum = Math.max(...values, 0);
  const mean = values.reduce((all, one) => all + one, 0) / Math.max(values.length, 1);
  const markers = deployMarkers(trend);
  const summary = strings.trendDescription(formatRate(mean, rateUnit("cpu")), formatRate(maximum, rateUnit("cpu")), markers.map(({ version, at }) => strings.fromLabel((version || strings.noVersionLabelled).slice(0, 60), formatClock(at).slice(0, -3))).join(""));
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={summary}>
      <title>{summary}</title>
      <path class="spark" d={barPath(trend.value, maximum)} />
      {markers.map(({ version, x }) => <path key={version} class="deployed" d={`M${(x * WIDTH).toFixed(1)},0v${HEIGHT}m-3,${-HEIGHT}h6l-3,4z`} />)}
    </svg>
  );
}
