import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { joined, parsedMatchers, written, type Matcher } from "../../lib/selectors.ts";
import type { Range } from "../../lib/times.ts";
import { Segments } from "../ui/Controls.tsx";
import { MatcherEditor } from "./MatcherEditor.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";

export function TypePicker() {
  return (
    <Segments<ProfileType> label="Profile type" value={place.value.type} choose={(type) => change({ type })} options={[
      ["cpu", "CPU", "Time on a CPU"],
      ["wall", "Wall", "All time of all threads, waiting included"],
      ["gil", "GIL", "Time holding the global interpreter lock"],
    ]} />
  );
}

export const WORDS = { "=": "is", "!=": "is not", "=~": "matches", "!~": "does not match" } as const;

const apply = (matchers: readonly Matcher[]) => change({ query: joined(...matchers.map(written)) });

/** Filters by label as chips, each to be edited or removed; or all of them as text, which is also where those are that cannot be read. */
export function Filters({ range }: { range: Range }) {
  const { query } = place.value;
  const [open, edit] = useState<number | null>(null);
  const [asText, write] = useState(false);
  const matchers = parsedMatchers(query);
  useEffect(() => edit(null), [query]);
  if (asText || matchers === null) return <Text query={query} bad={matchers === null} done={() => write(false)} />;
  const put = (at: number, matcher: Matcher | null) => {
    edit(null);
    apply([...matchers.slice(0, at), ...(matcher ? [matcher] : []), ...matchers.slice(at + 1)]);
  };
  return (
    <div class="filters" role="group" aria-label="Filters">
      {matchers.map((matcher, at) => (
        <span class="chip" key={written(matcher)}>
          <button type="button" title={`${written(matcher)}: edit`} aria-expanded={open === at} onClick={() => edit(open === at ? null : at)}>
            <bdi>{matcher.name}</bdi> <span aria-hidden="true">{matcher.op}</span><span class="unseen">{WORDS[matcher.op]}</span> <bdi>{matcher.value.slice(0, 60) || "(empty)"}</bdi>
          </button>
          <button type="button" class="square" aria-label={`Remove the filter ${written(matcher).slice(0, 80)}`} onClick={() => put(at, null)}>×</button>
        </span>
      ))}
      <button type="button" aria-expanded={open === matchers.length} onClick={() => edit(open === matchers.length ? null : matchers.length)}>+ filter</button>
      <button type="button" title="Edit all filters as text" onClick={() => write(true)}>as text</button>
      {open !== null && <MatcherEditor key={open} range={range} given={matchers[open] ?? null} words={WORDS} cancel={() => edit(null)} done={(matcher) => put(open, matcher)} />}
    </div>
  );
}

function Text({ query, bad, done }: { query: string; bad: boolean; done: () => void }) {
  const [typed, type] = useState(query);
  useLayoutEffect(() => type(query), [query]);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    change({ query: joined(typed) });
    if (parsedMatchers(typed) !== null) done();
  };
  return (
    <form class="filters" onSubmit={submit}>
      <label>
        <span class="unseen">Filter by labels</span>
        <input id="filter-text" class="matchers" value={typed} spellcheck={false} autocomplete="off" aria-invalid={bad && typed === query}
          placeholder='filter, e.g. pod=~"web-.*", node!="n3"' onInput={(event) => type(event.currentTarget.value)} />
      </label>
      <button class="primary">Apply</button>
      {query !== "" && <button type="button" onClick={() => { change({ query: "" }); done(); }}>Clear</button>}
      {!bad && <button type="button" onClick={done}>as chips</button>}
    </form>
  );
}
