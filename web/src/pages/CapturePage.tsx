import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../api/request.ts";
import { isFinal, send, usePolled, type CaptureAnswer, type CapturePart, type Recording } from "../api/captures.ts";
import { flameOf, topOf, yesterdayOf } from "../viewmodels/captureRequest.ts";
import { place, PREFIX, visit } from "../lib/location.ts";
import { count, plural, seconds } from "../lib/numbers.ts";
import { Bar, Link } from "../components/ui/Controls.tsx";
import { Offsets } from "../components/heatmap/SubsecondHeatmap.tsx";
import { Said } from "../components/answer/ErrorCard.tsx";
import { Table } from "../components/ui/Table.tsx";
import { zoned, epoch } from "../lib/times.ts";
import { onPage, START } from "../lib/url.ts";
import { Show } from "../components/answer/AnswerView.tsx";

const STEPS = ["queued", "scheduled", "sampling", "uploading", "ready"] as const;

const listAt = (service = "") => onPage(place.value, "captures", { ...START, page: "captures", service, theme: place.value.theme, keys: place.value.keys });

export function Capture({ turn }: { turn: number }) {
  const { capture: id } = place.value;
  const path = `captures/${encodeURIComponent(id)}`;
  const asked = usePolled<CaptureAnswer>(apiUrl(path), 1, ({ state }) => !isFinal(state));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const capture = asked.answer;
  return (
    <>
      <h1>Capture {capture && <>of <bdi>{capture.service.slice(0, 200)}</bdi></>}</h1>
      <p class="quiet"><code>{id.slice(0, 80)}</code> · <Link to={listAt(capture?.service)}>{capture ? "All captures of it" : "All captures"}</Link></p>
      <Show asked={asked} what="the capture">{(answer) => <Going capture={answer} path={path} again={asked.again} />}</Show>
    </>
  );
}

function Going({ capture, path, again }: { capture: CaptureAnswer; path: string; again: () => void }) {
  const over = isFinal(capture.state);
  const parts = capture.parts ?? [];
  const kept = capture.state === "ready" || (capture.state === "stopped" && capture.samples > 0);
  return (
    <>
      <section class="panel" aria-label="How far it is">
        <Steps capture={capture} />
        {capture.state === "sampling" && (
          <div class="row">
            <progress max={capture.seconds} value={capture.elapsed_seconds} aria-label="Sampled so far" />
            <span>{capture.elapsed_seconds.toFixed(0)}/{capture.seconds} s · {plural(capture.samples, "sample")}</span>
          </div>
        )}
        {over && <p>{plural(capture.samples, "sample")} of {plural(capture.pods, "pod")} in {seconds(capture.elapsed_seconds)} · started {zoned(epoch(capture.created))}{capture.requested_by && ` by ${capture.requested_by}`} · expires {zoned(epoch(capture.expires))}</p>}
        <p class="quiet">{capture.seconds} s at {capture.rate} Hz, mode {capture.mode}{capture.query !== "" && <>, only <code>{capture.query}</code></>}</p>
        {capture.problem !== "" && (
          <Said message={capture.problem} hint={capture.hint} mild={capture.state !== "failed"}>
            {capture.state === "failed" && <p><Link to={listAt(capture.service)}>Start another</Link></p>}
          </Said>
        )}
        {kept && (
          <p class="row">
            <Link class="button primary" to={onPage(place.value, "service", flameOf(capture))}>Open flame</Link>
            <Link class="button" to={onPage(place.value, "compare", yesterdayOf(capture))}>Compare with the same window yesterday</Link>
          </p>
        )}
        <Doing capture={capture} path={path} again={again} />
      </section>
      {over && capture.timeline && kept && <InOrder path={path} />}
      {parts.length > 0 && <Parts parts={parts} over={over} />}
    </>
  );
}

/** The way from queued to ready; only a change of state is announced, not every second. */
function Steps({ capture }: { capture: CaptureAnswer }) {
  const { state, stopping } = capture;
  // What failed, or was ended early, went only so far.
  const reached = capture.pods === 0 ? 1 : capture.samples === 0 ? 2 : state === "failed" ? 3 : 4;
  const steps = state === "failed" || state === "stopped" ? [...STEPS.slice(0, reached), state] : STEPS;
  const at = steps.indexOf(state as "ready");
  const over = isFinal(state);
  return (
    <>
      <ol class="steps">
        {steps.map((step, index) => (
          <li key={step} class={index < at ? "done" : ""} aria-current={index === at ? "step" : undefined}>
            {index === at && step === "failed" ? "⚠ " : index < at || over ? "✓ " : ""}{step}
          </li>
        ))}
      </ol>
      <p class="unseen" role="status">{stopping ? "ending" : state}</p>
    </>
  );
}

function Doing({ capture, path, again }: { capture: CaptureAnswer; path: string; again: () => void }) {
  const [failure, fail] = useState<Failure | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const over = isFinal(capture.state);
  const act = async (method: "POST" | "DELETE", to: string, then: () => void) => {
    fail(null);
    try {
      await send(method, apiUrl(to));
      then();
    } catch (error) {
      fail(error as Failure);
    }
  };
  return (
    <>
      <p class="row">
        {!over && <button type="button" disabled={capture.stopping} onClick={() => void act("POST", `${path}/stop`, again)}>{capture.stopping ? "Ending…" : "Stop and keep"}</button>}
        <button type="button" onClick={() => dialog.current?.showModal()}>Delete</button>
      </p>
      {failure && <Said message={failure.message} hint={failure.hint} />}
      <dialog ref={dialog} aria-labelledby="delete-title">
        <h2 id="delete-title">Delete this capture?</h2>
        <p>{over ? "" : "It ends. "}Its page and what is in the order of time go for good; windows that were sent stay.</p>
        <form method="dialog" class="row" onSubmit={(event) => {
          if ((event.submitter as HTMLButtonElement).value === "yes") void act("DELETE", path, () => visit(listAt(capture.service)));
        }}>
          <button value="no">Keep it</button>
          <button class="primary" value="yes">Delete</button>
        </form>
      </dialog>
    </>
  );
}

function InOrder({ path }: { path: string }) {
  const asked = usePolled<{ recordings: readonly Recording[] }>(apiUrl(`${path}/recordings`), 3, ({ recordings }) => recordings.length === 0);
  const found = asked.answer?.recordings ?? [];
  return (
    <section class="panel" aria-labelledby="order-title">
      <h2 id="order-title">In the order of time</h2>
      {asked.answer && found.length === 0 && <p>Nothing was kept: the pods below say why, or their sidecars are older.</p>}
      <ul class="recordings">
        {found.map((one) => {
          const profile = apiUrl(`${path}/${encodeURIComponent(one.name)}.speedscope.json`);
          const title = encodeURIComponent(`${one.labels.pod ?? one.labels.service}, process ${one.pid}`);
          return (
            <li key={one.name} class="row">
              <a class="button" target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=time-ordered`}>Open time order in speedscope ↗</a>
              <span><bdi>{one.labels.pod ?? ""}</bdi> process {one.pid}: {plural(one.samples, "sample")} in {seconds(one.seconds)}{one.dropped > 0 && ` · the first ${count(one.dropped)} samples were too many to keep`}</span>
            </li>
          );
        })}
      </ul>
      {found.length > 0 && <Offsets path={path} />}
    </section>
  );
}

function Parts({ parts, over }: { parts: readonly CapturePart[]; over: boolean }) {
  const top = topOf(parts);
  const most = Math.max(...top.map(([, samples]) => samples), 1);
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
          <h2 id="top-title">{over ? "Most samples of their own" : "Most samples of their own so far"}</h2>
          <ol class="live">
            {top.map(([name, samples]) => <li key={name}><Bar part={samples / most}>{count(samples)}</Bar> <bdi>{name.slice(0, 300)}</bdi></li>)}
          </ol>
        </section>
      )}
    </>
  );
}
