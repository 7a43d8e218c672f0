import { clock } from "../lib/times.ts";

/** Where a timeline's parts lie, in pixels and in steps. All of it is computed here and drawn in components/timeline/Timeline. */

export interface Marker {
  readonly at: number;
  readonly text: string;
  /** From when to when it was rolled out, where that is known. */
  readonly rolled?: readonly Span[];
}

/** A label above the chart: of its first marker, and of earlier ones where there is no room for each. */
export interface Flag<One extends Marker = Marker> {
  readonly x: number;
  readonly width: number;
  readonly row: number;
  readonly markers: readonly One[];
}

export const FLAG_ROWS = 2;
const LETTER_PIXELS = 6.6;
const FLAG_ROOM = 78;
const MOST_LETTERS = 20;
const APART = 2;

/** Labels for markers in order of time, none over another. The newest has its own; what has no room joins the one after it. */
export function flags<One extends Marker>(markers: readonly One[], x: (at: number) => number, width: number): Flag<One>[] {
  const begins = new Array<number>(FLAG_ROWS).fill(width + APART);
  const placed: { x: number; width: number; row: number; markers: One[] }[] = [];
  for (const marker of [...markers].reverse()) {
    const own = Math.min(Math.min(marker.text.length, MOST_LETTERS) * LETTER_PIXELS + FLAG_ROOM, width);
    const left = Math.max(Math.min(x(marker.at), width - own), 0);
    const row = begins.findIndex((begin) => left + own + APART <= begin);
    if (row >= 0) {
      placed.push({ x: left, width: own, row, markers: [marker] });
      begins[row] = left;
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
export function ticks(from: number, until: number, most: number): Tick[] {
  const length = until - from;
  const step = TICK_SECONDS.find((each) => length / each <= most) ?? TICK_SECONDS[TICK_SECONDS.length - 1];
  const shift = new Date(from * 1000).getTimezoneOffset() * 60;
  const made: Tick[] = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at < until; at += step) {
    const said = clock(at);
    made.push({ at, text: step >= 86_400 ? said.slice(5, 10) : length > 86_400 ? said.slice(5, 16) : said.slice(11, step < 60 ? 19 : 16) });
  }
  return made;
}

export interface Span {
  readonly from: number;
  readonly until: number;
}

/** Empty time at the end is a gap only when it is longer than windows take to arrive. */
const ARRIVAL_SECONDS = 180;

/** The time in which nothing was watched: runs of empty steps within the range. */
export function gaps(start: readonly number[], step: number, watched: readonly number[], range: Span, now: number): Span[] {
  const found: { from: number; until: number }[] = [];
  start.forEach((at, i) => {
    if (watched[i] > 0) return;
    const last = found.at(-1);
    if (last && last.until === at) last.until = at + step;
    else found.push({ from: at, until: at + step });
  });
  const late = Math.max(ARRIVAL_SECONDS, 2 * step);
  return found
    .filter(({ from, until }) => until < now || now - from > late)
    .map(({ from, until }) => ({ from: Math.max(from, range.from), until: Math.min(until, range.until) }))
    .filter(({ from, until }) => until > from);
}

/** What is chosen on a timeline, in steps: the one pointed at, and the other end of a brushed range, if there is one. */
export interface Brush {
  readonly head: number;
  readonly anchor: number | null;
}

const PAGE = 10;

/** A brush after a key; null when the key is none of ours. */
export function afterKey(brush: Brush | null, key: string, shift: boolean, steps: number): Brush | null {
  const last = steps - 1;
  const at = brush?.head ?? last;
  const to: Record<string, number> = {
    ArrowLeft: brush ? at - 1 : last, ArrowRight: brush ? at + 1 : 0, PageUp: at - PAGE, PageDown: at + PAGE, Home: 0, End: last,
  };
  if (steps === 0 || !Object.hasOwn(to, key)) return null;
  const head = Math.min(Math.max(to[key], 0), last);
  return { head, anchor: shift ? (brush?.anchor ?? at) : null };
}

/** The time of a brush, both of its steps included. */
export function spanOf(brush: Brush, start: readonly number[], step: number, range: Span): Span {
  const [first, last] = [Math.min(brush.head, brush.anchor ?? brush.head), Math.max(brush.head, brush.anchor ?? brush.head)];
  return { from: Math.max(start[first], range.from), until: Math.min(start[last] + step, range.until) };
}

/** The step in which a moment lies; the nearest one outside of all. */
export const stepAt = (at: number, start: readonly number[], step: number): number =>
  Math.min(Math.max(Math.floor((at - (start[0] ?? 0)) / step), 0), Math.max(start.length - 1, 0));

/** A range is shown in some 240 steps where windows are kept one by one. */
const USUAL_STEPS = 240;

/** How coarsely windows are kept, if so coarsely that it shows: bars that are wider than asked for, or stand for more time than their width. */
export function coarse(resolutions: readonly { resolution: string; until: number }[], step: number, range: Span): { every: "hour" | "day"; until: number } | null {
  const last = (wanted: string) => resolutions.find(({ resolution }) => resolution === wanted)?.until;
  const [day, hour] = [last("day"), last("hour")];
  if (day !== undefined && step <= 86_400) return { every: "day", until: day };
  return hour !== undefined && step === 3600 && (range.until - range.from) / USUAL_STEPS <= 1800 ? { every: "hour", until: hour } : null;
}
