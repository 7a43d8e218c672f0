import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer, Side, TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { percent, seconds } from "../lib/numbers.ts";
import { Link, SegmentedControl } from "../components/ui/Controls.tsx";
import { DepthRangeNotice } from "../components/depth/DepthRangePanel.tsx";
import { DeployList } from "../components/services/DeployList.tsx";
import { EmptyState } from "../components/answer/EmptyState.tsx";
import { Exports, Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { PrunedNotice } from "../components/answer/PrunedNotice.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { Timeline } from "../components/timeline/Timeline.tsx";
import { ServicePods } from "../components/services/Workloads.tsx";
import { totalSamples, formatRates } from "../viewmodels/qualitySummary.ts";
import { selectorOf } from "../lib/selectors.ts";
import { CHOSEN_RANGE } from "../lib/sides.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { useHelp, type HelpTexts } from "../components/controls/useHelp.ts";
import type { ViewName } from "../lib/viewOptions.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { Notices } from "../components/answer/Notices.tsx";
import { sampleFilterParameters, treeParameters } from "../lib/queryParameters.ts";
import { staleNotices } from "../viewmodels/staleness.ts";
import * as strings from "../strings/serviceStrings.tsx";

export function ServicePage({ refreshCount }: { refreshCount: number }) {
  const here = place.value;
  const range = pageRange(here);
  const scope = { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", scope));
  const query = ["flamegraph", { ...scope, ...treeParameters(here), ...sampleFilterParameters({ ...here, scope: "" }) }] as const;
  const flame = useAnswer<FlameAnswer>(apiUrl(...query));
  useEffect(() => {
    if (refreshCount === 0) return;
    timeline.reload();
    flame.reload();
  }, [refreshCount]);
  return (
    <>
      <div class="heading">
        <h1><bdi>{here.service.slice(0, 200)}</bdi></h1>
        <Link to={onPage(here, "captures")} class="button" title={strings.captureNowHint}>{strings.captureNow}</Link>
        <CompareLink timeline={timeline.answer} />
        <Share query={query} sides={flame.isCurrent ? flame.answer?.sides : null} />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      <ServicePods service={here.service} refreshCount={refreshCount} />
      <DeployList service={here.service} refreshCount={refreshCount} />
      {flame.failure?.kind !== "final" && <AnswerView request={timeline} what={strings.timeline}>
        {(answer) => answer.basis.samples > 0 && (
          <>
            {answer.versions.every(({ version }) => version === "") && <MissingVersionNotice />}
            <Notices notices={staleNotices(answer.versions, range, Date.now() / 1000)} />
            <Timeline timeline={answer} range={range} />
          </>
        )}
      </AnswerView>}
      <AnswerView request={flame} what={strings.profile}>
        {(answer) => (answer.basis.samples === 0 ? <EmptyState what={here.type} /> : <ServiceProfile answer={answer} />)}
      </AnswerView>
    </>
  );
}

function ServiceProfile({ answer }: { answer: FlameAnswer }) {
  const { service } = place.value;
  const side = answer.sides[0];
  return (
    <>
      <Notices notices={dataQualityNotices(answer.sides, [""], answer.basis)} />
      <div class="viewbar">
        <SampleSummary on={side} />
        <ViewPicker />
        <span class="gap" />
        <Exports side={side} name={service} nodeCount={answer.level.length + answer.pruned.nodes} />
      </div>
      <QualityLine source={side} />
      <DepthRangeNotice />
      <PrunedNotice pruned={answer.pruned} />
      <ProfileView answer={answer} names={[""]} />
    </>
  );
}

/** How the profile is looked at: on this page, or on one of its own. */
function ViewPicker() {
  const here = place.value;
  const noSides = { a: "", b: "", baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "" };
  return (
    <nav class="views" aria-label={strings.viewsOfProfile}>
      <SegmentedControl<ViewName> label={strings.view} value={here.view === "sides" ? "flame" : here.view} onSelect={(next) => change({ view: next })}
        options={[["flame", strings.flameGraph], ["table", strings.table], ["sandwich", strings.sandwich], ["lines", strings.lines]]} />
      <Link to={onPage(here, "depth", { ...noSides, focus: here.focus })} class="button">{strings.depth}</Link>
      <Link to={onPage(here, "heatmap", noSides)} class="button">{strings.heatmap}</Link>
    </nav>
  );
}

/** What the picture stands on, in one line. */
function SampleSummary({ on: side }: { on: Side }) {
  const truncated = side.truncated_samples;
  return (
    <div class="basis">
      {strings.profileData(side.samples, side.pods, side.windows, seconds(side.seconds))}
      {side.sampling_periods_us.length > 0 && <> · {formatRates(side.sampling_periods_us)}</>}
      {side.idle_share !== null && !side.missing_states.includes("idle") && <>{" "}{strings.ofWallSamplesIdle(percent(side.idle_share))}</>}
      {truncated > 0 && (
        <>{" "}{strings.truncatedStacks(percent(truncated / Math.max(totalSamples(side.states), truncated)))}
          <HintDetails label={strings.why} hint="truncated" />
        </>
      )}
    </div>
  );
}

/** The way to the comparison with the version before: the collector looks for it, in the last days unless this range has both. */
function CompareLink({ timeline }: { timeline: TimelineAnswer | null }) {
  const here = place.value;
  const hasBoth = (timeline?.versions.length ?? 0) > 1;
  return <Link to={onPage(here, "compare", { baseline: "", comparison: "", ...CHOSEN_RANGE, ...(hasBoth ? { from: here.from, until: here.until } : {}) })} class="button primary">{strings.compareWithPreviousVersion}</Link>;
}

function MissingVersionNotice() {
  return (
    <div class="notices single">
      {strings.noVersionNotice(<code>--version</code>)}
      <HintDetails label={strings.how} hint="version" />
    </div>
  );
}

/** What few ask, told when they do. */
function HintDetails({ label, hint }: { label: string; hint: keyof HelpTexts["aside"] }) {
  const [isOpened, setOpened] = useState(false);
  return <details class="why" onToggle={() => setOpened(true)}><summary>{label}</summary>{isOpened && <HintText hint={hint} />}</details>;
}

const HintText = ({ hint }: { hint: keyof HelpTexts["aside"] }) => <AnswerView request={useHelp()} what={strings.help}>{({ aside }) => <p>{aside[hint]}</p>}</AnswerView>;
