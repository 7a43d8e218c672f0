import { PREFIX } from "../lib/location.ts";
import { kindOf, retryAfter, type Kind } from "./retryPolicy.ts";
import { taken } from "./prefetchCache.ts";
import { heard } from "./connection.ts";

/** A question the collector did not answer: what happened, what to do about it, and in how many seconds to come again. */
export class Failure extends Error {
  readonly kind: Kind;

  constructor(readonly reason: string, message: string, readonly hint: string, readonly wait: number | null = null) {
    super(message);
    this.kind = kindOf(reason);
  }
}

export type Parameters = Readonly<Record<string, string>>;

/** The address of an API question; empty parameters are left out. */
export function apiUrl(path: string, parameters: Parameters = {}): string {
  const given = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const text = given.toString();
  return `${PREFIX}api/v1/${path}${text === "" ? "" : `?${text}`}`;
}

/** The address of a question to a part of the collector that may be switched off: null where it is, as this page was told. */
export const partUrl = (part: string, parameters: Parameters): string | null =>
  (document.querySelector<HTMLMetaElement>('meta[name="sidelight-off"]')?.content.split(" ").includes(part) ? null : apiUrl(part, parameters));

/** Asks; `coming` is told when the answer begins to arrive. Raises Failure, or what `signal` was aborted with. */
export async function ask<Answer>(url: string, signal: AbortSignal, coming: () => void = () => {}): Promise<Answer> {
  let response: Response;
  try {
    response = await (taken(url) ?? fetch(url, { signal, headers: { Accept: "application/json" } }));
  } catch (error) {
    if (signal.aborted) throw error;
    throw unreachable();
  }
  heard(response.headers.get("Sidelight-Build"));
  if (!response.ok) throw await failureOf(response);
  coming();
  try {
    return (await response.json()) as Answer;
  } catch (error) {
    if (signal.aborted) throw error;
    if (error instanceof SyntaxError) {
      throw new Failure("not_json", "Something else answered in the collector's place.",
        "Perhaps a page to sign in: load this page again.");
    }
    throw unreachable();
  }
}

const unreachable = () => (navigator.onLine
  ? new Failure("unreachable", "The collector does not answer.", "Check that it runs and that this page was opened from it.")
  : new Failure("offline", "This browser is offline.", "The page goes on by itself when the network is back."));

/** What the collector said of what it refused; without a token, `refused` says who is let in. */
export async function failureOf(response: Response, refused = "This collector shows profiles only to readers with a token."): Promise<Failure> {
  if (response.status === 401) {
    return new Failure("unauthorized", refused,
      "A browser sends none by itself: use sidelight's commands with --token-file, or a proxy that adds one or signs you in. The page on operations says how to set one up.");
  }
  const wait = retryAfter(response.headers.get("Retry-After"), Date.now() / 1000);
  const text = await response.text().catch(() => "");
  try {
    const said = JSON.parse(text) as { error?: string; message?: string; hint?: string };
    return new Failure(said.error ?? String(response.status), said.message ?? text, said.hint ?? "", wait);
  } catch {
    return new Failure(String(response.status), `The collector answered ${response.status} ${response.statusText}.`, "", wait);
  }
}
