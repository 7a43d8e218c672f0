import type { Quality, Side } from "../api/answers.ts";
import { count, microseconds, percent, plural, seconds } from "../lib/numbers.ts";

/** What the words of a quality line are made from: a side of an answer, or a timeline. */
export interface Watched {
  readonly modes: readonly string[];
  readonly quality: Quality;
  readonly states?: Side["states"];
  readonly periods_us?: readonly number[];
  readonly truncated_samples?: number;
}

/** A few words on how well was watched, and what they mean; `doubt` if they make the picture doubtful. */
export interface Remark {
  readonly text: string;
  readonly why: string;
  readonly doubt?: boolean;
}

const MODES: Record<string, Omit<Remark, "text">> = {
  gil: { why: "At most the thread that held the GIL was stopped while stacks were read, so no stack could change." },
  blocking: { why: "Every thread was stopped while stacks were read, so no stack could change." },
  nonblocking: { why: "Nothing was stopped while stacks were read: a stack may mix frames of different moments, and nothing tells which ones do.", doubt: true },
  command: { why: "py-spy record ran once per window, without the sampler's extension: gaps between windows, waiting threads not recorded, time lost not counted.", doubt: true },
};

const MARKS: Record<string, string> = { nonblocking: ": stacks may be wrong", command: ": fallback" };

const REASONS: Record<string, string> = {
  cpu: "CPU budget",
  stops: "budget of time lost",
  cgroup: "CPU limit",
  paused: "switched off",
};

const LOW = 0.9;

/** How well was watched, in the order of what matters; the first remarks are always there. */
export function remarks(of: Watched): Remark[] {
  const { quality } = of;
  return [...modes(of), ...ticks(of), coverage(quality), lost(quality), ...left(of)];
}

/** The modes of a side, each with what it does to the stacks. */
export function modes({ modes: said, quality: { readers } }: Watched): Remark[] {
  if (said.length === 0) return [{ text: "mode not told", why: "Whoever sent these windows did not say how they were taken." }];
  return said.map((mode, at) => {
    const by = at === 0 && readers.length > 0 ? `, ${readers.join(" and ")} reader` : "";
    const known = MODES[mode] ?? { why: "A mode that these pages do not know." };
    return { ...known, text: `mode ${mode}${MARKS[mode] ?? ""}${by}` };
  });
}

/** Sampling rates of these periods in words. */
export function rates(periods: readonly number[]): string {
  const hz = [...new Set(periods.map((us) => Number((1e6 / us).toPrecision(3))))];
  return hz.length > 1 ? `${hz.at(-1)}–${hz[0]} Hz` : `${hz[0]} Hz`;
}

function ticks({ periods_us: periods = [], quality: { reduced } }: Watched): Remark[] {
  const asked = periods.length > 0 ? [{ text: rates(periods), why: "Ticks per second of each process; time is samples × period, so different rates add up." }] : [];
  if (reduced.length === 0) return asked;
  const reasons = reduced.map((word) => REASONS[word] ?? word).join(", ");
  return [...asked, { text: `fewer ticks than asked for (${reasons})`, why: "The sidecar lowered its rate or left windows out: what was sampled is right, and there is less of it." }];
}

export function coverage({ coverage: part }: Pick<Quality, "coverage">): Remark {
  if (part === null) return { text: "coverage not told", why: "The windows do not say how many ticks were made; they count as watched all the time." };
  const low = part < LOW;
  return {
    text: `coverage ${share(part)}${low ? " (low)" : ""}`,
    why: `The part of the watched time in which ticks gave stacks. Rates are divided by it${low ? "; what was missed may differ from what was seen" : ""}.`,
    doubt: low,
  };
}

export function lost({ stopped_share: part, stopped_seconds: stood, stops, longest_stop_seconds: longest }: Quality): Remark {
  if (part === null) return { text: "time lost not counted", why: "This sampler stops the process and does not say for how long." };
  return {
    text: stops > 0 ? `time lost ${percent(part, 2)}, longest stop ${microseconds(longest * 1e6)}` : "time lost 0 (no stops)",
    why: `Processes stood still for ${seconds(stood)} in ${plural(stops, "stop")} to have their stacks read.`,
  };
}

function left({ quality, states, truncated_samples: cut = 0 }: Watched): Remark[] {
  const part = (some: number) => (states ? percent(some / Math.max(allSamples(states), some)) : plural(some, "sample"));
  const { failed_share: failed, errors, other_samples: other, paused_seconds: paused } = quality;
  const kinds = Object.entries(errors).map(([kind, times]) => `${kind} ${count(times)}`).join(", ");
  return [
    ...(failed ? [{ text: `${percent(failed)} of ticks failed`, why: `They gave no stacks and lower the coverage: ${kinds || "kinds not told"}.` }] : []),
    ...(cut > 0 ? [{ text: `${part(cut)} truncated`, why: "These stacks were deeper than the sampler's limit and lost their middle." }] : []),
    ...(other > 0 ? [{ text: `${part(other)} under (other)`, why: "Windows had more different stacks than the sidecar keeps; the rest is counted as (other)." }] : []),
    ...(paused > 0 ? [{ text: `paused ${seconds(paused)}`, why: "Nothing was sampled for so long between windows: a capture ran, or the rate was lowered to none." }] : []),
  ];
}

/** Samples whatever their state: what is truncated or under (other) is counted among all of them. */
export const allSamples = ({ idle, running, gil }: Side["states"]): number => idle + running + gil;

/** A share that reads as all only when it is. */
export const share = (value: number): string => (value < 1 ? percent(Math.min(value, 0.999)) : "100 %");
