import type { Parameters } from "../api/request.ts";
import { isRelative, rfc3339, absolute, epoch } from "../lib/times.ts";

/** What a page asks the API: the path below /api/v1 and its parameters, as `apiUrl` takes them. */
export type Question = readonly [path: string, parameters: Parameters];

interface Answered {
  readonly from: string | number;
  readonly until: string | number;
}

/**
 * A question with its times nailed down: to the ranges that were answered where an answer is there, or else to what
 * relative times mean now. So a command that is run tomorrow gives what the page shows today.
 */
export function pinned([path, parameters]: Question, answered: readonly Answered[] | null, now: number): Question {
  const given: Record<string, string> = Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== ""));
  if (answered?.length === 2) {
    const { from: _, until: __, ...rest } = given;
    const sides = ["baseline", "comparison"].flatMap((side, at) => edges(answered[at]).map(([edge, time]) => [`${side}_${edge}`, time]));
    return [path, { ...rest, ...Object.fromEntries(sides) as Record<string, string> }];
  }
  if (answered?.length === 1) return [path, { ...given, ...Object.fromEntries(edges(answered[0])) as Record<string, string> }];
  for (const [name, value] of Object.entries(given)) {
    if (/(?:^|_)(?:from|until)$/.test(name) && isRelative(value)) given[name] = absolute({ from: value, until: value }, now).from;
  }
  return [path, given];
}

const edges = (side: Answered) => [["from", rfc3339(epoch(side.from))], ["until", rfc3339(epoch(side.until))]] as const;

/** The question for curl. */
export function curl(collector: string, [path, parameters]: Question): string {
  const given = Object.entries(parameters).map(([name, value]) => `--data-urlencode ${shellQuoted(`${name}=${value}`)}`);
  return [`curl -sS --compressed -G ${shellQuoted(`${collector}/api/v1/${path}`)}`, ...given].join(" \\\n  ");
}

/** The question for the command line: `export` and `compare` where they give the same, else `ask`. */
export function commandLine(collector: string, [path, parameters]: Question): string {
  const { query = "", baseline = "", comparison = "", lines = "", nodes: _, states: __, ...rest } = parameters;
  if (path !== "flamegraph" && path !== "compare") {
    const given = Object.entries(parameters).map(([name, value]) => `--param=${shellQuoted(`${name}=${value}`)}`);
    return [`sidelight ask ${shellQuoted(path)} --collector=${shellQuoted(collector)}`, ...given].join(" \\\n  ");
  }
  const options = Object.entries(rest).map(([name, value]) => `--${flag(name)}=${shellQuoted(value)}`);
  if (path === "flamegraph") {
    return [`sidelight export --collector=${shellQuoted(collector)}`, ...options, ...(lines === "1" ? ["--lines"] : []), shellQuoted(query)].join(" \\\n  ");
  }
  const sides = [`--a=${shellQuoted(baseline || "{}")}`, `--b=${shellQuoted(comparison || "{}")}`];
  return [`sidelight compare --collector=${shellQuoted(collector)}`, ...sides, ...options, shellQuoted(query)].join(" \\\n  ");
}

const flag = (name: string): string => name.replace("baseline_", "a-").replace("comparison_", "b-").replaceAll("_", "-");

/**
 * A word of a shell, whatever is in it. What a terminal would act on when it is pasted (control characters, marks
 * that turn the order of letters round) is written as its bytes, which bash and zsh read.
 */
export function shellQuoted(text: string): string {
  if (/^[\w@%+:,./-]+$/.test(text)) return text;
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("'", "\\'");
  const bytes = escaped.replace(UNSEEN, (letter) => [...new TextEncoder().encode(letter)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""));
  return bytes === escaped ? `'${text.replaceAll("'", `'\\''`)}'` : `$'${bytes}'`;
}

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
