/** Quantities of a comparison: CPU in cores and millicores per pod, other time in threads per pod, or time per request. */

import { short, signed } from "./numbers.ts";
import type { ProfileType } from "./viewOptions.ts";

/** How a rate, in seconds per second of a pod or per request, is written. */
export interface RateUnit {
  readonly scale: number;
  /** The unit in a column whose heading says what it is per. */
  readonly symbol: string;
  readonly name: string;
}

const MILLICORES: RateUnit = { scale: 1000, symbol: "m", name: "m/pod" };
const CORES: RateUnit = { scale: 1, symbol: "cores", name: "cores/pod" };
const THREADS: RateUnit = { scale: 1, symbol: "threads", name: "threads/pod" };
const REQUEST: RateUnit = { scale: 1000, symbol: "ms", name: "ms/request" };

export const rateUnit = (type: ProfileType, per?: string): RateUnit => (per === "request" ? REQUEST : type === "cpu" ? MILLICORES : THREADS);

/** A rate alone: from one core on in cores. */
export function formatRate(value: number, unit: RateUnit): string {
  const shown = unit === MILLICORES && value >= 1 ? CORES : unit;
  return `${short(value * shown.scale)} ${shown.name}`;
}

/** The decimals that give the largest number of a column two digits, or three where two show no difference. */
function pairDecimals(values: readonly number[]): number {
  const largest = Math.max(...values.map(Math.abs));
  if (largest === 0) return 0;
  const least = Math.max(1 - Math.floor(Math.log10(largest)), 0);
  const isDistinct = (decimals: number) => new Set(values.map((value) => value.toFixed(decimals))).size === new Set(values).size;
  return isDistinct(least) ? least : Math.min(least + 1, 6);
}

/** "71 → 77 m/pod": two rates in one unit with one precision. */
export function formatRatePair(a: number, b: number, unit: RateUnit): string {
  const shown = unit === MILLICORES && Math.max(a, b) >= 1 ? CORES : unit;
  const [from, to] = [a * shown.scale, b * shown.scale];
  const decimals = pairDecimals([from, to]);
  return `${from.toFixed(decimals)} → ${to.toFixed(decimals)} ${shown.name}`;
}

/** Differences of one column: the smallest that counts has two digits, and all have the same decimals. */
export function formatColumn(values: readonly number[], symbol: string): readonly string[] {
  const sizes = values.map(Math.abs).filter((size) => size > 0);
  const decimals = sizes.length === 0 ? 0 : Math.min(Math.max(1 - Math.floor(Math.log10(Math.min(...sizes))), 0), 3);
  return values.map((value) => `${signed(value.toFixed(decimals), value)}${symbol === "" ? "" : ` ${symbol}`}`);
}

/** "+8.5 % (+7.9 … +9.1)": a relative change with its interval. */
export function formatRelativeEffect(relative: number | null, low: number | null, high: number | null): string {
  if (relative === null) return "";
  const part = (value: number) => signed((value * 100).toFixed(Math.abs(value) < 0.995 ? 1 : 0), value);
  return `${part(relative)} %${low !== null && high !== null && (low !== 0 || high !== 0) ? ` (${part(low)} … ${part(high)})` : ""}`;
}
