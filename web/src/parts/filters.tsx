import { useEffect, useState } from "preact/hooks";
import { apiUrl } from "../api/ask.ts";
import { useAnswer } from "../api/answer.ts";
import type { LabelsAnswer, ValuesAnswer } from "../api/answers.ts";
import { change, place } from "../location.ts";
import { equals, joined, selectorOf } from "../selectors.ts";
import type { Range } from "../times.ts";
import type { ProfileType } from "../url.ts";
import { Segments } from "./basics.tsx";

export function TypePicker() {
  return (
    <Segments<ProfileType> label="Profile type" value={place.value.type} choose={(type) => change({ type })} options={[
      ["cpu", "CPU", "Time on a CPU"],
      ["wall", "Wall", "All time of all threads, waiting included"],
      ["gil", "GIL", "Time holding the global interpreter lock"],
    ]} />
  );
}

/** Matchers as text, with a picker that adds one from the labels there are. */
export function Filters({ range }: { range: Range }) {
  const { query } = place.value;
  const [typed, type] = useState(query);
  const [adding, add] = useState(false);
  useEffect(() => type(query), [query]);
  const apply = (text: string) => change({ query: joined(text) });
  return (
    <div class="filters">
      <form onSubmit={(event) => { event.preventDefault(); apply(typed); }}>
        <label>
          <span class="unseen">Filter by labels</span>
          <input class="matchers" value={typed} spellcheck={false} autocomplete="off" placeholder='filter, e.g. pod=~"web-.*", node!="n3"'
            onInput={(event) => type(event.currentTarget.value)} />
        </label>
        {typed !== query && <button class="primary">Apply</button>}
        {query !== "" && typed === query && <button type="button" onClick={() => apply("")}>Clear</button>}
        <button type="button" aria-expanded={adding} onClick={() => add(!adding)}>+ filter</button>
      </form>
      {adding && <Adder range={range} done={(text) => { add(false); if (text) apply(joined(query, text)); }} />}
    </div>
  );
}

function Adder({ range, done }: { range: Range; done: (matcher: string) => void }) {
  const { service } = place.value;
  const scope = { query: selectorOf(service, ""), ...range };
  const [label, pick] = useState("");
  const labels = useAnswer<LabelsAnswer>(apiUrl("labels", scope));
  const values = useAnswer<ValuesAnswer>(label === "" ? null : apiUrl(`labels/${encodeURIComponent(label)}/values`, scope));
  return (
    <div class="adder">
      <label>label{" "}
        <select aria-label="Label" value={label} onChange={(event) => pick(event.currentTarget.value)}>
          <option value="">{labels.loading ? "loading…" : "choose…"}</option>
          {labels.answer?.labels.filter((name) => name !== "service").map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      <label>is{" "}
        <select aria-label="Value of the label" value="" disabled={!values.answer} onChange={(event) => done(equals(label, event.currentTarget.value))}>
          <option value="">{label !== "" && values.loading ? "loading…" : "choose…"}</option>
          {values.answer?.values.map((value) => <option key={value} value={value}>{value || "(empty)"}</option>)}
        </select>
      </label>
      <button type="button" onClick={() => done("")}>Cancel</button>
      {(labels.failure ?? values.failure) && <span role="alert">{(labels.failure ?? values.failure)?.message}</span>}
    </div>
  );
}
