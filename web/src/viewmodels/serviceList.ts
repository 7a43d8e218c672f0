import type { Deploy } from "../api/deploys.ts";
import type { VersionColumns, OverviewAnswer } from "../api/grids.ts";
import { changeOf } from "../flamegraph/tree/compare.ts";
import { equals, matchAny, withoutLabel } from "../lib/selectors.ts";
import { compareFindings, type Finding, type VersionChange } from "./attention.ts";

export type SortColumn = "service" | "cores" | "cpu" | "change" | "pods" | "seen";

const NO_PREVIOUS_VERSION: VersionChange = { kind: "none", relative: 0, relativeNoise: 0 };

/** Above this relative noise a comparison is inconclusive. */
const TOO_NOISY = 0.2;

export function compareVersions(answer: Pick<OverviewAnswer, "current" | "previous">, at: number): VersionChange {
  const { current, previous } = answer;
  if (previous.version[at] === null || current.version[at] === null) return NO_PREVIOUS_VERSION;
  const pair = (pick: (of: VersionColumns) => readonly number[], factor = 1) => [pick(previous)[at] * factor, pick(current)[at] * factor] as const;
  const divisor = pair((of) => of.pod_seconds, 1e6);
  const us = pair((of) => of.seconds, 1e6);
  const change = changeOf(us, pair((of) => of.samples), divisor);
  const previousRate = divisor[0] > 0 ? us[0] / divisor[0] : 0;
  const [part, noise] = previousRate > 0 ? [change.delta / previousRate, change.threshold / previousRate] : [0, Number.POSITIVE_INFINITY];
  const kind = change.direction === "unchanged" && noise > TOO_NOISY ? "few" : change.direction;
  return { kind, relative: part, relativeNoise: noise };
}

/** The latest deploy of each service, if it leads from the previous to the current version. */
export function currentDeploys({ service, current, previous }: Pick<OverviewAnswer, "service" | "current" | "previous">, deploys: readonly Deploy[]): ReadonlyMap<string, Deploy> {
  const steps = new Map(service.map((name, at) => [name, `${previous.version[at]}\n${current.version[at]}`]));
  return new Map(deploys.toReversed().filter((of) => steps.get(of.service) === `${of.previous}\n${of.version}`).map((of) => [of.service, of]));
}

export const coresPerPod = (answer: OverviewAnswer, at: number): number | null =>
  answer.pod_seconds[at] > 0 ? answer.seconds[at] / answer.pod_seconds[at] : null;

/** The indices of services, sorted by a SortColumn after `-` (descending) or `+`; equal ones by name. `findings` is for `change`. */
export function sortServices(answer: OverviewAnswer, sort: string, findings: readonly Finding[]): Int32Array {
  const order = Int32Array.from(answer.service.keys());
  const by = sort.slice(1) as SortColumn;
  if (by === "service") return sort.startsWith("-") ? order.reverse() : order;
  const sign = sort.startsWith("-") ? -1 : 1;
  if (by === "change") return order.sort((a, b) => compareFindings(findings[a], findings[b], sign < 0) || a - b);
  const value = Float64Array.from(order, (at) => {
    if (by === "cpu") return coresPerPod(answer, at) ?? -1;
    if (by === "pods") return answer.pods_now[at];
    if (by === "seen") return answer.last_seen[at];
    return answer.cores[at] ?? -1;
  });
  return order.sort((a, b) => sign * (value[a] - value[b]) || a - b);
}

/** The services whose names contain a text, ignoring case. */
export function filterByName(order: Int32Array, lower: readonly string[], text: string): Int32Array {
  const query = text.toLowerCase();
  return query === "" ? order : order.filter((at) => lower[at].includes(query));
}

/** The visible rows of a list with equal row heights, with some more on both sides. */
export function visibleRows(count: number, rowHeight: number, top: number, height: number, overscan = 8): { first: number; last: number } {
  const first = Math.min(Math.max(Math.floor(top / rowHeight) - overscan, 0), count);
  return { first, last: Math.max(Math.min(Math.ceil((top + height) / rowHeight) + overscan, count), first) };
}

/** The rows from first to last (excluded) and the focused row, each with the number of omitted rows before it. */
export function layoutRows(count: number, first: number, last: number, focused: number | null): { rows: { at: number; gap: number }[]; after: number } {
  const all = Array.from({ length: last - first }, (_, i) => first + i);
  if (focused !== null && focused < count && (focused < first || focused >= last)) focused < first ? all.unshift(focused) : all.push(focused);
  let next = 0;
  const rows = all.map((at) => {
    const gap = at - next;
    next = at + 1;
    return { at, gap };
  });
  return { rows, after: count - next };
}

const MAX_MATCHER_CHARACTERS = 3600;

/** Matchers for some services, each short enough for one request (the API accepts 4,096 characters). */
export function batchNameMatchers(names: readonly string[], limit = MAX_MATCHER_CHARACTERS): { names: string[]; matcher: string }[] {
  const batches: { names: string[]; matcher: string }[] = [];
  let batch: string[] = [];
  const matcher = (subset: readonly string[]) => matchAny("service", subset);
  for (const name of names) {
    if (batch.length > 0 && matcher([...batch, name]).length > limit) {
      batches.push({ names: batch, matcher: matcher(batch) });
      batch = [];
    }
    batch = [...batch, name];
  }
  if (batch.length > 0) batches.push({ names: batch, matcher: matcher(batch) });
  return batches;
}

/** The value that a query requires of a label with `=`, or empty. */
export function labelValue(query: string, label: string): string {
  const match = new RegExp(`(?:^|[\\s,{])${label}\\s*=\\s*"((?:[^"\\\\]|\\\\.)*)"`).exec(query);
  return match ? match[1].replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped)) : "";
}

/** A query with another value of one label; an empty value removes the matcher. */
export function withLabelValue(query: string, label: string, value: string): string {
  const rest = withoutLabel(query, label);
  if (value === "") return rest;
  return rest === "" ? equals(label, value) : `${rest}, ${equals(label, value)}`;
}

/** The step of a trend with about fifty steps in a range. */
export function trendStep(seconds: number): number {
  return [10, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800].find((step) => seconds / step <= 50) ?? 604_800;
}
