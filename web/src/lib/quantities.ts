/**
 * Quantities: CPU in cores and millicores per pod, other time in threads or tasks per pod, or time per request; and the numbers of
 * one column in one unit with one precision, so that they can be compared digit by digit.
 */

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
export const CORES: RateUnit = { scale: 1, symbol: "cores", name: "cores/pod" };
const THREADS: RateUnit = { scale: 1, symbol: "threads", name: "threads/pod" };
const TASKS: RateUnit = { scale: 1, symbol: "tasks", name: "tasks/pod" };
const REQUEST: RateUnit = { scale: 1000, symbol: "ms", name: "ms/request" };

export const rateUnit = (type: ProfileType, per?: string): RateUnit => (per === "request" ? REQUEST : type === "cpu" ? MILLICORES : type === "tasks" ? TASKS : THREADS);

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

/** Writes a value of a column. */
export type Format = (value: number) => string;

const TIMES = [[3600e6, "h", 7200e6], [60e6, "min", 600e6], [1e6, "s", 1e6], [1e3, "ms", 1e3], [1, "µs", 0]] as const;

/** The largest size in some columns. */
export function largest(...columns: readonly ArrayLike<number>[]): number {
  let most = 0;
  for (const column of columns) for (let at = 0; at < column.length; at++) most = Math.max(most, Math.abs(column[at]));
  return most;
}

/** Microseconds, in the unit of the largest. */
export function timeColumn(most: number): Format {
  const [size, unit] = TIMES.find(([, , from]) => most >= from) ?? TIMES[4];
  return scaledColumn(1 / size, unit === "µs" ? 0 : 2, ` ${unit}`);
}

/** Values of which the smallest has two digits, and all the same decimals: at most so many. */
export function evenColumn(values: Iterable<number | null>, scale = 1, mostDecimals = 3): Format {
  let least = Number.POSITIVE_INFINITY;
  for (const value of values) if (value) least = Math.min(least, Math.abs(value * scale));
  return scaledColumn(scale, Number.isFinite(least) ? Math.min(Math.max(1 - Math.floor(Math.log10(least)), 0), mostDecimals) : 0, "");
}

/** The same column where a dash is for what is unknown, and zero is a value like others. */
export const orZero = (write: Format, zero = "0") => (value: number | null): string => (value === null ? "–" : value === 0 ? zero : write(value));

/** Shares of a whole, from 0 to 1. */
export const shareColumn: Format = scaledColumn(100, 2, " %");

/** The same where a share may be 0 or unknown. */
export const shareOrZero = orZero(shareColumn, "0 %");

/** A column whose heading names its unit. */
export interface UnitColumn {
  readonly unit: string;
  readonly write: Format;
}

/** Rates with three digits of the largest, or shares in per cent. */
export function valueColumn(most: number, unit: RateUnit | null): UnitColumn {
  return { unit: unit?.name ?? "%", write: scaledColumn(unit?.scale ?? 100, decimalsOf(most, unit), "") };
}

/** Differences of such values, and the ends of their intervals; those of shares are in percentage points. */
export function differenceColumn(most: number, unit: RateUnit | null, points: string): UnitColumn {
  const scale = unit?.scale ?? 100;
  const decimals = decimalsOf(most, unit);
  return { unit: unit?.name ?? points, write: (value) => (value === 0 ? "–" : signed((value * scale).toFixed(decimals), value)) };
}

/** The decimals that give the largest value three digits; shares have two. */
function decimalsOf(most: number, unit: RateUnit | null): number {
  const size = most * (unit?.scale ?? 100);
  return unit === null ? 2 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
}

/** Nothing is a dash, and what rounds to nothing says that it is less than the last digit. */
function scaledColumn(scale: number, decimals: number, unit: string): Format {
  const least = 10 ** -decimals;
  return (value) => {
    if (value === 0) return "–";
    const shown = value * scale;
    return `${shown < least / 2 ? `<${least.toFixed(decimals)}` : shown.toFixed(decimals).replace(/\B(?=(\d{3})+(\.|$))/g, ",")}${unit}`;
  };
}
