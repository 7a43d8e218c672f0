import { useEffect, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../api/request.ts";
import { send, usePolled, type Agent, type AgentsAnswer, type CaptureAnswer } from "../api/captures.ts";
import { cliOf, costOf, curlOf, MODES, obstacleOf, podsOf, type CaptureRequest } from "../viewmodels/captureRequest.ts";
import { change, place, PREFIX, visit } from "../lib/location.ts";
import { count, plural } from "../lib/numbers.ts";
import { Link } from "../components/ui/Controls.tsx";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { Said } from "../components/answer/ErrorCard.tsx";
import { Table } from "../components/ui/Table.tsx";
import { without } from "../lib/selectors.ts";
import { ago, zoned, epoch } from "../lib/times.ts";
import { onPage, START } from "../lib/url.ts";
import { Show } from "../components/answer/AnswerView.tsx";

const SECONDS = 3;

export const captureAt = (id: string) => onPage(place.value, "capture", { ...START, page: "capture", capture: id, theme: place.value.theme, keys: place.value.keys });

export function Captures({ turn }: { turn: number }) {
  const { service } = place.value;
  const agents = usePolled<AgentsAnswer>(apiUrl("agents", { service }), SECONDS);
  const past = usePolled<{ captures: readonly CaptureAnswer[] }>(apiUrl("captures", { service }), SECONDS);
  useEffect(() => { if (turn > 0) { agents.again(); past.again(); } }, [turn]);
  return (
    <>
      <h1>Captures</h1>
      <p class="quiet">A capture has sidecars sample now: at once, at a rate of your choice, and in the order of time too.</p>
      <Start services={agents.answer?.services ?? []} />
      <section class="panel" aria-labelledby="agents-title">
        <h2 id="agents-title">Sidecars that ask for captures</h2>
        <Show asked={agents} what="sidecars">{(answer) => <Sidecars answer={answer} />}</Show>
      </section>
      <section class="panel" aria-labelledby="past-title">
        <div class="row">
          <h2 id="past-title">Captures {service !== "" && <>of <bdi>{service.slice(0, 100)}</bdi></>}</h2>
          {service !== "" && <button type="button" onClick={() => change({ service: "" })}>Show those of all services</button>}
        </div>
        <Show asked={past} what="captures">{({ captures }) => <Past captures={captures} />}</Show>
      </section>
    </>
  );
}

function Start({ services }: { services: AgentsAnswer["services"] }) {
  const here = place.value;
  // Sidecars have no labels that only windows have.
  const query = ["capture", "process", "thread"].reduce(without, here.query);
  const [wish, set] = useState({ service: here.service, pods: "1", seconds: 60, rate: 100, mode: "auto", query, timeline: true, attach: false });
  const [failure, fail] = useState<Failure | null>(null);
  const [busy, work] = useState(false);
  const whole: CaptureRequest = { ...wish, service: wish.service.trim(), pods: podsOf(wish.pods), attach: wish.attach || undefined };
  const collector = window.location.origin + PREFIX.slice(0, -1);
  const start = async (event: Event) => {
    event.preventDefault();
    work(true);
    fail(null);
    try {
      const made = await send<CaptureAnswer>("POST", apiUrl("captures"), whole);
      if (made) visit(captureAt(made.id));
    } catch (error) {
      fail(error as Failure);
    }
    work(false);
  };
  const number = (name: "seconds" | "rate", text: string, most: number) => (
    <label>{text}
      <input type="number" min="1" max={most} step="1" required value={wish[name]} onInput={(event) => set({ ...wish, [name]: Number(event.currentTarget.value) })} />
    </label>
  );
  return (
    <form class="panel starting" aria-label="Start a capture" onSubmit={start}>
      <div class="fields">
        <label>Service
          <input list="services" required value={wish.service} spellcheck={false} autocomplete="off" onInput={(event) => set({ ...wish, service: event.currentTarget.value })} />
          <datalist id="services">{services.map(({ service }) => <option key={service} value={service} />)}</datalist>
        </label>
        <label>Pods
          <input value={wish.pods} required spellcheck={false} autocomplete="off" aria-describedby="pods-help" onInput={(event) => set({ ...wish, pods: event.currentTarget.value })} />
        </label>
        {number("seconds", "Seconds", 86_400)}
        {number("rate", "Samples a second", 10_000)}
        <label>Mode
          <select value={wish.mode} onChange={(event) => set({ ...wish, mode: event.currentTarget.value })}>
            {MODES.map((mode) => <option key={mode} value={mode}>{mode}</option>)}
          </select>
        </label>
        <label>Only sidecars with
          <input class="matchers" value={wish.query} spellcheck={false} autocomplete="off" placeholder='version="2", node!="n3"' onInput={(event) => set({ ...wish, query: event.currentTarget.value })} />
        </label>
        <label class="check"><input type="checkbox" checked={wish.timeline} onChange={(event) => set({ ...wish, timeline: event.currentTarget.checked })} /> in the order of time too</label>
        <label class="check" title="As an ephemeral container, which stays in the pod's list. The collector must be allowed to."><input type="checkbox" checked={wish.attach} onChange={(event) => set({ ...wish, attach: event.currentTarget.checked })} /> attach to pods without a sidecar</label>
      </div>
      <p class="quiet" id="pods-help">Pods: how many, chosen at random; names with commas between; or all.</p>
      <p>{costOf(whole)}</p>
      <Ready services={services} service={whole.service} />
      <p class="row">
        <button class="primary" disabled={busy || whole.service === ""}>Start</button>
        <CopyButton text={() => cliOf(whole, collector)} what="Command">Copy as command</CopyButton>
        <CopyButton text={() => curlOf(whole, collector)} what="curl">Copy as curl</CopyButton>
      </p>
      {failure && <Said message={failure.message} hint={failure.hint} />}
    </form>
  );
}

function Ready({ services, service }: { services: AgentsAnswer["services"]; service: string }) {
  if (service === "") return null;
  const own = services.find((one) => one.service === service);
  return (
    <p role="status">
      {!own ? <>⚠ No sidecar of <bdi>{service.slice(0, 100)}</bdi> asks for captures now: this one would wait for it.</>
        : own.available === 0 ? `⚠ No sidecar of it can take a capture now: ${own.problem}.`
          : `✓ ${plural(own.available, "sidecar")} of it can take a capture now${own.available < own.sidecars ? ` (of ${own.sidecars})` : ""}.`}
    </p>
  );
}

function Sidecars({ answer: { agents, total } }: { answer: AgentsAnswer }) {
  const now = Date.now() / 1000;
  if (total === 0) {
    return <p>None {place.value.service !== "" && "of this service "}asked lately. A sidecar with <code>--collector {window.location.origin}</code> asks by itself, unless it is older or has <code>--no-captures-from-collector</code>.</p>;
  }
  const name = ({ labels }: Agent) => labels.service + labels.pod;
  return (
    <>
      <Table label="Table of sidecars" heads={["Service", "Pod", "Version", "Can it?", "Asked"]}>
        {[...agents].sort((a, b) => (name(a) < name(b) ? -1 : 1)).map((agent) => (
          <tr key={agent.agent}>
            <th scope="row"><bdi>{agent.labels.service.slice(0, 200)}</bdi></th>
            <td><bdi>{agent.labels.pod ?? agent.agent}</bdi></td>
            <td><bdi>{agent.labels.version}</bdi></td>
            <td>{obstacleOf(agent) === "" ? "✓ ready" : <>⚠ {obstacleOf(agent)} <span class="quiet">{agent.hint}</span></>}</td>
            <td class="line">{ago(epoch(agent.last_seen), now)}</td>
          </tr>
        ))}
      </Table>
      {total > agents.length && <p class="quiet">and {count(total - agents.length)} more, which asked before these</p>}
    </>
  );
}

function Past({ captures }: { captures: readonly CaptureAnswer[] }) {
  if (captures.length === 0) return <p>None is kept. Start one above.</p>;
  const now = Date.now() / 1000;
  return (
    <Table label="Table of captures" heads={["Started", "Service", "State", "#Pods", "#Seconds", "#Samples"]}>
      {captures.map((one) => (
        <tr key={one.id}>
          <th scope="row" class="line" title={zoned(epoch(one.created))}><Link to={captureAt(one.id)}>{ago(epoch(one.created), now)}</Link></th>
          <td><bdi>{one.service.slice(0, 200)}</bdi></td>
          <td title={one.problem}>{one.state === "failed" ? "⚠ failed" : one.stopping ? "ending" : one.state}</td>
          <td class="number">{count(one.pods)}</td>
          <td class="number">{one.seconds}</td>
          <td class="number">{count(one.samples)}</td>
        </tr>
      ))}
    </Table>
  );
}
