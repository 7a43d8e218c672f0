import { useEffect, useRef, useState } from "preact/hooks";
import { MOST_TRIES, pause } from "./retryPolicy.ts";
import { ask, Failure } from "./request.ts";
import { lost, reached, round } from "./connection.ts";

/**
 * A question under way. The last answer stays while the next one loads, and while the collector is away or busy, so
 * that a page does not blink.
 */
export interface Asked<Answer> {
  readonly answer: Answer | null;
  readonly failure: Failure | null;
  readonly loading: boolean;
  /** Whether the answer is to this question and not still to the one before. */
  readonly current: boolean;
  readonly again: () => void;
  /** When the answer came, and when the question was asked, in milliseconds. */
  readonly came: number;
  readonly since: number;
  /** Whether an answer has begun to arrive. */
  readonly coming: boolean;
  readonly giveUp: () => void;
  /** When it is asked again by itself, in milliseconds, after the collector put it off; else null. */
  readonly next: number | null;
}

interface Held<Answer> {
  readonly url: string;
  readonly failure: Failure | null;
  readonly answer: Answer | null;
  readonly answered: string;
  readonly came: number;
}

/** Asks whenever the address changes, and again when told to; null asks nothing. */
export function useAnswer<Answer>(url: string | null): Asked<Answer> {
  const [held, hold] = useState<Held<Answer> | null>(null);
  const [turn, step] = useState(0);
  const [under, way] = useState({ loading: true, coming: false, since: Date.now() });
  const [next, putOff] = useState<number | null>(null);
  const tries = useRef({ url, count: 0 });
  const stopping = useRef<AbortController | null>(null);
  const again = () => step((now) => now + 1);

  useEffect(() => {
    if (url === null) return undefined;
    if (tries.current.url !== url) tries.current = { url, count: 0 };
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    stopping.current = stop;
    way({ loading: true, coming: false, since: Date.now() });
    putOff(null);
    const failed = (failure: Failure) => {
      hold((before) => ({
        url, failure, came: before?.came ?? 0, answered: before?.answered ?? "",
        answer: failure.kind === "final" ? null : (before?.answer ?? null),
      }));
      if (failure.kind === "away") return lost();
      reached();
      if (failure.kind === "final" || tries.current.count >= MOST_TRIES) return undefined;
      const wait = pause(tries.current.count++, failure.wait, Math.random()) * 1000;
      putOff(Date.now() + wait);
      timer = setTimeout(again, wait);
      return undefined;
    };
    // Said at once: what was asked ahead of the page does not end with this signal.
    stop.signal.addEventListener("abort", () => {
      if (!(stop.signal.reason instanceof Failure)) return;
      failed(stop.signal.reason);
      way((now) => ({ ...now, loading: false }));
    });
    ask<Answer>(url, stop.signal, () => way((now) => ({ ...now, coming: true }))).then(
      (answer) => {
        if (stop.signal.aborted) return;
        hold({ url, answer, failure: null, answered: url, came: Date.now() });
        tries.current.count = 0;
        reached();
      },
      (error: unknown) => {
        if (!stop.signal.aborted) failed(error instanceof Failure ? error : new Failure("unexpected", String(error), ""));
      },
    ).finally(() => {
      if (stopping.current === stop && !stop.signal.aborted) way((now) => ({ ...now, loading: false }));
    });
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [url, turn]);

  const wakes = round.value;
  useEffect(() => {
    if (held?.failure?.kind === "away") again();
  }, [wakes]);

  const giveUp = () => stopping.current?.abort(
    new Failure("given_up", "You stopped waiting.", "A shorter range or a narrower filter is answered sooner; Back returns to what was shown before."));
  const idle = { again, giveUp, came: held?.came ?? 0, since: under.since, coming: under.coming, next };
  if (url === null) return { ...idle, answer: null, failure: null, loading: false, current: false };
  const asked = held?.url === url;
  return {
    ...idle,
    answer: held?.answer ?? null,
    failure: asked ? (held?.failure ?? null) : null,
    loading: under.loading || !asked,
    current: held?.answered === url && held.answer !== null,
  };
}
