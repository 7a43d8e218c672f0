import { useEffect } from "preact/hooks";
import { useAnswer, type AnswerRequest } from "./useAnswer.ts";
import { Failure, parseFailure } from "./request.ts";
import type { components } from "./schema.ts";
import * as strings from "../strings/answerStrings.tsx";

type Schemas = components["schemas"];

export type CaptureAnswer = Schemas["Capture"];
export type CapturePart = Schemas["CapturePart"];
export type CapturesAnswer = Schemas["Captures"];

export type Agent = Schemas["Agent"];
export type AgentsAnswer = Schemas["Agents"];

export type RecordingsAnswer = Schemas["Recordings"];
export type RecordingFlameAnswer = Schemas["RecordingFlame"];
export type SubsecondHeatmapAnswer = Schemas["SubsecondHeatmap"];

export const isFinal = (state: CaptureAnswer["state"]): boolean => state === "ready" || state === "stopped" || state === "failed";

/** Asks for something to change; the answer, or null where there is none. `unauthorizedMessage` is said where a token is missing. Throws Failure. */
export async function sendRequest<Answer>(method: "POST" | "PATCH" | "DELETE", url: string, body?: unknown, unauthorizedMessage: string = strings.capturesNeedToken): Promise<Answer | null> {
  let response: Response;
  try {
    response = await fetch(url, { method, headers: { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Failure("unreachable", strings.collectorDoesNotAnswer, strings.checkWhetherItHappened);
  }
  if (!response.ok) throw await parseFailure(response, unauthorizedMessage);
  return response.status === 204 ? null : ((await response.json()) as Answer);
}

/** Requests an answer every `seconds` while `shouldContinue` is true of the last one; `loading` is true only before the first. */
export function usePolling<Answer>(url: string, seconds: number, shouldContinue: (answer: Answer) => boolean = () => true): AnswerRequest<Answer> {
  const request = useAnswer<Answer>(url);
  const { answer, failure, loading, receivedAt } = request;
  useEffect(() => {
    // Requests to an unreachable or busy collector are retried by useAnswer.
    if (loading || (failure ? failure.kind !== "final" || failure.reason === "not_found" : answer !== null && !shouldContinue(answer))) return undefined;
    const poll = () => (document.hidden ? (timer = setTimeout(poll, 1000)) : request.reload());
    let timer = setTimeout(poll, seconds * 1000);
    return () => clearTimeout(timer);
  }, [receivedAt, loading, failure]);
  return { ...request, loading: loading && answer === null };
}
