import { useEffect, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../api/request.ts";
import { sendRequest, usePolling, type Agent, type AgentsAnswer, type CaptureAnswer, type CapturesAnswer } from "../api/captures.ts";
import { captureCommand, describeCost, captureCurl, MODES, describeObstacle, parsePods, type CaptureRequest } from "../viewmodels/captureRequest.ts";
import { change, place, PREFIX, visit } from "../lib/location.ts";
import { count } from "../strings/counts.ts";
import { openCapture } from "../components/controls/dialogs.ts";
import { Link } from "../components/ui/Controls.tsx";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { ErrorCard } from "../components/answer/ErrorCard.tsx";
import { Table } from "../components/ui/Table.tsx";
import { withoutLabel } from "../lib/selectors.ts";
import { formatAgo, formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { appearanceOf, START } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import * as strings from "../strings/captureStrings.tsx";

const POLL_SECONDS = 3;

const capturePlace = (id: string) => ({ ...START, ...appearanceOf(place.value), page: "capture" as const, capture: id });

export function CapturesPage({ refreshCount }: { refreshCount: number }) {
  const { service } = place.value;
  const agents = usePolling<AgentsAnswer>(apiUrl("agents", { service }), POLL_SECONDS);
  const past = usePolling<CapturesAnswer>(apiUrl("captures", { service }), POLL_SECONDS);
  useEffect(() => { if (refreshCount > 0) { agents.reload(); past.reload(); } }, [refreshCount]);
  return (
    <>
      <h1>{strings.captures}</h1>
      <p class="quiet">{strings.capturesIntroduction}</p>
      <StartForm services={agents.answer?.services ?? []} />
      <section class="panel" aria-labelledby="agents-title">
        <h2 id="agents-title">{strings.connectedSidecars}</h2>
        <AnswerView request={agents} what={strings.sidecars}>{(answer) => <SidecarTable answer={answer} />}</AnswerView>
      </section>
      <section class="panel" aria-labelledby="past-title">
        <div class="row">
          <h2 id="past-title">{service === "" ? strings.captures : strings.capturesOf(<bdi>{service.slice(0, 100)}</bdi>)}</h2>
          {service !== "" && <button type="button" onClick={() => change({ service: "" })}>{strings.showAllServices}</button>}
        </div>
        <AnswerView request={past} what={strings.capturesSubject}>{({ captures }) => <CaptureTable captures={captures} />}</AnswerView>
      </section>
    </>
  );
}

function StartForm({ services }: { services: AgentsAnswer["services"] }) {
  const here = place.value;
  // Sidecars have no labels that only windows have.
  const query = ["capture", "process", "thread"].reduce(withoutLabel, here.query);
  const [form, setForm] = useState({ service: here.service, pods: "1", seconds: 60, rate: 100, mode: "auto", query, timeline: true, attach: false });
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isSending, setSending] = useState(false);
  const request: CaptureRequest = { ...form, service: form.service.trim(), pods: parsePods(form.pods), attach: form.attach || undefined };
  const collector = window.location.origin + PREFIX.slice(0, -1);
  const start = async (event: Event) => {
    event.preventDefault();
    if (isSending) return;
    setSending(true);
    setFailure(null);
    try {
      const capture = await sendRequest<CaptureAnswer>("POST", apiUrl("captures"), request);
      if (capture) visit(capturePlace(capture.id));
    } catch (error) {
      setFailure(error as Failure);
    }
    setSending(false);
  };
  const numberField = (name: "seconds" | "rate", text: string, maximum: number) => (
    <label>{text}
      <input type="number" min="1" max={maximum} step="1" required value={form[name]} onInput={(event) => setForm({ ...form, [name]: Number(event.currentTarget.value) })} />
    </label>
  );
  return (
    <form class="panel starting" aria-label={strings.startCapture} onSubmit={start}>
      <div class="fields">
        <label>{strings.service}
          <input list="services" required value={form.service} spellcheck={false} autocomplete="off" onInput={(event) => setForm({ ...form, service: event.currentTarget.value })} />
          <datalist id="services">{services.map(({ service }) => <option key={service} value={service} />)}</datalist>
        </label>
        <label>{strings.pods}
          <input value={form.pods} required spellcheck={false} autocomplete="off" aria-describedby="pods-help" onInput={(event) => setForm({ ...form, pods: event.currentTarget.value })} />
        </label>
        {numberField("seconds", strings.seconds, 86_400)}
        {numberField("rate", strings.rateHz, 10_000)}
        <label>{strings.mode}
          <select value={form.mode} onChange={(event) => setForm({ ...form, mode: event.currentTarget.value })}>
            {MODES.map((mode) => <option key={mode} value={mode}>{mode}</option>)}
          </select>
        </label>
        <label>{strings.filter}
          <input class="matchers" value={form.query} spellcheck={false} autocomplete="off" placeholder={strings.filterPlaceholder} onInput={(event) => setForm({ ...form, query: event.currentTarget.value })} />
        </label>
        <label class="check"><input type="checkbox" checked={form.timeline} onChange={(event) => setForm({ ...form, timeline: event.currentTarget.checked })} />{" "}{strings.keepTimeline}</label>
        <label class="check" title={strings.attachHint}><input type="checkbox" checked={form.attach} onChange={(event) => setForm({ ...form, attach: event.currentTarget.checked })} />{" "}{strings.attachToPodsWithout}</label>
      </div>
      <p class="quiet" id="pods-help">{strings.podsHint}</p>
      <p>{describeCost(request)}</p>
      <Availability services={services} service={request.service} />
      <p class="row">
        <button class="primary" aria-disabled={isSending}>{strings.start}</button>
        <CopyButton text={() => captureCommand(request, collector)} what={strings.command}>{strings.copyCliCommand}</CopyButton>
        <CopyButton text={() => captureCurl(request, collector)} what={strings.curl}>{strings.copyAsCurl}</CopyButton>
      </p>
      {failure && <ErrorCard message={failure.message} hint={failure.hint} />}
    </form>
  );
}

function Availability({ services, service }: { services: AgentsAnswer["services"]; service: string }) {
  if (service === "") return null;
  const current = services.find((row) => row.service === service);
  return (
    <p role="status">
      {!current ? strings.noSidecarConnectedOf(<bdi>{service.slice(0, 100)}</bdi>)
        : current.available === 0 ? strings.noneCanTakeCapture(current.problem)
          : strings.canTakeCapture(current.available, current.sidecars)}
    </p>
  );
}

function SidecarTable({ answer: { agents, total } }: { answer: AgentsAnswer }) {
  const now = Date.now() / 1000;
  if (total === 0) {
    return <p>{strings.noSidecarConnected(place.value.service !== "", <code>--collector {window.location.origin}</code>, <code>--no-captures-from-collector</code>)}</p>;
  }
  const name = ({ labels }: Agent) => labels.service + labels.pod;
  return (
    <>
      <Table label={strings.tableOfSidecars} className="cards" heads={[strings.service, strings.pod, strings.version, strings.status, strings.lastContact]}>
        {[...agents].sort((a, b) => (name(a) < name(b) ? -1 : 1)).map((agent) => (
          <tr key={agent.agent}>
            <th scope="row"><bdi>{agent.labels.service.slice(0, 200)}</bdi></th>
            <td><bdi>{agent.labels.pod ?? agent.agent}</bdi>{agent.labels.pod && describeObstacle(agent) === "" && <>{" "}<button type="button" class="flat" onClick={() => openCapture({ service: agent.labels.service, pods: [agent.labels.pod] })}>{strings.captureHeading}<span class="unseen">{" "}{agent.labels.pod}</span></button></>}</td>
            <td><bdi>{agent.labels.version}</bdi></td>
            <td>{describeObstacle(agent) === "" ? strings.ready : <>⚠ {describeObstacle(agent)} <span class="quiet">{agent.hint}</span></>}</td>
            <td class="line" data-head={strings.lastContact}>{formatAgo(toEpochSeconds(agent.last_seen), now)}</td>
          </tr>
        ))}
      </Table>
      {total > agents.length && <p class="quiet">{strings.moreSidecars(total - agents.length)}</p>}
    </>
  );
}

function CaptureTable({ captures }: { captures: readonly CaptureAnswer[] }) {
  if (captures.length === 0) return <p>{strings.noCapturesYet}</p>;
  const now = Date.now() / 1000;
  return (
    <Table label={strings.tableOfCaptures} className="cards" heads={[strings.started, strings.service, strings.state, strings.podsColumn, strings.secondsColumn, strings.samplesColumn]}>
      {captures.map((capture) => (
        <tr key={capture.id}>
          <th scope="row" class="line" title={formatWithZone(toEpochSeconds(capture.created))}><Link to={capturePlace(capture.id)}>{formatAgo(toEpochSeconds(capture.created), now)}</Link></th>
          <td><bdi>{capture.service.slice(0, 200)}</bdi></td>
          <td title={capture.problem}>{capture.state === "failed" ? "⚠ failed" : capture.stopping ? "ending" : capture.state}</td>
          <td class="number">{count(capture.pods)}</td>
          <td class="number">{capture.seconds}</td>
          <td class="number">{count(capture.samples)}</td>
        </tr>
      ))}
    </Table>
  );
}
