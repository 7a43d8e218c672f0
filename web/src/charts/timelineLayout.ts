import { formatClock, utcOffsetSeconds } from "../lib/times.ts";

/** Where a timeline's parts lie, in pixels and in steps. All of it is computed here and drawn in components/timeline/Timeline. */

export interface Marker {
  readonly at: number;
  readonly text: string;
  /** Whether it was there before the range began: its time says nothing of a deployment. */
  readonly isEarlier?: boolean;
  /** From when to when it was rolled out, where that is known. */
  readonly rollouts?: readonly Span[];
}

/** A label above the chart: of its first marker, and of earlier ones where there is no room for each. */
export interface Flag<One extends Marker = Marker> {
  readonly x: number;
  readonly width: number;
  /** Whether it ends at its marker, for want of room behind it; else it begins there. */
  readonly isBefore: boolean;
  readonly row: number;
  readonly markers: readonly One[];
}

export const FLAG_ROWS = 2;
const LETTER_PIXELS = 6.6;
const FLAG_PADDING = 78;
const MAX_FLAG_LETTERS = 20;
const FLAG_GAP = 2;

/** Labels for markers in order of time, none over another. The newest has its own; what has no room joins the one after it. */
export function layoutFlags<One extends Marker>(markers: readonly One[], x: (at: number) => number, width: number): Flag<One>[] {
  const rowStarts = new Array<number>(FLAG_ROWS).fill(width + FLAG_GAP);
  const placed: { x: number; width: number; isBefore: boolean; row: number; markers: One[] }[] = [];
  for (const marker of [...markers].reverse()) {
    const flagWidth = Math.min(Math.min(marker.text.length, MAX_FLAG_LETTERS) * LETTER_PIXELS + FLAG_PADDING, width);
    const pole = Math.min(Math.max(x(marker.at), 0), width);
    const isBefore = pole + flagWidth > width;
    const left = isBefore ? Math.max(pole - flagWidth, 0) : pole;
    const row = rowStarts.findIndex((rowStart) => left + flagWidth + FLAG_GAP <= rowStart);
    if (row >= 0) {
      placed.push({ x: left, width: flagWidth, isBefore, row, markers: [marker] });
      rowStarts[row] = left;
    } else {
      placed.at(-1)?.markers.push(marker);
    }
  }
  return placed.reverse();
}

const TICK_SECONDS = [10, 30, 60, 300, 600, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000, 7_776_000];

export interface Tick {
  readonly at: number;
  readonly text: string;
}

/** Marks of the time axis, on round times of the browser's clock. */
export function axisTicks(from: number, until: number, maxTicks: number): Tick[] {
  const length = until - from;
  const step = TICK_SECONDS.find((candidate) => length / candidate <= maxTicks) ?? TICK_SECONDS[TICK_SECONDS.length - 1];
  const shift = -utcOffsetSeconds(from);
  const result: Tick[] = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at < until; at += step) {
    const label = formatClock(at);
    result.push({ at, text: step >= 86_400 ? label.slice(5, 10) : length > 86_400 ? label.slice(5, 16) : label.slice(11, step < 60 ? 19 : 16) });
  }
  return result;
}

export interface Span {
  readonly from: number;
  readonly until: number;
}

/** Empty time at the end is a gap only when it is longer than windows take to arrive. */
const MIN_GAP_SECONDS = 180;

/** The time in which nothing was watched: runs of empty steps within the range. */
export function findGaps(start: readonly number[], step: number, watched: readonly number[], range: Span, now: number): Span[] {
  const result: { from: number; until: number }[] = [];
  start.forEach((at, i) => {
    if (watched[i] > 0) return;
    const last = result.at(-1);
    if (last && last.until === at) last.until = at + step;
    else result.push({ from: at, until: at + step });
  });
  const arrivalDelay = Math.max(MIN_GAP_SECONDS, 2 * step);
  return result
    .filter(({ from, until }) => until < now || now - from > arrivalDelay)
    .map(({ from, until }) => ({ from: Math.max(from, range.from), until: Math.min(until, range.until) }))
    .filter(({ from, until }) => until > from);
}

/** What is chosen on a timeline, in steps: the one pointed at, and the other end of a brushed range, if there is one. */
export interface BrushSelection {
  readonly head: number;
  readonly anchor: number | null;
}

const PAGE_STEPS = 10;

/** A brush after a key; null when the key is none of ours. */
export function moveBrush(brush: BrushSelection | null, key: string, shift: boolean, steps: number): BrushSelection | null {
  const last = steps - 1;
  const at = brush?.head ?? last;
  const targets: Record<string, number> = {
    ArrowLeft: brush ? at - 1 : last, ArrowRight: brush ? at + 1 : 0, PageUp: at - PAGE_STEPS, PageDown: at + PAGE_STEPS, Home: 0, End: last,
  };
  if (steps === 0 || !Object.hasOwn(targets, key)) return null;
  const head = Math.min(Math.max(targets[key], 0), last);
  return { head, anchor: shift ? (brush?.anchor ?? at) : null };
}

/** The time of a brush, both of its steps included. */
export function brushSpan(brush: BrushSelection, start: readonly number[], step: number, range: Span): Span {
  const [first, last] = [Math.min(brush.head, brush.anchor ?? brush.head), Math.max(brush.head, brush.anchor ?? brush.head)];
  return { from: Math.max(start[first], range.from), until: Math.min(start[last] + step, range.until) };
}

/** The step in which a moment lies; the nearest one outside of all. */
export const stepAt = (at: number, start: readonly number[], step: number): number =>
  Math.min(Math.max(Math.floor((at - (start[0] ?? 0)) / step), 0), Math.max(start.length - 1, 0));

/** A range is shown in some 240 steps where windows are kept one by one. */
const TARGET_STEPS = 240;

/** How coarsely windows are kept, if so coarsely that it shows: bars that are wider than asked for, or stand for more time than their width. */
export function coarseResolution(resolutions: readonly { resolution: string; until: number }[], step: number, range: Span): { every: "hour" | "day"; until: number } | null {
  const endOf = (name: string) => resolutions.find(({ resolution }) => resolution === name)?.until;
  const [day, hour] = [endOf("day"), endOf("hour")];
  if (day !== undefined && step <= 86_400) return { every: "day", until: day };
  return hour !== undefined && step === 3600 && (range.until - range.from) / TARGET_STEPS <= 1800 ? { every: "hour", until: hour } : null;
}
