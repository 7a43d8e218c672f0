import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../api/request.ts";
import { isFinal, sendRequest, usePolling, type CaptureAnswer, type CapturePart, type RecordingsAnswer } from "../api/captures.ts";
import { captureProfile, topFunctions, compareWithYesterday } from "../viewmodels/captureRequest.ts";
import { place, PREFIX, visit } from "../lib/location.ts";
import { count, plural, seconds } from "../lib/numbers.ts";
import { Bar, Link } from "../components/ui/Controls.tsx";
import { SubsecondHeatmap } from "../components/heatmap/SubsecondHeatmap.tsx";
import { ErrorCard } from "../components/answer/ErrorCard.tsx";
import { Table } from "../components/ui/Table.tsx";
import { formatWithZone, toEpochSeconds } from "../lib/times.ts";
import { onPage, START } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";

const STEPS = ["queued", "scheduled", "sampling", "uploading", "ready"] as const;

const captureListPlace = (service = "") => onPage(place.value, "captures", { ...START, page: "captures", service, theme: place.value.theme, keys: place.value.keys });

export function CapturePage({ refreshCount }: { refreshCount: number }) {
  const { capture: id } = place.value;
  const path = `captures/${encodeURIComponent(id)}`;
  const request = usePolling<CaptureAnswer>(apiUrl(path), 1, ({ state }) => !isFinal(state));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  const capture = request.answer;
  return (
    <>
      <h1>Capture {capture && <>of <bdi>{capture.service.slice(0, 200)}</bdi></>}</h1>
      <p class="quiet"><code>{id.slice(0, 80)}</code> · <Link to={captureListPlace(capture?.service)}>{capture ? <>All captures of <bdi>{capture.service.slice(0, 100)}</bdi></> : "All captures"}</Link></p>
      <AnswerView request={request} what="the capture">{(answer) => <CaptureView capture={answer} path={path} reload={request.reload} />}</AnswerView>
    </>
  );
}

function CaptureView({ capture, path, reload }: { capture: CaptureAnswer; path: string; reload: () => void }) {
  const isOver = isFinal(capture.state);
  const parts = capture.parts ?? [];
  const hasProfile = capture.state === "ready" || (capture.state === "stopped" && capture.samples > 0);
  return (
    <>
      <section class="panel" aria-label="Progress">
        <CaptureSteps capture={capture} />
        {capture.state === "sampling" && (
          <div class="row">
            <progress max={capture.seconds} value={capture.elapsed_seconds} aria-label="Sampled so far" />
            <span>{capture.elapsed_seconds.toFixed(0)}/{capture.seconds} s · {plural(capture.samples, "sample")}</span>
          </div>
        )}
        {isOver && <p>{plural(capture.samples, "sample")} of {plural(capture.pods, "pod")} in {seconds(capture.elapsed_seconds)} · started {formatWithZone(toEpochSeconds(capture.created))}{capture.requested_by && ` by ${capture.requested_by}`} · expires {formatWithZone(toEpochSeconds(capture.expires))}</p>}
        <p class="quiet">{capture.seconds} s at {capture.rate} Hz, mode {capture.mode}{capture.query !== "" && <>, only <code>{capture.query}</code></>}</p>
        {capture.problem !== "" && (
          <ErrorCard message={capture.problem} hint={capture.hint} isWarning={capture.state !== "failed"}>
            {capture.state === "failed" && <p><Link to={captureListPlace(capture.service)}>Start another</Link></p>}
          </ErrorCard>
        )}
        {hasProfile && (
          <p class="row">
            <Link class="button primary" to={onPage(place.value, "service", captureProfile(capture))}>Open flame graph</Link>
            <Link class="button" to={onPage(place.value, "compare", compareWithYesterday(capture))}>Compare with the same window yesterday</Link>
          </p>
        )}
        <CaptureActions capture={capture} path={path} reload={reload} />
      </section>
      {isOver && capture.timeline && hasProfile && <Recordings path={path} />}
      {parts.length > 0 && <PodTable parts={parts} isOver={isOver} />}
    </>
  );
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
        {!isOver && <button type="button" disabled={capture.stopping} onClick={() => void send("POST", `${path}/stop`, reload)}>{capture.stopping ? "Ending…" : "Stop and keep"}</button>}
        <button type="button" onClick={() => dialog.current?.showModal()}>Delete</button>
      </p>
      {failure && <ErrorCard message={failure.message} hint={failure.hint} />}
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">Delete this capture?</h2>
        <p>{isOver ? "" : "It ends. "}Its page and timeline recordings are deleted; its windows stay.</p>
        <form method="dialog" class="row" onSubmit={(event) => {
          if ((event.submitter as HTMLButtonElement).value === "yes") void send("DELETE", path, () => visit(captureListPlace(capture.service)));
        }}>
          <button value="no">Keep it</button>
          <button class="primary" value="yes">Delete</button>
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
      <h2 id="order-title">Timeline recordings</h2>
      {request.answer && recordings.length === 0 && <p>No recordings. The pods below state the reason; older sidecars do not record.</p>}
      <ul class="recordings">
        {recordings.map((recording) => {
          const profile = apiUrl(`${path}/${encodeURIComponent(recording.name)}.speedscope.json`);
          const title = encodeURIComponent(`${recording.labels.pod ?? recording.labels.service}, process ${recording.pid}`);
          return (
            <li key={recording.name} class="row">
              <a class="button" target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=time-ordered`}>Open time order in speedscope ↗</a>
              <span><bdi>{recording.labels.pod ?? ""}</bdi> process {recording.pid}: {plural(recording.samples, "sample")} in {seconds(recording.seconds)}{recording.dropped > 0 && ` · first ${count(recording.dropped)} samples dropped`}</span>
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
        <h2 id="parts-title">Pods</h2>
        <Table label="Table of pods" heads={["Pod", "State", "#Samples", "Failed ticks", "What happened"]}>
              {parts.map((part) => (
                <tr key={part.agent}>
                  <th scope="row"><bdi>{(part.labels.pod ?? part.agent).slice(0, 200)}</bdi></th>
                  <td>{part.state === "failed" ? "⚠ failed" : part.state}</td>
                  <td class="number">{count(part.samples ?? 0)}</td>
                  <td>{Object.entries(part.errors ?? {}).map(([kind, times]) => `${count(times)} ${kind}`).join(", ") || "none"}</td>
                  <td>{part.ephemeral_container && <span class="quiet">attached as {part.ephemeral_container} </span>}{part.problem}{part.hint !== "" && <span class="quiet"> {part.hint}</span>}</td>
                </tr>
              ))}
        </Table>
      </section>
      {top.length > 0 && (
        <section class="panel" aria-labelledby="top-title">
          <h2 id="top-title">{isOver ? "Hottest functions (self)" : "Hottest functions (self) so far"}</h2>
          <ol class="live">
            {top.map(([name, samples]) => <li key={name}><Bar part={samples / maximum}>{count(samples)}</Bar> <bdi>{name.slice(0, 300)}</bdi></li>)}
          </ol>
        </section>
      )}
    </>
  );
}
