/** What needs attention on the first page: services that a deploy changed, new versions, and the costliest. */

import type { Deploy } from "../api/deploys.ts";
import type { OverviewAnswer } from "../api/grids.ts";
import { toEpochSeconds } from "../lib/times.ts";

/** The change from the previous to the current version, relative to the rate of the previous one. */
export interface VersionChange {
  /** `none`: there is no version before; `few`: too little was sampled to see a change of a fifth. */
  readonly kind: "none" | "few" | "unchanged" | "increased" | "decreased" | "new" | "removed" | "no_data";
  readonly relative: number;
  /** Twice the counting noise, as in flamegraph/tree/compare. */
  readonly relativeNoise: number;
}

/** What is known about the change to a service's current version, most useful first. */
export const FINDING_KINDS = ["regressed", "improved", "unchanged", "inconclusive", "unverified", "none"] as const;

export interface Finding {
  readonly kind: (typeof FINDING_KINDS)[number];
  /** The relative change of CPU time per pod; 0 where none is known. */
  readonly relative: number;
}

/** The finding of a deploy evaluation, or else the plain difference, which nobody verified. */
export function findingOf(deploy: Deploy | undefined, change: VersionChange): Finding {
  const rate = deploy?.analyses[deploy.analyses.length - 1]?.rate;
  if (deploy) {
    const relative = rate?.relative ?? (rate?.direction === "new" ? Number.MAX_VALUE : 0);
    if (deploy.state === "not_comparable" || !rate) return { kind: "inconclusive", relative: 0 };
    if (rate.direction === "increased" || rate.direction === "new") return { kind: "regressed", relative };
    if (rate.direction === "decreased" || rate.direction === "removed") return { kind: "improved", relative };
    return { kind: rate.direction === "unchanged" ? "unchanged" : "inconclusive", relative: 0 };
  }
  return ["increased", "decreased", "unchanged"].includes(change.kind) ? { kind: "unverified", relative: change.relative } : { kind: "none", relative: 0 };
}

/**
 * Compares findings for a sorted list: verified ones first, then numbers that nobody verified, then the rest. Descending
 * order begins with what regressed most, ascending order with what improved most.
 */
export function compareFindings(a: Finding, b: Finding, isDescending: boolean): number {
  const rank = ({ kind }: Finding) => {
    const at = FINDING_KINDS.indexOf(kind);
    return !isDescending && at < 2 ? 1 - at : at;
  };
  return rank(a) - rank(b) || (isDescending ? b.relative - a.relative : a.relative - b.relative);
}

const DAY = 86_400;

export interface Attention {
  /** Indices of services, the most important first. */
  readonly regressed: readonly number[];
  readonly improved: readonly number[];
  readonly deployed: readonly number[];
  readonly hottest: readonly number[];
}

/** The services of each group that needs attention; `now` in Unix seconds. */
export function findAttention(answer: OverviewAnswer, findings: readonly Finding[], deploys: ReadonlyMap<string, Deploy>, now: number): Attention {
  const all = [...answer.service.keys()];
  const of = (kind: Finding["kind"]) => all.filter((at) => findings[at].kind === kind).sort((a, b) => Math.abs(findings[b].relative) - Math.abs(findings[a].relative));
  const deployedAt = (at: number) => {
    const deploy = deploys.get(answer.service[at]);
    if (deploy) return toEpochSeconds(deploy.first_seen);
    // Without an evaluation: the first window of a version that another one precedes.
    return answer.previous.version[at] === null ? null : answer.current.first_seen[at];
  };
  const recent = all.filter((at) => (deployedAt(at) ?? 0) > now - DAY);
  return {
    regressed: of("regressed"),
    improved: of("improved"),
    deployed: recent.sort((a, b) => (deployedAt(b) ?? 0) - (deployedAt(a) ?? 0)),
    hottest: all.filter((at) => (answer.cores[at] ?? 0) > 0).sort((a, b) => (answer.cores[b] ?? 0) - (answer.cores[a] ?? 0)).slice(0, 5),
  };
}

/** A heading between the rows of a group: its value, how many services, and their cores and pods. */
export interface ServiceGroup {
  readonly name: string;
  readonly services: number;
  readonly cores: number;
  readonly pods: number;
}

/** Rows of the list: indices of services, and −1 − the index of a group before the rows of each group. */
export interface GroupedRows {
  readonly rows: Int32Array;
  readonly groups: readonly ServiceGroup[];
}

/** Puts favourites first, and gathers the rest under the values of a label if there is one; groups are sorted by cost. */
export function groupServices(answer: OverviewAnswer, order: Int32Array, favourites: readonly string[]): GroupedRows {
  const starred = new Set(favourites);
  const isStarred = (at: number) => starred.has(answer.service[at]);
  const sorted = starred.size > 0 ? [...order.filter(isStarred), ...order.filter((at) => !isStarred(at))] : order;
  const labels = answer.label;
  if (!labels) return { rows: Int32Array.from(sorted), groups: [] };
  const members = new Map<string, number[]>();
  for (const at of sorted) members.set(labels[at], [...(members.get(labels[at]) ?? []), at]);
  const groups = [...members].map(([name, own]) => ({
    name, own, services: own.length, cores: own.reduce((sum, at) => sum + (answer.cores[at] ?? 0), 0), pods: own.reduce((sum, at) => sum + answer.pods_now[at], 0),
  })).sort((a, b) => b.cores - a.cores || (a.name < b.name ? -1 : 1));
  return { rows: Int32Array.from(groups.flatMap(({ own }, index) => [-1 - index, ...own])), groups };
}
