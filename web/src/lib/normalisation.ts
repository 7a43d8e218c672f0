import type { ViewName, Norm } from "./viewOptions.ts";

const SCALE = {
  rate: "milliseconds per second a pod was watched (ms/s)",
  share: "shares of a side's own total: unchanged code seems to shrink when something else grows",
};

const USED: Record<Exclude<ViewName, "sandwich">, string> = {
  flame: "Widths are the mean of A and B, colours their difference, in",
  sides: "Each graph is as wide as its own total; differences are in",
  table: "Numbers are",
  lines: "Times are each side's own; differences are in",
};

const DIFFERENCE = { rate: "", share: " Δ is in percentage points (pp)." };

/** The normalisation in words, for above the picture. */
export const normWords = (norm: Norm, view: ViewName): string => `${USED[view === "sandwich" ? "flame" : view]} ${SCALE[norm]}.${view === "table" ? DIFFERENCE[norm] : ""}`;
