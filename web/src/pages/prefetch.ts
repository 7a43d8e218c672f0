import { prefetch } from "../api/prefetchCache.ts";
import { apiUrl } from "../api/request.ts";
import { place, PREFIX } from "../lib/location.ts";
import { parsePlace } from "../lib/url.ts";
import { compareQuery } from "../lib/queryParameters.ts";

/** Requests a comparison as soon as its link is pressed, before its page opens. */
export function prefetchOnPress(): void {
  const onPress = (event: MouseEvent) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[data-inside]") : null;
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const to = parsePlace(link.pathname.slice(PREFIX.length - 1), link.search);
    // On that page most links are other looks at the same answer.
    if (place.peek().page !== "compare" && to.page === "compare") prefetch(apiUrl(...compareQuery(to)));
  };
  document.addEventListener("pointerdown", onPress);
  document.addEventListener("click", onPress, true);
}
