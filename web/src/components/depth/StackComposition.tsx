import { Fragment, type ComponentChildren } from "preact";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { StackCompositionAnswer } from "../../api/answers.ts";
import { foldCycles, type FrameRun } from "../../flamegraph/tree/cycles.ts";
import { pathKeyOfNames } from "../../flamegraph/tree/focus.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { place } from "../../lib/location.ts";
import { signed } from "../../lib/numbers.ts";
import { shareColumn } from "../../lib/quantities.ts";
import { count } from "../../strings/counts.ts";
import { searchable } from "../../flamegraph/analysis/search.ts";
import { onPage } from "../../lib/url.ts";
import { Bar, Link } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";
import { AnswerView } from "../answer/AnswerView.tsx";
import * as strings from "../../strings/depthStrings.tsx";

const MAX_ROWS = 20;

/** What the stacks are made of: frames of each package, functions that recur, the deepest stacks that are new. */
export function StackComposition({ request: parameters }: { request: Record<string, string> }) {
  const request = useAnswer<StackCompositionAnswer>(apiUrl("stack-composition", { ...parameters, limit: String(MAX_ROWS) }));
  return (
    <AnswerView request={request} what={strings.stackComposition}>
      {(answer) => <><PackageTable answer={answer} /><RecursionTable answer={answer} /><DeepestStacks answer={answer} /></>}
    </AnswerView>
  );
}

const letters = (answer: StackCompositionAnswer) => answer.sides.map((_, at) => (answer.sides.length > 1 ? "AB"[at] : ""));

function Section({ title, summary, total, rowCount, children }: { title: string; summary: string; total: number; rowCount: number; children: ComponentChildren }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="quiet">{summary} {total > rowCount && strings.showingFirstOf(rowCount, total)}</p>
      {children}
    </section>
  );
}

function PackageTable({ answer }: { answer: StackCompositionAnswer }) {
  const { packages: { package: names, kind }, sides, totals } = answer;
  const isComparison = sides.length === 2;
  const maximum = Math.max(...sides.flatMap((side) => [...side.package_frames]), 1e-9);
  return (
    <Section title={strings.framesPerPackage} summary={strings.packagesSummary} total={totals.packages} rowCount={names.length}>
      <Table label={strings.framesPerPackageTable} className="anatomy cards" heads={[strings.packageLabel, ...letters(answer).map((letter) => strings.framesColumn(letter).trim()), ...(isComparison ? [strings.framesDifference] : [])]}>
        {names.map((name, row) => {
          const delta = isComparison ? sides[1].package_frames[row] - sides[0].package_frames[row] : 0;
          return (
            <tr key={`${name} ${kind[row]}`}>
              <th scope="row"><bdi>{name.slice(0, 200) || strings.framesWithoutFile}</bdi>{kind[row] === "stdlib" && <span class="quiet">{" "}{strings.standardLibrary}</span>}</th>
              {sides.map((side, at) => <td key={at} class="number"><Bar part={side.package_frames[row] / maximum}>{side.package_frames[row].toFixed(2)}</Bar></td>)}
              {isComparison && <td class="number">{Math.abs(delta) < 0.005 ? "≈ 0" : `${delta > 0 ? "▲" : "▼"} ${signed(delta.toFixed(2), delta)}`}</td>}
            </tr>
          );
        })}
      </Table>
    </Section>
  );
}

function RecursionTable({ answer }: { answer: StackCompositionAnswer }) {
  const { functions: { function: names, file }, sides, totals } = answer;
  const here = place.value;
  const page = sides.length === 2 ? "compare" : "service";
  return (
    <Section title={strings.recursion} summary={names.length > 0 ? strings.functionsRecurWithinOne : strings.noFunctionRecursWithin} total={totals.functions} rowCount={names.length}>
      {names.length > 0 && (
        <Table label={strings.functionsRecur} className="anatomy cards" heads={[strings.functionLabel, ...letters(answer).flatMap((letter) => ["samples", strings.avgRepeats, "max"].map((what) => `#${`${letter} ${what}`.trim()}`))]}>
          {names.map((name, row) => (
            <tr key={`${name} ${file[row]}`}>
              <th scope="row">
                <Link to={onPage(here, page, { q: searchable(file[row] ? `${name} (${file[row]})` : name) })} title={strings.findInFlameGraph}><bdi>{name.slice(0, 200)}</bdi></Link>{" "}
                <bdi class="quiet">{file[row].slice(0, 200)}</bdi>
              </th>
              {sides.map((side, at) => {
                const [samples, frames] = [side.recursive_samples[row], side.recursive_frames[row]];
                return (
                  <Fragment key={at}>
                    <td class="number">{shareColumn(side.samples > 0 ? samples / side.samples : 0)}</td>
                    <td class="number">{samples > 0 ? (frames / samples).toFixed(2) : "–"}</td>
                    <td class="number">{count(side.recursive_max[row])}</td>
                  </Fragment>
                );
              })}
            </tr>
          ))}
        </Table>
      )}
    </Section>
  );
}

function DeepestStacks({ answer }: { answer: StackCompositionAnswer }) {
  const { deepest, names, sides, totals } = answer;
  const isComparison = sides.length === 2;
  const here = place.value;
  const title = isComparison ? strings.deepestNewStacks : strings.deepestStacks;
  const summary = !isComparison ? strings.wholeStacksFromRoot
    : deepest.length > 0 ? strings.callPathsOnlyIn
    : strings.noCallPathOnly;
  return (
    <Section title={title} summary={summary} total={totals.stacks} rowCount={deepest.length}>
      <ol class="stacks">
        {deepest.map(({ depth, samples, frames }, at) => {
          const path = frames.map((frame) => names[frame]);
          const band = String(depth);
          return (
            <li key={at}>
              <strong>{strings.frameCount(depth)}</strong> <span class="quiet">{strings.sampleCount(samples)}</span>{" "}
              <Link class="button" to={onPage(here, isComparison ? "compare" : "service", { focus: pathKeyOfNames(path), min_depth: band, max_depth: band, by: "function" })}
                title={strings.pathInFlameGraph}>{strings.open}</Link>
              <span class="path">{shortenRuns(foldCycles(path)).map((run, i) => <Fragment key={i}>{i > 0 && " › "}<RepeatedFrames run={run} /></Fragment>)}</span>
            </li>
          );
        })}
      </ol>
    </Section>
  );
}

const END_FRAMES = 4;

/** Long stretches without repetition keep their ends only. */
const shortenRuns = (runs: readonly FrameRun[]): FrameRun[] => runs.flatMap((run) => {
  const hidden = run.frames.length - 2 * END_FRAMES;
  if (run.count > 1 || hidden < 2) return [run];
  return [{ frames: run.frames.slice(0, END_FRAMES), count: 1 }, { frames: [strings.more(hidden)], count: 1 }, { frames: run.frames.slice(-END_FRAMES), count: 1 }];
});

function RepeatedFrames({ run: { frames, count: times } }: { run: FrameRun }) {
  const functionName = (frame: string) => frameParts(frame).function.slice(0, 120);
  const names = times > 1 && frames.length > 4 ? [...frames.slice(0, 2).map(functionName), strings.moreFrames(frames.length - 3), functionName(frames[frames.length - 1])] : frames.map(functionName);
  const labels = names.map((name, i) => <Fragment key={i}>{i > 0 && " › "}<bdi>{name}</bdi></Fragment>);
  return times > 1 ? <strong class="cycle" title={strings.repeatedFrames(frames.length, times)}>{frames.length > 1 ? <>({labels})</> : labels} ×{count(times)}</strong> : <>{labels}</>;
}
