import { useEffect, useRef, useState } from "preact/hooks";
import { MAX_RETRIES, backoffSeconds } from "./retryPolicy.ts";
import { requestJson, Failure } from "./request.ts";
import { reportUnreachable, reportReachable, retryRound } from "./connection.ts";
import * as strings from "../strings/answerStrings.tsx";

/**
 * A request with its latest answer. The answer stays while the next one loads, and while the collector is unreachable or
 * busy, so that a page does not flicker.
 */
export interface AnswerRequest<Answer> {
  readonly answer: Answer | null;
  readonly failure: Failure | null;
  readonly loading: boolean;
  /** Whether the answer belongs to the present URL and not to the previous one. */
  readonly isCurrent: boolean;
  readonly reload: () => void;
  /** When the answer arrived, and when the request was sent, in epoch milliseconds. */
  readonly receivedAt: number;
  readonly requestedAt: number;
  /** Whether an answer has begun to arrive. */
  readonly isReceiving: boolean;
  readonly cancel: () => void;
  /** When the request is retried after the collector asked to wait, in epoch milliseconds; else null. */
  readonly retryAt: number | null;
}

interface RequestResult<Answer> {
  readonly url: string;
  readonly failure: Failure | null;
  readonly answer: Answer | null;
  readonly answeredUrl: string;
  readonly receivedAt: number;
}

/** Requests a URL when it changes and on `reload`; null requests nothing. */
export function useAnswer<Answer>(url: string | null): AnswerRequest<Answer> {
  const [result, setResult] = useState<RequestResult<Answer> | null>(null);
  const [attempt, setAttempt] = useState(0);
  const [progress, setProgress] = useState({ loading: true, isReceiving: false, requestedAt: Date.now() });
  const [retryAt, setRetryAt] = useState<number | null>(null);
  const retries = useRef({ url, count: 0 });
  const controllerRef = useRef<AbortController | null>(null);
  const reload = () => setAttempt((now) => now + 1);

  useEffect(() => {
    if (url === null) return undefined;
    if (retries.current.url !== url) retries.current = { url, count: 0 };
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    controllerRef.current = controller;
    setProgress({ loading: true, isReceiving: false, requestedAt: Date.now() });
    setRetryAt(null);
    const handleFailure = (failure: Failure) => {
      setResult((previous) => ({
        url, failure, receivedAt: previous?.receivedAt ?? 0, answeredUrl: previous?.answeredUrl ?? "",
        answer: failure.kind === "final" ? null : (previous?.answer ?? null),
      }));
      if (failure.kind === "unreachable") return reportUnreachable();
      reportReachable();
      if (failure.kind === "final" || retries.current.count >= MAX_RETRIES) return undefined;
      const delay = backoffSeconds(retries.current.count++, failure.retryAfterSeconds, Math.random()) * 1000;
      setRetryAt(Date.now() + delay);
      timer = setTimeout(reload, delay);
      return undefined;
    };
    // Handled at once: a prefetched request does not end with this signal.
    controller.signal.addEventListener("abort", () => {
      if (!(controller.signal.reason instanceof Failure)) return;
      handleFailure(controller.signal.reason);
      setProgress((now) => ({ ...now, loading: false }));
    });
    requestJson<Answer>(url, controller.signal, () => setProgress((now) => ({ ...now, isReceiving: true }))).then(
      (answer) => {
        if (controller.signal.aborted) return;
        setResult({ url, answer, failure: null, answeredUrl: url, receivedAt: Date.now() });
        retries.current.count = 0;
        reportReachable();
      },
      (error: unknown) => {
        if (!controller.signal.aborted) handleFailure(error instanceof Failure ? error : new Failure("unexpected", String(error), ""));
      },
    ).finally(() => {
      if (controllerRef.current === controller && !controller.signal.aborted) setProgress((now) => ({ ...now, loading: false }));
    });
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [url, attempt]);

  const retryTurn = retryRound.value;
  useEffect(() => {
    if (result?.failure?.kind === "unreachable") reload();
  }, [retryTurn]);

  const cancel = () => controllerRef.current?.abort(
    new Failure("given_up", strings.youStoppedWaiting, strings.howToBeFaster));
  const common = { reload, cancel, receivedAt: result?.receivedAt ?? 0, requestedAt: progress.requestedAt, isReceiving: progress.isReceiving, retryAt };
  if (url === null) return { ...common, answer: null, failure: null, loading: false, isCurrent: false };
  const isSameUrl = result?.url === url;
  return {
    ...common,
    answer: result?.answer ?? null,
    failure: isSameUrl ? (result?.failure ?? null) : null,
    loading: progress.loading || !isSameUrl,
    isCurrent: result?.answeredUrl === url && result.answer !== null,
  };
}
