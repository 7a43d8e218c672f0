import type { Agent, CaptureAnswer, CapturePart } from "../api/captures.ts";
import { shellQuoted } from "./shellCommands.ts";
import { count } from "../lib/numbers.ts";
import { equals, joined } from "../lib/selectors.ts";
import { rfc3339, epoch } from "../lib/times.ts";
import type { Place } from "../lib/url.ts";

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

/** A number of pods, `all`, or names with commas between; as it is typed. */
export function podsOf(text: string): CaptureRequest["pods"] {
  const typed = text.trim();
  if (typed === "all") return typed;
  return /^\d*$/.test(typed) ? Number(typed || "1") : typed.split(",").map((name) => name.trim()).filter((name) => name !== "");
}

const WORDS = ["start", "list", "show", "stop", "delete"];

export function cliOf(wish: CaptureRequest, collector: string): string {
  const { service, pods, seconds, rate, mode, query, timeline, attach } = wish;
  const given = { collector, pods: String(pods), seconds: String(seconds), rate: String(rate), mode, query };
  const usual: Record<string, string> = { pods: "1", seconds: "60", rate: "100", mode: "auto", query: "" };
  const options = Object.entries(given).flatMap(([name, value]) => (value === usual[name] ? [] : [`--${name}=${shellQuoted(value)}`]));
  // What begins with a dash would be an option.
  const before = [...(attach ? ["--attach"] : []), ...(timeline ? [] : ["--no-timeline"]), ...(service.startsWith("-") ? ["--"] : []), ...(WORDS.includes(service) ? ["start"] : [])];
  return ["sidelight capture", ...options, ...before, shellQuoted(service)].join(" ");
}

export const curlOf = (wish: CaptureRequest, collector: string): string =>
  `curl --json ${shellQuoted(JSON.stringify(wish))} ${shellQuoted(`${collector}/api/v1/captures`)}`;

/** What a capture costs, in words. */
export function costOf({ pods, seconds, rate, mode }: CaptureRequest): string {
  const each = pods === "all" ? "Each pod" : pods === 1 || (typeof pods === "object" && pods.length === 1) ? "The pod" : "Each of the pods";
  const stop = mode === "nonblocking" ? "No thread stands still, so stacks may be wrong." : mode === "blocking" ? "All threads stand still meanwhile." : "Only the thread with the GIL stands still meanwhile.";
  return `${each} is sampled ${count(rate)} times a second for ${seconds} s: ${count(rate * seconds)} ticks. ${stop} The sidecar lowers the rate rather than take more than its --capture-budget-percent: by default 10 % of a core and of the process's time.`;
}

/** What keeps a sidecar from a capture now; empty if nothing does. */
export const obstacleOf = (agent: Agent): string =>
  agent.paused ? "paused" : !agent.ready ? agent.problem || "not ready" : agent.active_capture !== "" ? "busy with another capture" : "";

/** The functions with most samples of their own in all parts so far. */
export function topOf(parts: readonly CapturePart[], most = 5): readonly (readonly [string, number])[] {
  const own = new Map<string, number>();
  for (const part of parts) for (const one of part.top_functions ?? []) own.set(one.function, (own.get(one.function) ?? 0) + one.self_samples);
  return [...own].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, most);
}

/** Where the flame graph of a capture is. */
export const flameOf = (capture: CaptureAnswer): Partial<Place> =>
  ({ service: capture.service, query: equals("capture", capture.id), from: rfc3339(capture.from), until: rfc3339(capture.until), type: "wall" });

const DAY = 86_400;

/** The same span a day before, as it was sampled all the time, beside a capture. */
export function yesterdayOf(capture: CaptureAnswer): Partial<Place> {
  const [from, until] = [epoch(capture.created), epoch(capture.ended ?? capture.created)];
  return {
    service: capture.service, type: "wall", from: rfc3339(capture.from), until: rfc3339(capture.until),
    a: `match:${joined('capture=""', capture.query)}`, a_from: rfc3339(from - DAY), a_until: rfc3339(Math.max(until, from + 1) - DAY),
    b: `match:${equals("capture", capture.id)}`, b_from: rfc3339(capture.from), b_until: rfc3339(capture.until),
  };
}
