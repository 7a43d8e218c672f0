import { computed, signal } from "../lib/signals.ts";
import { formatPlace, parsePlace, type Page, type Place } from "../lib/url.ts";
import type { ProfileType } from "../lib/viewOptions.ts";

/**
 * The place of a page that lies on a disk: as in ../lib/location.ts, whose name this module takes in the build of
 * that page, but behind the `#` of its address, because a file has no other addresses.
 */
export const PREFIX = "";

const fragment = signal(window.location.hash);
let fixed: { page: Page; type: ProfileType } = { page: "service", type: "cpu" };

export const place = computed<string, Place>(() => fragment.value, (text) => ({ ...parsePlace("/", `?${text.slice(1)}`), ...fixed }));

/** Sets the content of the file, a profile or a comparison of one type. Call it before rendering. */
export const setContent = (page: Page, type: ProfileType): void => void (fixed = { page, type });

export const href = (to: Place): string => `#${formatPlace({ ...to, type: "cpu" }).split("?")[1] ?? ""}`;

export function visit(to: Place, how: "push" | "replace" = "push"): void {
  const next = href(to);
  if (next === fragment.value) return;
  fragment.value = next;
  try {
    if (how === "push") window.history.pushState(null, "", next);
    else window.history.replaceState(null, "", next);
  } catch {
    // Some viewers give a file no history: the view changes all the same.
  }
}

export const change = (changes: Partial<Place>, how: "push" | "replace" = "push"): void =>
  visit({ ...place.peek(), ...changes }, how);

export function followHistory(): void {
  const follow = () => void (fragment.value = window.location.hash);
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);
}

({ PREFIX, place, href, visit, change, followHistory }) satisfies typeof import("../lib/location.ts");
