/** Prometheus matchers as text. */

import * as strings from "../strings/timelineStrings.tsx";

export const quote = (value: string): string => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;

export const equals = (label: string, value: string): string => `${label}=${quote(value)}`;

const escapeRegex = (text: string) => text.replaceAll(/[\\^$.|?*+()[\]{}]/g, "\\$&");

/** A label is, or with `not` is not, one of these values. */
export function matchAny(label: string, values: readonly string[], not = false): string {
  if (values.length === 1) return `${label}${not ? "!=" : "="}${quote(values[0])}`;
  return `${label}${not ? "!~" : "=~"}${quote(values.map(escapeRegex).join("|"))}`;
}

/** Matchers joined; braces and emptiness are allowed in each part and absent from the whole. */
export const joinMatchers = (...parts: readonly string[]): string =>
  parts.map((part) => part.trim().replace(/^\{/, "").replace(/\}$/, "").trim()).filter((part) => part !== "").join(", ");

export const selectorOf = (service: string, query: string): string => `{${joinMatchers(equals("service", service), query)}}`;

/** The matchers a side of a comparison stands for: `version:X`, `match:…`, or nothing. */
export function sideMatchers(side: string): string {
  if (side.startsWith("version:")) return equals("version", side.slice(8));
  return side.startsWith("match:") ? joinMatchers(side.slice(6)) : "";
}

export function sideName(side: string): string {
  if (side.startsWith("version:")) return side.slice(8) || strings.noVersionLabelled;
  return side.startsWith("match:") ? side.slice(6) || "everything" : "everything";
}

export type MatchOperator = "=" | "!=" | "=~" | "!~";

export const MATCH_OPERATORS: readonly MatchOperator[] = ["=", "!=", "=~", "!~"];

export interface Matcher {
  readonly name: string;
  readonly op: MatchOperator;
  readonly value: string;
}

export const formatMatcher = ({ name, op, value }: Matcher): string => `${name}${op}${quote(value)}`;

const MATCHER = /\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)')\s*(,|$)/y;
const ESCAPED: Record<string, string> = { n: "\n", t: "\t", "\\": "\\", '"': '"', "'": "'" };

/** The matchers of a query; null if it is invalid, in which case the API reports the error. */
export function parseMatchers(query: string): Matcher[] | null {
  const text = joinMatchers(query);
  const matchers: Matcher[] = [];
  MATCHER.lastIndex = 0;
  while (MATCHER.lastIndex < text.length) {
    const match = MATCHER.exec(text);
    if (!match) return null;
    const body = match[3] ?? match[4];
    if (/\\[^nt\\"']/.test(body.replaceAll("\\\\", ""))) return null;
    matchers.push({ name: match[1], op: match[2] as MatchOperator, value: body.replace(/\\(.)/g, (_, letter: string) => ESCAPED[letter]) });
  }
  return matchers;
}

/** A regular expression that matches exactly these values. */
export const exactAlternatives = (values: readonly string[]): string => values.map((value) => value.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&")).join("|");

/** A query without its matchers of one label, so that the label can be chosen elsewhere. */
export const withoutLabel = (query: string, label: string): string => filterMatchers(query, (name) => name !== label);

/** The matchers of one label alone. */
export const onlyLabel = (query: string, label: string): string => (parseMatchers(query) === null ? "" : filterMatchers(query, (name) => name === label));

function filterMatchers(query: string, keep: (name: string) => boolean): string {
  const all = parseMatchers(query) ?? [];
  const remaining = all.filter(({ name }) => keep(name));
  return remaining.length === all.length ? query : joinMatchers(...remaining.map(formatMatcher));
}

/** The position in a selector that an error message names; null if it names none. */
export function errorPosition(message: string): number | null {
  const match = /position (\d+)/.exec(message);
  return match && Number(match[1]);
}

/** The matchers of each selector that not all selectors have. */
export function distinguishingMatchers(selectors: readonly string[]): string[] {
  const lists = selectors.map((selector): readonly string[] => (parseMatchers(selector) ?? []).map(formatMatcher));
  return lists.map((matchers) => matchers.filter((matcher) => !lists.every((list) => list.includes(matcher))).join(", ") || "everything");
}
