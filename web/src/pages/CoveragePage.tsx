import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { SidecarsAnswer, WorkloadsAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { percent } from "../lib/numbers.ts";
import { orZero, shareOrZero, timeColumn } from "../lib/quantities.ts";
import { formatAgo, formatWithZone } from "../lib/times.ts";
import { onPage } from "../lib/url.ts";
import type { CoverageState } from "../lib/viewOptions.ts";
import { addCounts, buildCoverage, countSidecars, filterCoverage, groupCoverage, POD_STATES, profiledShare, type CoverageRow, type PodCounts } from "../viewmodels/coverage.ts";
import { commandOfHint } from "../viewmodels/shellCommands.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { Notices } from "../components/answer/Notices.tsx";
import { openCapture } from "../components/controls/dialogs.ts";
import { useSharedView } from "../components/controls/sharedView.ts";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { Link } from "../components/ui/Controls.tsx";
import { Table } from "../components/ui/Table.tsx";
import { useKeys } from "../components/ui/useKeys.ts";
import { count } from "../strings/counts.ts";
import * as strings from "../strings/fleetStrings.tsx";

const SHOWN_ROWS = 200;
const WORKLOADS = { limit: "5000", pods: "3" };
const SIDECARS = { from: "-1h", until: "now" };

/** Which pods are profiled and which are not, with the next step for each workload. */
export function CoveragePage({ refreshCount }: { refreshCount: number }) {
  const workloads = useAnswer<WorkloadsAnswer>(apiUrl("workloads", WORKLOADS));
  const sidecars = useAnswer<SidecarsAnswer>(apiUrl("sidecars", SIDECARS));
  useSharedView(["workloads", WORKLOADS]);
  useEffect(() => {
    if (refreshCount === 0) return;
    workloads.reload();
    sidecars.reload();
  }, [refreshCount]);
  return (
    <>
      <h1 class="unseen">{strings.coverage}</h1>
      <AnswerView request={sidecars} what={strings.sidecarsSubject}>
        {(found) => <AnswerView request={workloads} what={strings.coverageSubject}>{(answer) => <Coverage workloads={answer} sidecars={found} />}</AnswerView>}
      </AnswerView>
    </>
  );
}

function Coverage({ workloads, sidecars }: { workloads: WorkloadsAnswer; sidecars: SidecarsAnswer }) {
  const { q, state } = place.value;
  const rows = useMemo(() => buildCoverage(workloads.workloads, sidecars), [workloads, sidecars]);
  const groups = useMemo(() => groupCoverage(rows), [rows]);
  const shown = useMemo(() => filterCoverage(rows, q, state), [rows, q, state]);
  const pods = addCounts(rows.map((row) => row.pods));
  const { discovery } = workloads;
  const notices = [
    ...(discovery.state === "off" ? [`${strings.clusterNotWatched} ${discovery.hint}`] : discovery.problem !== "" ? [`${discovery.problem}. ${discovery.hint}`] : []),
    ...(discovery.pods_omitted > 0 ? [strings.podsOmitted(discovery.pods_omitted)] : []),
    ...(workloads.total > workloads.workloads.length ? [strings.workloadsOmitted(workloads.total - workloads.workloads.length)] : []),
  ];
  return (
    <>
      <Notices notices={notices} />
      {rows.length === 0 ? <div class="card zero"><h2>{strings.noPods}</h2></div> : (
        <>
          <section class="card coverage" aria-label={strings.coverage}>
            <p><strong class="headline">{strings.podsProfiled(pods.profiled, pods.total, percent(profiledShare(pods) ?? 0))}</strong> <span class="quiet">{strings.inWorkloads(rows.length, new Set(rows.map(({ service }) => service)).size)}</span></p>
            <CoverageBar pods={pods} />
            <StateFilter pods={pods} />
          </section>
          {groups.length > 1 && <NamespaceTable groups={groups} />}
          <WorkloadTable rows={shown} until={sidecars.until} isFiltered={q !== "" || state !== ""} />
          <SidecarTable sidecars={sidecars} />
        </>
      )}
    </>
  );
}

/** Pods by state as parts of one bar; the numbers are in the buttons below it. */
const CoverageBar = ({ pods }: { pods: PodCounts }) => (
  <span class="coverage-bar" aria-hidden="true">{POD_STATES.map((state) => pods[state] > 0 && <span key={state} class={`part ${state}`} style={{ width: `${(pods[state] / pods.total) * 100}%` }} />)}</span>
);

function StateFilter({ pods }: { pods: PodCounts }) {
  const { state } = place.value;
  const button = (value: CoverageState, text: string) => (
    <button key={value} type="button" aria-pressed={state === value} onClick={() => change({ state: value })}>{value !== "" && <span class={`swatch ${value}`} aria-hidden="true" />}{text}</button>
  );
  return (
    <div class="row" role="group" aria-label={strings.podState}>
      {button("", strings.podsInState(strings.allStates, pods.total))}
      {POD_STATES.map((value) => pods[value] > 0 && button(value, strings.podsInState(strings.states[value], pods[value])))}
    </div>
  );
}

function NamespaceTable({ groups }: { groups: ReturnType<typeof groupCoverage> }) {
  const hasClusters = groups.some(({ cluster }) => cluster !== "");
  return (
    <section class="panel" aria-labelledby="namespaces-title">
      <h2 id="namespaces-title">{strings.byNamespace}</h2>
      <Table label={strings.tableOfNamespaces} className="short cards" heads={[...(hasClusters ? [strings.cluster] : []), strings.namespace, strings.profiledHead, strings.podsHead, strings.missingHead]}>
        {groups.map(({ cluster, namespace, pods }) => (
          <tr key={`${cluster} ${namespace}`}>
            {hasClusters && <td data-head={strings.cluster}><bdi>{cluster || strings.none}</bdi></td>}
            <th scope="row"><Link to={{ ...place.value, q: namespace }}><bdi>{namespace || strings.noNamespace}</bdi></Link></th>
            <td class="number">{shareOrZero(profiledShare(pods))} <CoverageBar pods={pods} /></td>
            <td class="number">{count(pods.total)}</td>
            <td>{describeStates(pods)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

/** "2 no sidecar, 1 stale": pods that are not profiled. */
const describeStates = (pods: PodCounts): string =>
  POD_STATES.filter((state) => state !== "profiled" && pods[state] > 0).map((state) => `${count(pods[state])} ${strings.states[state]}`).join(", ") || strings.none;

function WorkloadTable({ rows, until, isFiltered }: { rows: readonly CoverageRow[]; until: number; isFiltered: boolean }) {
  const [isWhole, setWhole] = useState(false);
  useKeys({ "/": () => document.querySelector<HTMLInputElement>("#search")?.focus() });
  const shown = isWhole ? rows : rows.slice(0, SHOWN_ROWS);
  const formatStop = orZero(timeColumn(1e6 * Math.max(...rows.map(({ longestStop }) => longestStop ?? 0))));
  return (
    <section class="panel" aria-labelledby="workloads-title">
      <div class="tools">
        <h2 id="workloads-title">{strings.workloadsTitle}</h2>
        <label class="search">
          <span class="unseen">{strings.searchWorkloads}</span>
          <input id="search" type="search" value={place.value.q} placeholder={strings.searchWorkloadsPlaceholder} spellcheck={false} autocomplete="off" onInput={(event) => change({ q: event.currentTarget.value }, "replace")} />
        </label>
        <span class="quiet" role="status">{count(rows.length)}</span>
      </div>
      {rows.length === 0 ? <p>{strings.noWorkloadMatches} {isFiltered && <button type="button" onClick={() => change({ q: "", state: "" })}>{strings.removeFilters}</button>}</p> : (
        <Table label={strings.tableOfWorkloads} className="cards" heads={[strings.service, strings.workload, strings.profiledHead, strings.missingHead, strings.sidecar, strings.overheadHead, strings.failedTicksHead, strings.lastWindowHead, strings.whatToDo]}>
          {shown.map((row) => <WorkloadRow key={row.key} row={row} until={until} formatStop={formatStop} />)}
        </Table>
      )}
      {rows.length > shown.length && <p><button type="button" onClick={() => setWhole(true)}>{strings.showAllRows(rows.length)}</button></p>}
    </section>
  );
}

function WorkloadRow({ row, until, formatStop }: { row: CoverageRow; until: number; formatStop: ReturnType<typeof orZero> }) {
  const { pods, namespace, service, workload, kind, lastSeen } = row;
  const command = commandOfHint(row.hint, namespace);
  return (
    <tr>
      <th scope="row"><Link to={onPage(place.value, "service", { service, query: "" })} title={service}><bdi>{service.slice(0, 100)}</bdi></Link></th>
      <td><bdi>{namespace === "" ? "" : `${namespace}/`}{workload || <span class="quiet">{strings.reportedBySidecars}</span>}</bdi> {kind !== "" && kind !== "Deployment" && <span class="quiet">{kind}</span>}</td>
      <td class="number">{count(pods.profiled)}/{count(pods.total)}</td>
      <td title={row.problem}>{row.isExpected || pods.no_sidecar === 0 ? describeStates(pods) : <span class="quiet">{strings.notExpected}</span>}</td>
      <td data-head={strings.sidecar}><bdi>{row.samplers.join(", ") || strings.none}</bdi> <span class="quiet">{row.modes.join(", ")}{row.byAgent > 0 && <> {strings.byAgent(row.byAgent)}</>}</span></td>
      <td class="number" title={strings.overheadHint}>{row.stoppedShare === null ? strings.none : strings.overheadOf(shareOrZero(row.stoppedShare), formatStop(row.longestStop === null ? null : 1e6 * row.longestStop))}</td>
      <td class="number">{shareOrZero(row.failedShare)}</td>
      <td class="number" title={lastSeen === null ? "" : formatWithZone(lastSeen)}>{lastSeen === null ? strings.none : formatAgo(lastSeen, until)}</td>
      <td>
        <span class="row">
          {command !== "" && <CopyButton text={() => command} what={strings.command} title={`${row.problem}\n${command}`}>{strings.copyCommand}</CopyButton>}
          {row.attachablePod !== "" && <button type="button" title={strings.attachHint} onClick={() => openCapture({ service, pods: [row.attachablePod], attach: true })}>{strings.attachNow}</button>}
        </span>
      </td>
    </tr>
  );
}

function SidecarTable({ sidecars }: { sidecars: SidecarsAnswer }) {
  const rows = countSidecars(sidecars);
  if (rows.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="sidecars-title">
      <h2 id="sidecars-title">{strings.sidecarVersions}</h2>
      <Table label={strings.tableOfSidecars} heads={[strings.versionHead, strings.modeHead, strings.podsHead]}>
        {rows.map(({ sampler, mode, pods }) => <tr key={`${sampler} ${mode}`}><th scope="row"><bdi>{sampler || strings.none}</bdi></th><td>{mode}</td><td class="number">{count(pods)}</td></tr>)}
      </Table>
    </section>
  );
}
