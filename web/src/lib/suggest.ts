/** Values to offer for what was typed so far: those that begin with it, then those that have it anywhere; case is no matter. */
export function suggest(values: readonly string[], typed: string, limit: number): { shown: readonly string[]; omitted: number } {
  const query = typed.toLowerCase();
  const prefixMatches: string[] = [];
  const otherMatches: string[] = [];
  for (const value of values) {
    const at = query === "" ? 0 : value.toLowerCase().indexOf(query);
    if (at === 0) prefixMatches.push(value);
    else if (at > 0) otherMatches.push(value);
  }
  const all = prefixMatches.length >= limit ? prefixMatches : [...prefixMatches, ...otherMatches];
  return { shown: all.slice(0, limit), omitted: Math.max(prefixMatches.length + otherMatches.length - limit, 0) };
}

/** A regular expression's alternatives: all but the last as they are, and the last one, which is being typed. */
export function lastAlternative(pattern: string): { head: string; tail: string } {
  const cut = pattern.lastIndexOf("|") + 1;
  return { head: pattern.slice(0, cut), tail: pattern.slice(cut) };
}
