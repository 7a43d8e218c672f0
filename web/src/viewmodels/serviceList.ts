import type { Deploy } from "../api/deploys.ts";
import type { OfVersions, OverviewAnswer } from "../api/grids.ts";
import { changeOf } from "../flamegraph/tree/compare.ts";
import { equals, oneOf, without } from "../lib/selectors.ts";

export type Order = "service" | "cores" | "cpu" | "change" | "pods" | "seen";

/** How the current version differs from the one before, as parts of the latter's rate. */
export interface Drift {
  /** `none`: there is no version before; `few`: too little was sampled to see a change of a fifth. */
  readonly kind: "none" | "few" | "same" | "more" | "less" | "new" | "gone" | "unknown";
  readonly part: number;
  /** Twice the counting noise, as in flamegraph/tree/compare. */
  readonly noise: number;
}

const NO_DRIFT: Drift = { kind: "none", part: 0, noise: 0 };

/** A change that would not show if it were no larger than this part: nothing can be said yet. */
const TOO_NOISY = 0.2;

export function drift(answer: Pick<OverviewAnswer, "current" | "previous">, at: number): Drift {
  const { current, previous } = answer;
  if (previous.version[at] === null || current.version[at] === null) return NO_DRIFT;
  const pair = (pick: (of: OfVersions) => readonly number[], times = 1) => [pick(previous)[at] * times, pick(current)[at] * times] as const;
  const divisor = pair((of) => of.pod_seconds, 1e6);
  const us = pair((of) => of.seconds, 1e6);
  const change = changeOf(us, pair((of) => of.samples), divisor);
  const before = divisor[0] > 0 ? us[0] / divisor[0] : 0;
  const [part, noise] = before > 0 ? [change.delta / before, change.least / before] : [0, Number.POSITIVE_INFINITY];
  const kind = change.direction === "same" && noise > TOO_NOISY ? "few" : change.direction;
  return { kind, part, noise };
}

/** Of each service, its latest deploy if that is the step from the version before to the current one. */
export function latest({ service, current, previous }: Pick<OverviewAnswer, "service" | "current" | "previous">, deploys: readonly Deploy[]): ReadonlyMap<string, Deploy> {
  const steps = new Map(service.map((name, at) => [name, `${previous.version[at]}\n${current.version[at]}`]));
  return new Map(deploys.toReversed().filter((of) => steps.get(of.service) === `${of.previous}\n${of.version}`).map((of) => [of.service, of]));
}

export const perPod = (answer: OverviewAnswer, at: number): number | null =>
  answer.pod_seconds[at] > 0 ? answer.seconds[at] / answer.pod_seconds[at] : null;

/** The services as indices in an order, an Order's name after `-` (descending) or `+`; those alike by name. */
export function sorted(answer: OverviewAnswer, sort: string, drifts: readonly Drift[]): Int32Array {
  const order = Int32Array.from(answer.service.keys());
  const by = sort.slice(1) as Order;
  if (by === "service") return sort.startsWith("-") ? order.reverse() : order;
  const sign = sort.startsWith("-") ? -1 : 1;
  const value = Float64Array.from(order, (at) => {
    if (by === "cpu") return perPod(answer, at) ?? -1;
    if (by === "pods") return answer.pods_now[at];
    if (by === "seen") return answer.last_seen[at];
    // Of what nothing can be said, behind all others whichever way.
    if (by === "change") return ["more", "less", "same"].includes(drifts[at].kind) ? drifts[at].part : sign * Number.MAX_VALUE;
    return answer.cores[at] ?? -1;
  });
  return order.sort((a, b) => sign * (value[a] - value[b]) || a - b);
}

/** Those whose name has the text in it, in whichever case. */
export function called(order: Int32Array, lower: readonly string[], text: string): Int32Array {
  const wanted = text.toLowerCase();
  return wanted === "" ? order : order.filter((at) => lower[at].includes(wanted));
}

/** The part of many equally high rows that is in view, with some more on both sides. */
export function inView(count: number, rowHeight: number, top: number, height: number, more = 8): { first: number; last: number } {
  const first = Math.min(Math.max(Math.floor(top / rowHeight) - more, 0), count);
  return { first, last: Math.max(Math.min(Math.ceil((top + height) / rowHeight) + more, count), first) };
}

/** Rows first to last (excluded), and one more that must not go away; the empty space before each. */
export function laidOut(count: number, first: number, last: number, kept: number | null): { rows: { at: number; before: number }[]; after: number } {
  const all = Array.from({ length: last - first }, (_, i) => first + i);
  if (kept !== null && kept < count && (kept < first || kept >= last)) kept < first ? all.unshift(kept) : all.push(kept);
  let next = 0;
  const rows = all.map((at) => {
    const before = at - next;
    next = at + 1;
    return { at, before };
  });
  return { rows, after: count - next };
}

const MOST_CHARACTERS = 3600;

/** Matchers that find these services, each short enough for one question (the API takes 4,096 characters). */
export function namesMatchers(names: readonly string[], most = MOST_CHARACTERS): { names: string[]; matcher: string }[] {
  const batches: { names: string[]; matcher: string }[] = [];
  let held: string[] = [];
  const matcher = (some: readonly string[]) => oneOf("service", some);
  for (const name of names) {
    if (held.length > 0 && matcher([...held, name]).length > most) {
      batches.push({ names: held, matcher: matcher(held) });
      held = [];
    }
    held = [...held, name];
  }
  if (held.length > 0) batches.push({ names: held, matcher: matcher(held) });
  return batches;
}

/** The value that a query asks of a label with `=`, or nothing. */
export function asked(query: string, label: string): string {
  const found = new RegExp(`(?:^|[\\s,{])${label}\\s*=\\s*"((?:[^"\\\\]|\\\\.)*)"`).exec(query);
  return found ? found[1].replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped)) : "";
}

/** A query with another value of one label; the empty one asks nothing of it. */
export function asking(query: string, label: string, value: string): string {
  const rest = without(query, label);
  if (value === "") return rest;
  return rest === "" ? equals(label, value) : `${rest}, ${equals(label, value)}`;
}

/** A step of a trend: some fifty of them in a range. */
export function trendStep(seconds: number): number {
  return [10, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800].find((step) => seconds / step <= 50) ?? 604_800;
}
