import { useEffect } from "preact/hooks";
import { useAnswer, type AnswerRequest } from "./useAnswer.ts";
import { Failure, parseFailure } from "./request.ts";

export type CaptureState = "queued" | "scheduled" | "sampling" | "uploading" | "ready" | "stopped" | "failed" | "done";

export interface CapturePart {
  readonly agent: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly state: CaptureState;
  readonly problem: string;
  readonly hint: string;
  /** The ephemeral container that was attached for it; absent from older collectors. */
  readonly ephemeral_container?: string;
  readonly elapsed_seconds?: number;
  readonly samples?: number;
  readonly recordings?: number;
  readonly errors?: Readonly<Record<string, number>>;
  readonly top_functions?: readonly { readonly function: string; readonly self_samples: number }[];
}

export interface CaptureAnswer {
  readonly id: string;
  readonly service: string;
  readonly query: string;
  readonly pods_requested: number | "all" | readonly string[];
  readonly seconds: number;
  readonly rate: number;
  readonly mode: string;
  readonly timeline: boolean;
  readonly created: string;
  readonly requested_by: string;
  readonly expires: string;
  readonly ended: string | null;
  readonly state: CaptureState;
  readonly stopping: boolean;
  readonly problem: string;
  readonly hint: string;
  readonly pods: number;
  readonly elapsed_seconds: number;
  readonly samples: number;
  readonly from: number;
  readonly until: number;
  readonly parts?: readonly CapturePart[];
}

export interface Agent {
  readonly agent: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly sampler: string;
  readonly ready: boolean;
  readonly problem: string;
  readonly hint: string;
  readonly paused: boolean;
  readonly active_capture: string;
  readonly last_seen: string;
}

export interface AgentsAnswer {
  readonly agents: readonly Agent[];
  readonly total: number;
  /** Of all services: how many sidecars, how many could take a capture now, and what keeps one of the others from it. */
  readonly services: readonly { readonly service: string; readonly sidecars: number; readonly available: number; readonly problem: string }[];
}

export interface Recording {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly pid: number;
  readonly seconds: number;
  readonly samples: number;
  readonly dropped: number;
}

export const isFinal = (state: CaptureState): boolean => state === "ready" || state === "stopped" || state === "failed";

/** Asks for something to change; the answer, or null where there is none. Throws Failure. */
export async function sendRequest<Answer>(method: "POST" | "DELETE", url: string, body?: unknown): Promise<Answer | null> {
  let response: Response;
  try {
    response = await fetch(url, { method, headers: { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Failure("unreachable", "The collector does not answer.", "Nothing was changed, or it cannot be told: look again when it does.");
  }
  if (!response.ok) throw await parseFailure(response, "Only those with a token may start and end captures here.");
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
