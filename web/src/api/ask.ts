import { PREFIX } from "../location.ts";
import { taken } from "./begun.ts";

/** A question the collector did not answer: what happened, and what to do about it. */
export class Failure extends Error {
  constructor(readonly reason: string, message: string, readonly hint: string) {
    super(message);
  }
}

export type Parameters = Readonly<Record<string, string>>;

/** The address of an API question; empty parameters are left out. */
export function apiUrl(path: string, parameters: Parameters = {}): string {
  const given = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const text = given.toString();
  return `${PREFIX}api/v1/${path}${text === "" ? "" : `?${text}`}`;
}

export async function ask<Answer>(url: string, signal: AbortSignal): Promise<Answer> {
  let response: Response;
  try {
    response = await (taken(url) ?? fetch(url, { signal, headers: { Accept: "application/json" } }));
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Failure("unreachable", "The collector does not answer.", "Check that it runs and that this page was opened from it.");
  }
  if (response.ok) return (await response.json()) as Answer;
  throw await failureOf(response);
}

async function failureOf(response: Response): Promise<Failure> {
  if (response.status === 401) {
    return new Failure("unauthorized", "This collector shows profiles only to readers with a token.",
      "A browser sends no token by itself: open these pages through the proxy that signs you in. The page on operations says how to set one up.");
  }
  const text = await response.text();
  const wait = response.headers.get("Retry-After");
  const retry = wait === null ? "" : ` Try again in ${wait} s.`;
  try {
    const said = JSON.parse(text) as { error?: string; message?: string; hint?: string };
    return new Failure(said.error ?? String(response.status), said.message ?? text, (said.hint ?? "") + retry);
  } catch {
    return new Failure(String(response.status), `The collector answered ${response.status} ${response.statusText}.`, retry.trim());
  }
}
