import { begin } from "../api/prefetchCache.ts";
import { apiUrl } from "../api/request.ts";
import { place, PREFIX } from "../lib/location.ts";
import { parsePlace } from "../lib/url.ts";
import { compareAsked } from "../lib/queryParameters.ts";

/** Asks for a comparison while the button that leads to it is still pressed, and at the latest before its page is made. */
export function askAhead(): void {
  const ahead = (event: MouseEvent) => {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>("a[data-inside]") : null;
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const to = parsePlace(link.pathname.slice(PREFIX.length - 1), link.search);
    // On that page most links are other looks at the same answer.
    if (place.peek().page !== "compare" && to.page === "compare" && to.a !== "" && to.b !== "") begin(apiUrl(...compareAsked(to)));
  };
  document.addEventListener("pointerdown", ahead);
  document.addEventListener("click", ahead, true);
}
