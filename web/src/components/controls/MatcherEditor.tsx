import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl } from "../../api/request.ts";
import { useAnswer } from "../../api/useAnswer.ts";
import type { LabelsAnswer, ValuesAnswer } from "../../api/answers.ts";
import { place } from "../../lib/location.ts";
import { count } from "../../lib/numbers.ts";
import { anyOf, OPS, selectorOf, type Matcher, type Op } from "../../lib/selectors.ts";
import { lastAlternative, suggested } from "../../lib/suggest.ts";
import type { Range } from "../../lib/times.ts";

const MOST_SHOWN = 50;

/** One filter: a label there is, how it is compared, and a value, offered as one types. */
export function MatcherEditor({ range, given, words, cancel, done }: {
  range: Range; given: Matcher | null; words: Readonly<Record<Op, string>>; cancel: () => void; done: (matcher: Matcher) => void;
}) {
  const scope = { query: selectorOf(place.value.service, ""), ...range };
  const [name, call] = useState(given?.name ?? "");
  const [op, compare] = useState<Op>(given?.op ?? "=");
  const [typed, type] = useState(given?.value ?? "");
  const [active, point] = useState(-1);
  const first = useRef<HTMLSelectElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const labels = useAnswer<LabelsAnswer>(apiUrl("labels", scope));
  const values = useAnswer<ValuesAnswer>(name === "" ? null : apiUrl(`labels/${encodeURIComponent(name)}/values`, scope));
  useEffect(() => (given ? field : first).current?.focus(), []);
  useEffect(() => point(-1), [typed, name, op]);
  const pattern = op === "=~" || op === "!~";
  const { head, tail } = pattern ? lastAlternative(typed) : { head: "", tail: typed };
  const { shown, more } = suggested(values.answer?.values ?? [], tail, MOST_SHOWN);
  const names = (labels.answer?.labels ?? []).filter((label) => label !== "service");
  const finish = (value: string) => { if (name !== "") done({ name, op, value }); };
  const pick = (value: string) => {
    if (!pattern) return finish(value);
    type(head + anyOf([value]));
    return field.current?.focus();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && shown.length > 0) point((active + step + shown.length) % shown.length);
    else if (event.key === "Enter" && active >= 0 && active < shown.length) pick(shown[active]);
    else return;
    event.preventDefault();
  };
  const failure = labels.failure ?? values.failure;
  return (
    <form class="editor" aria-label={given ? "Edit the filter" : "New filter"} onSubmit={(event) => { event.preventDefault(); finish(typed); }}
      onKeyDown={(event) => { if (event.key === "Escape") { event.preventDefault(); cancel(); } }}>
      <select ref={first} aria-label="Label" value={name} onChange={(event) => { call(event.currentTarget.value); type(""); field.current?.focus(); }}>
        <option value="">{labels.loading ? "loading…" : "label…"}</option>
        {name !== "" && !names.includes(name) && <option value={name}>{name}</option>}
        {names.map((label) => <option key={label} value={label}>{label}</option>)}
      </select>
      <select aria-label="How it is compared" value={op} onChange={(event) => compare(event.currentTarget.value as Op)}>
        {OPS.map((each) => <option key={each} value={each}>{each} {words[each]}</option>)}
      </select>
      <div class="values">
        <input ref={field} class="matchers" role="combobox" aria-label="Value of the label" aria-expanded={shown.length > 0} aria-controls="label-values" aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `label-value-${active}` : undefined} value={typed} spellcheck={false} autocomplete="off"
          placeholder={pattern ? "regular expression (RE2), whole value" : "value; empty: without the label"} onInput={(event) => type(event.currentTarget.value)} onKeyDown={press} />
        <div class="offered" hidden={name === ""}>
          <ul id="label-values" role="listbox" aria-label="Values there are">
            {shown.map((value, at) => (
              <li key={value} id={`label-value-${at}`} role="option" aria-selected={at === active} onPointerDown={(event) => event.preventDefault()} onClick={() => pick(value)}><bdi>{value}</bdi></li>
            ))}
          </ul>
          <span class="quiet" role="status">
            {values.loading ? "loading values…" : shown.length === 0 ? "no such value in this range" : more > 0 ? `and ${count(more)} more: type to narrow them down` : ""}
          </span>
        </div>
      </div>
      <button class="primary" disabled={name === ""}>Apply</button>
      <button type="button" onClick={cancel}>Cancel</button>
      {failure && <span role="alert">{failure.message}</span>}
    </form>
  );
}
