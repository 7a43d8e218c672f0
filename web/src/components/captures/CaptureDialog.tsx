import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { HeatmapAnswer } from "../../api/grids.ts";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl, type Failure } from "../../api/request.ts";
import { sendRequest, usePolling, type Agent, type AgentsAnswer, type CaptureAnswer } from "../../api/captures.ts";
import { followedCaptures } from "../../viewmodels/browserStorage.ts";
import { place } from "../../lib/location.ts";
import { short } from "../../lib/numbers.ts";
import { equals } from "../../lib/selectors.ts";
import { onPage } from "../../lib/url.ts";
import { coresByPod, describeObstacle, describePods, podsOfChoice, POD_CHOICES, sortByCores } from "../../viewmodels/captureRequest.ts";
import { ErrorCard } from "../answer/ErrorCard.tsx";
import { captureDraft, type CaptureDraft } from "../controls/dialogs.ts";
import { Link } from "../ui/Controls.tsx";
import * as strings from "../../strings/captureStrings.tsx";

const POLL_SECONDS = 3;
const MAX_ROWS = 100;
/** Pods are in the order of their CPU use over this time. */
const RECENT = { from: "-15m", until: "now", type: "cpu", rows: "pod", step: "900" };

/** Starts a capture in one press: for how long, of which pods, at which rate. Its progress then follows on every page. */
export function CaptureDialog({ draft }: { draft: CaptureDraft }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [service, setService] = useState(draft.service);
  const [seconds, setSeconds] = useState(60);
  const [rate, setRate] = useState(100);
  const [chosen, setChosen] = useState<readonly string[]>(draft.pods ?? []);
  const [choice, setChoice] = useState(draft.pods && draft.pods.length > 0 ? "chosen" : "1");
  const [attach, setAttach] = useState(draft.attach ?? false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isSending, setSending] = useState(false);
  const agents = usePolling<AgentsAnswer>(apiUrl("agents", { service: service.trim() }), POLL_SECONDS);
  useLayoutEffect(() => {
    const box = dialog.current as HTMLDialogElement;
    box.showModal();
    box.querySelector<HTMLElement>(service === "" ? "input" : "button.primary")?.focus();
  }, []);
  const close = () => { captureDraft.value = null; };
  const pods = podsOfChoice(choice, chosen);
  const start = async (event: Event) => {
    event.preventDefault();
    if (isSending || service.trim() === "") return;
    setSending(true);
    setFailure(null);
    try {
      const capture = await sendRequest<CaptureAnswer>("POST", apiUrl("captures"), { service: service.trim(), query: draft.query ?? "", pods, seconds, rate, mode: "auto", timeline: true, ...(attach ? { attach } : {}) });
      if (capture) followedCaptures.store([...followedCaptures.list.peek(), capture.id].slice(-8));
      dialog.current?.close();
    } catch (error) {
      setFailure(error as Failure);
    }
    setSending(false);
  };
  const toggle = (pod: string) => {
    const next = chosen.includes(pod) ? chosen.filter((one) => one !== pod) : [...chosen, pod];
    setChosen(next);
    setChoice(next.length > 0 ? "chosen" : "1");
  };
  return (
    <dialog ref={dialog} class="capture-dialog" aria-labelledby="capture-title" onClose={close}>
      <form onSubmit={(event) => void start(event)}>
        <h2 id="capture-title">{draft.service === "" ? strings.captureHeading : strings.captureService(<bdi>{draft.service.slice(0, 100)}</bdi>)}</h2>
        {draft.service === "" && (
          <label>{strings.service}{" "}
            <input list="capture-services" required value={service} spellcheck={false} autocomplete="off" onInput={(event) => setService(event.currentTarget.value)} />
            <datalist id="capture-services">{agents.answer?.services.map((one) => <option key={one.service} value={one.service} />)}</datalist>
          </label>
        )}
        <p class="row quick">
          <label><input type="number" min="1" max="86400" step="1" required value={seconds} aria-label={strings.seconds} onInput={(event) => setSeconds(Number(event.currentTarget.value))} /> s</label>
          <label>
            <select value={choice} aria-label={strings.pods} onChange={(event) => setChoice(event.currentTarget.value)}>
              {chosen.length > 0 && <option value="chosen">{describePods(chosen)}</option>}
              {POD_CHOICES.map((one) => <option key={one} value={one}>{describePods(podsOfChoice(one, []))}</option>)}
            </select>
          </label>
          <label><input type="number" min="1" max="10000" step="1" required value={rate} aria-label={strings.rateHz} onInput={(event) => setRate(Number(event.currentTarget.value))} /> Hz</label>
          <button class="primary" aria-disabled={isSending}>{strings.start}</button>
        </p>
        {service.trim() !== "" && agents.answer && <Sidecars agents={agents.answer.agents} chosen={chosen} toggle={toggle} service={service.trim()} />}
        <label class="check" title={strings.attachHint}><input type="checkbox" checked={attach} onChange={(event) => setAttach(event.currentTarget.checked)} />{" "}{strings.attachToPodsWithout}</label>
        {failure && <ErrorCard message={failure.message} hint={failure.hint} />}
        <p class="row">
          <Link to={onPage(place.value, "captures", { service: service.trim() })} onClick={() => dialog.current?.close()}>{strings.moreOptions}</Link>
          <span class="gap" />
          <button type="button" onClick={() => dialog.current?.close()}>{strings.cancel}</button>
        </p>
      </form>
    </dialog>
  );
}

/** Connected sidecars, those of the hottest pods first; a press on a row chooses its pod. */
function Sidecars({ agents, chosen, toggle, service }: { agents: readonly Agent[]; chosen: readonly string[]; toggle: (pod: string) => void; service: string }) {
  const recent = useAnswer<HeatmapAnswer>(agents.length === 0 ? null : apiUrl("heatmap", { query: `{${equals("service", service)}}`, ...RECENT }));
  const cores = useMemo(() => (recent.answer ? coresByPod(recent.answer) : new Map<string, number>()), [recent.answer]);
  if (agents.length === 0) return <p role="status">{strings.noSidecarConnectedOf(<bdi>{service.slice(0, 100)}</bdi>)}</p>;
  // Rows would move under the pointer once their order is known.
  if (recent.loading && !recent.answer && !recent.failure) return <p role="status">{strings.findingBusiestPods}</p>;
  const named = sortByCores(agents, cores);
  return (
    <ul class="pods-to-choose" aria-label={strings.choosePods}>
      {named.slice(0, MAX_ROWS).map((agent) => {
        const pod = agent.labels.pod ?? "";
        const obstacle = describeObstacle(agent);
        const use = cores.get(pod);
        return (
          <li key={agent.agent}>
            <button type="button" aria-pressed={chosen.includes(pod)} onClick={() => toggle(pod)}><bdi>{pod.slice(-100)}</bdi> <span class="detail">{use !== undefined && `${strings.coresOf(short(use))} · `}<bdi>{agent.labels.version}</bdi>{obstacle !== "" && ` ⚠ ${obstacle}`}</span></button>
          </li>
        );
      })}
    </ul>
  );
}
