import type { Agent, CaptureAnswer, CapturePart } from "../api/captures.ts";
import type { HeatmapAnswer } from "../api/grids.ts";
import { shellQuoted } from "./shellCommands.ts";
import { equals, joinMatchers } from "../lib/selectors.ts";
import { rfc3339, toEpochSeconds } from "../lib/times.ts";
import type { Place } from "../lib/url.ts";
import * as strings from "../strings/captureStrings.tsx";

export interface CaptureRequest {
  readonly service: string;
  readonly query: string;
  readonly pods: number | "all" | readonly string[];
  readonly seconds: number;
  readonly rate: number;
  readonly mode: string;
  readonly timeline: boolean;
  readonly attach?: boolean;
}

export const MODES = ["auto", "gil", "blocking", "nonblocking", "native"] as const;

/** Parses the pods of a capture: a number, `all`, or names separated by commas. */
export function parsePods(text: string): CaptureRequest["pods"] {
  const typed = text.trim();
  if (typed === "all") return typed;
  return /^\d*$/.test(typed) ? Number(typed || "1") : typed.split(",").map((name) => name.trim()).filter((name) => name !== "");
}

/** How many pods one can choose without naming them. */
export const POD_CHOICES = ["1", "2", "5", "all"] as const;

/** The pods of a choice: a number, all, or those chosen by name. */
export const podsOfChoice = (choice: string, chosen: readonly string[]): CaptureRequest["pods"] =>
  (choice === "chosen" && chosen.length > 0 ? chosen : choice === "all" ? "all" : Number(choice) || 1);

/** "2 pods", "all pods", or the name of the only chosen pod. */
export function describePods(pods: CaptureRequest["pods"]): string {
  if (pods === "all") return strings.allPods;
  if (typeof pods === "number") return strings.podCount(pods);
  return pods.length === 1 ? pods[0].slice(-40) : strings.chosenPods(pods.length);
}

const SUBCOMMANDS = ["start", "list", "show", "stop", "delete"];

export function captureCommand(request: CaptureRequest, collector: string): string {
  const { service, pods, seconds, rate, mode, query, timeline, attach } = request;
  const values = { collector, pods: String(pods), seconds: String(seconds), rate: String(rate), mode, query };
  const defaults: Record<string, string> = { pods: "1", seconds: "60", rate: "100", mode: "auto", query: "" };
  const options = Object.entries(values).flatMap(([name, value]) => (value === defaults[name] ? [] : [`--${name}=${shellQuoted(value)}`]));
  // What begins with a dash would be an option.
  const prefix = [...(attach ? ["--attach"] : []), ...(timeline ? [] : ["--no-timeline"]), ...(service.startsWith("-") ? ["--"] : []), ...(SUBCOMMANDS.includes(service) ? ["start"] : [])];
  return ["sidelight capture", ...options, ...prefix, shellQuoted(service)].join(" ");
}

export const captureCurl = (request: CaptureRequest, collector: string): string =>
  `curl --json ${shellQuoted(JSON.stringify(request))} ${shellQuoted(`${collector}/api/v1/captures`)}`;

/** Describes the cost of a capture. */
export function describeCost({ pods, seconds, rate, mode }: CaptureRequest): string {
  const subject = pods === "all" ? strings.eachPod : pods === 1 || (typeof pods === "object" && pods.length === 1) ? strings.theNamedPod : strings.eachOfThePods;
  const stop = mode === "nonblocking" ? strings.noThreadStops : mode === "blocking" ? strings.allThreadsStop : strings.gilThreadStops;
  return strings.captureCost(subject, rate, seconds, stop);
}

/** CPU cores of each pod over the time it was watched. */
export function coresByPod({ row, seconds, pod_seconds: watched }: Pick<HeatmapAnswer, "row" | "seconds" | "pod_seconds">): ReadonlyMap<string, number> {
  const add = (values: readonly (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0);
  return new Map(row.flatMap((pod, at) => (add(watched[at]) > 0 ? [[pod, add(seconds[at]) / add(watched[at])] as const] : [])));
}

/** Sidecars of named pods, those of the pods that use most CPU first. */
export function sortByCores(agents: readonly Agent[], cores: ReadonlyMap<string, number>): readonly Agent[] {
  const name = ({ labels }: Agent) => labels.pod ?? "";
  const use = (agent: Agent) => cores.get(name(agent)) ?? -1;
  return agents.filter((agent) => name(agent) !== "").sort((a, b) => use(b) - use(a) || (name(a) < name(b) ? -1 : 1));
}

/** Why a sidecar cannot take a capture now; empty if it can. */
export const describeObstacle = (agent: Agent): string =>
  agent.paused ? "paused" : !agent.ready ? agent.problem || strings.notReady : agent.active_capture !== "" ? strings.busyWithAnotherCapture : "";

/** The functions with the most self samples in all parts so far. */
export function topFunctions(parts: readonly CapturePart[], limit = 5): readonly (readonly [string, number])[] {
  const samples = new Map<string, number>();
  for (const part of parts) for (const entry of part.top_functions ?? []) samples.set(entry.function, (samples.get(entry.function) ?? 0) + entry.self_samples);
  return [...samples].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, limit);
}

/** The place of a capture's flame graph. */
export const captureProfile = (capture: CaptureAnswer): Partial<Place> =>
  ({ service: capture.service, query: equals("capture", capture.id), from: rfc3339(capture.from), until: rfc3339(capture.until), type: "wall" });

/** Whether a capture has samples to show. */
export const hasProfile = ({ state, samples }: CaptureAnswer): boolean => state === "ready" || (state === "stopped" && samples > 0);

const HOUR = 3600;
const DAY = 86_400;

/** The comparison of a capture with the continuous samples of the hour before it. */
export function compareWithHourBefore(capture: CaptureAnswer): Partial<Place> {
  const from = toEpochSeconds(capture.created);
  return { ...compareWithYesterday(capture), baseline_from: rfc3339(from - HOUR), baseline_until: rfc3339(from) };
}

/** The comparison of a capture with the continuous samples of the same time on the day before. */
export function compareWithYesterday(capture: CaptureAnswer): Partial<Place> {
  const [from, until] = [toEpochSeconds(capture.created), toEpochSeconds(capture.ended ?? capture.created)];
  return {
    service: capture.service, type: "wall", from: rfc3339(capture.from), until: rfc3339(capture.until),
    baseline: `match:${joinMatchers('capture=""', capture.query)}`, baseline_from: rfc3339(from - DAY), baseline_until: rfc3339(Math.max(until, from + 1) - DAY),
    comparison: `match:${equals("capture", capture.id)}`, comparison_from: rfc3339(capture.from), comparison_until: rfc3339(capture.until),
  };
}
