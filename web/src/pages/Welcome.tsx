import { useEffect, useState } from "preact/hooks";
import type { AnswerRequest } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { StatusAnswer } from "../api/answers.ts";
import { usePolling, type Agent, type AgentsAnswer } from "../api/captures.ts";
import { change, place, PREFIX } from "../lib/location.ts";
import { count, plural } from "../lib/numbers.ts";
import { SegmentedControl } from "../components/ui/Controls.tsx";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { formatAgo, formatRange, formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { useHelp, type HelpTexts } from "../components/controls/useHelp.ts";
import { pageRange } from "../lib/url.ts";
import { AnswerView, FailureCard } from "../components/answer/AnswerView.tsx";

const POLL_SECONDS = 3;

/** The page before the first profile: what is up, what is missing, and how to send one. It looks again by itself. */
export function Welcome({ onArrival }: { onArrival: () => void }) {
  const status = usePolling<StatusAnswer>(apiUrl("status"), POLL_SECONDS);
  const agents = usePolling<AgentsAnswer>(apiUrl("agents"), POLL_SECONDS);
  const acknowledged = status.answer?.windows_acknowledged ?? 0;
  useEffect(() => { if (status.receivedAt > 0) onArrival(); }, [status.receivedAt]);
  const help = useHelp();
  if (status.failure?.kind === "final") return <FailureCard failure={status.failure} retry={status.reload} />;
  const answer = status.answer;
  const range = pageRange(place.value);
  return (
    <section class="card zero" aria-label="No profiles yet">
      <h2>{acknowledged > 0 ? `No profiles in this range (${formatRange(range)})` : "No profiles yet"}</h2>
      {acknowledged > 0 && (
        <p>This collector has acknowledged {plural(acknowledged, "window")}. <button type="button" class="primary" onClick={() => change({ from: "-30d", until: "now" })}>Show the last 30 days</button></p>
      )}
      <SetupChecks answer={answer} agents={agents.answer?.agents ?? []} isUnreachable={status.failure !== null} />
      <p class="quiet">This page refreshes every {POLL_SECONDS} seconds and lists services as they arrive.</p>
      <h3>1 · Profile a service</h3>
      <StartCommands help={help} />
      <h3>2 · Or send a py-spy recording</h3>
      <AnswerView request={help} what="the command">{({ send }) => <Command text={withCollector(send)} />}</AnswerView>
      <h3>3 · Or open demo data: four services, profiled and compared, on your machine</h3>
      <Command text="sidelight demo" />
    </section>
  );
}

const withCollector = (text: string) => text.replaceAll("{collector}", window.location.origin + PREFIX.slice(0, -1));

/** What must be up for a profile to arrive, in the order in which it does. */
function SetupChecks({ answer, agents, isUnreachable }: { answer: StatusAnswer | null; agents: readonly Agent[]; isUnreachable: boolean }) {
  const sidecars = answer?.sidecars ?? [];
  const acknowledged = answer?.windows_acknowledged ?? 0;
  const latest = sidecars.map(({ last_seen }) => toEpochSeconds(last_seen)).reduce((a, b) => Math.max(a, b), 0);
  return (
    <div role="status"><ul class="checks">
      <SetupCheck ok={answer !== null && !isUnreachable} text={isUnreachable ? "the collector's API does not answer" : answer ? `the collector's API answers (version ${answer.version})` : "checking the collector…"} />
      <SetupCheck ok={answer?.store.ok ?? false} text={answer ? (answer.store.ok ? `store is reachable (${answer.store.kind})` : `store (${answer.store.kind}) does not answer: check the collector's log`) : "checking the store…"} />
      {sidecars.length > 0
        ? <SetupCheck ok text={`${plural(sidecars.length, "sidecar")} sent windows, the latest ${formatAgo(latest, Date.now() / 1000)}: ${formatList(sidecars.map(({ pod, service }) => formatOrigin(service, pod)))}`} />
        : <SetupCheck ok={agents.some(({ problem }) => problem === "")} text={agents.length > 0
          ? `${plural(agents.length, "sidecar")} seen: ${formatList(agents.map(({ labels, problem }) => formatOrigin(labels.service, labels.pod, labels.node) + (problem === "" ? "; the first profile comes when its window ends, within about a minute" : `, which cannot sample: ${problem.slice(0, 300)}`)))}`
          : "no sidecar seen yet"} />}
      <SetupCheck ok={acknowledged > 0} text={`windows acknowledged: ${count(acknowledged)}; last: ${answer?.last_ingest ? formatWithZone(toEpochSeconds(answer.last_ingest)) : "never"}`} />
    </ul></div>
  );
}

const formatOrigin = (service = "", pod = "", node = "") => service.slice(0, 60) + (pod === "" ? "" : ` in ${pod.slice(0, 60)}`) + (node === "" ? "" : ` on ${node.slice(0, 60)}`);

const formatList = (all: readonly string[]) => all.slice(0, 3).join(", ") + (all.length > 3 ? ", …" : "");

function SetupCheck({ ok, text }: { ok: boolean; text: string }) {
  return <li class={ok ? "ok" : "not"}><span aria-hidden="true">{ok ? "✓" : "○"}</span> <span class="unseen">{ok ? "done: " : "waiting: "}</span>{text}</li>;
}

type Environment = "local" | "kubectl" | "helm";

/** How to begin, for where the service runs. */
function StartCommands({ help }: { help: AnswerRequest<HelpTexts> }) {
  const [environment, setEnvironment] = useState<Environment>("local");
  return (
    <>
      <SegmentedControl<Environment> label="Where the service runs" value={environment} onSelect={setEnvironment}
        options={[["local", "On this machine"], ["kubectl", "One pod, with kubectl"], ["helm", "In its Helm chart"]]} />
      <AnswerView request={help} what="the commands">
        {({ begin }) => <><p class="quiet">{begin[environment].words}</p><Command text={withCollector(begin[environment].text)} /></>}
      </AnswerView>
    </>
  );
}

export function Command({ text }: { text: string }) {
  return <div class="command"><pre tabIndex={0}><code>{text}</code></pre><CopyButton text={() => text} what="Command">Copy</CopyButton></div>;
}
