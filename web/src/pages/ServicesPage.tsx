import { useEffect, useMemo } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl, optionalApiUrl } from "../api/request.ts";
import type { ValuesAnswer } from "../api/answers.ts";
import type { DeploysAnswer } from "../api/deploys.ts";
import type { OverviewAnswer } from "../api/grids.ts";
import { labelValue as value, withLabelValue, filterByName, compareVersions, currentDeploys, sortServices } from "../viewmodels/serviceList.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { useSharedView } from "../components/controls/sharedView.ts";
import { useKeys } from "../components/ui/useKeys.ts";
import { ServiceTable } from "../components/services/ServiceTable.tsx";
import { UnprofiledPods } from "../components/services/Workloads.tsx";
import { joinMatchers } from "../lib/selectors.ts";
import type { Range } from "../lib/times.ts";
import { Welcome } from "./Welcome.tsx";
import { pageRange } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { STALE_SECONDS } from "../viewmodels/staleness.ts";
import * as strings from "../strings/serviceStrings.tsx";

/** Labels that distinguish services of a cluster, with a filter for each. */
const FILTER_LABELS = ["cluster", "namespace"];

export function ServicesPage({ refreshCount }: { refreshCount: number }) {
  const { query } = place.value;
  const range = pageRange(place.value);
  const apiQuery = ["overview", { query: query === "" ? "" : `{${joinMatchers(query)}}`, ...range, type: "cpu" }] as const;
  const request = useAnswer<OverviewAnswer>(apiUrl(...apiQuery));
  useSharedView(apiQuery);
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  return (
    <>
      <h1 class="unseen">{strings.services}</h1>
      <AnswerView request={request} what={strings.servicesSubject}>
        {(answer) => <><UnprofiledPods refreshCount={refreshCount} />{answer.service.length === 0 && query === "" ? <Welcome onArrival={request.reload} /> : <ServiceList answer={answer} range={range} refreshCount={refreshCount} />}</>}
      </AnswerView>
    </>
  );
}

function ServiceList({ answer, range, refreshCount }: { answer: OverviewAnswer; range: Range; refreshCount: number }) {
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  const { q, sort, query } = place.value;
  const key = sort || "-cores";
  const lower = useMemo(() => answer.service.map((name) => name.toLowerCase()), [answer]);
  const deployRequest = useAnswer<DeploysAnswer>(optionalApiUrl("deploys", { limit: "500" }));
  useEffect(() => { if (refreshCount > 0) deployRequest.reload(); }, [refreshCount]);
  const deploys = useMemo(() => currentDeploys(answer, deployRequest.answer?.deploys ?? []), [answer, deployRequest.answer]);
  const changes = useMemo(() => answer.service.map((_, at) => compareVersions(answer, at)), [answer]);
  const sorted = useMemo(() => sortServices(answer, key, changes), [answer, key]);
  const order = useMemo(() => filterByName(sorted, lower, q), [sorted, q]);
  const pods = order.reduce((sum, at) => sum + answer.pods_now[at], 0);
  const staleCount = order.filter((at) => answer.until - answer.last_seen[at] > STALE_SECONDS).length;
  const omittedNotice = answer.omitted > 0 ? [strings.omittedServices(answer.omitted)] : [];
  return (
    <section class="panel" aria-label={strings.listOfServices}>
      <Notices notices={[...dataQualityNotices([], [], answer.basis), ...omittedNotice]} />
      <div class="tools">
        <label class="search">
          <span class="unseen">{strings.searchServices}</span>
          <input id="search" type="search" value={q} placeholder={strings.searchServicesPlaceholder} spellcheck={false} autocomplete="off"
            onInput={(event) => change({ q: event.currentTarget.value }, "replace")} />
        </label>
        {FILTER_LABELS.map((label) => <LabelFilter key={label} label={label} range={range} refreshCount={refreshCount} />)}
        <span class="quiet" role="status">
          {strings.listSummary(order.length < answer.service.length ? strings.servicesShown(order.length, answer.service.length) : strings.serviceCount(order.length), pods, staleCount > 0 ? strings.staleServices(staleCount) : "")}
        </span>
        <span class="gap" />
        <BasisLine basis={answer.basis} />
      </div>
      {order.length > 0 && <ServiceTable answer={answer} order={order} changes={changes} deploys={deploys} sort={key} range={range} />}
      {order.length === 0 && answer.service.length > 0 && (
        <p>{strings.noServiceMatches(<bdi>{q}</bdi>)}{" "}<button type="button" onClick={() => change({ q: "" }, "replace")}>{strings.showAll}</button></p>
      )}
      {answer.service.length === 0 && (
        <p>{strings.noServiceHasWindows(<code>{query}</code>)}{" "}<button type="button" onClick={() => change({ query: "" })}>{strings.removeFilter}</button></p>
      )}
    </section>
  );
}

/** Chooses one value of a label, where there are any. */
function LabelFilter({ label, range, refreshCount }: { label: string; range: Range; refreshCount: number }) {
  const { query } = place.value;
  const values = useAnswer<ValuesAnswer>(apiUrl(`labels/${label}/values`, { ...range }));
  useEffect(() => { if (refreshCount > 0) values.reload(); }, [refreshCount]);
  const selected = value(query, label);
  const options = values.answer?.values ?? [];
  if (options.length === 0 && selected === "") return null;
  return (
    <label>
      <span class="unseen">{label}</span>
      <select aria-label={label} value={selected} onChange={(event) => change({ query: withLabelValue(query, label, event.currentTarget.value) })}>
        <option value="">{strings.any(label)}</option>
        {selected !== "" && !options.includes(selected) && <option value={selected}>{selected.slice(0, 60)}</option>}
        {options.map((option) => <option key={option} value={option}>{option.slice(0, 60)}</option>)}
      </select>
    </label>
  );
}
