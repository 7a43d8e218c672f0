import { prefetch } from "../api/prefetchCache.ts";
import { apiUrl } from "../api/request.ts";
import { place, PREFIX } from "../lib/location.ts";
import { parsePlace } from "../lib/url.ts";
import { compareQuery } from "../lib/queryParameters.ts";

/** A link under a resting pointer, or with the keyboard's focus, for this long is about to be pressed. */
const REST_MS = 80;

/** Requests a comparison before its page opens: when its link is pressed, or the pointer or the focus rests on it where an answer is certain. */
export function prefetchComparisons(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let resting: HTMLAnchorElement | null = null;
  const onPress = (event: MouseEvent) => {
    const link = insideLink(event.target);
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    prefetchComparison(link);
  };
  const onRest = (link: HTMLAnchorElement | null) => {
    if (link === resting) return;
    clearTimeout(timer);
    resting = link;
    if (link?.dataset.inside === "early") timer = setTimeout(() => prefetchComparison(link), REST_MS);
  };
  document.addEventListener("pointerdown", onPress);
  document.addEventListener("click", onPress, true);
  document.addEventListener("pointerover", (event) => onRest(event.pointerType === "mouse" ? insideLink(event.target) : null));
  document.addEventListener("focusin", ({ target }) => onRest(target instanceof Element && target.matches(":focus-visible") ? insideLink(target) : null));
}

const insideLink = (target: EventTarget | null) => (target instanceof Element ? target.closest<HTMLAnchorElement>("a[data-inside]") : null);

function prefetchComparison(link: HTMLAnchorElement): void {
  const to = parsePlace(link.pathname.slice(PREFIX.length - 1), link.search);
  // On that page most links are other looks at the same answer.
  if (place.peek().page !== "compare" && to.page === "compare") prefetch(apiUrl(...compareQuery(to)));
}
