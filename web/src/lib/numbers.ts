/** Numbers as people read them; every function takes one unit and says it in its name. */

import { count } from "../strings/counts.ts";

/** Three significant digits, no exponent for what a profile holds. */
export function short(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return count(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.01 ? 3 : 5);
}

export const percent = (part: number, digits = 1): string => `${(part * 100).toFixed(part !== 0 && Math.abs(part) < 0.001 ? 3 : digits)} %`;

export const signed = (text: string, value: number): string => (value > 0 ? `+${text}` : text.replace("-", "−"));

/** The ends of an interval of a difference. */
export const interval = (low: number, high: number, write: (value: number) => string, joint = "to"): string => `${signed(write(low), low)} ${joint} ${signed(write(high), high)}`;

/** An interval that is wrong in this part of all cases, by its name. */
export const confidenceLabel = (level: number): string => `${Number((100 - level * 100).toFixed(1))} % interval`;

export const signedPercent = (part: number): string => signed(percent(part), part);

export function microseconds(us: number): string {
  const size = Math.abs(us);
  if (size === 0) return "0 s";
  if (size < 1e3) return `${us.toFixed(0)} µs`;
  if (size < 1e6) return `${(us / 1e3).toFixed(size < 1e4 ? 1 : 0)} ms`;
  return seconds(us / 1e6);
}

export function seconds(value: number): string {
  const size = Math.abs(value);
  if (size < 1 && size > 0) return microseconds(value * 1e6);
  if (size < 600) return `${value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0)} s`;
  if (size < 7200) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}
