import { useEffect, useMemo } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl, optionalApiUrl } from "../api/request.ts";
import type { LabelsAnswer, ValuesAnswer } from "../api/answers.ts";
import type { DeploysAnswer } from "../api/deploys.ts";
import type { OverviewAnswer } from "../api/grids.ts";
import { findingOf, groupServices } from "../viewmodels/attention.ts";
import { labelValue as value, withLabelValue, filterByName, compareVersions, currentDeploys, sortServices } from "../viewmodels/serviceList.ts";
import { change, place, visit } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { useSharedView } from "../components/controls/sharedView.ts";
import { useKeys } from "../components/ui/useKeys.ts";
import { ServiceTable } from "../components/services/ServiceTable.tsx";
import { AttentionCards } from "../components/services/AttentionCards.tsx";
import { DiscoveryNotices, useWorkloads } from "../components/services/Workloads.tsx";
import { favourites } from "../viewmodels/browserStorage.ts";
import { joinMatchers } from "../lib/selectors.ts";
import type { Range } from "../lib/times.ts";
import { appearanceOf, onPage, pageRange, START } from "../lib/url.ts";
import { addFiles, chosenFiles } from "../api/profileFiles.ts";
import { useFileDrop } from "../components/controls/useFileDrop.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { STALE_SECONDS } from "../viewmodels/staleness.ts";
import { onDemand } from "../components/answer/OnDemand.tsx";
import * as strings from "../strings/serviceStrings.tsx";

const Welcome = onDemand(async () => (await import("./Welcome.tsx")).Welcome, strings.theFirstSteps);

/** Labels that distinguish services of a cluster, with a filter for each. */
const FILTER_LABELS = ["cluster", "namespace"];

export function ServicesPage({ refreshCount }: { refreshCount: number }) {
  const { query, group } = place.value;
  const range = pageRange(place.value);
  const apiQuery = ["overview", { query: query === "" ? "" : `{${joinMatchers(query)}}`, ...range, type: "cpu", label: group }] as const;
  const request = useAnswer<OverviewAnswer>(apiUrl(...apiQuery));
  useSharedView(apiQuery);
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  useFileDrop((files) => {
    chosenFiles.value = addFiles([], files);
    visit({ ...START, ...appearanceOf(place.peek()), page: "files" });
  });
  const isEmpty = request.answer?.service.length === 0 && query === "";
  // The welcome page asks again every few seconds, which nobody needs to see.
  const shown = isEmpty && request.isCurrent ? { ...request, loading: false } : request;
  return (
    <>
      <h1 class="unseen">{strings.services}</h1>
      <AnswerView request={shown} what={strings.servicesSubject}>
        {(answer) => <>{isEmpty ? <Welcome onArrival={request.reload} /> : <ServiceList answer={answer} range={range} refreshCount={refreshCount} />}</>}
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
  const findings = useMemo(() => changes.map((one, at) => findingOf(deploys.get(answer.service[at]), one)), [changes, deploys]);
  const sorted = useMemo(() => sortServices(answer, key, findings), [answer, key, findings]);
  const order = useMemo(() => filterByName(sorted, lower, q), [sorted, q]);
  const starred = favourites.list.value;
  const { rows, groups } = useMemo(() => groupServices(answer, order, starred), [answer, order, starred]);
  const workloads = useWorkloads("", refreshCount);
  const pods = order.reduce((sum, at) => sum + answer.pods_now[at], 0);
  const staleCount = order.filter((at) => answer.until - answer.last_seen[at] > STALE_SECONDS).length;
  const omittedNotice = answer.omitted > 0 ? [strings.omittedServices(answer.omitted)] : [];
  return (
    <>
    <DiscoveryNotices workloads={workloads} />
    <AttentionCards answer={answer} findings={findings} deploys={deploys} workloads={workloads} />
    <section class="panel" aria-label={strings.listOfServices}>
      <Notices notices={[...dataQualityNotices([], [], answer.basis), ...omittedNotice]} />
      <div class="tools">
        <label class="search">
          <span class="unseen">{strings.searchServices}</span>
          <input id="search" type="search" value={q} placeholder={strings.searchServicesPlaceholder} spellcheck={false} autocomplete="off"
            onInput={(event) => change({ q: event.currentTarget.value }, "replace")} onKeyDown={(event) => { if (event.key === "Enter" && order.length > 0) visit(onPage(place.value, "service", { service: answer.service[order[0]] })); }} />
        </label>
        <span class="quiet" role="status">
          {strings.listSummary(order.length < answer.service.length ? strings.servicesShown(order.length, answer.service.length) : strings.serviceCount(order.length), pods, staleCount > 0 ? strings.staleServices(staleCount) : "")}
        </span>
        <span class="row filters">
          <GroupPicker range={range} />
          {FILTER_LABELS.map((label) => <LabelFilter key={label} label={label} range={range} refreshCount={refreshCount} />)}
        </span>
      </div>
      {order.length > 0 && <ServiceTable answer={answer} order={rows} groups={groups} changes={changes} deploys={deploys} sort={key} range={range} />}
      <BasisLine basis={answer.basis} />
      {order.length === 0 && answer.service.length > 0 && (
        <p>{strings.noServiceMatches(<bdi>{q}</bdi>)}{" "}<button type="button" onClick={() => change({ q: "" }, "replace")}>{strings.showAll}</button></p>
      )}
      {answer.service.length === 0 && (
        <p>{strings.noServiceHasWindows(<code>{query}</code>)}{" "}<button type="button" onClick={() => change({ query: "" })}>{strings.removeFilter}</button></p>
      )}
    </section>
    </>
  );
}

/** Labels that say nothing about a group of services. */
const NO_GROUPS = ["service", "version", "pod", "container", "process", "thread", "capture"];

/** Chooses the label that groups the list. */
function GroupPicker({ range }: { range: Range }) {
  const { group } = place.value;
  const labels = useAnswer<LabelsAnswer>(apiUrl("labels", { ...range })).answer?.labels.filter((label) => !NO_GROUPS.includes(label)) ?? [];
  return (
    <label>
      <span class="unseen">{strings.groupBy}</span>
      <select aria-label={strings.groupBy} value={group} onChange={(event) => change({ group: event.currentTarget.value })}>
        <option value="">{strings.notGrouped}</option>
        {[...new Set([...labels, ...(group === "" ? [] : [group])])].map((label) => <option key={label} value={label}>{strings.byLabel(label.slice(0, 60))}</option>)}
      </select>
    </label>
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
