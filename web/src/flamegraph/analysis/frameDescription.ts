import { microseconds, percent, signedPercent } from "../../lib/numbers.ts";
import type { Change } from "../tree/compare.ts";
import { STATES, sum, type State } from "../tree/tree.ts";
import { formatRate, type RateUnit } from "../../lib/quantities.ts";
import { changeAt, type TreeMetrics } from "./treeMetrics.ts";
import * as strings from "../../strings/frameStrings.ts";

/** A frame in words: its name, then what is known of it. */
export interface Description {
  readonly title: string;
  readonly rows: readonly (readonly [string, string])[];
}

/** The words of a difference; a profile cannot tell slower from called more often. */
export function describeChange(change: Change, unchangedText = strings.withinCountingNoise, subject = "time"): string {
  if (change.direction === "unchanged") return unchangedText;
  if (change.direction === "not_judged") return strings.notJudged;
  if (change.direction === "no_data") return strings.notComparableOneSide;
  if (change.direction === "new") return strings.newInB;
  if (change.direction === "removed") return strings.removedInB;
  return strings.changeInB(change.doublings >= 0 ? strings.takesMore : strings.takesLess, subject, formatRelative(change));
}

/** How much more or less it is, of what it was. */
export const formatRelative = ({ doublings }: Change): string => signedPercent(2 ** doublings - 1);

/** A share of a side's whole, or with a `unit` a rate. */
export function formatNormalised(us: number, divisor: number, unit: RateUnit | null): string {
  if (divisor <= 0) return strings.noSamples;
  return unit ? formatRate(us / divisor, unit) : percent(us / divisor, 2);
}

/** A frame in numbers: for the tooltip, the line under the graph and the live region. */
export function describeFrame(metrics: TreeMetrics, node: number): Description {
  const { tree, us, samples, divisor, norm, unit, significance } = metrics;
  const title = tree.names[tree.name[node]];
  const rows: [string, string][] = [];
  for (let side = 0; side < us.length; side++) {
    const whole = us[side][0];
    const share = whole > 0 ? us[side][node] / whole : 0;
    const rate = us.length > 1 && norm === "rate" ? `${formatNormalised(us[side][node], divisor[side], unit)} · ` : "";
    const prefix = us.length > 1 ? `${"AB"[side]} ` : "";
    rows.push([strings.total(prefix), strings.sample(rate, percent(share, 2), microseconds(us[side][node]), samples[side][node])]);
    rows.push([strings.self(prefix), strings.sampleText(microseconds(tree.self[side][node]), tree.samples[side][node])]);
  }
  for (const [side, states] of (metrics.states ?? []).entries()) {
    const whole = sum(STATES.map((state) => states[state][node]));
    const part = (state: State) => percent(whole > 0 ? states[state][node] / whole : 0);
    rows.push([strings.states(us.length > 1 ? `${"AB"[side]} ` : ""), strings.stateShares(part("idle"), part("cpu_wait"), part("gil_wait"), part("running"), part("gil"))]);
  }
  if (us.length === 2) rows.push(["change", describeChange(changeAt(metrics, node), significance?.label, significance?.isByShare ? strings.ofProfile : "time")]);
  rows.push(["depth", String(tree.level[node])]);
  return { title, rows };
}

export const descriptionSentence = ({ title, rows }: Description): string =>
  `${title.slice(0, 200)}: ${rows.map(([name, value]) => `${name} ${value.replaceAll(" · ", ", ")}`).join("; ")}.`;
