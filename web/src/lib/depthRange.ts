import type { Place } from "./url.ts";
import * as strings from "../strings/depthStrings.tsx";

/** A range of stack depths, both ends included. */
export interface DepthRange {
  readonly from: number;
  readonly until: number;
}

/** The depth range of an address, where either end may be open. */
export function parseDepthRange({ min_depth: from, max_depth: until }: Pick<Place, "min_depth" | "max_depth">, deepest: number): DepthRange | null {
  const [lower, upper] = [from, until].map((text) => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0));
  if (lower === 0 && upper === 0) return null;
  return lower > upper && upper > 0 ? { from: upper, until: lower } : { from: Math.max(lower, 1), until: upper || Math.max(deepest, lower) };
}

export const depthRangeParameters = ({ from, until }: DepthRange) => ({ min_depth: String(from), max_depth: String(until) });

/** The whole bins that a drag covers, from one position of the axis (0 at its left end, 1 at its right) to another. */
export function dragDepthRange(a: number, b: number, bins: number, width: number): DepthRange {
  const bin = (part: number) => Math.min(Math.max(Math.floor(part * bins), 0), bins - 1);
  const [first, last] = a < b ? [bin(a), bin(b)] : [bin(b), bin(a)];
  return { from: Math.max(first * width, 1), until: Math.max(last * width + width - 1, 1) };
}

/** The range after an arrow key: it moves by `step`; with Shift its upper end does. Null for other keys. */
export function stepDepthRange(range: DepthRange | null, key: string, shift: boolean, step: number, deepest: number): DepthRange | null {
  const by = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step }[key];
  if (by === undefined) return null;
  if (!range) return by > 0 ? { from: 1, until: Math.min(step, deepest) } : { from: Math.max(deepest - step + 1, 1), until: deepest };
  const clamp = (depth: number) => Math.min(Math.max(depth, 1), deepest);
  if (shift) return { from: range.from, until: Math.max(clamp(range.until + by), range.from) };
  const moved = by > 0 ? Math.min(by, deepest - range.until) : Math.max(by, 1 - range.from);
  return { from: range.from + moved, until: range.until + moved };
}

export const formatDepthRange = ({ from, until }: DepthRange): string => (from === until ? strings.framesDeep(from) : strings.framesDeepRange(from, until));
