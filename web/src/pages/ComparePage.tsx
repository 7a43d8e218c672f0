import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer, Side } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { CulpritTable } from "../components/verdict/CulpritTable.tsx";
import { SecondaryEffects } from "../components/verdict/SecondaryEffects.tsx";
import { VerdictCard, VerdictLine } from "../components/verdict/VerdictCard.tsx";
import { ComparisonControls } from "../components/profile/ComparisonControls.tsx";
import { ComparedTimes } from "../components/controls/ComparedTimes.tsx";
import { DepthRangeNotice } from "../components/depth/DepthRangePanel.tsx";
import { useSharedView } from "../components/controls/sharedView.ts";
import { NotesButton } from "../components/notes/NotesButton.tsx";
import { useWorkloads } from "../components/services/Workloads.tsx";
import { useServiceNotes } from "../components/notes/serviceNotes.ts";
import { inShownZone, rfc3339, toEpochSeconds } from "../lib/times.ts";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { TYPE_NAMES } from "../components/answer/EmptyState.tsx";
import { PrunedNotice } from "../components/answer/PrunedNotice.tsx";
import { SidePickers } from "../components/controls/SidePickers.tsx";
import { sideName } from "../lib/selectors.ts";
import { sideInForce } from "../lib/sides.ts";
import { pageRange } from "../lib/url.ts";
import { LinkGroup, Toolbar } from "../components/ui/Toolbar.tsx";
import { EmptyComparison, MissingVersion } from "./EmptyComparison.tsx";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { compareQuery } from "../lib/queryParameters.ts";
import * as strings from "../strings/comparisonStrings.tsx";

export function ComparePage({ refreshCount }: { refreshCount: number }) {
  const here = place.value;
  const range = pageRange(here);
  useServiceNotes(refreshCount);
  useWorkloads(here.service, refreshCount);
  const query = compareQuery(here);
  const request = useAnswer<FlameAnswer>(apiUrl(...query));
  const answered = request.isCurrent ? (request.answer?.sides ?? null) : null;
  const { failure } = request;
  // The collector found no two versions: a state of the data, and no error of the page.
  const isWithoutSides = failure !== null && ["no_previous_version", "no_version_label"].includes(failure.reason);
  useSharedView(query, answered, 0);
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  return (
    <div class="compare fill">
      <h1 class="unseen">{strings.compare(<bdi>{here.service.slice(0, 200)}</bdi>)}</h1>
      <Toolbar class="comparebar" label={strings.comparedSides}>
        <SidePickers range={range} sides={answered} isSettled={answered !== null || failure !== null} />
        {answered && <ComparedTimes sides={answered} ranges={request.answer?.ranges} />}
        {answered && <SideNotes sides={answered} />}
      </Toolbar>
      {isWithoutSides ? <MissingVersion reason={failure.reason} message={failure.message} />
        : <AnswerView request={request} what={strings.comparison}>{(answer) => <ComparisonView answer={answer} isCurrent={request.isCurrent} />}</AnswerView>}
    </div>
  );
}

/** The notes on the times of both sides. A new one is on those of B. */
function SideNotes({ sides }: { sides: readonly Side[] }) {
  const spans = sides.map(({ from, until }) => ({ from: toEpochSeconds(from), until: toEpochSeconds(until) }));
  const last = spans[spans.length - 1];
  return <NotesButton draft={{ from: rfc3339(Math.floor(last.from)), until: rfc3339(Math.ceil(last.until)), spans }} />;
}

/** `isCurrent` is false while the answer is still the previous one, so nothing here may name the new sides. */
function ComparisonView({ answer, isCurrent }: { answer: FlameAnswer; isCurrent: boolean }) {
  const here = place.value;
  const { raw, type } = here;
  const verdict = answer.verdict ?? null;
  const { sides, ranges } = answer;
  const names = isCurrent ? sides.map((side, at) => sideTitle(side, at)) : ["A …", "B …"];
  if (isCurrent && (sides.some(({ pods }) => pods === 0) || sides.every(({ samples }) => samples === 0))) {
    const isUnseen = sides.every(({ pods }) => pods === 0);
    const missing = sides.flatMap(({ pods, samples }, at) => (pods === 0 || samples === 0 ? [names[at]] : []));
    return <EmptyComparison title={strings.noSamplesOf(TYPE_NAMES[type], missing.join(" and "))} text={isUnseen ? strings.neitherSideHasWindows : (verdict?.summary ?? "")} hint={ranges && inShownZone(ranges.text)} isUnseen={isUnseen} hasOtherTypes={!isUnseen} />;
  }
  const notices = dataQualityNotices(verdict ? [] : sides, verdict ? [] : ["A", "B"], answer.basis);
  const isNotComparable = verdict?.direction === "not_comparable";
  return (
    <>
      {isCurrent ? <VerdictCard verdict={verdict} notices={notices} /> : <VerdictLine verdict={undefined} />}
      {isCurrent && verdict && <LinkGroup><CulpritTable verdict={verdict} /><SecondaryEffects verdict={verdict} /></LinkGroup>}
      <DepthRangeNotice />
      {isNotComparable && !raw && <p class="notices single">{strings.notColourCoded}{" "}<button type="button" onClick={() => change({ raw: true })}>{strings.colourAllDifferences}</button></p>}
      <ProfileView answer={answer} names={names} controls={<ComparisonControls verdict={verdict} />} />
      <PrunedNotice pruned={answer.pruned} />
    </>
  );
}

const sideTitle = (side: Side, at: number): string => `${"AB"[at]} ${sideName(sideInForce(place.value, at === 0 ? "baseline" : "comparison", side.selector)).slice(0, 60)}`;
