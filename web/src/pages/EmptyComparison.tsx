import type { ComponentChildren } from "preact";
import { LastSeen } from "../components/answer/EmptyState.tsx";
import { Link } from "../components/ui/Controls.tsx";
import { change, place } from "../lib/location.ts";
import { CHOSEN_RANGE, sameTimeYesterday } from "../lib/sides.ts";
import { inShownZone } from "../lib/times.ts";
import { isRangeChosen, onPage, pageRange } from "../lib/url.ts";
import * as strings from "../strings/comparisonStrings.tsx";

/** Nothing to compare: why, and every way out. */
export function EmptyComparison({ title, text, hint, isUnseen = false, hasOtherTypes = false }: {
  title: string; text: string; hint?: ComponentChildren; isUnseen?: boolean; hasOtherTypes?: boolean;
}) {
  const here = place.value;
  const isChosen = isRangeChosen(here);
  return (
    <div class="card zero">
      <h2>{title}</h2>
      <p>{inShownZone(text.slice(0, 1).toUpperCase() + text.slice(1).replace(/\.?$/, "."))} {hint}</p>
      <p class="row">
        {!isChosen && <button type="button" class="primary" onClick={() => change(CHOSEN_RANGE)}>{strings.chooseTimesAutomatically}</button>}
        <Link class={isChosen ? "button primary" : "button"} to={onPage(here, "compare", sameTimeYesterday(here.comparison || "match:", pageRange(here)))}>{strings.compareWithYesterday}</Link>
        <Link class="button" to={onPage(here, "compare", { baseline: here.baseline || "match:", comparison: here.comparison || "match:" })}>{strings.chooseTwoSidesBy}</Link>
        {hasOtherTypes && here.type !== "wall" && <button type="button" onClick={() => change({ type: "wall" })}>{strings.showWallTime}</button>}
        {here.query !== "" && <button type="button" onClick={() => change({ query: "" })}>{strings.removeFilter}</button>}
      </p>
      {isUnseen && <LastSeen key={here.service} />}
    </div>
  );
}

/** The collector found no two versions to compare. */
export function MissingVersion({ reason, message }: { reason: string; message: string }) {
  const isUnlabelled = reason === "no_version_label";
  return (
    <EmptyComparison title={isUnlabelled ? strings.noVersionLabel : strings.onlyOneVersion} text={message}
      hint={isUnlabelled ? <>{strings.howToAddVersion(<code>--version</code>, <code>SIDELIGHT_VERSION</code>)}</> : strings.waitForDeployment} />
  );
}
