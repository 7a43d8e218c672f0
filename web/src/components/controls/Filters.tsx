import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { joinMatchers, parseMatchers, formatMatcher, type Matcher } from "../../lib/selectors.ts";
import type { Range } from "../../lib/times.ts";
import { Toolbar } from "../ui/Toolbar.tsx";
import { MatcherEditor } from "./MatcherEditor.tsx";
import type { ProfileType } from "../../lib/viewOptions.ts";
import * as strings from "../../strings/timelineStrings.tsx";

const TYPES: readonly (readonly [ProfileType, string, string])[] = [
  ["cpu", strings.cpu, strings.cpuHint],
  ["wall", strings.wall, strings.wallHint],
  ["gil", strings.gil, strings.gilHint],
  ["gil_wait", strings.gilWait, strings.gilWaitHint],
  ["off_cpu", strings.offCpu, strings.offCpuHint],
  ["tasks", strings.tasks, strings.tasksHint],
];

/** A list, because buttons for all types take a second row from the graph in a narrow window. */
export function TypePicker() {
  const { type } = place.value;
  return (
    <select aria-label={strings.profileType} title={TYPES.find(([each]) => each === type)?.[2]} value={type} onChange={(event) => change({ type: event.currentTarget.value as ProfileType })}>
      {TYPES.map(([each, name, hint]) => <option key={each} value={each} title={hint}>{name}</option>)}
    </select>
  );
}

export const OPERATOR_LABELS = { "=": "is", "!=": strings.operatorIsNot, "=~": "matches", "!~": strings.operatorDoesNotMatch } as const;

const apply = (matchers: readonly Matcher[]) => change({ query: joinMatchers(...matchers.map(formatMatcher)) });

/** Filters by label as chips, each to be edited or removed; or all of them as text, which is also where those are that cannot be read. Text is offered beside filters, and while one is added. */
export function Filters({ range }: { range: Range }) {
  const { query } = place.value;
  const [open, setOpen] = useState<number | null>(null);
  const [asText, setAsText] = useState(false);
  const matchers = parseMatchers(query);
  useEffect(() => setOpen(null), [query]);
  if (asText || matchers === null) return <TextFilter query={query} isInvalid={matchers === null} onDone={() => setAsText(false)} />;
  const replaceAt = (at: number, matcher: Matcher | null) => {
    setOpen(null);
    apply([...matchers.slice(0, at), ...(matcher ? [matcher] : []), ...matchers.slice(at + 1)]);
  };
  return (
    <Toolbar class="filters" label={strings.filters}>
      {matchers.map((matcher, at) => (
        <span class="chip" key={formatMatcher(matcher)}>
          <button type="button" title={strings.edit(formatMatcher(matcher))} aria-expanded={open === at} onClick={() => setOpen(open === at ? null : at)}>
            <bdi>{matcher.name}</bdi> <span aria-hidden="true">{matcher.op}</span><span class="unseen">{OPERATOR_LABELS[matcher.op]}</span> <bdi>{matcher.value.slice(0, 60) || "(empty)"}</bdi>
          </button>
          <button type="button" class="square" aria-label={strings.removeFilter(formatMatcher(matcher).slice(0, 80))} onClick={() => replaceAt(at, null)}>×</button>
        </span>
      ))}
      <button type="button" aria-expanded={open === matchers.length} onClick={() => setOpen(open === matchers.length ? null : matchers.length)}>{strings.addFilter}</button>
      {(matchers.length > 0 || open !== null) && <button type="button" title={strings.editAsQueryHint} onClick={() => setAsText(true)}>{strings.editAsQuery}</button>}
      {open !== null && <MatcherEditor key={open} range={range} matcher={matchers[open] ?? null} operatorLabels={OPERATOR_LABELS} onCancel={() => setOpen(null)} onDone={(matcher) => replaceAt(open, matcher)} />}
    </Toolbar>
  );
}

function TextFilter({ query, isInvalid, onDone }: { query: string; isInvalid: boolean; onDone: () => void }) {
  const [typed, setTyped] = useState(query);
  useLayoutEffect(() => setTyped(query), [query]);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    change({ query: joinMatchers(typed) });
    if (parseMatchers(typed) !== null) onDone();
  };
  return (
    <form class="filters" onSubmit={submit}>
      <label>
        <span class="unseen">{strings.filterByLabels}</span>
        <input id="filter-text" class="matchers" value={typed} spellcheck={false} autocomplete="off" aria-invalid={isInvalid && typed === query}
          placeholder={strings.filterPlaceholder} onInput={(event) => setTyped(event.currentTarget.value)} />
      </label>
      <button class="primary">{strings.apply}</button>
      {query !== "" && <button type="button" onClick={() => { change({ query: "" }); onDone(); }}>{strings.clear}</button>}
      {!isInvalid && <button type="button" onClick={onDone}>{strings.backToFilters}</button>}
    </form>
  );
}
