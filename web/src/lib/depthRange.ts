import type { Place } from "./url.ts";

/** Depths of stacks, both included. */
export interface Band {
  readonly from: number;
  readonly until: number;
}

/** The band of an address; either end may be left open there. */
export function bandOf({ depth_from: from, depth_until: until }: Pick<Place, "depth_from" | "depth_until">, deepest: number): Band | null {
  const [least, most] = [from, until].map((text) => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0));
  if (least === 0 && most === 0) return null;
  return least > most && most > 0 ? { from: most, until: least } : { from: Math.max(least, 1), until: most || Math.max(deepest, least) };
}

export const written = ({ from, until }: Band) => ({ depth_from: String(from), depth_until: String(until) });

/** What a drag from one place of an axis (0 at its left end, 1 at its right) to another covers, in whole bins. */
export function dragged(a: number, b: number, bins: number, width: number): Band {
  const bin = (part: number) => Math.min(Math.max(Math.floor(part * bins), 0), bins - 1);
  const [first, last] = a < b ? [bin(a), bin(b)] : [bin(b), bin(a)];
  return { from: Math.max(first * width, 1), until: Math.max(last * width + width - 1, 1) };
}

/** The band after an arrow key: it moves by its step, and with Shift its upper end does. Null for other keys. */
export function stepped(band: Band | null, key: string, shift: boolean, step: number, deepest: number): Band | null {
  const by = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step }[key];
  if (by === undefined) return null;
  if (!band) return by > 0 ? { from: 1, until: Math.min(step, deepest) } : { from: Math.max(deepest - step + 1, 1), until: deepest };
  const inside = (depth: number) => Math.min(Math.max(depth, 1), deepest);
  if (shift) return { from: band.from, until: Math.max(inside(band.until + by), band.from) };
  const moved = by > 0 ? Math.min(by, deepest - band.until) : Math.max(by, 1 - band.from);
  return { from: band.from + moved, until: band.until + moved };
}

export const bandName = ({ from, until }: Band): string => (from === until ? `${from} frames deep` : `${from}–${until} frames deep`);
