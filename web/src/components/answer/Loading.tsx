import { useEffect, useState } from "preact/hooks";
import type { AnswerRequest } from "../../api/useAnswer.ts";
import type { Failure } from "../../api/request.ts";
import { retryNow, outage, ignoreBuild, buildMismatch } from "../../api/connection.ts";
import { formatClock } from "../../lib/times.ts";
import { ErrorCard } from "./ErrorCard.tsx";
import * as strings from "../../strings/answerStrings.tsx";

const SHOW_DETAILS_SECONDS = 1;
const SHOW_HINT_SECONDS = 8;

/** The time in milliseconds, again every `every` of them while `running`. */
function useClock(every: number, running: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every, running]);
  return now;
}

/** The state of a request; after a moment with details and a way to cancel it. */
export function Loading<Answer>({ request, what }: { request: AnswerRequest<Answer>; what: string }) {
  const now = useClock(250, true);
  const elapsed = Math.max(now - request.requestedAt, 0) / 1000;
  const showDetails = elapsed >= SHOW_DETAILS_SECONDS;
  if (request.answer !== null && !showDetails) return null;
  return (
    <div class="card waiting row">
      <span class="spinner" aria-hidden="true" />
      <span role="status">{strings.loading(what, [...(showDetails ? [request.isReceiving ? strings.receiving : strings.merging] : []), ...(elapsed >= SHOW_HINT_SECONDS ? [strings.slowFirstQuery] : [])])}</span>
      {showDetails && <span class="quiet" aria-hidden="true">{Math.round(elapsed)} s</span>}
      {showDetails && <button type="button" onClick={request.cancel}>{strings.stopWaiting}</button>}
    </div>
  );
}

/** A request that is retried: the collector is busy, or unreachable (which the banner shows). */
export function RetryLater<Answer>({ request, failure, what }: { request: AnswerRequest<Answer>; failure: Failure; what: string }) {
  const { answer, retryAt, receivedAt } = request;
  // For a current answer the banner is enough.
  if (failure.kind === "unreachable" && request.isCurrent) return null;
  const staleText = answer !== null && (request.isCurrent ? strings.showingDataFrom(formatClock(receivedAt / 1000)) : strings.showingPreviousResult);
  if (failure.kind === "unreachable") return <p class="card waiting" role="status">{staleText || strings.waitingForCollector(what)}</p>;
  return (
    <ErrorCard message={failure.message} hint={failure.hint}>
      {staleText && <p>{staleText}</p>}
      <p class="row">
        {retryAt !== null && <span class="quiet">{strings.retrying(<Countdown to={retryAt} />)}</span>}
        <button type="button" class={retryAt === null ? "primary" : ""} onClick={request.reload}>{retryAt === null ? strings.tryAgain : strings.retryNow}</button>
        <span class="quiet">{strings.reason(<code>{failure.reason}</code>)}</span>
      </p>
    </ErrorCard>
  );
}

/** Seconds that are left. They are seen and not read aloud: a number that changes each second would drown the page. */
function Countdown({ to }: { to: number }) {
  const remaining = Math.ceil((to - useClock(250, true)) / 1000);
  return <span class="countdown" aria-hidden="true">{remaining > 0 ? strings.inSeconds(remaining) : strings.now}</span>;
}

/** Banners of the whole page: the collector does not answer, or runs another build than this page. */
export function ConnectionBanner() {
  const current = outage.value;
  const mismatch = buildMismatch.value;
  return (
    <>
      {current && (
        <section class="band" aria-label={strings.connection}>
          <span role="alert">
            {strings.outage(current.offline ? strings.browserOffline : `${strings.collectorDoesNotAnswer} ${strings.itMayBeRestarting}`, formatClock(current.since / 1000))}
          </span>
          <span class="quiet">{strings.nextTry(<Countdown to={current.retryAt} />)}</span>
          <button type="button" onClick={retryNow}>{strings.tryAgain}</button>
        </section>
      )}
      {mismatch && (
        <div class="band" role="status">
          <span>{strings.collectorWasUpdated(<code>{mismatch.loaded.slice(0, 40)}</code>, <code>{mismatch.served.slice(0, 40)}</code>)}</span>
          <button type="button" class="primary" onClick={() => window.location.reload()}>{strings.reload}</button>
          <button type="button" onClick={ignoreBuild}>{strings.notNow}</button>
        </div>
      )}
    </>
  );
}
