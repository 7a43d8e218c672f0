import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer, Side, TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { percent, seconds } from "../lib/numbers.ts";
import { Link } from "../components/ui/Controls.tsx";
import { DepthRangeNotice } from "../components/depth/DepthRangePanel.tsx";
import { DeployList } from "../components/services/DeployList.tsx";
import { EmptyState } from "../components/answer/EmptyState.tsx";
import { useSharedView } from "../components/controls/sharedView.ts";
import { ProfileControls } from "../components/profile/ProfileControls.tsx";
import { Toolbar } from "../components/ui/Toolbar.tsx";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { PrunedNotice } from "../components/answer/PrunedNotice.tsx";
import { DataQuality } from "../components/answer/DataQuality.tsx";
import { NotesButton } from "../components/notes/NotesButton.tsx";
import { useServiceNotes } from "../components/notes/serviceNotes.ts";
import { parseTime, toAbsolute, type Range } from "../lib/times.ts";
import { Timeline } from "../components/timeline/Timeline.tsx";
import { ServicePods } from "../components/services/Workloads.tsx";
import { totalSamples, formatRates } from "../viewmodels/qualitySummary.ts";
import { selectorOf } from "../lib/selectors.ts";
import { CHOSEN_RANGE } from "../lib/sides.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { useHelp, type HelpTexts } from "../components/controls/useHelp.ts";
import { onDemand } from "../components/answer/OnDemand.tsx";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { sampleFilterParameters, treeParameters } from "../lib/queryParameters.ts";
import { describeGilContention } from "../viewmodels/gilContention.ts";
import { staleNotices } from "../viewmodels/staleness.ts";
import { Dropdown } from "../components/ui/Dropdown.tsx";
import * as endpointStrings from "../strings/fleetStrings.tsx";
import * as strings from "../strings/serviceStrings.tsx";

const EndpointTable = onDemand(async () => (await import("../components/services/EndpointTable.tsx")).EndpointTable, endpointStrings.endpointsSubject);
const BreakdownView = onDemand(async () => (await import("../components/breakdown/BreakdownView.tsx")).BreakdownView, strings.theBreakdown);

export function ServicePage({ refreshCount }: { refreshCount: number }) {
  const here = place.value;
  const range = pageRange(here);
  useServiceNotes(refreshCount);
  const scope = { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", scope));
  const query = ["flamegraph", { ...scope, ...treeParameters(here), ...sampleFilterParameters({ ...here, scope: "" }) }] as const;
  const flame = useAnswer<FlameAnswer>(apiUrl(...query));
  useEffect(() => {
    if (refreshCount === 0) return;
    timeline.reload();
    flame.reload();
  }, [refreshCount]);
  const side = flame.answer?.sides[0];
  const nodeCount = flame.answer ? flame.answer.level.length + flame.answer.pruned.nodes : null;
  useSharedView(query, flame.isCurrent ? (flame.answer?.sides ?? null) : null, side && side.samples > 0 ? nodeCount : null, timeline.answer?.versions.at(-1)?.version);
  const versions = timeline.answer?.versions ?? [];
  const chips = (
    <Toolbar label={strings.aboutService} class="chips">
      <ServicePods service={here.service} refreshCount={refreshCount} />
      <DeployList service={here.service} refreshCount={refreshCount} />
      <Endpoints />
      {flame.answer && side && side.samples > 0 && <ProfileQuality answer={flame.answer} side={side} notices={staleNotices(versions, range, Date.now() / 1000)} isUnversioned={versions.length > 0 && versions.every(({ version }) => version === "")} />}
      <RangeNotes range={range} />
      <CompareLink timeline={timeline.answer} />
    </Toolbar>
  );
  const contention = side ? describeGilContention(side) : "";
  return (
    <div class="fill">
      <h1 class="unseen"><bdi>{here.service.slice(0, 200)}</bdi></h1>
      <div class="card strip">
        {flame.failure?.kind !== "final" && <AnswerView request={timeline} what={strings.timeline}>{(answer) => answer.basis.samples > 0 && <Timeline timeline={answer} range={range} />}</AnswerView>}
        {chips}
        {contention !== "" && <p class="basis">{contention} <button type="button" onClick={() => change({ type: "gil_wait" })}>{strings.showWaitingForGil}</button></p>}
      </div>
      <AnswerView request={flame} what={strings.profile}>
        {(answer) => (answer.basis.samples === 0 ? <EmptyState what={here.type} /> : <><DepthRangeNotice /><ProfileView answer={answer} names={[""]} controls={<ProfileControls hasGroups />} breakdown={(tree) => <BreakdownView tree={tree} />} /></>)}
      </AnswerView>
    </div>
  );
}

/** The notes on the range of the page. */
function RangeNotes({ range }: { range: Range }) {
  const now = Date.now() / 1000;
  const { from, until } = toAbsolute(range, now);
  return <NotesButton draft={{ from, until, spans: [{ from: parseTime(from, now) ?? 0, until: parseTime(until, now) ?? now }] }} />;
}

/** The endpoints of the service, requested once it is opened. */
function Endpoints() {
  const [wasOpened, setOpened] = useState(false);
  return <Dropdown isText class="wide-choices" text={endpointStrings.endpoints} title={endpointStrings.endpointsHint} onOpen={() => setOpened(true)}>{wasOpened && <EndpointTable />}</Dropdown>;
}

/** How good the data of a profile is, and what it is made of. */
function ProfileQuality({ answer, side, notices, isUnversioned }: { answer: FlameAnswer; side: Side; notices: readonly string[]; isUnversioned: boolean }) {
  return (
    <DataQuality source={side} notices={[...notices, ...dataQualityNotices(answer.sides, [""], answer.basis)]}>
      <SampleSummary on={side} />
      <PrunedNotice pruned={answer.pruned} />
      {isUnversioned && <MissingVersionNotice />}
    </DataQuality>
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

/** The way to the comparison with the version before: the collector looks for it in the last days, and chooses the times. */
function CompareLink({ timeline }: { timeline: TimelineAnswer | null }) {
  const here = place.value;
  const hasBoth = (timeline?.versions.length ?? 0) > 1;
  return <Link to={onPage(here, "compare", { baseline: "", comparison: "", ...CHOSEN_RANGE })} early={hasBoth} class="button primary">{strings.compareWithPreviousVersion}</Link>;
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
