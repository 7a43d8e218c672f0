import { useEffect, useState } from "preact/hooks";
import type { AnswerRequest } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { StatusAnswer } from "../api/answers.ts";
import { usePolling, type Agent, type AgentsAnswer } from "../api/captures.ts";
import { change, place, PREFIX } from "../lib/location.ts";
import { Link, SegmentedControl } from "../components/ui/Controls.tsx";
import { CopyButton } from "../components/ui/CopyButton.tsx";
import { formatAgo, formatRange, formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { useHelp, type HelpTexts } from "../components/controls/useHelp.ts";
import { appearanceOf, pageRange, START } from "../lib/url.ts";
import { AnswerView, FailureCard } from "../components/answer/AnswerView.tsx";
import * as strings from "../strings/serviceStrings.tsx";

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
    <section class="card zero" aria-label={strings.noProfilesYet}>
      <h2>{acknowledged > 0 ? strings.noProfilesInRange(formatRange(range)) : strings.noProfilesYet}</h2>
      {acknowledged > 0 && (
        <p>{strings.windowsAcknowledgedNote(acknowledged)}{" "}<button type="button" class="primary" onClick={() => change({ from: "-30d", until: "now" })}>{strings.showThirtyDays}</button></p>
      )}
      <SetupChecks answer={answer} agents={agents.answer?.agents ?? []} isUnreachable={status.failure !== null} />
      <p class="quiet">{strings.refreshNote(POLL_SECONDS)}</p>
      <h3>{strings.stepProfileService}</h3>
      <StartCommands help={help} />
      <h3>{strings.stepSendRecording}</h3>
      <AnswerView request={help} what={strings.command}>{({ send }) => <Command text={withCollector(send)} />}</AnswerView>
      <p><Link to={{ ...START, ...appearanceOf(place.value), page: "files" }}>{strings.showProfileFile}</Link></p>
      <h3>{strings.stepOpenDemo}</h3>
      <Command text={strings.sidelightDemo} />
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
      <SetupCheck ok={answer !== null && !isUnreachable} text={isUnreachable ? strings.collectorsApiDoesNot : answer ? strings.collectorsApiAnswersVersion(answer.version) : strings.checkingCollector} />
      <SetupCheck ok={answer?.store.ok ?? false} text={answer ? (answer.store.ok ? strings.storeReachable(answer.store.kind) : strings.storeDoesNotAnswer(answer.store.kind)) : strings.checkingStore} />
      {sidecars.length > 0
        ? <SetupCheck ok text={strings.sidecarsSent(sidecars.length, formatAgo(latest, Date.now() / 1000), formatList(sidecars.map(({ pod, service }) => formatOrigin(service, pod))))} />
        : <SetupCheck ok={agents.some(({ problem }) => problem === "")} text={agents.length > 0
          ? strings.sidecarsSeen(agents.length, formatList(agents.map(({ labels, problem }) => formatOrigin(labels.service, labels.pod, labels.node) + (problem === "" ? strings.firstProfileComes : strings.whichCannotSample(problem.slice(0, 300))))))
          : strings.noSidecarSeenYet} />}
      <SetupCheck ok={acknowledged > 0} text={strings.windowsAcknowledged(acknowledged, answer?.last_ingest ? formatWithZone(toEpochSeconds(answer.last_ingest)) : "never")} />
    </ul></div>
  );
}

const formatOrigin = (service = "", pod = "", node = "") => service.slice(0, 60) + (pod === "" ? "" : strings.inPod(pod.slice(0, 60))) + (node === "" ? "" : strings.onNode(node.slice(0, 60)));

const formatList = (all: readonly string[]) => all.slice(0, 3).join(", ") + (all.length > 3 ? ", …" : "");

function SetupCheck({ ok, text }: { ok: boolean; text: string }) {
  return <li class={ok ? "ok" : "not"}><span aria-hidden="true">{ok ? "✓" : "○"}</span> <span class="unseen">{ok ? strings.done : strings.waiting}</span>{text}</li>;
}

type Environment = "local" | "kubectl" | "helm";

/** How to begin, for where the service runs. */
function StartCommands({ help }: { help: AnswerRequest<HelpTexts> }) {
  const [environment, setEnvironment] = useState<Environment>("local");
  return (
    <>
      <SegmentedControl<Environment> label={strings.whereServiceRuns} value={environment} onSelect={setEnvironment}
        options={[["local", strings.onMachine], ["kubectl", strings.onePodWithKubectl], ["helm", strings.inItsHelmChart]]} />
      <AnswerView request={help} what={strings.commands}>
        {({ begin }) => <><p class="quiet">{begin[environment].words}</p><Command text={withCollector(begin[environment].text)} /></>}
      </AnswerView>
    </>
  );
}

export function Command({ text }: { text: string }) {
  return <div class="command"><pre tabIndex={0}><code>{text}</code></pre><CopyButton text={() => text} what={strings.commandSubject}>{strings.copy}</CopyButton></div>;
}
