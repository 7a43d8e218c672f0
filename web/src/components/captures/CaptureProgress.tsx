import { useEffect, useState } from "preact/hooks";
import { apiUrl, type Failure } from "../../api/request.ts";
import { isFinal, sendRequest, usePolling, type CaptureAnswer } from "../../api/captures.ts";
import { followedCaptures } from "../../viewmodels/browserStorage.ts";
import { place } from "../../lib/location.ts";
import { appearanceOf, onPage, START } from "../../lib/url.ts";
import { captureProfile, compareWithHourBefore, hasProfile } from "../../viewmodels/captureRequest.ts";
import { Link } from "../ui/Controls.tsx";
import * as strings from "../../strings/captureStrings.tsx";

/** The captures that were started here, on every page until they are closed. */
export function CaptureProgress() {
  return <section class="capture-progress" aria-label={strings.capturesInProgress}>{followedCaptures.list.value.map((id) => <CaptureToast key={id} id={id} />)}</section>;
}

function CaptureToast({ id }: { id: string }) {
  const path = `captures/${encodeURIComponent(id)}`;
  const request = usePolling<CaptureAnswer>(apiUrl(path), 1, ({ state }) => !isFinal(state));
  const [failure, setFailure] = useState<Failure | null>(null);
  const close = () => followedCaptures.store(followedCaptures.list.peek().filter((one) => one !== id));
  const reason = request.failure?.reason;
  useEffect(() => { if (reason === "not_found") close(); }, [reason]);
  const capture = request.answer;
  const here = place.value;
  if (!capture || (here.page === "capture" && here.capture === id)) return null;
  const isOver = isFinal(capture.state);
  const stop = async () => {
    try {
      await sendRequest("POST", apiUrl(`${path}/stop`));
      request.reload();
    } catch (error) {
      setFailure(error as Failure);
    }
  };
  const toPage = { ...START, ...appearanceOf(here), page: "capture" as const, capture: id };
  return (
    <div class="card">
      <div class="row">
        <strong>{strings.captureOf(<bdi>{capture.service.slice(0, 60)}</bdi>)}</strong>
        <span class="gap" />
        <button type="button" class="flat square" aria-label={strings.hideProgress} onClick={close}>×</button>
      </div>
      {capture.state === "sampling" && <progress max={capture.seconds} value={capture.elapsed_seconds} aria-label={strings.sampledSoFar} />}
      <p>
        <span class="unseen" role="status">{capture.state}</span>
        <span aria-hidden="true">{strings.progressLine(capture.state, capture.elapsed_seconds, capture.seconds, capture.samples)}</span>
        {capture.problem !== "" && <> · {capture.problem}</>}
        {failure && <> · {failure.message}</>}
      </p>
      <p class="row">
        {hasProfile(capture) && <Link class="button primary" to={onPage(here, "service", captureProfile(capture))} onClick={close}>{strings.openFlameGraph}</Link>}
        {hasProfile(capture) && <Link class="button" to={onPage(here, "compare", compareWithHourBefore(capture))} onClick={close}>{strings.compareWithHourBefore}</Link>}
        {!isOver && <button type="button" onClick={() => void stop()}>{capture.stopping ? strings.ending : capture.samples > 0 ? strings.stopAndKeep : strings.cancel}</button>}
        <Link to={toPage}>{strings.details}</Link>
      </p>
    </div>
  );
}
