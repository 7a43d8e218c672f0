import { computed, signal } from "./signals.ts";
import { formatPlace, parsePlace, type Place } from "./url.ts";

/** The path prefix the collector serves this page under, ending in a slash. */
export const PREFIX = document.querySelector<HTMLMetaElement>('meta[name="sidelight-prefix"]')?.content ?? "/";

const address = signal(window.location.pathname + window.location.search);

/** Where the browser is. Pages read this and nothing else. */
export const place = computed<string, Place>(() => address.value, (text) => {
  const at = new URL(text, window.location.origin);
  return parsePlace(at.pathname.slice(PREFIX.length - 1), at.search);
});

export const href = (to: Place): string => PREFIX.slice(0, -1) + formatPlace(to);

/** Goes to another place; the browser's Back button returns unless `replace` is given. */
export function visit(to: Place, how: "push" | "replace" = "push"): void {
  const url = href(to);
  if (url === address.value) return;
  if (how === "push") window.history.pushState(null, "", url);
  else window.history.replaceState(null, "", url);
  address.value = url;
}

/** Changes parts of the present place. Choices push history; typing replaces. */
export const change = (changes: Partial<Place>, how: "push" | "replace" = "push"): void =>
  visit({ ...place.peek(), ...changes }, how);

export function followHistory(): void {
  window.addEventListener("popstate", () => {
    address.value = window.location.pathname + window.location.search;
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target !== "" || link.hasAttribute("download") || link.origin !== window.location.origin) return;
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (!link.dataset.inside) return;
    event.preventDefault();
    const pageChanges = link.pathname !== window.location.pathname;
    window.history.pushState(null, "", link.href);
    address.value = link.pathname + link.search;
    if (pageChanges) window.scrollTo(0, 0);
  });
}
