import { useEffect, useMemo } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl, partUrl } from "../api/request.ts";
import type { ValuesAnswer } from "../api/answers.ts";
import type { DeploysAnswer } from "../api/deploys.ts";
import type { OverviewAnswer } from "../api/grids.ts";
import { asked as value, asking, called, drift, latest, sorted } from "../viewmodels/serviceList.ts";
import { change, place } from "../lib/location.ts";
import { notices } from "../viewmodels/dataQualityNotices.ts";
import { count, plural } from "../lib/numbers.ts";
import { Share } from "../components/controls/Exports.tsx";
import { useKeys } from "../components/ui/useKeys.ts";
import { ServiceTable } from "../components/services/ServiceTable.tsx";
import { LackingPods } from "../components/services/Workloads.tsx";
import { joined } from "../lib/selectors.ts";
import type { Range } from "../lib/times.ts";
import { ZeroProfiles } from "./Welcome.tsx";
import { rangeOf } from "../lib/url.ts";
import { Show } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { STALE_SECONDS } from "../viewmodels/staleness.ts";

/** Labels by which services are told apart in a cluster: a filter for each that there is. */
const SCOPES = ["cluster", "namespace"];

export function Services({ turn }: { turn: number }) {
  const { query } = place.value;
  const range = rangeOf(place.value);
  const question = ["overview", { query: query === "" ? "" : `{${joined(query)}}`, ...range, type: "cpu" }] as const;
  const asked = useAnswer<OverviewAnswer>(apiUrl(...question));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  return (
    <>
      <div class="heading"><h1>Services</h1><Share question={question} /></div>
      <Show asked={asked} what="services">
        {(answer) => <><LackingPods turn={turn} />{answer.service.length === 0 && query === "" ? <ZeroProfiles arrived={asked.again} /> : <List answer={answer} range={range} turn={turn} />}</>}
      </Show>
    </>
  );
}

function List({ answer, range, turn }: { answer: OverviewAnswer; range: Range; turn: number }) {
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  const { q, sort, query } = place.value;
  const key = sort || "-cores";
  const lower = useMemo(() => answer.service.map((name) => name.toLowerCase()), [answer]);
  const found = useAnswer<DeploysAnswer>(partUrl("deploys", { limit: "500" }));
  useEffect(() => { if (turn > 0) found.again(); }, [turn]);
  const deploys = useMemo(() => latest(answer, found.answer?.deploys ?? []), [answer, found.answer]);
  const drifts = useMemo(() => answer.service.map((_, at) => drift(answer, at)), [answer]);
  const all = useMemo(() => sorted(answer, key, drifts), [answer, key]);
  const order = useMemo(() => called(all, lower, q), [all, q]);
  const pods = order.reduce((sum, at) => sum + answer.pods_now[at], 0);
  const stale = order.filter((at) => answer.until - answer.last_seen[at] > STALE_SECONDS).length;
  const left = answer.left_out > 0 ? [`${plural(answer.left_out, "service")} that took less time than these ${answer.left_out === 1 ? "is" : "are"} not listed: filter, or raise the collector's --max-rows.`] : [];
  return (
    <section class="panel" aria-label="List of services">
      <Notices said={[...notices([], [], answer.basis), ...left]} />
      <div class="tools">
        <label class="search">
          <span class="unseen">Search services</span>
          <input id="search" type="search" value={q} placeholder="Search services  /" spellcheck={false} autocomplete="off"
            onInput={(event) => change({ q: event.currentTarget.value }, "replace")} />
        </label>
        {SCOPES.map((label) => <Scope key={label} label={label} range={range} turn={turn} />)}
        <span class="quiet" role="status">
          {order.length < answer.service.length ? `${count(order.length)} of ${plural(answer.service.length, "service")}` : plural(order.length, "service")}
          {" · "}{plural(pods, "pod")} now{stale > 0 && ` · ${count(stale)} stale`}
        </span>
        <span class="gap" />
        <BasisLine basis={answer.basis} />
      </div>
      {order.length > 0 && <ServiceTable answer={answer} order={order} drifts={drifts} deploys={deploys} sorted={key} range={range} />}
      {order.length === 0 && answer.service.length > 0 && (
        <p>No service is called like “<bdi>{q}</bdi>”. <button type="button" onClick={() => change({ q: "" }, "replace")}>Show all</button></p>
      )}
      {answer.service.length === 0 && (
        <p>No service has windows with <code>{query}</code> in this range. <button type="button" onClick={() => change({ query: "" })}>Remove the filter</button></p>
      )}
    </section>
  );
}

/** Chooses one value of a label, where there are any. */
function Scope({ label, range, turn }: { label: string; range: Range; turn: number }) {
  const { query } = place.value;
  const values = useAnswer<ValuesAnswer>(apiUrl(`labels/${label}/values`, { ...range }));
  useEffect(() => { if (turn > 0) values.again(); }, [turn]);
  const chosen = value(query, label);
  const known = values.answer?.values ?? [];
  if (known.length === 0 && chosen === "") return null;
  return (
    <label>
      <span class="unseen">{label}</span>
      <select aria-label={label} value={chosen} onChange={(event) => change({ query: asking(query, label, event.currentTarget.value) })}>
        <option value="">any {label}</option>
        {chosen !== "" && !known.includes(chosen) && <option value={chosen}>{chosen.slice(0, 60)}</option>}
        {known.map((one) => <option key={one} value={one}>{one.slice(0, 60)}</option>)}
      </select>
    </label>
  );
}
