import type { Direction, Verdict } from "../api/verdict.ts";
import { percent, short, signed } from "../lib/numbers.ts";
import { formatRatePair, formatRelativeEffect, rateUnit } from "../lib/quantities.ts";
import type { BasisName, ProfileType } from "../lib/viewOptions.ts";
import * as strings from "../strings/comparisonStrings.tsx";

/** The result of a comparison as a line: what changed, by how much, and of what. */
export interface VerdictCard {
  readonly sign: "▲" | "▼" | "≈" | "";
  readonly headline: string;
  /** The numbers behind it. */
  readonly facts: readonly string[];
  /** Whether the headline is a change, which is coloured. */
  readonly direction: "increased" | "decreased" | "";
}

const NAMES: Readonly<Record<ProfileType, string>> = { cpu: strings.cpu, wall: strings.wallTime, gil: strings.gilTime, gil_wait: strings.gilWaitTime, off_cpu: strings.offCpuTime, tasks: strings.taskTime };

export const BASIS_NAMES: Readonly<Record<Exclude<BasisName, "">, string>> = { concurrent: strings.concurrent, per_request: strings.perRequest, composition: strings.composition, equal_load: strings.equalLoad };

export function describeVerdict(verdict: Verdict, type: ProfileType): VerdictCard {
  const { rate, direction, method, basis } = verdict;
  const name = NAMES[type];
  const values = formatRatePair(rate.baseline, rate.comparison, rateUnit(type, method.unit));
  const pods = strings.podCount(method.same_pods ? Math.max(...method.pods) : method.pods.reduce((sum, count) => sum + count, 0));
  const effect = formatRelativeEffect(rate.relative, rate.relative_low, rate.relative_high);
  const neutral = { sign: "", direction: "" } as const;
  if (direction === "not_comparable") return { ...neutral, headline: strings.notComparable(name, blockingText(verdict)), facts: [] };
  if (direction === "no_data") return { ...neutral, headline: verdict.summary, facts: [] };
  if (basis === "composition" || direction === "not_judged") {
    return { ...neutral, headline: strings.mayBeLoad(name, values, rate.relative === null ? "" : `, ${formatRelativeEffect(rate.relative, null, null)}`), facts: [pods] };
  }
  if (direction === "inconclusive") return { ...neutral, headline: strings.inconclusive(name, effect || values), facts: [...(effect ? [values] : []), pods, ...requiredData(verdict)] };
  if (direction === "unchanged") return { sign: "≈", direction: "", headline: strings.unchanged(name, effect && `: ${effect}`), facts: [values, pods] };
  if (direction === "minor") return { sign: "≈", direction: "", headline: strings.minorText(name, effect), facts: [values, pods] };
  const isMore = direction === "increased" || direction === "new";
  const what = direction === "new" ? strings.newInB : direction === "removed" ? strings.removedInB : effect;
  return { sign: isMore ? "▲" : "▼", direction: isMore ? "increased" : "decreased", headline: `${name} ${what}`, facts: [values, pods] };
}

const blockingText = ({ checks }: Verdict): string => checks.find(({ severity }) => severity === "blocking")?.text.replace(/\.$/, "") ?? strings.sidesDiffer;

/** What would make an unclear result clear. */
function requiredData({ required, method: { min_effect: size } }: Verdict): string[] {
  if (required === null) return [];
  const { minutes, pods } = required;
  if (minutes === null && pods === null) return [strings.podsDifferTooMuch(percent(size, 0))];
  return [strings.wouldDetect([...(minutes === null ? [] : [strings.moreMinutes(Math.ceil(minutes))]), ...(pods === null ? [] : [strings.podsPerSide(pods)])].join(" or "), percent(size, 0))];
}

/** What there is where no function changed: how large a change would have shown. */
export function describeNoCulprits(verdict: Verdict): string {
  const { functions: { self, total, function: names }, rate, basis, direction } = verdict;
  if (direction === "inconclusive" && names.length === 0) return strings.noFunctionTested;
  // The largest functions are those of which a person asks; of each, the size that would have shown.
  const largest = names.map((_, at) => at).sort((a, b) => self.baseline[b] + self.comparison[b] - self.baseline[a] - self.comparison[a]).slice(0, 3);
  const whole = basis === "composition" ? 1 : Math.max(rate.baseline, rate.comparison);
  const shares = largest.flatMap((at) => {
    const detectable = self.min_detectable_effect[at];
    return detectable === null || !Number.isFinite(detectable) || whole <= 0 ? [] : [(detectable * self.baseline[at]) / whole];
  });
  const found = Math.max(...shares, 0);
  const anyMinor = total.direction.includes("minor") ? strings.smallerChangesMinor : "";
  return found > 0 ? strings.noFunctionChanged(percent(found, found < 0.01 ? 2 : 1), anyMinor) : strings.noFunctionChangedBeyond(anyMinor);
}

/** A subject with its words for more and less, and its name. */
type EffectWording = readonly [more: string, less: string, same: string, name: string];

export const DEPTH: EffectWording = [strings.stacksDeeper, strings.stacksShallower, strings.stackDepthUnchanged, strings.stackDepth];
export const WAITING: EffectWording = [strings.threadsWaitMore, strings.threadsWaitLess, strings.waitTimeUnchanged, strings.waitTime];
export const LOOP: EffectWording = [strings.eventLoopBusier, strings.eventLoopLessBusy, strings.eventLoopUnchanged, strings.eventLoop];

/** A secondary effect in words: "Stacks deeper", "Wait time: minor". */
export function describeDirection([more, less, same, name]: EffectWording, direction: Direction): string {
  if (direction === "increased" || direction === "new") return more;
  if (direction === "decreased" || direction === "removed") return less;
  if (direction === "unchanged") return same;
  return `${name}: ${direction === "minor" ? strings.minorChange : direction === "not_judged" ? strings.notJudged : "inconclusive"}`;
}

/** "40.7 → 46.1", or one number where both are written the same. */
const pairOf = (a: string, b: string): string => (a === b ? a : `${a} → ${b}`);

export const formatDepths = (a: number, b: number): string => strings.frames(pairOf(short(a), short(b)));

export const formatShares = (a: number, b: number): string => pairOf(percent(a), percent(b));

/** "+5.4 (+4.9 … +5.9)": a difference with its interval. */
export function formatDifference(delta: number, low: number | null, high: number | null, format: (value: number) => string): string {
  const part = (value: number) => signed(format(value), value);
  return `${part(delta)}${low !== null && high !== null ? ` (${part(low)} … ${part(high)})` : ""}`;
}
