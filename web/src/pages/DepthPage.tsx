import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { DepthAnswer, DepthSide, TimelineAnswer } from "../api/answers.ts";
import type { Verdict, VerdictAnswer } from "../api/verdict.ts";
import { parseDepthRange, depthRangeParameters, type DepthRange } from "../lib/depthRange.ts";
import { histogramBins, Ecdf, Histogram } from "../charts/DepthCharts.tsx";
import { describeGap } from "../lib/distribution.ts";
import { pathKeyName } from "../flamegraph/tree/focus.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { percent, short, confidenceLabel } from "../lib/numbers.ts";
import { shareColumn } from "../lib/quantities.ts";
import { count } from "../strings/counts.ts";
import { StackComposition } from "../components/depth/StackComposition.tsx";
import { Link } from "../components/ui/Controls.tsx";
import { ChartBrush } from "../components/depth/ChartBrush.tsx";
import { Delta } from "../components/verdict/EffectCells.tsx";
import { DepthRangePanel } from "../components/depth/DepthRangePanel.tsx";
import { DepthScope } from "../components/depth/DepthScope.tsx";
import { EmptyState } from "../components/answer/EmptyState.tsx";
import { useSharedView } from "../components/controls/sharedView.ts";
import { ComparabilityChecks } from "../components/verdict/ComparabilityChecks.tsx";
import { QualityLine } from "../components/answer/QualityLine.tsx";
import { SidePickers } from "../components/controls/SidePickers.tsx";
import { Table } from "../components/ui/Table.tsx";
import { totalSamples } from "../viewmodels/qualitySummary.ts";
import { selectorOf, sideName } from "../lib/selectors.ts";
import { defaultSides } from "../lib/sides.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { BasisLine, Notices } from "../components/answer/Notices.tsx";
import { comparisonParameters, sampleFilterParameters, treeParameters } from "../lib/queryParameters.ts";
import * as strings from "../strings/depthStrings.tsx";

/** How deep the stacks of samples are: of one profile, or of two sides. */
export function DepthPage({ refreshCount }: { refreshCount: number }) {
  const here = place.value;
  const range = pageRange(here);
  const isComparison = here.baseline !== "" && here.comparison !== "";
  const scope: Record<string, string> = isComparison ? comparisonParameters(here) : { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const { function: fn, focus, ...depths } = sampleFilterParameters(here);
  const parameters = { ...scope, function: fn, focus };
  const query = ["depth", parameters] as const;
  const request = useAnswer<DepthAnswer>(apiUrl(...query));
  const timeline = useAnswer<TimelineAnswer>(apiUrl("timeline", { query: selectorOf(here.service, ""), ...range, type: "wall" }));
  // After what it is about, which is there sooner.
  const verdictRequest = useAnswer<VerdictAnswer>(isComparison && request.isCurrent ? apiUrl("verdict", parameters) : null);
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  useSharedView(query, request.isCurrent ? (request.answer?.sides ?? null) : null);
  const sides = defaultSides(timeline.answer?.versions ?? []);
  return (
    <>
      <div class="heading">
        <h1>{strings.stackDepthOf(<bdi>{here.service.slice(0, 200)}</bdi>)}</h1>
        {isComparison && <Link to={onPage(here, "compare", { focus: here.focus })} class="button">{strings.compareAndB}</Link>}
        {isComparison && <button type="button" onClick={() => change({ baseline: "", comparison: "", baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "" })}>{strings.oneProfile}</button>}
        {!isComparison && sides && <Link to={onPage(here, "depth", sides)} class="button primary">{strings.compareWithPreviousVersion}</Link>}
      </div>
      {isComparison && <SidePickers range={range} sides={request.isCurrent ? (request.answer?.sides ?? null) : null} isSettled={request.isCurrent} />}
      <DepthScope parameters={scope} />
      <AnswerView request={request} what={strings.stackDepths}>
        {(answer) => (answer.sides.some((side) => side.depth.length > 0)
          ? <DepthDistribution answer={answer} isCurrent={request.isCurrent} url={apiUrl(isComparison ? "compare" : "flamegraph", { ...parameters, ...depths, ...treeParameters(here) })} parts={parameters} verdict={verdictRequest.isCurrent ? verdictRequest.answer?.verdict : undefined} />
          : fn !== "" || focus !== "" ? <NoMatchingSamples fn={fn} focus={focus} /> : <EmptyState what={here.type} />)}
      </AnswerView>
    </>
  );
}

/** Samples there may be, but none with the function, or below the call path. */
function NoMatchingSamples({ fn, focus }: { fn: string; focus: string }) {
  return (
    <div class="card zero">
      <h2>{fn !== "" ? <>{strings.noSamplesWithOn(<bdi><code>{fn.slice(0, 300)}</code></bdi>)}</> : <>{strings.noSamplesBelow(<bdi><code>{pathKeyName(focus)}</code></bdi>)}</>}</h2>
      <p>{fn !== "" ? strings.nameWithoutFileMatches : strings.callPathsChangeWith}</p>
      <button type="button" class="primary" onClick={() => change({ scope: "" })}>{strings.allSamples}</button>
    </div>
  );
}

/** `isCurrent` is false while the answer is still the previous one, so nothing here may name the new sides. */
function DepthDistribution({ answer, isCurrent, url, parts, verdict }: {
  answer: DepthAnswer; isCurrent: boolean; url: string; parts: Record<string, string>; verdict: Verdict | undefined;
}) {
  const here = place.value;
  const { sides, largest_gap: gap } = answer;
  const isComparison = sides.length === 2;
  const sideNames = isCurrent ? [`A ${sideName(here.baseline).slice(0, 60)}`, `B ${sideName(here.comparison).slice(0, 60)}`] : ["A …", "B …"];
  const names = isComparison ? sideNames : [strings.allSamplesWord];
  const depths = sides.map((side) => ({ depth: side.depth, samples: side.samples_at }));
  const deepest = Math.max(...sides.map((side) => side.max ?? 0), 1);
  const [draft, setDraft] = useState<DepthRange | null>(null);
  const selected = parseDepthRange(place.value, deepest);
  const range = draft ?? selected;
  const select = (next: DepthRange | null, how?: "replace") => change(next ? depthRangeParameters(next) : { min_depth: "", max_depth: "" }, how);
  const brush = { deepest, range: selected, onDraft: setDraft, onSelect: select };
  const chart = { sides: depths, names, deepest, range };
  const summary = sides.map((side, at) => strings.depthSummary(names[at], short(side.mean ?? 0), side.p50 ?? 0, side.p95 ?? 0, side.max ?? 0)).join("; ");
  const depthEffects = isCurrent ? verdict?.depth : null;
  const gapText = gap && isComparison ? describeGap(depths, gap.depth) : "";
  return (
    <>
      <Notices notices={dataQualityNotices(sides, ["A", "B"], answer.basis)} />
      {!isComparison && <BasisLine basis={sides[0]} sampled={sides[0].seconds} />}
      {!isComparison && <QualityLine source={sides[0]} />}
      {gapText !== "" && <p class="verdict">{isCurrent ? gapText : strings.loadingStackDepths}</p>}
      {depthEffects && <p class="quiet">{strings.intervalOf(confidenceLabel(verdict?.method.alpha_spent ?? 0), percent(depthEffects.gap.low), percent(depthEffects.gap.high))}</p>}
      {verdict && <ComparabilityChecks verdict={verdict} />}
      <div class="charts">
        <figure class="card"><figcaption>{strings.histogram}{" "}<ChartKey isComparison={isComparison} names={names} /></figcaption>
          <ChartBrush name={strings.histogramName} {...histogramBins(deepest)} {...brush}><Histogram {...chart} summary={strings.histogramDescription(summary)} /></ChartBrush></figure>
        <figure class="card"><figcaption>{strings.cumulativeDistribution}{" "}<ChartKey isComparison={isComparison} names={names} /></figcaption>
          <ChartBrush name={strings.cumulativeDistributionName} bins={deepest + 1} width={1} {...brush}>
            <Ecdf {...chart} gapAt={gap?.depth ?? null} summary={strings.cumulativeDistributionDescription(summary, gapText)} />
          </ChartBrush></figure>
      </div>
      <Table label={strings.depthNumbers} className="depths cards" heads={[strings.side, ...strings.depthColumns]}>
        {sides.map((side, at) => <DepthRow key={names[at]} side={side} name={names[at]} />)}
        {depthEffects && <tr><th scope="row">B − A, {confidenceLabel(verdict?.method.alpha_spent ?? 0)}</th>{(["mean", "p50", "p95", "p99"] as const).map((name) => <td key={name} class="number"><Delta effect={depthEffects[name]} format={(value) => value.toFixed(1)} /></td>)}</tr>}
      </Table>
      {isComparison && <TruncationNotice sides={sides} />}
      <DepthRangePanel range={selected} sides={sides} names={names} deepest={deepest} onSelect={select} url={url} />
      <StackComposition request={parts} />
      <details class="numbers card">
        <summary>{strings.allDepthsAsTable}</summary>
        <DepthTable sides={sides} names={names} />
      </details>
    </>
  );
}

const truncatedShare = (side: DepthSide) => side.truncated_samples / Math.max(totalSamples(side.states), side.truncated_samples, 1);

/** Truncation that differs makes the deep ends of two distributions hard to compare: shown all the same, and said. */
function TruncationNotice({ sides }: { sides: readonly DepthSide[] }) {
  const [a, b] = sides.map((side) => percent(truncatedShare(side)));
  if (a === b) return null;
  return (
    <p class="notices single">
      {strings.truncationDiffers(a, b, <code>--max-depth</code>)}
    </p>
  );
}

function ChartKey({ isComparison, names }: { isComparison: boolean; names: readonly string[] }) {
  if (!isComparison) return null;
  return <span class="key"><span class="swatch bar-a" aria-hidden="true" /><bdi>{names[0]}</bdi> <span class="swatch bar-b" aria-hidden="true" /><bdi>{names[1]}</bdi></span>;
}

function DepthRow({ side, name }: { side: DepthSide; name: string }) {
  const truncated = truncatedShare(side);
  const integer = (value: number | null) => <td class="number">{value === null ? "–" : count(value)}</td>;
  return (
    <tr>
      <th scope="row"><bdi>{name}</bdi></th>
      <td class="number">{side.mean === null ? "–" : side.mean.toFixed(2)}</td>{integer(side.p50)}{integer(side.p95)}{integer(side.p99)}
      <td class="number">{side.max === null ? "–" : count(side.max)}{truncated > 0 && <span title={strings.deeperStacksWereTruncated}>+</span>}</td>
      <td class="number">{shareColumn(truncated)}</td>{integer(side.samples_at.reduce((all, value) => all + value, 0))}
    </tr>
  );
}

function DepthTable({ sides, names }: { sides: readonly DepthSide[]; names: readonly string[] }) {
  const depths = [...new Set(sides.flatMap((side) => [...side.depth]))].sort((a, b) => a - b);
  const at = sides.map((side) => new Map(side.depth.map((depth, i) => [depth, side.samples_at[i]])));
  return (
    <Table label={strings.samplesByDepth} className="short" heads={[strings.depthColumn, ...names.map((name) => `#${name}`)]}>
      {depths.map((depth) => <tr key={depth}><th scope="row" class="number">{depth}</th>{at.map((side, i) => <td key={i} class="number">{count(side.get(depth) ?? 0)}</td>)}</tr>)}
    </Table>
  );
}
