/**
 * How two sides are normalised and compared.
 *
 * `rate` divides sampled time by how long pods were watched: seconds per pod-second. Code that did not
 * change keeps its value when something else grows, so it is the default. `share` divides by the side's
 * own total. A difference counts as a change only beyond twice the counting noise: n samples scatter by
 * about √n, so a value v seen in n samples is known to within v/√n.
 */

import type { Normalisation } from "../../lib/viewOptions.ts";

/**
 * `no_data`: one side was not watched, or has no total to take a share of, so nothing follows from its zero.
 * `not_judged`: the collector makes no statement.
 */
export type CountedDirection = "unchanged" | "increased" | "decreased" | "new" | "removed" | "no_data";
export type ChangeDirection = CountedDirection | "not_judged";

export interface Change {
  /** Comparison minus baseline, normalised. */
  readonly delta: number;
  /** log2 of comparison over baseline; ±Infinity when one of them is 0, 0 when both are. */
  readonly doublings: number;
  readonly direction: ChangeDirection;
  /** What a difference must exceed to count as a change: twice the counting noise, normalised. */
  readonly threshold: number;
}

/** What each side's microseconds are divided by; 0 stands for "nothing watched". */
export function divisors(norm: Normalisation, podSeconds: readonly number[], totalUs: readonly number[]): number[] {
  return norm === "rate" ? podSeconds.map((seconds) => seconds * 1e6) : [...totalUs];
}

const divide = (value: number, divisor: number) => (divisor > 0 ? value / divisor : 0);

/** The mean of the sides, so that a frame which is gone keeps an area. One side keeps its microseconds. */
export function meanOf(sides: readonly Float64Array[], divisor: readonly number[]): Float64Array {
  if (sides.length === 1) return sides[0];
  const mean = new Float64Array(sides[0].length);
  sides.forEach((us, side) => {
    if (divisor[side] > 0) for (let i = 0; i < mean.length; i++) mean[i] += us[i] / divisor[side] / sides.length;
  });
  return mean;
}

export function changeOf(us: readonly [number, number], samples: readonly [number, number], divisor: readonly number[]): Change & { readonly direction: CountedDirection } {
  const a = divide(us[0], divisor[0]);
  const b = divide(us[1], divisor[1]);
  const delta = b - a;
  const doublings = a === 0 && b === 0 ? 0 : Math.log2(b / a);
  const threshold = 2 * countingNoise(us, samples, divisor);
  return { delta, doublings, direction: significantDirection(us, divisor, delta, threshold), threshold };
}

function significantDirection(us: readonly [number, number], divisor: readonly number[], delta: number, threshold: number): CountedDirection {
  if (divisor[0] <= 0 || divisor[1] <= 0) return "no_data";
  return Math.abs(delta) <= threshold ? "unchanged" : directionOfDelta(us, delta);
}

/** Which way a difference goes, however small it is. */
export function directionOfDelta(us: readonly [number, number], delta: number): CountedDirection {
  if (delta === 0) return "unchanged";
  if (us[0] === 0) return "new";
  if (us[1] === 0) return "removed";
  return delta > 0 ? "increased" : "decreased";
}

/** The standard deviation of the difference, from the counts; a side with no sample counts as one. */
function countingNoise(us: readonly [number, number], samples: readonly [number, number], divisor: readonly number[]): number {
  const totalSamples = samples[0] + samples[1];
  if (totalSamples === 0) return 0;
  const perSample = (us[0] + us[1]) / totalSamples;
  let variance = 0;
  for (const side of [0, 1] as const) {
    const usPerSample = samples[side] > 0 ? us[side] / samples[side] : perSample;
    variance += Math.max(samples[side], 1) * divide(usPerSample, divisor[side]) ** 2;
  }
  return Math.sqrt(variance);
}
