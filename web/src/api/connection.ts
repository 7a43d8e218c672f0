import { signal } from "../lib/signals.ts";
import { pause } from "./retryPolicy.ts";
import { otherBuild } from "./buildVersion.ts";

/** Whether somebody answers, for the whole page: where one question finds nobody, the others wait with it. */
export interface Away {
  readonly since: number;
  /** When everything that waits is asked again, in milliseconds. */
  readonly next: number;
  readonly offline: boolean;
}

export const away = signal<Away | null>(null);

/** Grows when those who found nobody should ask again. */
export const round = signal(0);

let tries = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** A question found nobody. */
export function lost(): void {
  const offline = !navigator.onLine;
  if (timer === undefined) {
    const wait = pause(tries++, null, Math.random()) * 1000;
    away.value = { since: away.value?.since ?? Date.now(), next: Date.now() + wait, offline };
    timer = setTimeout(askNow, wait);
  }
}

/** Somebody answered, whatever it was. */
export function reached(): void {
  if (away.value === null) return;
  away.value = null;
  tries = 0;
  askNow();
}

export function askNow(): void {
  clearTimeout(timer);
  timer = undefined;
  round.value++;
}

window.addEventListener("online", () => { if (away.value) askNow(); });
document.addEventListener("visibilitychange", () => { if (away.value && !document.hidden) askNow(); });

const own = document.querySelector<HTMLMetaElement>('meta[name="sidelight-build"]')?.content ?? "";

/** The collector's build where it is not the one that served this page. */
export const outdated = signal<{ own: string; heard: string } | null>(null);

let ignored = "";

/** An answer says which build it comes from; while two are being exchanged they alternate, so one other is enough. */
export function heard(build: string | null): void {
  const other = otherBuild(own, build ?? "");
  if (other && other.heard !== ignored) outdated.value ??= other;
}

/** Says no more of this build. */
export function goOn(): void {
  ignored = outdated.value?.heard ?? "";
  outdated.value = null;
}
