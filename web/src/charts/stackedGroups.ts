import type { HeatmapAnswer } from "../api/grids.ts";
import { equals, joinMatchers } from "../lib/selectors.ts";

/** What a profile is broken down by: a label, the endpoint of stacks, or what the samples themselves say. */
export const GROUPINGS = ["version", "pod", "node", "zone", "namespace", "thread", "endpoint", "state", "package"] as const;

/** A group with its time in each step, in seconds. */
export interface Group {
  readonly name: string;
  readonly seconds: readonly number[];
  readonly total: number;
  /** Time per pod-second; null where pods are no measure of it. */
  readonly rate: number | null;
}

const add = (column: readonly (number | null)[]): number => column.reduce<number>((sum, value) => sum + (value ?? 0), 0);

/** The groups of an answer, the largest first; the time of all others is one group more, without a name of its own. */
export function readGroups(answer: HeatmapAnswer, others: string): readonly Group[] {
  const group = (name: string, seconds: readonly (number | null)[], podSeconds: readonly (number | null)[]): Group => {
    const total = add(seconds);
    const pods = add(podSeconds);
    return { name, seconds: seconds.map((value) => value ?? 0), total, rate: pods > 0 ? total / pods : null };
  };
  const groups = answer.row.map((name, at) => group(name, answer.seconds[at], answer.pod_seconds[at])).filter(({ total }) => total > 0);
  return answer.others.rows > 0 && add(answer.others.seconds) > 0 ? [...groups, group(others, answer.others.seconds, [])] : groups;
}

/** Time per pod-second of all groups, those that are only summed included; null without pods. */
export function meanRate({ seconds, pod_seconds, others }: Pick<HeatmapAnswer, "seconds" | "pod_seconds" | "others">): number | null {
  const pods = add([...pod_seconds.flat(), ...others.pod_seconds]);
  return pods > 0 ? add([...seconds.flat(), ...others.seconds]) / pods : null;
}

/** The groups in the order of these names, of which some may have no time, and then the others. */
export function inOrder(groups: readonly Group[], order: readonly { readonly name: string }[]): readonly Group[] {
  const rest = new Map(groups.map((group) => [group.name, group]));
  const seconds = groups[0]?.seconds.map(() => 0) ?? [];
  const first = order.map(({ name }) => {
    const group = rest.get(name) ?? { name, seconds, total: 0, rate: null };
    rest.delete(name);
    return group;
  });
  return [...first, ...rest.values()];
}

/** Where the parts of a stack begin and end in each step: `bounds[group][step]`, from 0 at the bottom. */
export function stack(groups: readonly Group[]): readonly (readonly { readonly from: number; readonly until: number }[])[] {
  const height = new Float64Array(groups[0]?.seconds.length ?? 0);
  return groups.map(({ seconds }) => seconds.map((value, step) => {
    const from = height[step];
    height[step] += value;
    return { from, until: height[step] };
  }));
}

/** The matchers of a group, with those of the page. */
export const groupQuery = (query: string, label: string, value: string): string => joinMatchers(query, equals(label, value));

/** A group as a side of a comparison. */
export const groupSide = (label: string, value: string): string => (label === "version" ? `version:${value}` : `match:${equals(label, value)}`);
