import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../api/request.ts";
import { isFinal, sendRequest, usePolling, type AgentsAnswer, type CaptureAnswer, type CapturePart, type RecordingsAnswer } from "../api/captures.ts";
import { captureProfile, compareWithHourBefore, hasProfile, topFunctions, compareWithYesterday } from "../viewmodels/captureRequest.ts";
import { place, PREFIX, visit } from "../lib/location.ts";
import { seconds } from "../lib/numbers.ts";
import { count } from "../strings/counts.ts";
import { Bar, Link } from "../components/ui/Controls.tsx";
import { SubsecondHeatmap } from "../components/heatmap/SubsecondHeatmap.tsx";
import { ErrorCard } from "../components/answer/ErrorCard.tsx";
import { Table } from "../components/ui/Table.tsx";
import { formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { appearanceOf, onPage, START } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import * as strings from "../strings/captureStrings.tsx";

const STEPS = ["queued", "scheduled", "sampling", "uploading", "ready"] as const;

const captureListPlace = (service = "") => ({ ...START, ...appearanceOf(place.value), page: "captures" as const, service });

export function CapturePage({ refreshCount }: { refreshCount: number }) {
  const { capture: id } = place.value;
  const path = `captures/${encodeURIComponent(id)}`;
  const request = usePolling<CaptureAnswer>(apiUrl(path), 1, ({ state }) => !isFinal(state));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  const capture = request.answer;
  return (
    <>
      <h1>{capture ? strings.captureOf(<bdi>{capture.service.slice(0, 200)}</bdi>) : strings.captureHeading}</h1>
      <p class="quiet"><code>{id.slice(0, 80)}</code> · <Link to={captureListPlace(capture?.service)}>{capture ? strings.allCapturesOf(<bdi>{capture.service.slice(0, 100)}</bdi>) : strings.allCaptures}</Link></p>
      <AnswerView request={request} what={strings.theCapture}>{(answer) => <CaptureView capture={answer} path={path} reload={request.reload} />}</AnswerView>
    </>
  );
}

function CaptureView({ capture, path, reload }: { capture: CaptureAnswer; path: string; reload: () => void }) {
  const isOver = isFinal(capture.state);
  const parts = capture.parts ?? [];
  const hasSamples = hasProfile(capture);
  return (
    <>
      <section class="panel" aria-label={strings.progress}>
        <CaptureSteps capture={capture} />
        {capture.state === "queued" && capture.problem === "" && <WaitingForSidecar capture={capture} />}
        {capture.state === "sampling" && (
          <div class="row">
            <progress max={capture.seconds} value={capture.elapsed_seconds} aria-label={strings.sampledSoFar} />
            <span>{capture.elapsed_seconds.toFixed(0)}/{capture.seconds} s · {strings.sampleCount(capture.samples)}</span>
          </div>
        )}
        {isOver && <p>{strings.result(capture.samples, capture.pods, seconds(capture.elapsed_seconds), formatWithZone(toEpochSeconds(capture.created)), capture.requested_by, formatWithZone(toEpochSeconds(capture.expires)))}</p>}
        <p class="quiet">{strings.settings(capture.seconds, capture.rate, capture.mode)}{capture.query !== "" && strings.only(<code>{capture.query}</code>)}</p>
        {capture.problem !== "" && (
          <ErrorCard message={capture.problem} hint={capture.hint} isWarning={capture.state !== "failed"}>
            {capture.state === "failed" && <p><Link to={captureListPlace(capture.service)}>{strings.startAnother}</Link></p>}
          </ErrorCard>
        )}
        {hasSamples && (
          <p class="row">
            <Link class="button primary" to={onPage(place.value, "service", captureProfile(capture))}>{strings.openFlameGraph}</Link>
            <Link class="button" to={onPage(place.value, "compare", compareWithHourBefore(capture))}>{strings.compareWithHourBefore}</Link>
            <Link class="button" to={onPage(place.value, "compare", compareWithYesterday(capture))}>{strings.compareWithYesterday}</Link>
          </p>
        )}
        <CaptureActions capture={capture} path={path} reload={reload} />
      </section>
      {isOver && capture.timeline && hasSamples && <Recordings path={path} />}
      {parts.length > 0 && <PodTable parts={parts} isOver={isOver} />}
    </>
  );
}

/** What a capture that nobody has taken waits for, what is in its way, and until when. */
function WaitingForSidecar({ capture: { service, waits_until: until } }: { capture: CaptureAnswer }) {
  const { answer } = usePolling<AgentsAnswer>(apiUrl("agents", { service }), 3);
  const sidecars = answer?.services.find((row) => row.service === service);
  const obstacle = !answer ? "" : !sidecars ? strings.noneConnected : sidecars.available === 0 ? sidecars.problem : "";
  return <p>{strings.waitingForSidecar(<bdi>{service.slice(0, 100)}</bdi>, obstacle, Math.max(toEpochSeconds(until) - Date.now() / 1000, 0))}</p>;
}

/** The way from queued to ready; only a change of state is announced, not every second. */
function CaptureSteps({ capture }: { capture: CaptureAnswer }) {
  const { state, stopping } = capture;
  // What failed, or was ended early, went only so far.
  const lastStep = capture.pods === 0 ? 1 : capture.samples === 0 ? 2 : state === "failed" ? 3 : 4;
  const steps = state === "failed" || state === "stopped" ? [...STEPS.slice(0, lastStep), state] : STEPS;
  const at = steps.indexOf(state as "ready");
  const isOver = isFinal(state);
  return (
    <>
      <ol class="steps">
        {steps.map((step, index) => (
          <li key={step} class={index < at ? "done" : ""} aria-current={index === at ? "step" : undefined}>
            {index === at && step === "failed" ? "⚠ " : index < at || isOver ? "✓ " : ""}{step}
          </li>
        ))}
      </ol>
      <p class="unseen" role="status">{stopping ? "ending" : state}</p>
    </>
  );
}

function CaptureActions({ capture, path, reload }: { capture: CaptureAnswer; path: string; reload: () => void }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const isOver = isFinal(capture.state);
  const send = async (method: "POST" | "DELETE", to: string, then: () => void) => {
    setFailure(null);
    try {
      await sendRequest(method, apiUrl(to));
      then();
    } catch (error) {
      setFailure(error as Failure);
    }
  };
  return (
    <>
      <p class="row">
        {!isOver && <button type="button" disabled={capture.stopping} onClick={() => void send("POST", `${path}/stop`, reload)}>{capture.stopping ? strings.ending : capture.samples > 0 ? strings.stopAndKeep : strings.cancel}</button>}
        <button type="button" onClick={() => dialog.current?.showModal()}>{strings.deleteLabel}</button>
      </p>
      {failure && <ErrorCard message={failure.message} hint={failure.hint} />}
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">{strings.deleteCapture}</h2>
        <p>{isOver ? strings.deleteOver : strings.deleteRunning}</p>
        <form method="dialog" class="row" onSubmit={(event) => {
          if ((event.submitter as HTMLButtonElement).value === "yes") void send("DELETE", path, () => visit(captureListPlace(capture.service)));
        }}>
          <button value="no">{strings.keepIt}</button>
          <button class="primary" value="yes">{strings.deleteLabel}</button>
        </form>
      </dialog>
    </>
  );
}

function Recordings({ path }: { path: string }) {
  const request = usePolling<RecordingsAnswer>(apiUrl(`${path}/recordings`), 3, ({ recordings }) => recordings.length === 0);
  const recordings = request.answer?.recordings ?? [];
  return (
    <section class="panel" aria-labelledby="order-title">
      <h2 id="order-title">{strings.timelineRecordings}</h2>
      {request.answer && recordings.length === 0 && <p>{strings.noRecordings}</p>}
      <ul class="recordings">
        {recordings.map((recording) => {
          const profile = apiUrl(`${path}/${encodeURIComponent(recording.name)}.speedscope.json`);
          const title = encodeURIComponent(strings.recordingTitle(recording.labels.pod ?? recording.labels.service, recording.pid));
          return (
            <li key={recording.name} class="row">
              <a class="button" target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=time-ordered`}>{strings.openInSpeedscope}</a>
              <span>{strings.recordingSummary(<bdi>{recording.labels.pod ?? ""}</bdi>, recording.pid, recording.samples, seconds(recording.seconds), recording.dropped > 0 ? strings.firstSamplesDropped(recording.dropped) : "")}</span>
            </li>
          );
        })}
      </ul>
      {recordings.length > 0 && <SubsecondHeatmap path={path} />}
    </section>
  );
}

function PodTable({ parts, isOver }: { parts: readonly CapturePart[]; isOver: boolean }) {
  const top = topFunctions(parts);
  const maximum = Math.max(...top.map(([, samples]) => samples), 1);
  return (
    <>
      <section class="panel" aria-labelledby="parts-title">
        <h2 id="parts-title">{strings.pods}</h2>
        <Table label={strings.tableOfPods} className="cards" heads={[strings.pod, strings.state, strings.samplesColumn, strings.failedTicks, strings.whatHappened]}>
              {parts.map((part) => (
                <tr key={part.agent}>
                  <th scope="row"><bdi>{(part.labels.pod ?? part.agent).slice(0, 200)}</bdi></th>
                  <td>{part.state === "failed" ? "⚠ failed" : part.state}</td>
                  <td class="number">{count(part.samples ?? 0)}</td>
                  <td>{Object.entries(part.errors ?? {}).map(([kind, times]) => `${count(times)} ${kind}`).join(", ") || strings.none}</td>
                  <td>{part.ephemeral_container && <span class="quiet">{strings.attachedAs(part.ephemeral_container)} </span>}{part.problem}{part.hint !== "" && <span class="quiet"> {part.hint}</span>}</td>
                </tr>
              ))}
        </Table>
      </section>
      {top.length > 0 && (
        <section class="panel" aria-labelledby="top-title">
          <h2 id="top-title">{isOver ? strings.hottestFunctions : strings.hottestFunctionsSoFar}</h2>
          <ol class="live">
            {top.map(([name, samples]) => <li key={name}><Bar part={samples / maximum}>{count(samples)}</Bar> <bdi>{name.slice(0, 300)}</bdi></li>)}
          </ol>
        </section>
      )}
    </>
  );
}
