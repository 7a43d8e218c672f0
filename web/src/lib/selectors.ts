/** Prometheus matchers as text. */

export const quoted = (value: string): string => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;

export const equals = (label: string, value: string): string => `${label}=${quoted(value)}`;

const literally = (text: string) => text.replaceAll(/[\\^$.|?*+()[\]{}]/g, "\\$&");

/** A label is, or with `not` is not, one of these values. */
export function oneOf(label: string, values: readonly string[], not = false): string {
  if (values.length === 1) return `${label}${not ? "!=" : "="}${quoted(values[0])}`;
  return `${label}${not ? "!~" : "=~"}${quoted(values.map(literally).join("|"))}`;
}

/** Matchers joined; braces and emptiness are allowed in each part and absent from the whole. */
export const joined = (...parts: readonly string[]): string =>
  parts.map((part) => part.trim().replace(/^\{/, "").replace(/\}$/, "").trim()).filter((part) => part !== "").join(", ");

export const selectorOf = (service: string, query: string): string => `{${joined(equals("service", service), query)}}`;

/** The matchers a side of a comparison stands for: `version:X`, `match:…`, or nothing. */
export function sideMatchers(side: string): string {
  if (side.startsWith("version:")) return equals("version", side.slice(8));
  return side.startsWith("match:") ? joined(side.slice(6)) : "";
}

export function sideName(side: string): string {
  if (side.startsWith("version:")) return side.slice(8) || "(no version)";
  return side.startsWith("match:") ? side.slice(6) || "everything" : "everything";
}

export type Op = "=" | "!=" | "=~" | "!~";

export const OPS: readonly Op[] = ["=", "!=", "=~", "!~"];

export interface Matcher {
  readonly name: string;
  readonly op: Op;
  readonly value: string;
}

export const written = ({ name, op, value }: Matcher): string => `${name}${op}${quoted(value)}`;

const MATCHER = /\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)')\s*(,|$)/y;
const ESCAPED: Record<string, string> = { n: "\n", t: "\t", "\\": "\\", '"': '"', "'": "'" };

/** The matchers of a query; null when it cannot be read as the API reads it. The API says what is wrong then. */
export function parsedMatchers(query: string): Matcher[] | null {
  const text = joined(query);
  const found: Matcher[] = [];
  MATCHER.lastIndex = 0;
  while (MATCHER.lastIndex < text.length) {
    const one = MATCHER.exec(text);
    if (!one) return null;
    const body = one[3] ?? one[4];
    if (/\\[^nt\\"']/.test(body.replaceAll("\\\\", ""))) return null;
    found.push({ name: one[1], op: one[2] as Op, value: body.replace(/\\(.)/g, (_, letter: string) => ESCAPED[letter]) });
  }
  return found;
}

/** A regular expression that matches exactly these values. */
export const anyOf = (values: readonly string[]): string => values.map((value) => value.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&")).join("|");

/** A query without its matchers of one label, so that the label can be chosen elsewhere. */
export const without = (query: string, label: string): string => kept(query, (name) => name !== label);

/** The matchers of one label alone. */
export const only = (query: string, label: string): string => (parsedMatchers(query) === null ? "" : kept(query, (name) => name === label));

function kept(query: string, keep: (name: string) => boolean): string {
  const all = parsedMatchers(query) ?? [];
  const some = all.filter(({ name }) => keep(name));
  return some.length === all.length ? query : joined(...some.map(written));
}

/** The position in a selector that a refusal names, and where that is in the part a person wrote; null when it names none. */
export function troubleAt(message: string): number | null {
  const found = /position (\d+)/.exec(message);
  return found && Number(found[1]);
}

/** What tells selectors apart: of each the matchers that not all of them have. */
export function apart(selectors: readonly string[]): string[] {
  const each = selectors.map((selector): readonly string[] => (parsedMatchers(selector) ?? []).map(written));
  return each.map((own) => own.filter((matcher) => !each.every((others) => others.includes(matcher))).join(", ") || "everything");
}
