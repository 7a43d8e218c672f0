/** Which pods of the fleet are profiled: workloads of the cluster joined with the sidecars that sent windows. */

import type { SidecarsAnswer, Workload } from "../api/answers.ts";
import type { CoverageState } from "../lib/viewOptions.ts";
import { STALE_SECONDS } from "./staleness.ts";

export type PodState = Exclude<CoverageState, "">;

/** From the best to the worst; the order of parts in a bar. */
export const POD_STATES: readonly PodState[] = ["profiled", "starting", "stale", "dead", "no_sidecar"];

/** Items by a key, in the order of their first. */
function groupBy<Item>(items: Iterable<Item>, keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group) group.push(item);
    else groups.set(keyOf(item), [item]);
  }
  return groups;
}

export type PodCounts = Readonly<Record<PodState | "total", number>>;

export interface CoverageRow {
  readonly key: string;
  readonly cluster: string;
  readonly namespace: string;
  /** Empty where only sidecars name the service, and no cluster is watched. */
  readonly workload: string;
  readonly kind: string;
  readonly service: string;
  readonly isExpected: boolean;
  readonly pods: PodCounts;
  /** Profiled pods that a node agent covers. */
  readonly byAgent: number;
  readonly samplers: readonly string[];
  readonly modes: readonly string[];
  /** The worst of its sidecars; null where none reports it. */
  readonly stoppedShare: number | null;
  readonly longestStop: number | null;
  readonly failedShare: number | null;
  /** The end of the latest window, in Unix seconds. */
  readonly lastSeen: number | null;
  readonly problem: string;
  readonly hint: string;
  /** A pod without a sidecar that does not opt out; empty if there is none. */
  readonly attachablePod: string;
}

const NO_PODS: PodCounts = { total: 0, profiled: 0, starting: 0, stale: 0, dead: 0, no_sidecar: 0 };

/** Sums pods by state. */
export function addCounts(all: readonly PodCounts[]): PodCounts {
  const sum: Record<PodState | "total", number> = { ...NO_PODS };
  for (const counts of all) for (const state of ["total", ...POD_STATES] as const) sum[state] += counts[state];
  return sum;
}

/** The share of pods that are profiled; null without pods. */
export const profiledShare = ({ profiled, total }: PodCounts): number | null => (total > 0 ? profiled / total : null);

/** All workloads, also those without data, and the services that only sidecars name. The worst come first. */
export function buildCoverage(workloads: readonly Workload[], sidecars: SidecarsAnswer | null): CoverageRow[] {
  const used = new Set<number>();
  const numbers = sidecars ? [...sidecars.service.keys()] : [];
  const rows = workloads.map((workload): CoverageRow => {
    const own = numbers.filter((at) => sidecars?.service[at] === workload.service && (sidecars.namespace[at] === workload.namespace || sidecars.namespace[at] === ""));
    for (const at of own) used.add(at);
    const { total, profiled, starting, stale, dead, no_sidecar } = workload.pod_counts;
    const worst = workload.pods.find(({ problem }) => problem !== "");
    return {
      key: `${workload.namespace} ${workload.kind} ${workload.workload} ${workload.service}`,
      namespace: workload.namespace, workload: workload.workload, kind: workload.kind, service: workload.service, isExpected: workload.profiling_expected,
      pods: { total, profiled, starting, stale, dead, no_sidecar }, byAgent: workload.covered_by.agent, ...describeSidecars(sidecars, own),
      problem: worst?.problem ?? "", hint: worst?.hint ?? "", attachablePod: workload.pods.find(({ attachable }) => attachable)?.pod ?? "",
    };
  });
  // They are of one cluster, which only sidecars name.
  const named = new Set(rows.flatMap(({ cluster }) => cluster || []));
  const watched = rows.map((row) => (named.size === 1 ? { ...row, cluster: [...named][0] } : row));
  const rest = groupBy(numbers.filter((at) => !used.has(at)), (at) => [sidecars?.cluster[at], sidecars?.namespace[at], sidecars?.service[at]].join("\n"));
  for (const [key, own] of rest) {
    const [cluster, namespace, service] = key.split("\n");
    const about = describeSidecars(sidecars, own);
    const pods = own.reduce((sum, at) => sum + (sidecars?.pods[at] ?? 0), 0);
    const isStale = (sidecars?.until ?? 0) - (about.lastSeen ?? 0) > STALE_SECONDS;
    watched.push({
      key, ...about, cluster, namespace, workload: "", kind: "", service, isExpected: true,
      pods: { ...NO_PODS, total: pods, [isStale ? "stale" : "profiled"]: pods }, byAgent: 0, problem: "", hint: "", attachablePod: "",
    });
  }
  const missing = ({ pods, isExpected }: CoverageRow) => (isExpected ? 1 : 0) * (pods.total - pods.profiled - pods.starting);
  return watched.sort((a, b) => missing(b) - missing(a) || Number(b.isExpected) - Number(a.isExpected) || (a.key < b.key ? -1 : 1));
}

function describeSidecars(sidecars: SidecarsAnswer | null, own: readonly number[]) {
  const text = (column: readonly string[] | undefined) => [...new Set(own.flatMap((at) => column?.[at] || []))].sort();
  const highest = (column: readonly (number | null)[] | undefined) => own.reduce<number | null>((most, at) => {
    const value = column?.[at] ?? null;
    return value === null ? most : Math.max(most ?? 0, value);
  }, null);
  return {
    cluster: text(sidecars?.cluster)[0] ?? "", samplers: text(sidecars?.sampler), modes: text(sidecars?.mode),
    stoppedShare: highest(sidecars?.stopped_share), longestStop: highest(sidecars?.longest_stop_seconds), failedShare: highest(sidecars?.failed_share), lastSeen: highest(sidecars?.last_seen),
  };
}

export interface CoverageGroup {
  readonly cluster: string;
  readonly namespace: string;
  readonly workloads: number;
  readonly pods: PodCounts;
}

/** Coverage by cluster and namespace, the most unprofiled pods first. */
export function groupCoverage(rows: readonly CoverageRow[]): CoverageGroup[] {
  const groups = groupBy(rows, ({ cluster, namespace }) => `${cluster}\n${namespace}`);
  return [...groups.values()]
    .map((own) => ({ cluster: own[0].cluster, namespace: own[0].namespace, workloads: own.length, pods: addCounts(own.map(({ pods }) => pods)) }))
    .sort((a, b) => (b.pods.total - b.pods.profiled) - (a.pods.total - a.pods.profiled) || (a.cluster + a.namespace < b.cluster + b.namespace ? -1 : 1));
}

/** Pods by version and mode of their sidecars, the most first. */
export function countSidecars({ sampler, mode, pods }: SidecarsAnswer): { readonly sampler: string; readonly mode: string; readonly pods: number }[] {
  const groups = groupBy(sampler.keys(), (at) => `${sampler[at]}\n${mode[at]}`);
  return [...groups.values()].map((own) => ({ sampler: sampler[own[0]], mode: mode[own[0]], pods: own.reduce((sum, at) => sum + pods[at], 0) })).sort((a, b) => b.pods - a.pods || (a.sampler < b.sampler ? -1 : 1));
}

/** Rows whose names contain a text, and that have pods in a state. */
export function filterCoverage(rows: readonly CoverageRow[], text: string, state: CoverageState): CoverageRow[] {
  const lower = text.toLowerCase();
  return rows.filter((row) => (state === "" || row.pods[state] > 0) && [row.service, row.workload, row.namespace, row.cluster].some((name) => name.toLowerCase().includes(lower)));
}
