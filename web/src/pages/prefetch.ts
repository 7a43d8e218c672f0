import { prefetch } from "../api/prefetchCache.ts";
import { apiUrl } from "../api/request.ts";
import { place, PREFIX } from "../lib/location.ts";
import { parsePlace } from "../lib/url.ts";
import { compareQuery } from "../lib/queryParameters.ts";

/** A pointer that rests on a link this long is about to press it. */
const REST_MS = 80;

/** Requests a comparison before its page opens: as soon as its link is pressed, or the pointer rests on it where an answer is certain. */
export function prefetchComparisons(): void {
  let resting: ReturnType<typeof setTimeout> | undefined;
  let under: HTMLAnchorElement | null = null;
  const onPress = (event: MouseEvent) => {
    const link = insideLink(event.target);
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    prefetchComparison(link);
  };
  document.addEventListener("pointerdown", onPress);
  document.addEventListener("click", onPress, true);
  document.addEventListener("pointerover", (event) => {
    const link = event.pointerType === "mouse" ? insideLink(event.target) : null;
    if (link === under) return;
    clearTimeout(resting);
    under = link;
    if (link?.dataset.inside === "early") resting = setTimeout(() => prefetchComparison(link), REST_MS);
  });
}

const insideLink = (target: EventTarget | null) => (target instanceof Element ? target.closest<HTMLAnchorElement>("a[data-inside]") : null);

function prefetchComparison(link: HTMLAnchorElement): void {
  const to = parsePlace(link.pathname.slice(PREFIX.length - 1), link.search);
  // On that page most links are other looks at the same answer.
  if (place.peek().page !== "compare" && to.page === "compare") prefetch(apiUrl(...compareQuery(to)));
}
