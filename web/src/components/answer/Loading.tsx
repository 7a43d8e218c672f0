import { useEffect, useState } from "preact/hooks";
import type { Asked } from "../../api/useAnswer.ts";
import type { Failure } from "../../api/request.ts";
import { askNow, away, goOn, outdated } from "../../api/connection.ts";
import { clock } from "../../lib/times.ts";
import { Said } from "./ErrorCard.tsx";

const MOMENT_SECONDS = 1;
const LONG_SECONDS = 8;

/** The time in milliseconds, again every `every` of them while `running`. */
function useClock(every: number, running: boolean): number {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    if (!running) return undefined;
    tick(Date.now());
    const timer = setInterval(() => tick(Date.now()), every);
    return () => clearInterval(timer);
  }, [every, running]);
  return now;
}

/** A question under way; after a moment what is going on, and the way to give it up. */
export function Underway<Answer>({ asked, what }: { asked: Asked<Answer>; what: string }) {
  const now = useClock(250, true);
  const passed = Math.max(now - asked.since, 0) / 1000;
  const long = passed >= MOMENT_SECONDS;
  if (asked.answer !== null && !long) return null;
  return (
    <div class="card waiting row">
      <span class="spinner" aria-hidden="true" />
      <span role="status">Loading {what}…{long && (asked.coming ? " The answer is arriving." : " The collector reads what is stored and adds it up.")}
        {passed >= LONG_SECONDS && " A range is slow the first time; what was read is kept for the next."}</span>
      {long && <span class="quiet" aria-hidden="true">{Math.round(passed)} s</span>}
      {long && <button type="button" onClick={asked.giveUp}>Stop waiting</button>}
    </div>
  );
}

/** A question that is asked again by itself: the collector is busy (and says when), or away (and the bar on top says so). */
export function PutOff<Answer>({ asked, failure, what }: { asked: Asked<Answer>; failure: Failure; what: string }) {
  const { answer, next, came } = asked;
  // Of an answer to this very question the band on top says enough.
  if (failure.kind === "away" && asked.current) return null;
  const old = answer !== null && (asked.current ? `What is shown came at ${clock(came / 1000)}.` : "What is shown still answers the question before.");
  if (failure.kind === "away") return <p class="card waiting" role="status">{old || `Waiting for the collector, to load ${what}.`}</p>;
  return (
    <Said message={failure.message} hint={failure.hint}>
      {old && <p>{old}</p>}
      <p class="row">
        {next !== null && <span class="quiet">Asked again by itself <Countdown to={next} />.</span>}
        <button type="button" class={next === null ? "primary" : ""} onClick={asked.again}>{next === null ? "Try again" : "Ask now"}</button>
        <span class="quiet">reason: <code>{failure.reason}</code></span>
      </p>
    </Said>
  );
}

/** Seconds that are left. They are seen and not read aloud: a number that changes each second would drown the page. */
function Countdown({ to }: { to: number }) {
  const left = Math.ceil((to - useClock(250, true)) / 1000);
  return <span class="countdown" aria-hidden="true">{left > 0 ? `in ${left} s` : "now"}</span>;
}

/** What concerns the whole page: nobody answers, or the collector is no longer the one that this page is from. */
export function Connection() {
  const gone = away.value;
  const other = outdated.value;
  return (
    <>
      {gone && (
        <div class="band">
          <span role="alert">
            {gone.offline ? "This browser is offline." : "The collector does not answer."} {gone.offline ? "" : "It may be restarting: check that it runs and that this page was opened from it. "}
            What you see is old, from before {clock(gone.since / 1000)}. The page goes on by itself.
          </span>
          <span class="quiet">Next try <Countdown to={gone.next} /></span>
          <button type="button" onClick={askNow}>Try again</button>
        </div>
      )}
      {other && (
        <div class="band" role="status">
          <span>The collector has changed: this page is of build <code>{other.own.slice(0, 40)}</code>, its answers are of <code>{other.heard.slice(0, 40)}</code>. What you see may be misread until you load it again.</span>
          <button type="button" class="primary" onClick={() => window.location.reload()}>Load again</button>
          <button type="button" onClick={goOn}>Not now</button>
        </div>
      )}
    </>
  );
}
