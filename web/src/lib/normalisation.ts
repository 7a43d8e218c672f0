import type { ViewName, Normalisation } from "./viewOptions.ts";

const SCALES = {
  rate: "milliseconds per pod-second (ms/s)",
  share: "shares of each side's total: unchanged code seems to shrink when other code grows",
};

const SUBJECTS: Record<Exclude<ViewName, "sandwich">, string> = {
  flame: "Widths are the mean of A and B, colours their difference, in",
  sides: "Each graph is as wide as its own total; differences are in",
  table: "Numbers are",
  lines: "Times are each side's own; differences are in",
};

const DIFFERENCE = { rate: "", share: " Δ is in percentage points (pp)." };

/** The normalisation in words, for above the picture. */
export const describeNormalisation = (norm: Normalisation, view: ViewName): string => `${SUBJECTS[view === "sandwich" ? "flame" : view]} ${SCALES[norm]}.${view === "table" ? DIFFERENCE[norm] : ""}`;
