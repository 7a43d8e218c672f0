/** Prometheus matchers as text. */

export const quoted = (value: string): string => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;

export const equals = (label: string, value: string): string => `${label}=${quoted(value)}`;

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

const MATCHERS = /[\w.]+\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"/g;

/** What tells selectors apart: of each the matchers that not all of them have. */
export function apart(selectors: readonly string[]): string[] {
  const each = selectors.map((selector): readonly string[] => selector.match(MATCHERS) ?? []);
  return each.map((own) => own.filter((matcher) => !each.every((others) => others.includes(matcher))).join(", ") || "everything");
}

/** A query without its matchers of one label, so that the label can be chosen elsewhere. */
export function without(query: string, label: string): string {
  const matchers = query.match(MATCHERS) ?? [];
  const others = matchers.filter((matcher) => !new RegExp(`^${label}\\s*[=!]`).test(matcher));
  return others.length === matchers.length ? query : joined(...others);
}
