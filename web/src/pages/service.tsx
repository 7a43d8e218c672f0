import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import type { FlameAnswer, Side, TimelineAnswer } from "../api/answers.ts";
import { pickedBy } from "../band.ts";
import { change, place } from "../location.ts";
import { notices, stale } from "../notices.ts";
import { percent, plural, seconds } from "../numbers.ts";
import { Link, Notices, Segments, Show } from "../parts/basics.tsx";
import { BandChip } from "../parts/depthband.tsx";
import { Deploys } from "../parts/deploys.tsx";
import { Nothing } from "../parts/empty.tsx";
import { Exports, Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { Lensed, treeAsked } from "../parts/lensed.tsx";
import { Pruned } from "../parts/pruned.tsx";
import { QualityLine } from "../parts/quality.tsx";
import { rangeOf } from "../parts/range.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { Pods } from "../parts/workloads.tsx";
import { allSamples, rates } from "../quality.ts";
import { selectorOf } from "../selectors.ts";
import { usualSides } from "../sides.ts";
import { onPage, type ViewName } from "../url.ts";
import { useWords, type Words } from "../words.ts";

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
