import type { Side } from "./api/answers.ts";
import type { Depths } from "./distribution.ts";
import { changeOf, type Norm } from "./flame/compare.ts";
import { percent, short } from "./numbers.ts";
import type { ProfileType, ViewName } from "./url.ts";

const WHAT: Record<ProfileType, string> = { cpu: "CPU time", wall: "thread time", gil: "GIL time" };

/** The state without whose samples a type reads too low. */
const NEEDED: Record<ProfileType, string> = { cpu: "", wall: "idle", gil: "gil" };

/** The whole difference in one sentence: seconds per pod-second of each side, and whether it beats the noise. */
export function verdict(sides: readonly Side[], samples: readonly number[], type: ProfileType): string {
  const [a, b] = sides;
  const unwatched = sides.flatMap((side, at) => (side.pod_seconds > 0 ? [] : ["AB"[at]]));
  if (unwatched.length > 0) return `${unwatched.join(" and ")} ${unwatched.length > 1 ? "have" : "has"} no windows here, so there is nothing to compare.`;
  const blind = sides.flatMap((side, at) => (side.missing_states.includes(NEEDED[type]) ? ["AB"[at]] : []));
  if (blind.length > 0) return `${WHAT[type]} cannot be compared: ${blind.join(" and ")} recorded no ${NEEDED[type]} samples.`;
  if (samples[0] === 0 && samples[1] === 0) return `Neither side took any ${WHAT[type]}.`;
  const rate = (side: Side) => side.seconds / side.pod_seconds;
  const change = changeOf([a.seconds * 1e6, b.seconds * 1e6], [samples[0], samples[1]], sides.map((side) => side.pod_seconds * 1e6));
  const numbers = `${short(rate(a))} → ${short(rate(b))} seconds per pod-second`;
  if (change.direction === "same") {
    const unseen = percent(change.least / Math.max(rate(a), rate(b)), 0);
    return `${WHAT[type]}: no difference beyond counting noise (${numbers}; with these samples a change under about ${unseen} would not show).`;
  }
  if (change.direction === "new") return `B takes ${WHAT[type]}, A took none (${numbers}).`;
  if (change.direction === "gone") return `B takes no ${WHAT[type]}, A did (${numbers}).`;
  const part = rate(b) / rate(a) - 1;
  return `B takes ${percent(Math.abs(part))} ${part > 0 ? "more" : "less"} ${WHAT[type]} than A (${numbers}).`;
}

/** A change that is worth seeing: below it, more samples are asked for. */
const WORTH = 0.05;

/**
 * About how many minutes more both sides need to be watched, as they were, for a change of 5 % to show; 0 when
 * it would, null where nothing tells. Noise falls with the root of the time watched.
 */
export function minutesMore(sides: readonly Side[], samples: readonly number[]): number | null {
  const [a, b] = sides;
  if (sides.some((side) => side.pod_seconds <= 0 || side.pods === 0) || samples[0] + samples[1] === 0) return null;
  const rates = sides.map((side) => side.seconds / side.pod_seconds);
  const { least } = changeOf([a.seconds * 1e6, b.seconds * 1e6], [samples[0], samples[1]], sides.map((side) => side.pod_seconds * 1e6));
  const times = (least / Math.max(...rates) / WORTH) ** 2;
  if (times <= 1) return 0;
  return Math.ceil(((times - 1) * Math.max(...sides.map((side) => side.pod_seconds / side.pods))) / 60);
}

/** Where two distributions of depth are furthest apart, with the part of each side's samples up to there. */
export function gapSentence(sides: readonly Depths[], depth: number): string {
  const [a, b] = sides.map((side) => {
    const all = side.samples.reduce((sum, samples) => sum + samples, 0);
    const within = side.samples.reduce((sum, samples, i) => (side.depth[i] <= depth ? sum + samples : sum), 0);
    return all > 0 ? within / all : 0;
  });
  if (a === b) return "Both sides have the same depths.";
  return `Largest gap: ${percent(a)} of A's samples and ${percent(b)} of B's are at most ${depth} frames deep (${(Math.abs(a - b) * 100).toFixed(1)} points apart).`;
}

const SCALE = {
  rate: "the absolute rate: sampled milliseconds per second a pod was watched (ms/s)",
  share: "shares: each side's time over that side's own total, so unchanged code seems to shrink when something else grows",
};

const USED: Record<Exclude<ViewName, "sandwich">, string> = {
  flame: "Width is the mean of A and B, colour their difference; both use",
  sides: "Each graph is as wide as its own side's total; differences use",
  table: "Numbers are",
  lines: "Times are each side's own; the words use",
};

const DIFFERENCE = { rate: "", share: " Δ is in percentage points (pp)." };

/** The normalisation in words, for above the picture. */
export const normWords = (norm: Norm, view: ViewName): string => `${USED[view === "sandwich" ? "flame" : view]} ${SCALE[norm]}.${view === "table" ? DIFFERENCE[norm] : ""}`;
