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

/** A query without its matchers of one label, so that the label can be chosen elsewhere. */
export function without(query: string, label: string): string {
  const matchers = query.match(/[\w.]+\s*(?:=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"/g) ?? [];
  const others = matchers.filter((matcher) => !new RegExp(`^${label}\\s*[=!]`).test(matcher));
  return others.length === matchers.length ? query : joined(...others);
}
