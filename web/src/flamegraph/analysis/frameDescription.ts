import { microseconds, percent, plural, signedPercent } from "../../lib/numbers.ts";
import type { Change } from "../tree/compare.ts";
import { STATES, sum, type State } from "../tree/tree.ts";
import { formatRate, type RateUnit } from "../../lib/quantities.ts";
import { changeAt, type TreeMetrics } from "./treeMetrics.ts";

/** A frame in words: its name, then what is known of it. */
export interface Description {
  readonly title: string;
  readonly rows: readonly (readonly [string, string])[];
}

/** The words of a difference; a profile cannot tell slower from called more often. */
export function describeChange(change: Change, unchangedText = "within counting noise", subject = "time"): string {
  if (change.direction === "unchanged") return unchangedText;
  if (change.direction === "not_judged") return "not judged";
  if (change.direction === "no_data") return "not comparable: one side has no samples";
  if (change.direction === "new") return "new in B";
  if (change.direction === "removed") return "removed in B";
  return `${change.doublings >= 0 ? "▲ takes more" : "▼ takes less"} ${subject} in B (${formatRelative(change)})`;
}

/** How much more or less it is, of what it was. */
export const formatRelative = ({ doublings }: Change): string => signedPercent(2 ** doublings - 1);

/** A share of a side's whole, or with a `unit` a rate. */
export function formatNormalised(us: number, divisor: number, unit: RateUnit | null): string {
  if (divisor <= 0) return "no samples";
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
    rows.push([`${prefix}total`, `${rate}${percent(share, 2)} · ${microseconds(us[side][node])} · ${plural(samples[side][node], "sample")}`]);
    rows.push([`${prefix}self`, `${microseconds(tree.self[side][node])} · ${plural(tree.samples[side][node], "sample")}`]);
  }
  for (const [side, states] of (metrics.states ?? []).entries()) {
    const whole = sum(STATES.map((state) => states[state][node]));
    const part = (state: State) => percent(whole > 0 ? states[state][node] / whole : 0);
    rows.push([`${us.length > 1 ? `${"AB"[side]} ` : ""}states`, `idle ${part("idle")} · waiting for a CPU ${part("cpu_wait")} · running ${part("running")} · GIL ${part("gil")}`]);
  }
  if (us.length === 2) rows.push(["change", describeChange(changeAt(metrics, node), significance?.label, significance?.isByShare ? "of the profile" : "time")]);
  rows.push(["depth", String(tree.level[node])]);
  return { title, rows };
}

export const descriptionSentence = ({ title, rows }: Description): string =>
  `${title.slice(0, 200)}: ${rows.map(([name, value]) => `${name} ${value.replaceAll(" · ", ", ")}`).join("; ")}.`;
