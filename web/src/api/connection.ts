import { signal } from "../lib/signals.ts";
import { backoffSeconds } from "./retryPolicy.ts";
import { findBuildMismatch } from "./buildVersion.ts";

/** A time without an answer from the collector. It concerns the whole page: all requests wait together. */
export interface Outage {
  readonly since: number;
  /** When all waiting requests are retried, in epoch milliseconds. */
  readonly retryAt: number;
  readonly offline: boolean;
}

export const outage = signal<Outage | null>(null);

/** Increases when waiting requests are to be retried. */
export const retryRound = signal(0);

let attempts = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Notes that a request got no answer, and schedules the next round of retries. */
export function reportUnreachable(): void {
  const offline = !navigator.onLine;
  if (timer === undefined) {
    const delay = backoffSeconds(attempts++, null, Math.random()) * 1000;
    outage.value = { since: outage.value?.since ?? Date.now(), retryAt: Date.now() + delay, offline };
    timer = setTimeout(retryNow, delay);
  }
}

/** Notes that the collector answered, with success or not. */
export function reportReachable(): void {
  if (outage.value === null) return;
  outage.value = null;
  attempts = 0;
  retryNow();
}

export function retryNow(): void {
  clearTimeout(timer);
  timer = undefined;
  retryRound.value++;
}

window.addEventListener("online", () => { if (outage.value) retryNow(); });
document.addEventListener("visibilitychange", () => { if (outage.value && !document.hidden) retryNow(); });

const ownBuild = document.querySelector<HTMLMetaElement>('meta[name="sidelight-build"]')?.content ?? "";

/** The builds of this page and of the collector, where they differ. */
export const buildMismatch = signal<{ loaded: string; served: string } | null>(null);

let ignoredBuild = "";

/** An answer says which build it comes from; while two are being exchanged they alternate, so one other is enough. */
export function noteBuild(build: string | null): void {
  const mismatch = findBuildMismatch(ownBuild, build ?? "");
  if (mismatch && mismatch.served !== ignoredBuild) buildMismatch.value ??= mismatch;
}

/** Hides the mismatch with this build. */
export function ignoreBuild(): void {
  ignoredBuild = buildMismatch.value?.served ?? "";
  buildMismatch.value = null;
}
