import { PREFIX } from "../lib/location.ts";
import { classifyFailure, parseRetryAfter, type FailureKind } from "./retryPolicy.ts";
import { takePrefetched } from "./prefetchCache.ts";
import { noteBuild } from "./connection.ts";
import type { components } from "./schema.ts";
import * as strings from "../strings/answerStrings.tsx";

/** A request that failed: what happened, what to do about it, and in how many seconds to retry. */
export class Failure extends Error {
  readonly kind: FailureKind;

  constructor(readonly reason: string, message: string, readonly hint: string, readonly retryAfterSeconds: number | null = null) {
    super(message);
    this.kind = classifyFailure(reason);
  }
}

export type Parameters = Readonly<Record<string, string>>;

/** The URL of an API request; empty parameters are left out. */
export function apiUrl(path: string, parameters: Parameters = {}): string {
  const search = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const query = search.toString();
  return `${PREFIX}api/v1/${path}${query === "" ? "" : `?${query}`}`;
}

/** The URL of an API that may be switched off; null where the page says that it is. */
export const optionalApiUrl = (part: string, parameters: Parameters): string | null =>
  (document.querySelector<HTMLMetaElement>('meta[name="sidelight-off"]')?.content.split(" ").includes(part) ? null : apiUrl(part, parameters));

/** Requests JSON and calls `onResponse` when the answer begins to arrive. Throws Failure, or the reason of `signal`. */
export async function requestJson<Answer>(url: string, signal: AbortSignal, onResponse: () => void = () => {}): Promise<Answer> {
  let response: Response;
  try {
    response = await (takePrefetched(url) ?? fetch(url, { signal, headers: { Accept: "application/json" } }));
  } catch (error) {
    if (signal.aborted) throw error;
    throw unreachable();
  }
  noteBuild(response.headers.get("Sidelight-Build"));
  if (!response.ok) throw await parseFailure(response);
  onResponse();
  try {
    return (await response.json()) as Answer;
  } catch (error) {
    if (signal.aborted) throw error;
    if (error instanceof SyntaxError) {
      throw new Failure("not_json", strings.somethingElseAnsweredIn,
        strings.perhapsSignInPage);
    }
    throw unreachable();
  }
}

const unreachable = () => (navigator.onLine
  ? new Failure("unreachable", strings.collectorDoesNotAnswer, strings.checkThatItRuns)
  : new Failure("offline", strings.browserOffline, strings.pageReconnectsAutomatically));

/** The failure in an error response; `unauthorizedMessage` is its message where a token is missing. */
export async function parseFailure(response: Response, unauthorizedMessage = strings.profilesNeedToken): Promise<Failure> {
  if (response.status === 401) {
    return new Failure("unauthorized", unauthorizedMessage,
      strings.howToSendToken);
  }
  const wait = parseRetryAfter(response.headers.get("Retry-After"), Date.now() / 1000);
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text) as Partial<components["schemas"]["Error"]>;
    return new Failure(body.error ?? String(response.status), body.message ?? text, body.hint ?? "", wait);
  } catch {
    return new Failure(String(response.status), strings.answeredWithStatus(response.status, response.statusText), "", wait);
  }
}
