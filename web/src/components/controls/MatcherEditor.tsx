import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl } from "../../api/request.ts";
import { useAnswer } from "../../api/useAnswer.ts";
import type { LabelsAnswer, ValuesAnswer } from "../../api/answers.ts";
import { place } from "../../lib/location.ts";
import { exactAlternatives, MATCH_OPERATORS, selectorOf, type Matcher, type MatchOperator } from "../../lib/selectors.ts";
import { lastAlternative, suggest } from "../../lib/suggest.ts";
import type { Range } from "../../lib/times.ts";
import * as strings from "../../strings/timelineStrings.tsx";

const MAX_SUGGESTIONS = 50;

/** One filter: a label there is, how it is compared, and a value, offered as one types. */
export function MatcherEditor({ range, matcher, operatorLabels, onCancel, onDone }: {
  range: Range; matcher: Matcher | null; operatorLabels: Readonly<Record<MatchOperator, string>>; onCancel: () => void; onDone: (matcher: Matcher) => void;
}) {
  const scope = { query: selectorOf(place.value.service, ""), ...range };
  const [name, setName] = useState(matcher?.name ?? "");
  const [op, setOp] = useState<MatchOperator>(matcher?.op ?? "=");
  const [typed, setTyped] = useState(matcher?.value ?? "");
  const [active, setActive] = useState(-1);
  const labelSelect = useRef<HTMLSelectElement>(null);
  const valueInput = useRef<HTMLInputElement>(null);
  const labels = useAnswer<LabelsAnswer>(apiUrl("labels", scope));
  const values = useAnswer<ValuesAnswer>(name === "" ? null : apiUrl(`labels/${encodeURIComponent(name)}/values`, scope));
  useEffect(() => (matcher ? valueInput : labelSelect).current?.focus(), []);
  useEffect(() => setActive(-1), [typed, name, op]);
  const pattern = op === "=~" || op === "!~";
  const { head, tail } = pattern ? lastAlternative(typed) : { head: "", tail: typed };
  const { shown, omitted } = suggest(values.answer?.values ?? [], tail, MAX_SUGGESTIONS);
  const names = (labels.answer?.labels ?? []).filter((label) => label !== "service");
  const finish = (value: string) => { if (name !== "") onDone({ name, op, value }); };
  const pick = (value: string) => {
    if (!pattern) return finish(value);
    setTyped(head + exactAlternatives([value]));
    return valueInput.current?.focus();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && shown.length > 0) setActive((active + step + shown.length) % shown.length);
    else if (event.key === "Enter" && active >= 0 && active < shown.length) pick(shown[active]);
    else return;
    event.preventDefault();
  };
  const failure = labels.failure ?? values.failure;
  return (
    <form class="editor" aria-label={matcher ? strings.editFilter : strings.newFilter} onSubmit={(event) => { event.preventDefault(); finish(typed); }}
      onKeyDown={(event) => { if (event.key === "Escape") { event.preventDefault(); onCancel(); } }}>
      <select ref={labelSelect} aria-label={strings.label} value={name} onChange={(event) => { setName(event.currentTarget.value); setTyped(""); valueInput.current?.focus(); }}>
        <option value="">{labels.loading ? strings.loading : strings.labelPlaceholder}</option>
        {name !== "" && !names.includes(name) && <option value={name}>{name}</option>}
        {names.map((label) => <option key={label} value={label}>{label}</option>)}
      </select>
      <select aria-label={strings.operator} value={op} onChange={(event) => setOp(event.currentTarget.value as MatchOperator)}>
        {MATCH_OPERATORS.map((operator) => <option key={operator} value={operator}>{operator} {operatorLabels[operator]}</option>)}
      </select>
      <div class="values">
        <input ref={valueInput} class="matchers" role="combobox" aria-label={strings.valueOfLabel} aria-expanded={shown.length > 0} aria-controls="label-values" aria-autocomplete="list"
          aria-activedescendant={active >= 0 ? `label-value-${active}` : undefined} value={typed} spellcheck={false} autocomplete="off"
          placeholder={pattern ? strings.regularExpressionHint : strings.valueHint} onInput={(event) => setTyped(event.currentTarget.value)} onKeyDown={press} />
        <div class="offered" hidden={name === ""}>
          <ul id="label-values" role="listbox" aria-label={strings.valuesInRange}>
            {shown.map((value, at) => (
              <li key={value} id={`label-value-${at}`} role="option" aria-selected={at === active} onPointerDown={(event) => event.preventDefault()} onClick={() => pick(value)}><bdi>{value}</bdi></li>
            ))}
          </ul>
          <span class="quiet" role="status">
            {values.loading ? strings.loadingValues : shown.length === 0 ? strings.noSuchValueIn : omitted > 0 ? strings.moreValues(omitted) : ""}
          </span>
        </div>
      </div>
      <button class="primary" disabled={name === ""}>{strings.apply}</button>
      <button type="button" onClick={onCancel}>{strings.cancel}</button>
      {failure && <span role="alert">{failure.message}</span>}
    </form>
  );
}
