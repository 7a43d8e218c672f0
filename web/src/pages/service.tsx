import { useEffect, useMemo } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import { epoch, type FlameAnswer, type TimelineAnswer } from "../api/answers.ts";
import { pickedBy } from "../band.ts";
import { read } from "../flame/reading.ts";
import { treeOf } from "../flame/tree.ts";
import { change, place } from "../location.ts";
import { notices } from "../notices.ts";
import { percent } from "../numbers.ts";
import { BasisLine, Link, Notices, Segments, Show } from "../parts/basics.tsx";
import { BandChip } from "../parts/depthband.tsx";
import { Nothing } from "../parts/empty.tsx";
import { Exports, Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { FlamePanel } from "../parts/flamepanel.tsx";
import { Functions } from "../parts/functions.tsx";
import { Pruned } from "../parts/pruned.tsx";
import { QualityLine } from "../parts/quality.tsx";
import { rangeOf } from "../parts/range.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { selectorOf } from "../selectors.ts";
import { stepSeconds } from "../times.ts";
import { onPage, type ViewName } from "../url.ts";

export function Service({ turn }: { turn: number }) {
  const here = place.value;
  const range = rangeOf(here);
  const now = Date.now() / 1000;
  const scope = { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", { ...scope, step: String(stepSeconds(range, now)) }));
  const flame = useAnswer<FlameAnswer>(apiUrl("flamegraph", { ...scope, ...pickedBy({ ...here, scope: "" }), lines: here.lines ? "1" : "0", nodes: here.nodes }));
  useEffect(() => {
    if (turn === 0) return;
    timeline.again();
    flame.again();
  }, [turn]);
  return (
    <>
      <div class="heading">
        <h1><bdi>{here.service.slice(0, 200)}</bdi></h1>
        <Previous timeline={timeline.answer} />
        <Link to={onPage(here, "depth", { a: "", b: "", focus: here.focus })} class="button">Stack depth</Link>
        <Share />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      {!flame.failure && <Show asked={timeline} what="the timeline">
        {(answer) => answer.basis.samples > 0 && (
          <>
            {answer.versions.every(({ version }) => version === "") && <NoVersion />}
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
  const { invert, collapse, view, service } = place.value;
  const tree = useMemo(() => treeOf(answer), [answer]);
  const side = answer.sides[0];
  const table = view === "table";
  const reading = useMemo(
    () => read(tree, [side.pod_seconds], { invert: invert && !table, collapse, norm: "rate" }),
    [tree, invert && !table, collapse],
  );
  return (
    <>
      <Notices said={notices(answer.sides, [""], answer.basis)} />
      <div class="viewbar">
        <Segments<ViewName> label="View" value={table ? "table" : "flame"} choose={(next) => change({ view: next })}
          options={[["flame", "Flame graph"], ["table", "Table"]]} />
        <BasisLine basis={side} sampled={side.seconds}>
          {side.idle_share !== null && !side.missing_states.includes("idle") && <> · {percent(side.idle_share)} of wall samples idle</>}
        </BasisLine>
        <span class="gap" />
        <Exports side={side} name={service} />
      </div>
      <QualityLine of={side} />
      <BandChip />
      <Pruned pruned={answer.pruned} />
      {table ? <Functions reading={reading} names={[""]} /> : <FlamePanel reading={reading} names={[""]} />}
    </>
  );
}

/** The way to the comparison: with the version before, or to the page that says why there is none. */
function Previous({ timeline }: { timeline: TimelineAnswer | null }) {
  const here = place.value;
  const versions = [...(timeline?.versions ?? [])].sort((a, b) => epoch(a.first_seen) - epoch(b.first_seen)).slice(-2);
  const sides = versions.length === 2 ? { a: `version:${versions[0].version}`, b: `version:${versions[1].version}` } : {};
  return <Link to={onPage(here, "compare", sides)} class="button primary">{versions.length === 2 ? "Compare with previous version" : "Compare"}</Link>;
}

function NoVersion() {
  return (
    <p class="notices single">
      These windows carry no version, so deployments cannot be told apart. Start the sidecar with <code>--version</code> (or
      set <code>SIDELIGHT_VERSION</code>), for example to the image tag.
    </p>
  );
}
