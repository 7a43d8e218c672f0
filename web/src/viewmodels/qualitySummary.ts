import type { Quality, Side } from "../api/answers.ts";
import { count, microseconds, percent, plural, seconds } from "../lib/numbers.ts";

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
  gil: { why: "At most the thread that held the GIL was stopped while stacks were read, so no stack could change." },
  blocking: { why: "Every thread was stopped while stacks were read, so no stack could change." },
  nonblocking: { why: "Nothing was stopped while stacks were read: a stack may mix frames of different moments, and these cannot be identified.", isDoubtful: true },
  command: { why: "py-spy record ran once per window, without the sampler's extension: gaps between windows, waiting threads not recorded, overhead unknown.", isDoubtful: true },
};

const MODE_MARKS: Record<string, string> = { nonblocking: ": stacks may be wrong", command: ": fallback" };

const REASONS: Record<string, string> = {
  cpu: "CPU budget",
  stops: "stop budget",
  cgroup: "CPU limit",
  paused: "switched off",
};

const LOW_COVERAGE = 0.9;

/** All remarks, the most important first; the first ones are always present. */
export function qualityRemarks(of: QualitySource): QualityRemark[] {
  const { quality } = of;
  return [...modeRemarks(of), ...rateRemarks(of), coverageRemark(quality), stopRemark(quality), ...lossRemarks(of)];
}

/** The sampling modes, each with its effect on stacks. */
export function modeRemarks({ modes: names, quality: { readers } }: QualitySource): QualityRemark[] {
  if (names.length === 0) return [{ text: "mode unknown", why: "The sender did not report the sampling mode." }];
  return names.map((mode, at) => {
    const reader = at === 0 && readers.length > 0 ? `, ${readers.join(" and ")} reader` : "";
    const remark = MODE_REMARKS[mode] ?? { why: "This UI does not know the mode." };
    return { ...remark, text: `mode ${mode}${MODE_MARKS[mode] ?? ""}${reader}` };
  });
}

/** The sampling rates of some periods as text. */
export function formatRates(periods: readonly number[]): string {
  const hz = [...new Set(periods.map((us) => Number((1e6 / us).toPrecision(3))))];
  return hz.length > 1 ? `${hz.at(-1)}–${hz[0]} Hz` : `${hz[0]} Hz`;
}

function rateRemarks({ sampling_periods_us: periods = [], quality: { reduced } }: QualitySource): QualityRemark[] {
  const remarks = periods.length > 0 ? [{ text: formatRates(periods), why: "Ticks per second of each process; time is samples × period, so different rates add up." }] : [];
  if (reduced.length === 0) return remarks;
  const reasons = reduced.map((word) => REASONS[word] ?? word).join(", ");
  return [...remarks, { text: `fewer ticks than requested (${reasons})`, why: "The sidecar lowered its rate or skipped windows. The samples are correct, but there are fewer." }];
}

export function coverageRemark({ coverage: part }: Pick<Quality, "coverage">): QualityRemark {
  if (part === null) return { text: "coverage unknown", why: "The windows do not report their ticks. They count as sampled all the time." };
  const isLow = part < LOW_COVERAGE;
  return {
    text: `coverage ${formatShare(part)}${isLow ? " (low)" : ""}`,
    why: `Share of time with successful ticks. Rates are divided by it${isLow ? "; the missed time may differ from the sampled time" : ""}.`,
    isDoubtful: isLow,
  };
}

export function stopRemark({ stopped_share: part, stopped_seconds: stood, stops, longest_stop_seconds: longest }: Quality): QualityRemark {
  if (part === null) return { text: "overhead unknown", why: "This sampler stops the process but does not report for how long." };
  return {
    text: stops > 0 ? `overhead: paused ${percent(part, 2)}, max ${microseconds(longest * 1e6)}` : "overhead: no pauses",
    why: `Processes paused for ${seconds(stood)} in ${plural(stops, "stop")} while their stacks were read.`,
  };
}

function lossRemarks({ quality, states, truncated_samples: cut = 0 }: QualitySource): QualityRemark[] {
  const part = (samples: number) => (states ? percent(samples / Math.max(totalSamples(states), samples)) : plural(samples, "sample"));
  const { failed_share: failed, errors, other_samples: other, preempted_seconds: paused } = quality;
  const kinds = Object.entries(errors).map(([kind, times]) => `${kind} ${count(times)}`).join(", ");
  return [
    ...(failed ? [{ text: `${percent(failed)} of ticks failed`, why: `They gave no stacks and lower the coverage: ${kinds || "kinds unknown"}.` }] : []),
    ...(cut > 0 ? [{ text: `${part(cut)} truncated`, why: "These stacks were deeper than the sampler's limit and lost their middle." }] : []),
    ...(other > 0 ? [{ text: `${part(other)} under (other)`, why: "Windows had more different stacks than the sidecar keeps; the rest is counted as (other)." }] : []),
    ...(paused > 0 ? [{ text: `preempted ${seconds(paused)}`, why: "Time without samples between windows: a capture ran, or the rate was 0." }] : []),
  ];
}

/** Samples of all states. Truncated samples and those under (other) are counted among them. */
export const totalSamples = (states: Side["states"]): number => Object.values(states).reduce((total, samples) => total + samples, 0);

/** A share that reads 100 % only if it is exactly that. */
export const formatShare = (value: number): string => (value < 1 ? percent(Math.min(value, 0.999)) : "100 %");
