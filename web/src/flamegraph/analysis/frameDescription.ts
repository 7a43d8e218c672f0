import { microseconds, percent, plural, short, signedPercent } from "../../lib/numbers.ts";
import type { Change } from "../tree/compare.ts";
import { STATES, sum, type State } from "../tree/tree.ts";
import { changeAt, type TreeMetrics } from "./treeMetrics.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";

/** A frame in words: its name, then what is known of it. */
export interface Description {
  readonly title: string;
  readonly rows: readonly (readonly [string, string])[];
}

/** The words of a difference; a profile cannot tell slower from called more often. */
export function describeChange(change: Change, unchangedText = "within counting noise"): string {
  if (change.direction === "unchanged") return unchangedText;
  if (change.direction === "no_data") return "not comparable: one side has no samples";
  if (change.direction === "new") return "new in B";
  if (change.direction === "removed") return "removed in B";
  return `${change.doublings >= 0 ? "▲ takes more" : "▼ takes less"} time in B (${formatRelative(change)})`;
}

/** How much more or less it is, of what it was. */
export const formatRelative = ({ doublings }: Change): string => signedPercent(2 ** doublings - 1);

export function formatNormalised(us: number, divisor: number, norm: Normalisation): string {
  if (divisor <= 0) return "no samples";
  return norm === "rate" ? `${short((us / divisor) * 1000)} ms/s` : percent(us / divisor, 2);
}

/** A frame in numbers: for the tooltip, the line under the graph and the live region. */
export function describeFrame(metrics: TreeMetrics, norm: Normalisation, node: number): Description {
  const { tree, us, samples, divisor } = metrics;
  const title = tree.names[tree.name[node]];
  const rows: [string, string][] = [];
  for (let side = 0; side < us.length; side++) {
    const whole = us[side][0];
    const share = whole > 0 ? us[side][node] / whole : 0;
    const rate = us.length > 1 && norm === "rate" ? `${formatNormalised(us[side][node], divisor[side], norm)} · ` : "";
    const prefix = us.length > 1 ? `${"AB"[side]} ` : "";
    rows.push([`${prefix}total`, `${rate}${percent(share, 2)} · ${microseconds(us[side][node])} · ${plural(samples[side][node], "sample")}`]);
    rows.push([`${prefix}self`, `${microseconds(tree.self[side][node])} · ${plural(tree.samples[side][node], "sample")}`]);
  }
  for (const [side, states] of (metrics.states ?? []).entries()) {
    const whole = sum(STATES.map((state) => states[state][node]));
    const part = (state: State) => percent(whole > 0 ? states[state][node] / whole : 0);
    rows.push([`${us.length > 1 ? `${"AB"[side]} ` : ""}states`, `idle ${part("idle")} · waiting for a CPU ${part("cpu_wait")} · running ${part("running")} · GIL ${part("gil")}`]);
  }
  if (us.length === 2) rows.push(["change", describeChange(changeAt(metrics, node), metrics.significance?.label)]);
  rows.push(["depth", String(tree.level[node])]);
  return { title, rows };
}

export const descriptionSentence = ({ title, rows }: Description): string =>
  `${title.slice(0, 200)}: ${rows.map(([name, value]) => `${name} ${value.replaceAll(" · ", ", ")}`).join("; ")}.`;
