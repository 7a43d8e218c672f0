import { begin } from "./api/begun.ts";
import { apiUrl } from "./api/ask.ts";
import { pickedBy } from "./band.ts";
import { place, PREFIX } from "./location.ts";
import { treeAsked } from "./parts/lensed.tsx";
import { rangeOf } from "./parts/range.tsx";
import { comparison } from "./sides.ts";
import { parsePlace, type Place } from "./url.ts";

/** What the compare page asks for. */
export const compareAsked = (here: Place): readonly ["compare", Record<string, string>] =>
  ["compare", { ...comparison(here, rangeOf(here)), load: here.load, ...pickedBy({ ...here, scope: "" }), ...treeAsked(here) }];

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
