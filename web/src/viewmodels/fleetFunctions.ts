/** What a function costs across services. */

import type { FunctionsAnswer } from "../api/answers.ts";
import { count } from "../strings/counts.ts";

const MONTH_HOURS = 730;

/** The dotted name of a function: `json.dumps` of `dumps (json/__init__.py)`. */
export function dottedName(name: string, file: string): string {
  const module = file.replace(/\.py$/, "").replace(/\/__init__$/, "").replaceAll("/", ".");
  return file === "" || !/^[\w.]+$/.test(module) ? name : `${module}.${name}`;
}

/** The cost of cores for a month; null without a price. */
export const monthlyAmount = (cores: number | null, price: number | null): number | null => (cores === null || price === null ? null : cores * price * MONTH_HOURS);

/** The cost of cores for a month, rounded to what one reads; empty without a price. The currency is that of the setting. */
export function monthlyCost(cores: number | null, price: number | null): string {
  const amount = monthlyAmount(cores, price);
  if (amount === null) return "";
  return amount >= 100 ? count(amount) : amount.toFixed(amount >= 10 ? 1 : 2);
}

/** The share of a row in the time of all services. */
export function fleetShare({ rows, seconds, by }: FunctionsAnswer, at: number): number {
  const own = by === "self" ? rows.self_seconds[at] : rows.total_seconds[at];
  return seconds > 0 ? own / seconds : 0;
}
