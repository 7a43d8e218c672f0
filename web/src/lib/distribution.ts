import { percent } from "./numbers.ts";
import * as strings from "../strings/depthStrings.tsx";

/** Sums over one side's stack depths: `depth[i]` frames deep, `samples[i]` samples. */
export interface DepthSamples {
  readonly depth: readonly number[];
  readonly samples: readonly number[];
}

/** The part of samples at or below each depth 0…deepest. */
export function cumulative({ depth, samples }: DepthSamples, deepest: number): number[] {
  const at = binSamples({ depth, samples }, deepest, 1);
  const all = at.reduce((sum, value) => sum + value, 0);
  let running = 0;
  return at.map((value) => (all > 0 ? (running += value) / all : 0));
}

/** Samples in bins of `width` depths: bin k holds depths k·width … k·width + width − 1. */
export function binSamples({ depth, samples }: DepthSamples, deepest: number, width: number): number[] {
  const bins = new Array<number>(Math.floor(deepest / width) + 1).fill(0);
  depth.forEach((at, i) => {
    if (at <= deepest) bins[Math.floor(at / width)] += samples[i];
  });
  return bins;
}

/** The bin width that gives at most `most` bins: 1, 2, 5, 10, 20, … */
export function binWidth(deepest: number, maxBins: number): number {
  for (let scale = 1; ; scale *= 10) {
    for (const step of [1, 2, 5]) if ((deepest + 1) / (scale * step) <= maxBins) return scale * step;
  }
}

export const toShares = (bins: readonly number[]): number[] => {
  const all = bins.reduce((sum, value) => sum + value, 0);
  return bins.map((value) => (all > 0 ? value / all : 0));
};

/** The top of an axis of shares whose four parts are round numbers: 20, 40, 60, 80 or 100 %, or a tenth or hundredth of one. */
export function axisMaximum(share: number): number {
  for (const scale of [0.01, 0.1, 1]) for (const top of [0.2, 0.4, 0.6, 0.8, 1]) if (share <= top * scale) return top * scale;
  return 1;
}

/** Where two distributions of depth are furthest apart, with the part of each side's samples up to there. */
export function describeGap(sides: readonly DepthSamples[], depth: number): string {
  const [a, b] = sides.map((side) => {
    const all = side.samples.reduce((sum, samples) => sum + samples, 0);
    const within = side.samples.reduce((sum, samples, i) => (side.depth[i] <= depth ? sum + samples : sum), 0);
    return all > 0 ? within / all : 0;
  });
  if (a === b) return strings.bothSidesHaveSame;
  return strings.largestGap(percent(a), percent(b), depth, (Math.abs(a - b) * 100).toFixed(1));
}
