import type { ComponentChildren } from "preact";
import { LastSeen } from "../components/answer/EmptyState.tsx";
import { Link } from "../components/ui/Controls.tsx";
import { change, place } from "../lib/location.ts";
import { CHOSEN_RANGE, sameTimeYesterday } from "../lib/sides.ts";
import { isRangeChosen, onPage, pageRange } from "../lib/url.ts";

/** Nothing to compare: why, and every way out. */
export function EmptyComparison({ title, text, hint, isUnseen = false, hasOtherTypes = false }: {
  title: string; text: string; hint?: ComponentChildren; isUnseen?: boolean; hasOtherTypes?: boolean;
}) {
  const here = place.value;
  const isChosen = isRangeChosen(here);
  return (
    <div class="card zero">
      <h2>{title}</h2>
      <p>{text.slice(0, 1).toUpperCase() + text.slice(1).replace(/\.?$/, ".")} {hint}</p>
      <p class="row">
        {!isChosen && <button type="button" class="primary" onClick={() => change(CHOSEN_RANGE)}>Choose the times automatically</button>}
        <Link class={isChosen ? "button primary" : "button"} to={onPage(here, "compare", sameTimeYesterday(here.comparison || "match:", pageRange(here)))}>Compare with the same time yesterday</Link>
        <Link class="button" to={onPage(here, "compare", { baseline: here.baseline || "match:", comparison: here.comparison || "match:" })}>Choose two sides by label</Link>
        {hasOtherTypes && here.type !== "wall" && <button type="button" onClick={() => change({ type: "wall" })}>Show wall time</button>}
        {here.query !== "" && <button type="button" onClick={() => change({ query: "" })}>Remove the filter</button>}
      </p>
      {isUnseen && <LastSeen key={here.service} />}
    </div>
  );
}

/** The collector found no two versions to compare. */
export function MissingVersion({ reason, message }: { reason: string; message: string }) {
  const isUnlabelled = reason === "no_version_label";
  return (
    <EmptyComparison title={isUnlabelled ? "Nothing to compare yet: no version label" : "Nothing to compare yet: one version"} text={message}
      hint={isUnlabelled ? <>Start the sidecar with <code>--version</code> (or set <code>SIDELIGHT_VERSION</code>), for example to the image tag.</> : "The next deployment appears here by itself."} />
  );
}
