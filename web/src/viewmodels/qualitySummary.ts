import type { Quality, Side } from "../api/answers.ts";
import { microseconds, percent, seconds } from "../lib/numbers.ts";
import { count } from "../strings/counts.ts";
import * as strings from "../strings/qualityStrings.ts";

/** The source of a quality line: a side of an answer, or a timeline. */
export interface QualitySource {
  readonly modes: readonly string[];
  readonly quality: Quality;
  readonly states?: Side["states"];
  readonly sampling_periods_us?: readonly number[];
  readonly truncated_samples?: number;
}

/** A short remark on sampling quality with its explanation; `isDoubtful` if the profile may be wrong. */
export interface QualityRemark {
  readonly text: string;
  readonly why: string;
  readonly isDoubtful?: boolean;
}

const MODE_REMARKS: Record<string, Omit<QualityRemark, "text">> = {
  gil: { why: strings.gilMode },
  blocking: { why: strings.blockingMode },
  nonblocking: { why: strings.nonblockingMode, isDoubtful: true },
  command: { why: strings.commandMode, isDoubtful: true },
};

const MODE_MARKS: Record<string, string> = { nonblocking: strings.wrongStacksNote, command: ": fallback" };

const REASONS: Record<string, string> = {
  cpu: strings.cpuBudget,
  stops: strings.stopBudget,
  cgroup: strings.cpuLimit,
  paused: strings.switchedOff,
};

const LOW_COVERAGE = 0.9;

/** All remarks, the most important first; the first ones are always present. */
export function qualityRemarks(of: QualitySource): QualityRemark[] {
  const { quality } = of;
  return [...modeRemarks(of), ...rateRemarks(of), coverageRemark(quality), stopRemark(quality), ...lossRemarks(of)];
}

/** The sampling modes, each with its effect on stacks. */
export function modeRemarks({ modes: names, quality: { readers } }: QualitySource): QualityRemark[] {
  if (names.length === 0) return [{ text: strings.modeUnknown, why: strings.modeUnknownMeaning }];
  return names.map((mode, at) => {
    const reader = at === 0 && readers.length > 0 ? strings.reader(readers.join(" and ")) : "";
    const remark = MODE_REMARKS[mode] ?? { why: strings.unfamiliarMode };
    return { ...remark, text: `mode ${mode}${MODE_MARKS[mode] ?? ""}${reader}` };
  });
}

/** The sampling rates of some periods as text. */
export function formatRates(periods: readonly number[]): string {
  const hz = [...new Set(periods.map((us) => Number((1e6 / us).toPrecision(3))))];
  return hz.length > 1 ? `${hz.at(-1)}–${hz[0]} Hz` : `${hz[0]} Hz`;
}

function rateRemarks({ sampling_periods_us: periods = [], quality: { reduced } }: QualitySource): QualityRemark[] {
  const remarks = periods.length > 0 ? [{ text: formatRates(periods), why: strings.rateMeaning }] : [];
  if (reduced.length === 0) return remarks;
  const reasons = reduced.map((word) => REASONS[word] ?? word).join(", ");
  return [...remarks, { text: strings.fewerTicksThanRequested(reasons), why: strings.fewerTicksMeaning }];
}

export function coverageRemark({ coverage: part }: Pick<Quality, "coverage">): QualityRemark {
  if (part === null) return { text: strings.coverageUnknown, why: strings.coverageUnknownMeaning };
  const isLow = part < LOW_COVERAGE;
  return {
    text: `coverage ${formatShare(part)}${isLow ? " (low)" : ""}`,
    why: strings.coverageMeaning(isLow),
    isDoubtful: isLow,
  };
}

export function stopRemark({ stopped_share: part, stopped_seconds: stood, stops, longest_stop_seconds: longest }: Quality): QualityRemark {
  if (part === null) return { text: strings.overheadUnknown, why: strings.overheadUnknownMeaning };
  return {
    text: stops > 0 ? strings.overheadPausedMax(percent(part, 2), microseconds(longest * 1e6)) : strings.overheadNoPauses,
    why: strings.overheadMeaning(seconds(stood), stops),
  };
}

function lossRemarks({ quality, states, truncated_samples: cut = 0 }: QualitySource): QualityRemark[] {
  const part = (samples: number) => (states ? percent(samples / Math.max(totalSamples(states), samples)) : strings.sampleCount(samples));
  const { failed_share: failed, errors, other_samples: other, preempted_seconds: paused } = quality;
  const kinds = Object.entries(errors).map(([kind, times]) => `${kind} ${count(times)}`).join(", ");
  return [
    ...(failed ? [{ text: strings.ofTicksFailed(percent(failed)), why: strings.failedTicksMeaning(kinds || strings.kindsUnknown) }] : []),
    ...(cut > 0 ? [{ text: strings.truncated(part(cut)), why: strings.truncatedMeaning }] : []),
    ...(other > 0 ? [{ text: strings.underOther(part(other)), why: strings.otherMeaning }] : []),
    ...(paused > 0 ? [{ text: `preempted ${seconds(paused)}`, why: strings.preemptedMeaning }] : []),
  ];
}

/** Samples of all states. Truncated samples and those under (other) are counted among them. */
export const totalSamples = (states: Side["states"]): number => Object.values(states).reduce((total, samples) => total + samples, 0);

/** A share that reads 100 % only if it is exactly that. */
export const formatShare = (value: number): string => (value < 1 ? percent(Math.min(value, 0.999)) : "100 %");
