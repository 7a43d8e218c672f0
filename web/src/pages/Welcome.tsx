import { useEffect, useState } from "preact/hooks";
import type { Asked } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { StatusAnswer } from "../api/answers.ts";
import { usePolled, type Agent, type AgentsAnswer } from "../api/captures.ts";
import { change, place, PREFIX } from "../lib/location.ts";
import { count, plural } from "../lib/numbers.ts";
import { Segments } from "../components/ui/Controls.tsx";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { ago, rangeName, zoned, epoch } from "../lib/times.ts";
import { useWords, type Words } from "../components/controls/useHelp.ts";
import { rangeOf } from "../lib/url.ts";
import { Show, Trouble } from "../components/answer/AnswerView.tsx";

const SECONDS = 3;

/** The page before the first profile: what is up, what is missing, and how to send one. It looks again by itself. */
export function ZeroProfiles({ arrived }: { arrived: () => void }) {
  const status = usePolled<StatusAnswer>(apiUrl("status"), SECONDS);
  const agents = usePolled<AgentsAnswer>(apiUrl("agents"), SECONDS);
  const acknowledged = status.answer?.windows_acknowledged ?? 0;
  useEffect(() => { if (status.came > 0) arrived(); }, [status.came]);
  const words = useWords();
  if (status.failure?.kind === "final") return <Trouble failure={status.failure} again={status.again} />;
  const answer = status.answer;
  const range = rangeOf(place.value);
  return (
    <section class="card zero" aria-label="No profiles yet">
      <h2>{acknowledged > 0 ? `No profiles in this range (${rangeName(range)})` : "No profiles yet"}</h2>
      {acknowledged > 0 && (
        <p>This collector has acknowledged {plural(acknowledged, "window")}. <button type="button" class="primary" onClick={() => change({ from: "-30d", until: "now" })}>Look at the last 30 days</button></p>
      )}
      <Checks answer={answer} agents={agents.answer?.agents ?? []} away={status.failure !== null} />
      <p class="quiet">This page looks again every {SECONDS} seconds and shows services by itself.</p>
      <h3>1 · Profile a service</h3>
      <Commands words={words} />
      <h3>2 · Or send what py-spy recorded</h3>
      <Show asked={words} what="the command">{({ send }) => <Command text={addressed(send)} />}</Show>
      <h3>3 · Or open demo data: four services, profiled and compared, on your machine</h3>
      <Command text="sidelight demo" />
    </section>
  );
}

const addressed = (text: string) => text.replaceAll("{collector}", window.location.origin + PREFIX.slice(0, -1));

/** What must be up for a profile to arrive, in the order in which it does. */
function Checks({ answer, agents, away }: { answer: StatusAnswer | null; agents: readonly Agent[]; away: boolean }) {
  const sidecars = answer?.sidecars ?? [];
  const acknowledged = answer?.windows_acknowledged ?? 0;
  const latest = sidecars.map(({ last_seen }) => epoch(last_seen)).reduce((a, b) => Math.max(a, b), 0);
  return (
    <div role="status"><ul class="checks">
      <Check ok={answer !== null && !away} text={away ? "the collector's API does not answer just now" : answer ? `the collector's API answers (version ${answer.version})` : "asking the collector…"} />
      <Check ok={answer?.store.ok ?? false} text={answer ? (answer.store.ok ? `store is reachable (${answer.store.kind})` : `store (${answer.store.kind}) does not answer: look at the collector's log`) : "asking about the store…"} />
      {sidecars.length > 0
        ? <Check ok text={`${plural(sidecars.length, "sidecar")} sent windows, the latest ${ago(latest, Date.now() / 1000)}: ${listed(sidecars.map(({ pod, service }) => where(service, pod)))}`} />
        : <Check ok={agents.some(({ problem }) => problem === "")} text={agents.length > 0
          ? `${plural(agents.length, "sidecar")} seen: ${listed(agents.map(({ labels, problem }) => where(labels.service, labels.pod, labels.node) + (problem === "" ? "; the first profile comes when its window ends, within about a minute" : `, which cannot sample: ${problem.slice(0, 300)}`)))}`
          : "no sidecar seen yet"} />}
      <Check ok={acknowledged > 0} text={`windows acknowledged: ${count(acknowledged)}; last: ${answer?.last_ingest ? zoned(epoch(answer.last_ingest)) : "never"}`} />
    </ul></div>
  );
}

const where = (service = "", pod = "", node = "") => service.slice(0, 60) + (pod === "" ? "" : ` in ${pod.slice(0, 60)}`) + (node === "" ? "" : ` on ${node.slice(0, 60)}`);

const listed = (all: readonly string[]) => all.slice(0, 3).join(", ") + (all.length > 3 ? ", …" : "");

function Check({ ok, text }: { ok: boolean; text: string }) {
  return <li class={ok ? "ok" : "not"}><span aria-hidden="true">{ok ? "✓" : "○"}</span> <span class="unseen">{ok ? "done: " : "waiting: "}</span>{text}</li>;
}

type Where = "local" | "kubectl" | "helm";

/** How to begin, for where the service runs. */
function Commands({ words }: { words: Asked<Words> }) {
  const [where, choose] = useState<Where>("local");
  return (
    <>
      <Segments<Where> label="Where the service runs" value={where} choose={choose}
        options={[["local", "On this machine"], ["kubectl", "One pod, with kubectl"], ["helm", "In its Helm chart"]]} />
      <Show asked={words} what="the commands">
        {({ begin }) => <><p class="quiet">{begin[where].words}</p><Command text={addressed(begin[where].text)} /></>}
      </Show>
    </>
  );
}

export function Command({ text }: { text: string }) {
  return <div class="command"><pre tabIndex={0}><code>{text}</code></pre><CopyButton text={() => text} what="Command">Copy</CopyButton></div>;
}
