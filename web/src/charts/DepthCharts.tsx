import type { Band } from "../lib/depthRange.ts";
import { binWidth, cumulative, roundedUp, shares, spread, type Depths } from "../lib/distribution.ts";
import { percent } from "../lib/numbers.ts";

const WIDTH = 640;
const HEIGHT = 240;
const LEFT = 56;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 42;
const SIDES = ["a", "b"] as const;

interface Chart {
  readonly sides: readonly Depths[];
  readonly names: readonly string[];
  readonly deepest: number;
  readonly summary: string;
  readonly band: Band | null;
}

/** How a histogram of these depths is divided: so many bins of so many depths. */
export function binsOf(deepest: number): { bins: number; width: number } {
  const width = binWidth(deepest, 48);
  return { bins: Math.floor(deepest / width) + 1, width };
}

/** The place of a pixel of a chart on its axis: 0 at its left end, 1 at its right. */
export const partAt = (pixel: number, pixels: number): number => ((pixel / pixels) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);

const across = (part: number) => LEFT + part * (WIDTH - LEFT - RIGHT);
const up = (part: number) => TOP + (1 - part) * (HEIGHT - TOP - BOTTOM);

/** Bars side by side, never overlaid; B's are hatched so that colour is not the only sign. */
export function Histogram({ sides, names, deepest, summary, band }: Chart) {
  const { width } = binsOf(deepest);
  const bins = sides.map((side) => shares(spread(side, deepest, width)));
  const highest = roundedUp(Math.max(...bins.flat(), 1e-9));
  const slots = bins[0].length;
  const bar = (WIDTH - LEFT - RIGHT) / slots / (sides.length + 0.3);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
      <Hatch />
      <Frame deepest={slots * width} highest={highest} label="stack depth (frames)" />
      <Marked band={band} top={slots * width} />
      {bins.map((shares, side) => shares.map((share, bin) => share > 0 && (
        <rect key={`${side}.${bin}`} class={`bar-${SIDES[side]}`} x={across(bin / slots) + bar * (side + 0.15)} y={up(share / highest)}
          width={Math.max(bar - 0.5, 0.5)} height={Math.max(up(0) - up(share / highest), 0.5)}>
          <title>{`${names[side]}: ${percent(share)} of samples at depth ${width === 1 ? bin : `${bin * width}–${bin * width + width - 1}`}`}</title>
        </rect>
      )))}
    </svg>
  );
}

/** The part of samples at most so deep, as steps; B is dashed. */
export function Ecdf({ sides, names, deepest, summary, gapAt, band }: Chart & { gapAt: number | null }) {
  const steps = sides.map((side) => cumulative(side, deepest));
  const path = (parts: readonly number[]) =>
    parts.map((part, depth) => `${depth === 0 ? "M" : "H"}${across(depth / (deepest + 1)).toFixed(1)}${depth === 0 ? `,${up(part).toFixed(1)}` : `V${up(part).toFixed(1)}`}`).join("") + `H${across(1)}`;
  const [a, b] = steps;
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={summary}>
      <Frame deepest={deepest + 1} highest={1} label="stack depth (frames), part of samples at most so deep" />
      <Marked band={band} top={deepest + 1} />
      {gapAt !== null && b && (
        <line class="gap-line" x1={across((gapAt + 0.5) / (deepest + 1))} x2={across((gapAt + 0.5) / (deepest + 1))} y1={up(a[gapAt])} y2={up(b[gapAt])}>
          <title>{`largest gap: ${percent(Math.abs(a[gapAt] - b[gapAt]))} at depth ${gapAt}`}</title>
        </line>
      )}
      {steps.map((parts, side) => <path key={side} class={`line-${SIDES[side]}`} d={path(parts)}><title>{names[side]}</title></path>)}
    </svg>
  );
}

/** The depths that were brushed. */
function Marked({ band, top }: { band: Band | null; top: number }) {
  if (!band) return null;
  const [from, until] = [band.from, band.until + 1].map((depth) => across(Math.min(depth / top, 1)));
  return <rect class="marked" x={from} width={Math.max(until - from, 1)} y={TOP} height={HEIGHT - TOP - BOTTOM} />;
}

const Hatch = () => (
  <defs>
    <pattern id="hatch-b" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect width="5" height="5" class="hatch-ground" /><line x1="0" y1="0" x2="0" y2="5" class="hatch-line" />
    </pattern>
  </defs>
);

function Frame({ deepest, highest, label }: { deepest: number; highest: number; label: string }) {
  const every = binWidth(deepest, 8);
  const ticks = Array.from({ length: Math.floor(deepest / every) + 1 }, (_, i) => i * every);
  return (
    <g class="axes" aria-hidden="true">
      {[0, 0.25, 0.5, 0.75, 1].map((part) => (
        <g key={part}>
          <line x1={LEFT} x2={WIDTH - RIGHT} y1={up(part)} y2={up(part)} />
          <text x={LEFT - 5} y={up(part) + 4} text-anchor="end">{percent(part * highest, highest <= 0.1 ? 1 : 0).replace(" ", "")}</text>
        </g>
      ))}
      {ticks.map((tick) => <text key={tick} x={across(tick / deepest)} y={HEIGHT - BOTTOM + 17} text-anchor="middle">{tick}</text>)}
      <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 4} text-anchor="middle">{label}</text>
    </g>
  );
}
