import type { VersionSummary } from "../../api/answers.ts";
import type { Span } from "../../charts/timelineLayout.ts";
import { change, place, visit } from "../../lib/location.ts";
import { seconds } from "../../lib/numbers.ts";
import { sideName } from "../../lib/selectors.ts";
import { LETTERS, timeRangeSide, type SideName } from "../../lib/sides.ts";
import { signal } from "../../lib/signals.ts";
import { formatRange, rfc3339, formatWithZone, toEpochSeconds, type Range } from "../../lib/times.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { openNotes, serviceNotes } from "../notes/serviceNotes.ts";
import { Link } from "../ui/Controls.tsx";
import * as strings from "../../strings/timelineStrings.tsx";

type Versions = readonly Pick<VersionSummary, "version" | "first_seen" | "last_seen">[];

/** Ranges that were left by zooming, each with the one it led to; the address alone cannot know them. */
const zoomHistory = signal<readonly { readonly from: Range; readonly to: Range }[]>([]);

const toRange = ({ from, until }: Span): Range => ({ from: rfc3339(Math.floor(from)), until: rfc3339(Math.ceil(until)) });

/** Shows this time only; what was shown can be come back to. */
export function zoomTo(span: Span, range: Range): void {
  const to = toRange(span);
  zoomHistory.value = [...zoomHistory.value.slice(-9), { from: range, to }];
  change({ from: to.from, until: to.until });
}

/** The way back to the range from which was zoomed, and out of a range that somebody else chose. */
export function ZoomBack({ range }: { range: Range }) {
  const last = zoomHistory.value.findLast(({ to }) => to.from === range.from && to.until === range.until);
  if (!last) return null;
  const back = () => {
    zoomHistory.value = zoomHistory.value.filter((entry) => entry !== last);
    change({ from: last.from.from, until: last.from.until });
  };
  return <button type="button" onClick={back}>{strings.backTo(formatRange(last.from))}</button>;
}

/** What was chosen on a timeline, and what can be done with it. */
export function TimelineSelection({ span, range, versions, samples, onClear }: {
  span: Span; range: Range; versions?: Versions; samples?: number; onClear: () => void;
}) {
  if (versions) {
    return (
      <div class="picked" role="group" aria-label={strings.selectedVersions}>
        {versions.map(({ version, first_seen, last_seen }) => (
          <p class="row" key={version}>
            <bdi class="version">{version.slice(0, 100) || strings.noVersionLabelled}</bdi>
            <span class="quiet">{strings.seenBetween(formatWithZone(toEpochSeconds(first_seen)), formatWithZone(toEpochSeconds(last_seen)))}</span>
            <button type="button" onClick={() => zoomTo({ from: toEpochSeconds(first_seen), until: span.until }, range)}>{strings.zoomToThisAndLater}</button>
            <SetSideButtons to={{ side: `version:${version}`, from: "", until: "" }} />
          </p>
        ))}
        <button type="button" onClick={onClear}>{strings.close}</button>
      </div>
    );
  }
  const { from, until } = toRange(span);
  return (
    <div class="picked row" role="group" aria-label={strings.selectedRange}>
      <strong>{formatRange({ from, until })}</strong>
      <span class="quiet">{seconds(span.until - span.from)} · {strings.sampleCount(samples ?? 0)}</span>
      <button type="button" class="primary" onClick={() => zoomTo(span, range)}>{strings.zoomToRange}</button>
      <SetSideButtons to={{ side: timeRangeSide(place.value.query), from, until }} />
      {serviceNotes.value && <button type="button" aria-haspopup="dialog" title={strings.addNoteHint} onClick={() => openNotes({ from, until, spans: [span] })}>{strings.addNote}</button>}
      <button type="button" onClick={onClear}>{strings.clear}</button>
    </div>
  );
}

interface SideChoice {
  readonly side: string;
  readonly from: string;
  readonly until: string;
}

/** Makes something a side of a comparison. */
export function SetSideButtons({ to }: { to: SideChoice }) {
  const setSide = (which: SideName) => {
    const here = place.peek();
    const next: Place = { ...here, [which]: to.side, [`${which}_from`]: to.from, [`${which}_until`]: to.until };
    // The second side is the last thing to choose: on to the comparison.
    if (here[which === "baseline" ? "comparison" : "baseline"] !== "") visit(onPage(next, "compare"));
    else change(next);
  };
  return (
    <>
      <button type="button" onClick={() => setSide("baseline")} title={strings.makeSideA}>{strings.useAs(<span class="side side-a" aria-hidden="true">A</span>, <span class="unseen">{strings.sideAWord}</span>)}</button>
      <button type="button" onClick={() => setSide("comparison")} title={strings.makeSideB}>{strings.useAs(<span class="side side-b" aria-hidden="true">B</span>, <span class="unseen">{strings.sideBWord}</span>)}</button>
    </>
  );
}

/** The side that was chosen here so far, until there is the other one to compare it with. */
export function PendingSides() {
  const here = place.value;
  if (here.baseline === "" && here.comparison === "") return null;
  const sideChip = (which: SideName) => here[which] !== "" && (
    <span class="row">
      <span class={`side side-${LETTERS[which].toLowerCase()}`}>{LETTERS[which]}</span> <bdi>{sideName(here[which]).slice(0, 80)}</bdi>
      {here[`${which}_from`] !== "" && <span class="quiet">{formatRange({ from: here[`${which}_from`], until: here[`${which}_until`] })}</span>}
      <button type="button" class="square" aria-label={strings.clearSide(LETTERS[which])} onClick={() => change({ [which]: "", [`${which}_from`]: "", [`${which}_until`]: "" })}>×</button>
    </span>
  );
  const everything = timeRangeSide(here.query);
  return (
    <span class="row tray" role="status">
      {sideChip("baseline")}{sideChip("comparison")}
      {(here.baseline === "" || here.comparison === "") && <span class="quiet">{strings.selectOtherSide(here.baseline === "" ? "A" : "B")}</span>}
      <Link class="button primary" to={onPage(here, "compare", { baseline: here.baseline || everything, comparison: here.comparison || everything })}>
        {here.baseline !== "" && here.comparison !== "" ? strings.compareAndB : strings.compareWithEverything}
      </Link>
    </span>
  );
}
