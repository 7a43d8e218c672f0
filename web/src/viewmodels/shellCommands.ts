import type { Parameters } from "../api/request.ts";
import { isRelativeTime, rfc3339, toAbsolute, toEpochSeconds } from "../lib/times.ts";

/** An API request of a page: the path below /api/v1 and its parameters, as `apiUrl` takes them. */
export type ApiQuery = readonly [path: string, parameters: Parameters];

interface AnsweredRange {
  readonly from: string | number;
  readonly until: string | number;
}

/**
 * A query with absolute times: those of the answer's ranges if there is an answer, else the present values of relative
 * times. So a command that is run tomorrow gives what the page shows today.
 */
export function pinTimes([path, parameters]: ApiQuery, answered: readonly AnsweredRange[] | null, now: number): ApiQuery {
  const pinned: Record<string, string> = Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== ""));
  if (answered?.length === 2) {
    const { from: _, until: __, ...rest } = pinned;
    const sides = ["baseline", "comparison"].flatMap((side, at) => edges(answered[at]).map(([edge, time]) => [`${side}_${edge}`, time]));
    return [path, { ...rest, ...Object.fromEntries(sides) as Record<string, string> }];
  }
  if (answered?.length === 1) return [path, { ...pinned, ...Object.fromEntries(edges(answered[0])) as Record<string, string> }];
  for (const [name, value] of Object.entries(pinned)) {
    if (/(?:^|_)(?:from|until)$/.test(name) && isRelativeTime(value)) pinned[name] = toAbsolute({ from: value, until: value }, now).from;
  }
  return [path, pinned];
}

const edges = (side: AnsweredRange) => [["from", rfc3339(toEpochSeconds(side.from))], ["until", rfc3339(toEpochSeconds(side.until))]] as const;

/** The query as a curl command. */
export function curlCommand(collector: string, [path, parameters]: ApiQuery): string {
  const options = Object.entries(parameters).map(([name, value]) => `--data-urlencode ${shellQuoted(`${name}=${value}`)}`);
  return [`curl -sS --compressed -G ${shellQuoted(`${collector}/api/v1/${path}`)}`, ...options].join(" \\\n  ");
}

/** The query as a sidelight command: `export` and `compare` where they give the same, else `query`. */
export function cliCommand(collector: string, [path, parameters]: ApiQuery): string {
  const { query = "", baseline = "", comparison = "", lines = "", nodes: _, states: __, ...rest } = parameters;
  if (path !== "flamegraph" && path !== "compare") {
    const parameterOptions = Object.entries(parameters).map(([name, value]) => `--param=${shellQuoted(`${name}=${value}`)}`);
    return [`sidelight query ${shellQuoted(path)} --collector=${shellQuoted(collector)}`, ...parameterOptions].join(" \\\n  ");
  }
  const options = Object.entries(rest).map(([name, value]) => `--${flagName(name)}=${shellQuoted(value)}`);
  if (path === "flamegraph") {
    return [`sidelight export --collector=${shellQuoted(collector)}`, ...options, ...(lines === "1" ? ["--lines"] : []), shellQuoted(query)].join(" \\\n  ");
  }
  const sides = [`--baseline=${shellQuoted(baseline || "{}")}`, `--comparison=${shellQuoted(comparison || "{}")}`];
  return [`sidelight compare --collector=${shellQuoted(collector)}`, ...sides, ...options, shellQuoted(query)].join(" \\\n  ");
}

const flagName = (name: string): string => name.replaceAll("_", "-");

/**
 * A word of a shell, whatever is in it. What a terminal would act on when it is pasted (control characters, marks
 * that turn the order of letters round) is written as its bytes, which bash and zsh read.
 */
export function shellQuoted(text: string): string {
  if (/^[\w@%+:,./-]+$/.test(text)) return text;
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("'", "\\'");
  const bytes = escaped.replace(CONTROL_CHARACTERS, (letter) => [...new TextEncoder().encode(letter)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""));
  return bytes === escaped ? `'${text.replaceAll("'", `'\\''`)}'` : `$'${bytes}'`;
}

const CONTROL_CHARACTERS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The command in a hint of the collector; empty if it has none. A namespace is labelled before its pods restart. */
export function commandOfHint(hint: string, namespace: string): string {
  const command = /kubectl .*?(?= says |$)/.exec(hint)?.[0] ?? "";
  const label = /^Label its namespace\b.*?\b(\S+=true)/.exec(hint)?.[1];
  return label && command !== "" ? `kubectl label namespace ${shellQuoted(namespace)} ${label} && ${command}` : command;
}
