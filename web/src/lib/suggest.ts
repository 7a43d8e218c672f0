/** Values to offer for what was typed so far: those that begin with it, then those that have it anywhere; case is no matter. */
export function suggested(values: readonly string[], typed: string, most: number): { shown: readonly string[]; more: number } {
  const wanted = typed.toLowerCase();
  const begin: string[] = [];
  const inside: string[] = [];
  for (const value of values) {
    const at = wanted === "" ? 0 : value.toLowerCase().indexOf(wanted);
    if (at === 0) begin.push(value);
    else if (at > 0) inside.push(value);
  }
  const all = begin.length >= most ? begin : [...begin, ...inside];
  return { shown: all.slice(0, most), more: Math.max(begin.length + inside.length - most, 0) };
}

/** A regular expression's alternatives: all but the last as they are, and the last one, which is being typed. */
export function lastAlternative(pattern: string): { head: string; tail: string } {
  const cut = pattern.lastIndexOf("|") + 1;
  return { head: pattern.slice(0, cut), tail: pattern.slice(cut) };
}
