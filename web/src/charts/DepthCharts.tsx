import type { DepthRange } from "../lib/depthRange.ts";
import { binWidth, cumulative, axisMaximum, toShares, binSamples, type DepthSamples } from "../lib/distribution.ts";
import { percent } from "../lib/numbers.ts";
import * as strings from "../strings/depthStrings.tsx";

const WIDTH = 640;
const HEIGHT = 240;
const LEFT = 56;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 42;
const SIDES = ["a", "b"] as const;

interface DepthChartProps {
  readonly sides: readonly DepthSamples[];
  readonly names: readonly string[];
  readonly deepest: number;
  readonly summary: string;
  readonly range: DepthRange | null;
}

/** How a histogram of these depths is divided: so many bins of so many depths. */
export function histogramBins(deepest: number): { bins: number; width: number } {
  const width = binWidth(deepest, 48);
  return { bins: Math.floor(deepest / width) + 1, width };
}

/** The place of a pixel of a chart on its axis: 0 at its left end, 1 at its right. */
export const axisPosition = (pixel: number, pixels: number): number => ((pixel / pixels) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);

const xAt = (part: number) => LEFT + part * (WIDTH - LEFT - RIGHT);
const yAt = (part: number) => TOP + (1 - part) * (HEIGHT - TOP - BOTTOM);

/** Bars side by side, never overlaid; B's are hatched so that colour is not the only sign. */
export function Histogram({ sides, names, deepest, summary, range }: DepthChartProps) {
  const { width } = histogramBins(deepest);
  const bins = sides.map((side) => toShares(binSamples(side, deepest, width)));
  const highest = axisMaximum(Math.max(...bins.flat(), 1e-9));
  const slots = bins[0].length;
  const bar = (WIDTH - LEFT - RIGHT) / slots / (sides.length + 0.3);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
      <Hatch />
      <Axes deepest={slots * width} highest={highest} label={strings.depthAxis} />
      <SelectedDepths range={range} top={slots * width} />
      {bins.map((shares, side) => shares.map((share, bin) => share > 0 && (
        <rect key={`${side}.${bin}`} class={`bar-${SIDES[side]}`} x={xAt(bin / slots) + bar * (side + 0.15)} y={yAt(share / highest)}
          width={Math.max(bar - 0.5, 0.5)} height={Math.max(yAt(0) - yAt(share / highest), 0.5)}>
          <title>{strings.ofSamplesAtDepth(names[side], percent(share), width === 1 ? bin : `${bin * width}–${bin * width + width - 1}`)}</title>
        </rect>
      )))}
    </svg>
  );
}

/** The cumulative share of samples, as steps; B is dashed. */
export function Ecdf({ sides, names, deepest, summary, gapAt, range }: DepthChartProps & { gapAt: number | null }) {
  const steps = sides.map((side) => cumulative(side, deepest));
  const path = (parts: readonly number[]) =>
    parts.map((part, depth) => `${depth === 0 ? "M" : "H"}${xAt(depth / (deepest + 1)).toFixed(1)}${depth === 0 ? `,${yAt(part).toFixed(1)}` : `V${yAt(part).toFixed(1)}`}`).join("") + `H${xAt(1)}`;
  const [a, b] = steps;
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
      <Axes deepest={deepest + 1} highest={1} label={strings.cumulativeAxes} />
      <SelectedDepths range={range} top={deepest + 1} />
      {gapAt !== null && b && (
        <line class="gap-line" x1={xAt((gapAt + 0.5) / (deepest + 1))} x2={xAt((gapAt + 0.5) / (deepest + 1))} y1={yAt(a[gapAt])} y2={yAt(b[gapAt])}>
          <title>{strings.largestGapAtDepth(percent(Math.abs(a[gapAt] - b[gapAt])), gapAt)}</title>
        </line>
      )}
      {steps.map((parts, side) => <path key={side} class={`line-${SIDES[side]}`} d={path(parts)}><title>{names[side]}</title></path>)}
    </svg>
  );
}

/** The depths that were brushed. */
function SelectedDepths({ range, top }: { range: DepthRange | null; top: number }) {
  if (!range) return null;
  const [from, until] = [range.from, range.until + 1].map((depth) => xAt(Math.min(depth / top, 1)));
  return <rect class="marked" x={from} width={Math.max(until - from, 1)} y={TOP} height={HEIGHT - TOP - BOTTOM} />;
}

const Hatch = () => (
  <defs>
    <pattern id="hatch-b" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect width="5" height="5" class="hatch-ground" /><line x1="0" y1="0" x2="0" y2="5" class="hatch-line" />
    </pattern>
  </defs>
);

function Axes({ deepest, highest, label }: { deepest: number; highest: number; label: string }) {
  const every = binWidth(deepest, 8);
  const ticks = Array.from({ length: Math.floor(deepest / every) + 1 }, (_, i) => i * every);
  return (
    <g class="axes" aria-hidden="true">
      {[0, 0.25, 0.5, 0.75, 1].map((part) => (
        <g key={part}>
          <line x1={LEFT} x2={WIDTH - RIGHT} y1={yAt(part)} y2={yAt(part)} />
          <text x={LEFT - 5} y={yAt(part) + 4} text-anchor="end">{percent(part * highest, highest <= 0.1 ? 1 : 0)}</text>
        </g>
      ))}
      {ticks.map((tick) => <text key={tick} x={xAt(tick / deepest)} y={HEIGHT - BOTTOM + 17} text-anchor="middle">{tick}</text>)}
      <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 4} text-anchor="middle">{label}</text>
    </g>
  );
}
