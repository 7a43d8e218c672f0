import { interval, microseconds, percent, short, signed, signedPercent } from "../../lib/numbers.ts";
import type { Change } from "../tree/compare.ts";
import { STATES_BY_WORK, sum } from "../tree/tree.ts";
import { formatRate, type RateUnit } from "../../lib/quantities.ts";
import { groupOf } from "../tree/groups.ts";
import { colourText } from "../tree/merge.ts";
import { frameParts, packageOf, withoutLine } from "../tree/packages.ts";
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

/** A frame in numbers: for the tooltip, the line under the graph and the live region. `focus` is what is zoomed into. */
export function describeFrame(metrics: TreeMetrics, node: number, focus = 0): Description {
  const { tree, shape, us, samples, divisor, norm, unit, significance } = metrics;
  const title = tree.names[tree.name[node]];
  const rows: [string, string][] = [];
  for (let side = 0; side < us.length; side++) {
    const whole = us[side][0];
    const share = whole > 0 ? us[side][node] / whole : 0;
    const rate = us.length > 1 && norm === "rate" ? `${formatNormalised(us[side][node], divisor[side], unit)} · ` : "";
    const prefix = us.length > 1 ? `${"AB"[side]} ` : "";
    rows.push([strings.total(prefix), strings.sample(rate, percent(share, 2), microseconds(us[side][node]), samples[side][node])]);
    if (unit.symbol === "tasks" && norm === "rate" && divisor[side] > 0) rows.push([strings.onAverage(prefix), strings.tasksHere(short(us[side][node] / divisor[side]))]);
    rows.push([strings.self(prefix), strings.sampleText(microseconds(tree.self[side][node]), tree.samples[side][node])]);
  }
  for (const [side, states] of (metrics.states ?? []).entries()) {
    const whole = sum(STATES_BY_WORK.map((state) => states[state][node]));
    const present = STATES_BY_WORK.filter((state) => states[state][node] > 0);
    const shares = present.map((state) => strings.stateShare(strings.stateNames[state], percent(states[state][node] / whole)));
    rows.push([strings.states(us.length > 1 ? `${"AB"[side]} ` : ""), shares.join(" · ")]);
  }
  const caller = shape.parent[node];
  // Of two sides, widths are what is compared by eye.
  const widthShare = (whole: number) => percent(metrics.total[whole] > 0 ? metrics.total[node] / metrics.total[whole] : 0, 2);
  if (caller > 0) rows.push([strings.ofCaller, widthShare(caller)]);
  if (focus > 0 && node > focus && node < shape.end[focus] && caller !== focus) rows.push([strings.ofZoomedFrame, widthShare(focus)]);
  if (us.length === 2) {
    const change = changeAt(metrics, node);
    rows.push([strings.change, describeChange(change, significance?.label, significance?.isByShare ? strings.ofProfile : "time")]);
    if (change.direction !== "no_data") rows.push([strings.difference, formatDifference(metrics, metrics.norm === "share" || significance?.isByShare === true, change.delta, change.delta - change.threshold, change.delta + change.threshold, strings.ofCountingNoise)]);
    rows.push(...describeFunction(metrics, title));
  }
  const owner = colourText(title, tree.by);
  if (packageOf(owner).name !== "") rows.push([strings.ownPackage, `${packageOf(owner).name} (${groupOf(owner)})`]);
  const { line } = frameParts(title);
  if (line !== "" && !tree.by) rows.push([strings.line, line]);
  rows.push([strings.depth, String(tree.level[node])]);
  return { title, rows };
}

/** What the verdict says of all of a frame's function. */
function describeFunction(metrics: TreeMetrics, title: string): [string, string][] {
  const { significance, tree } = metrics;
  const at = tree.by ? undefined : significance?.row.get(withoutLine(title));
  if (!significance || at === undefined) return [];
  const { delta, low, high, q } = significance.functions.total;
  return [[strings.wholeFunction, `${formatDifference(metrics, significance.isByShare, delta[at], low[at], high[at])} · q ${q[at] < 0.001 ? "<0.001" : q[at].toFixed(3)}`]];
}

/** A difference in the unit of the comparison, with its interval. */
function formatDifference({ unit }: TreeMetrics, isByShare: boolean, delta: number, low: number | null, high: number | null, note = ""): string {
  const write = (value: number) => (isByShare ? strings.points((value * 100).toFixed(2)) : formatRate(value, unit));
  const range = low === null || high === null || (low === 0 && high === 0) ? "" : ` (${interval(low, high, write, "…")}${note})`;
  return `${signed(write(delta), delta)}${range}`;
}

export const descriptionSentence = ({ title, rows }: Description): string =>
  `${title.slice(0, 200)}: ${rows.map(([name, value]) => `${name} ${value.replaceAll(" · ", ", ")}`).join("; ")}.`;
