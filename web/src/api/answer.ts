import { useEffect, useState } from "preact/hooks";
import { ask, Failure } from "./ask.ts";

/** A question under way. The last answer stays while the next one loads, so a page does not blink. */
export interface Asked<Answer> {
  readonly answer: Answer | null;
  readonly failure: Failure | null;
  readonly loading: boolean;
  /** Whether the answer is to this question and not still to the one before. */
  readonly current: boolean;
  readonly again: () => void;
}

/** Asks whenever the address changes, and again when told to; null asks nothing. */
export function useAnswer<Answer>(url: string | null): Asked<Answer> {
  const [held, hold] = useState<{ url: string; answer: Answer | null; failure: Failure | null } | null>(null);
  const [turn, next] = useState(0);
  const [loading, setLoading] = useState(true);
  useEffect(() => {
    if (url === null) return undefined;
    const stop = new AbortController();
    setLoading(true);
    ask<Answer>(url, stop.signal).then(
      (answer) => {
        if (!stop.signal.aborted) hold({ url, answer, failure: null });
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure("unexpected", String(error), "");
        hold({ url, answer: null, failure });
      },
    ).finally(() => {
      if (!stop.signal.aborted) setLoading(false);
    });
    return () => stop.abort();
  }, [url, turn]);
  const again = () => next((now) => now + 1);
  if (url === null) return { answer: null, failure: null, loading: false, current: false, again };
  const current = held?.url === url;
  return { answer: held?.answer ?? null, failure: held?.failure ?? null, loading: loading || !current, current, again };
}
