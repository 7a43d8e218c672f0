import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import type { DepthAnswer, DepthSide } from "../api/answers.ts";
import { Ecdf, Histogram } from "../charts/depthcharts.tsx";
import { change, place } from "../location.ts";
import { notices } from "../notices.ts";
import { count, percent, short } from "../numbers.ts";
import { BasisLine, Link, Notices, Show } from "../parts/basics.tsx";
import { Nothing } from "../parts/empty.tsx";
import { Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { QualityLine } from "../parts/quality.tsx";
import { rangeOf } from "../parts/range.tsx";
import { SidePickers } from "../parts/sides.tsx";
import { allSamples } from "../quality.ts";
import { selectorOf, sideName } from "../selectors.ts";
import { gapSentence } from "../verdict.ts";
import { comparison, usualSides } from "../sides.ts";
import type { TimelineAnswer } from "../api/answers.ts";
import { onPage } from "../url.ts";

/** How deep the stacks of samples are: of one profile, or of two sides. */
export function Depth({ turn }: { turn: number }) {
  const here = place.value;
  const range = rangeOf(here);
  const two = here.a !== "" && here.b !== "";
  const scope = { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const question = ["depth", two ? comparison(here, range) : scope] as const;
  const asked = useAnswer<DepthAnswer>(apiUrl(...question));
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const usual = usualSides(timeline.answer?.versions ?? []);
  return (
    <>
      <div class="heading">
        <h1>Stack depth of <bdi>{here.service.slice(0, 200)}</bdi></h1>
        {two && <Link to={onPage(here, "compare")} class="button">Compare A and B</Link>}
        {two && <button type="button" onClick={() => change({ a: "", b: "", a_from: "", a_until: "", b_from: "", b_until: "" })}>One profile</button>}
        {!two && usual && <Link to={onPage(here, "depth", usual)} class="button primary">Compare with previous version</Link>}
        <Share question={question} answered={asked.current ? asked.answer?.sides : null} />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      {two && <SidePickers versions={timeline.answer?.versions ?? []} range={range} answered={asked.current ? (asked.answer?.sides ?? null) : null} />}
      <Show asked={asked} what="stack depths">
        {(answer) => (answer.sides.every((side) => side.depth.length === 0) ? <Nothing what={here.type} /> : <Distribution answer={answer} current={asked.current} />)}
      </Show>
    </>
  );
}

/** `current` is false while the answer is still the one before, so nothing here may name the new sides. */
function Distribution({ answer, current }: { answer: DepthAnswer; current: boolean }) {
  const { a, b } = place.value;
  const { sides, largest_gap: gap } = answer;
  const two = sides.length === 2;
  const sideNames = current ? [`A ${sideName(a).slice(0, 60)}`, `B ${sideName(b).slice(0, 60)}`] : ["A …", "B …"];
  const names = two ? sideNames : ["all samples"];
  const depths = sides.map((side) => ({ depth: side.depth, samples: side.samples_at }));
  const deepest = Math.max(...sides.map((side) => side.max ?? 0), 1);
  const summary = sides.map((side, at) => `${names[at]}: mean ${short(side.mean ?? 0)}, median ${side.p50 ?? 0}, 95th percentile ${side.p95 ?? 0}, deepest ${side.max ?? 0}`).join("; ");
  const gapWords = gap && two ? gapSentence(depths, gap.depth) : "";
  return (
    <>
      <Notices said={notices(sides, ["A", "B"], answer.basis)} />
      {!two && <BasisLine basis={sides[0]} sampled={sides[0].seconds} />}
      {!two && <QualityLine of={sides[0]} />}
      {gapWords !== "" && <p class="verdict">{current ? gapWords : "Loading stack depths…"}</p>}
      <div class="charts">
        <figure class="card"><figcaption>Histogram <Key two={two} names={names} /></figcaption>
          <Histogram sides={depths} names={names} deepest={deepest} summary={`Histogram of stack depth. ${summary}.`} /></figure>
        <figure class="card"><figcaption>Cumulative distribution <Key two={two} names={names} /></figcaption>
          <Ecdf sides={depths} names={names} deepest={deepest} gapAt={gap?.depth ?? null} summary={`Cumulative distribution of stack depth. ${summary}. ${gapWords}`} /></figure>
      </div>
      <div class="wide" tabIndex={0} role="region" aria-label="Depth numbers">
        <table class="depths">
          <thead><tr><th scope="col">Side</th>{["mean", "p50", "p95", "p99", "max", "truncated", "samples"].map((name) => <th key={name} scope="col" class="number">{name}</th>)}</tr></thead>
          <tbody>{sides.map((side, at) => <Numbers key={names[at]} side={side} name={names[at]} />)}</tbody>
        </table>
      </div>
      {two && (sides[0].truncated_samples > 0) !== (sides[1].truncated_samples > 0) && (
        <p class="notices single">Only one side has truncated stacks: the tails of the two distributions are not comparable.</p>
      )}
      <details class="numbers card">
        <summary>All depths as a table</summary>
        <Table sides={sides} names={names} />
      </details>
    </>
  );
}

function Key({ two, names }: { two: boolean; names: readonly string[] }) {
  if (!two) return null;
  return <span class="key"><span class="swatch bar-a" aria-hidden="true" /><bdi>{names[0]}</bdi> <span class="swatch bar-b" aria-hidden="true" /><bdi>{names[1]}</bdi></span>;
}

function Numbers({ side, name }: { side: DepthSide; name: string }) {
  const truncated = side.truncated_samples / Math.max(allSamples(side.states), side.truncated_samples, 1);
  const number = (value: number | null) => <td class="number">{value === null ? "–" : short(value)}</td>;
  const whole = (value: number | null) => <td class="number">{value === null ? "–" : count(value)}</td>;
  return (
    <tr>
      <th scope="row"><bdi>{name}</bdi></th>
      {number(side.mean)}{whole(side.p50)}{whole(side.p95)}{whole(side.p99)}
      <td class="number">{side.max === null ? "–" : count(side.max)}{truncated > 0 && <span title="deeper stacks were cut here">+</span>}</td>
      <td class="number">{percent(truncated)}</td>{whole(side.samples_at.reduce((all, value) => all + value, 0))}
    </tr>
  );
}

function Table({ sides, names }: { sides: readonly DepthSide[]; names: readonly string[] }) {
  const depths = [...new Set(sides.flatMap((side) => [...side.depth]))].sort((a, b) => a - b);
  const at = sides.map((side) => new Map(side.depth.map((depth, i) => [depth, side.samples_at[i]])));
  return (
    <div class="wide short" tabIndex={0} role="region" aria-label="Samples by depth">
      <table>
        <thead><tr><th scope="col" class="number">depth</th>{names.map((name) => <th key={name} scope="col" class="number"><bdi>{name}</bdi></th>)}</tr></thead>
        <tbody>{depths.map((depth) => <tr key={depth}><th scope="row" class="number">{depth}</th>{at.map((side, i) => <td key={i} class="number">{count(side.get(depth) ?? 0)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
