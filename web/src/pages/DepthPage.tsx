import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { DepthAnswer, DepthSide, TimelineAnswer } from "../api/answers.ts";
import type { Verdict } from "../api/verdict.ts";
import { bandOf, written, type Band } from "../lib/depthRange.ts";
import { binsOf, Ecdf, Histogram } from "../charts/DepthCharts.tsx";
import { gapSentence } from "../lib/distribution.ts";
import { focusName } from "../flamegraph/tree/focus.ts";
import { change, place } from "../lib/location.ts";
import { notices } from "../viewmodels/dataQualityNotices.ts";
import { count, percent, short, sure } from "../lib/numbers.ts";
import { Anatomy } from "../components/depth/StackComposition.tsx";
import { Link } from "../components/ui/Controls.tsx";
import { Brush } from "../components/depth/ChartBrush.tsx";
import { Delta } from "../components/profile/ChangeTable.tsx";
import { DepthBand } from "../components/depth/DepthRangePanel.tsx";
import { DepthScope } from "../components/depth/DepthScope.tsx";
import { Nothing } from "../components/answer/EmptyState.tsx";
import { Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { Checks } from "../components/profile/VerdictSummary.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { SidePickers } from "../components/controls/SidePickers.tsx";
import { Table } from "../components/ui/Table.tsx";
import { allSamples } from "../viewmodels/qualitySummary.ts";
import { selectorOf, sideName } from "../lib/selectors.ts";
import { usualSides } from "../lib/sides.ts";
import { onPage, rangeOf } from "../lib/url.ts";
import { Show } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { comparison, pickedBy, treeAsked } from "../lib/queryParameters.ts";

/** How deep the stacks of samples are: of one profile, or of two sides. */
export function Depth({ turn }: { turn: number }) {
  const here = place.value;
  const range = rangeOf(here);
  const two = here.a !== "" && here.b !== "";
  const scope: Record<string, string> = two ? comparison(here, range) : { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const { function: fn, focus, ...depths } = pickedBy(here);
  const whole = { ...scope, function: fn, focus };
  const question = ["depth", whole] as const;
  const asked = useAnswer<DepthAnswer>(apiUrl(...question));
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  // After what it is about, which is there sooner.
  const judged = useAnswer<{ readonly verdict: Verdict }>(two && asked.current ? apiUrl("verdict", whole) : null);
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  const usual = usualSides(timeline.answer?.versions ?? []);
  return (
    <>
      <div class="heading">
        <h1>Stack depth of <bdi>{here.service.slice(0, 200)}</bdi></h1>
        {two && <Link to={onPage(here, "compare", { focus: here.focus })} class="button">Compare A and B</Link>}
        {two && <button type="button" onClick={() => change({ a: "", b: "", a_from: "", a_until: "", b_from: "", b_until: "" })}>One profile</button>}
        {!two && usual && <Link to={onPage(here, "depth", usual)} class="button primary">Compare with previous version</Link>}
        <Share question={question} answered={asked.current ? asked.answer?.sides : null} />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      {two && <SidePickers range={range} answered={asked.current ? (asked.answer?.sides ?? null) : null} />}
      <DepthScope asked={scope} />
      <Show asked={asked} what="stack depths">
        {(answer) => (answer.sides.some((side) => side.depth.length > 0)
          ? <Distribution answer={answer} current={asked.current} url={apiUrl(two ? "compare" : "flamegraph", { ...whole, ...depths, ...treeAsked(here) })} parts={whole} verdict={judged.current ? judged.answer?.verdict : undefined} />
          : fn !== "" || focus !== "" ? <NoneSuch fn={fn} focus={focus} /> : <Nothing what={here.type} />)}
      </Show>
    </>
  );
}

/** Samples there may be, but none with the function, or below the call path. */
function NoneSuch({ fn, focus }: { fn: string; focus: string }) {
  return (
    <div class="card zero">
      <h2>{fn !== "" ? <>No sample here has <bdi><code>{fn.slice(0, 300)}</code></bdi> on its stack</> : <>No sample here lies below <bdi><code>{focusName(focus)}</code></bdi></>}</h2>
      <p>{fn !== "" ? "A name alone finds that function in any file." : "Call paths change with deployments: another range or side may have it."}</p>
      <button type="button" class="primary" onClick={() => change({ scope: "" })}>All samples</button>
    </div>
  );
}

/** `current` is false while the answer is still the one before, so nothing here may name the new sides. */
function Distribution({ answer, current, url, parts, verdict }: {
  answer: DepthAnswer; current: boolean; url: string; parts: Record<string, string>; verdict: Verdict | undefined;
}) {
  const { a, b } = place.value;
  const { sides, largest_gap: gap } = answer;
  const two = sides.length === 2;
  const sideNames = current ? [`A ${sideName(a).slice(0, 60)}`, `B ${sideName(b).slice(0, 60)}`] : ["A …", "B …"];
  const names = two ? sideNames : ["all samples"];
  const depths = sides.map((side) => ({ depth: side.depth, samples: side.samples_at }));
  const deepest = Math.max(...sides.map((side) => side.max ?? 0), 1);
  const [drawing, draw] = useState<Band | null>(null);
  const chosen = bandOf(place.value, deepest);
  const band = drawing ?? chosen;
  const pick = (next: Band | null, how?: "replace") => change(next ? written(next) : { depth_from: "", depth_until: "" }, how);
  const brush = { deepest, band: chosen, draft: draw, pick };
  const chart = { sides: depths, names, deepest, band };
  const summary = sides.map((side, at) => `${names[at]}: mean ${short(side.mean ?? 0)}, median ${side.p50 ?? 0}, 95th percentile ${side.p95 ?? 0}, deepest ${side.max ?? 0}`).join("; ");
  const shifts = current ? verdict?.depth : null;
  const gapWords = gap && two ? gapSentence(depths, gap.depth) : "";
  return (
    <>
      <Notices said={notices(sides, ["A", "B"], answer.basis)} />
      {!two && <BasisLine basis={sides[0]} sampled={sides[0].seconds} />}
      {!two && <QualityLine of={sides[0]} />}
      {gapWords !== "" && <p class="verdict">{current ? gapWords : "Loading stack depths…"}</p>}
      {shifts && <p class="quiet">Its {sure(verdict?.method.level ?? 0)} is {percent(shifts.gap.low)} to {percent(shifts.gap.high)}.</p>}
      {verdict && <Checks verdict={verdict} />}
      <div class="charts">
        <figure class="card"><figcaption>Histogram <Key two={two} names={names} /></figcaption>
          <Brush name="Histogram of stack depth" {...binsOf(deepest)} {...brush}><Histogram {...chart} summary={`Histogram of stack depth. ${summary}.`} /></Brush></figure>
        <figure class="card"><figcaption>Cumulative distribution <Key two={two} names={names} /></figcaption>
          <Brush name="Cumulative distribution of stack depth" bins={deepest + 1} width={1} {...brush}>
            <Ecdf {...chart} gapAt={gap?.depth ?? null} summary={`Cumulative distribution of stack depth. ${summary}. ${gapWords}`} />
          </Brush></figure>
      </div>
      <Table label="Depth numbers" looks="depths" heads={["Side", "#mean", "#p50", "#p95", "#p99", "#max", "#truncated", "#samples"]}>
        {sides.map((side, at) => <Numbers key={names[at]} side={side} name={names[at]} />)}
        {shifts && <tr><th scope="row">B − A, {sure(verdict?.method.level ?? 0)}</th>{(["mean", "p50", "p95", "p99"] as const).map((name) => <td key={name} class="number"><Delta of={shifts[name]} write={(value) => value.toFixed(1)} /></td>)}</tr>}
      </Table>
      {two && <Tail sides={sides} />}
      <DepthBand band={chosen} sides={sides} names={names} deepest={deepest} pick={pick} url={url} />
      <Anatomy asked={parts} />
      <details class="numbers card">
        <summary>All depths as a table</summary>
        <Depths sides={sides} names={names} />
      </details>
    </>
  );
}

const truncated = (side: DepthSide) => side.truncated_samples / Math.max(allSamples(side.states), side.truncated_samples, 1);

/** Truncation that differs makes the deep ends of two distributions hard to compare: shown all the same, and said. */
function Tail({ sides }: { sides: readonly DepthSide[] }) {
  const [a, b] = sides.map((side) => percent(truncated(side)));
  if (a === b) return null;
  return (
    <p class="notices single">
      Truncation differs (A {a}, B {b}): stacks deeper than the sampler's limit lost their middle, so p99, max and the right end of both charts are not
      comparable. They are shown as they are; a higher <code>--max-depth</code> of the sidecar reads whole stacks.
    </p>
  );
}

function Key({ two, names }: { two: boolean; names: readonly string[] }) {
  if (!two) return null;
  return <span class="key"><span class="swatch bar-a" aria-hidden="true" /><bdi>{names[0]}</bdi> <span class="swatch bar-b" aria-hidden="true" /><bdi>{names[1]}</bdi></span>;
}

function Numbers({ side, name }: { side: DepthSide; name: string }) {
  const cut = truncated(side);
  const number = (value: number | null) => <td class="number">{value === null ? "–" : short(value)}</td>;
  const whole = (value: number | null) => <td class="number">{value === null ? "–" : count(value)}</td>;
  return (
    <tr>
      <th scope="row"><bdi>{name}</bdi></th>
      {number(side.mean)}{whole(side.p50)}{whole(side.p95)}{whole(side.p99)}
      <td class="number">{side.max === null ? "–" : count(side.max)}{cut > 0 && <span title="deeper stacks were cut here">+</span>}</td>
      <td class="number">{percent(cut)}</td>{whole(side.samples_at.reduce((all, value) => all + value, 0))}
    </tr>
  );
}

function Depths({ sides, names }: { sides: readonly DepthSide[]; names: readonly string[] }) {
  const depths = [...new Set(sides.flatMap((side) => [...side.depth]))].sort((a, b) => a - b);
  const at = sides.map((side) => new Map(side.depth.map((depth, i) => [depth, side.samples_at[i]])));
  return (
    <Table label="Samples by depth" looks="short" heads={["#depth", ...names.map((name) => `#${name}`)]}>
      {depths.map((depth) => <tr key={depth}><th scope="row" class="number">{depth}</th>{at.map((side, i) => <td key={i} class="number">{count(side.get(depth) ?? 0)}</td>)}</tr>)}
    </Table>
  );
}
