import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer, Side, TimelineAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { notices } from "../viewmodels/dataQualityNotices.ts";
import { percent, plural, seconds } from "../lib/numbers.ts";
import { Link, Segments } from "../components/ui/Controls.tsx";
import { BandChip } from "../components/depth/DepthRangePanel.tsx";
import { Deploys } from "../components/services/DeployList.tsx";
import { Nothing } from "../components/answer/EmptyState.tsx";
import { Exports, Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { Lensed } from "../components/profile/ProfileView.tsx";
import { Pruned } from "../components/answer/PrunedNotice.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { Timeline } from "../components/timeline/Timeline.tsx";
import { Pods } from "../components/services/Workloads.tsx";
import { allSamples, rates } from "../viewmodels/qualitySummary.ts";
import { selectorOf } from "../lib/selectors.ts";
import { usualSides } from "../lib/sides.ts";
import { onPage, rangeOf } from "../lib/url.ts";
import { useWords, type Words } from "../components/controls/useHelp.ts";
import type { ViewName } from "../lib/viewOptions.ts";
import { Show } from "../components/answer/AnswerView.tsx";
import { Notices } from "../components/answer/Notices.tsx";
import { pickedBy, treeAsked } from "../lib/queryParameters.ts";
import { stale } from "../viewmodels/staleness.ts";

export function Service({ turn }: { turn: number }) {
  const here = place.value;
  const range = rangeOf(here);
  const scope = { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", scope));
  const question = ["flamegraph", { ...scope, ...treeAsked(here), ...pickedBy({ ...here, scope: "" }) }] as const;
  const flame = useAnswer<FlameAnswer>(apiUrl(...question));
  useEffect(() => {
    if (turn === 0) return;
    timeline.again();
    flame.again();
  }, [turn]);
  return (
    <>
      <div class="heading">
        <h1><bdi>{here.service.slice(0, 200)}</bdi></h1>
        <Link to={onPage(here, "captures")} class="button" title="Profile it closely for a minute">Capture now</Link>
        <Previous timeline={timeline.answer} />
        <Share question={question} answered={flame.current ? flame.answer?.sides : null} />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      <Pods service={here.service} turn={turn} />
      <Deploys service={here.service} turn={turn} />
      {flame.failure?.kind !== "final" && <Show asked={timeline} what="the timeline">
        {(answer) => answer.basis.samples > 0 && (
          <>
            {answer.versions.every(({ version }) => version === "") && <NoVersion />}
            <Notices said={stale(answer.versions, range, Date.now() / 1000)} />
            <Timeline timeline={answer} range={range} />
          </>
        )}
      </Show>}
      <Show asked={flame} what="the profile">
        {(answer) => (answer.basis.samples === 0 ? <Nothing what={here.type} /> : <Profile answer={answer} />)}
      </Show>
    </>
  );
}

function Profile({ answer }: { answer: FlameAnswer }) {
  const { service } = place.value;
  const side = answer.sides[0];
  return (
    <>
      <Notices said={notices(answer.sides, [""], answer.basis)} />
      <div class="viewbar">
        <Stands on={side} />
        <Views />
        <span class="gap" />
        <Exports side={side} name={service} drawn={answer.level.length + answer.pruned.nodes} />
      </div>
      <QualityLine of={side} />
      <BandChip />
      <Pruned pruned={answer.pruned} />
      <Lensed answer={answer} names={[""]} />
    </>
  );
}

/** How the profile is looked at: on this page, or on one of its own. */
function Views() {
  const here = place.value;
  const apart = { a: "", b: "", a_from: "", a_until: "", b_from: "", b_until: "" };
  return (
    <nav class="views" aria-label="Views of this profile">
      <Segments<ViewName> label="View" value={here.view === "sides" ? "flame" : here.view} choose={(next) => change({ view: next })}
        options={[["flame", "Flame graph"], ["table", "Table"], ["sandwich", "Sandwich"], ["lines", "Lines"]]} />
      <Link to={onPage(here, "depth", { ...apart, focus: here.focus })} class="button">Depth</Link>
      <Link to={onPage(here, "heatmap", apart)} class="button">Heatmap</Link>
    </nav>
  );
}

/** What the picture stands on, in one line. */
function Stands({ on: side }: { on: Side }) {
  const cut = side.truncated_samples;
  return (
    <div class="basis">
      {plural(side.samples, "sample")} · {plural(side.pods, "pod")} · {plural(side.windows, "window")} · sampled time {seconds(side.seconds)}
      {side.periods_us.length > 0 && <> · {rates(side.periods_us)}</>}
      {side.idle_share !== null && !side.missing_states.includes("idle") && <> · {percent(side.idle_share)} of wall samples idle</>}
      {cut > 0 && (
        <> · {percent(cut / Math.max(allSamples(side.states), cut))} truncated stacks
          <Aside ask="why?" about="truncated" />
        </>
      )}
    </div>
  );
}

/** The way to the comparison: with the version before, or to the page that says why there is none. */
function Previous({ timeline }: { timeline: TimelineAnswer | null }) {
  const here = place.value;
  const sides = usualSides(timeline?.versions ?? []);
  const own = { a_from: "", a_until: "", b_from: "", b_until: "" };
  return <Link to={onPage(here, "compare", sides ? { ...sides, ...own } : {})} class="button primary">{sides ? "Compare with previous version" : "Compare"}</Link>;
}

function NoVersion() {
  return (
    <div class="notices single">
      These windows carry no version, so deployments cannot be told apart. Start the sidecar with <code>--version</code>, for example the image tag.
      <Aside ask="how?" about="version" />
    </div>
  );
}

/** What few ask, told when they do. */
function Aside({ ask, about }: { ask: string; about: keyof Words["aside"] }) {
  const [asked, be] = useState(false);
  return <details class="why" onToggle={() => be(true)}><summary>{ask}</summary>{asked && <Told about={about} />}</details>;
}

const Told = ({ about }: { about: keyof Words["aside"] }) => <Show asked={useWords()} what="the words">{({ aside }) => <p>{aside[about]}</p>}</Show>;
