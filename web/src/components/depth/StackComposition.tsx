import { Fragment, type ComponentChildren } from "preact";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { Side } from "../../api/answers.ts";
import { cycles, type Run } from "../../flamegraph/tree/cycles.ts";
import { focusWordOf } from "../../flamegraph/tree/focus.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { place } from "../../lib/location.ts";
import { count, percent, plural, short, signed } from "../../lib/numbers.ts";
import { searchable } from "../../flamegraph/analysis/search.ts";
import { onPage } from "../../lib/url.ts";
import { Bar, Link } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";
import { Show } from "../answer/AnswerView.tsx";

interface AnatomyAnswer {
  readonly packages: { readonly package: readonly string[]; readonly kind: readonly string[] };
  readonly functions: { readonly function: readonly string[]; readonly file: readonly string[] };
  readonly names: readonly string[];
  readonly deepest: readonly { readonly depth: number; readonly samples: number; readonly frames: readonly number[] }[];
  readonly sides: readonly (Side & {
    readonly package_frames: readonly number[];
    readonly recurring_samples: readonly number[];
    readonly recurring_frames: readonly number[];
    readonly recurring_most: readonly number[];
  })[];
  readonly found: { readonly packages: number; readonly functions: number; readonly stacks: number };
}

const ROWS = 20;

/** What the stacks are made of: frames of each package, functions that recur, the deepest stacks that are new. */
export function Anatomy({ asked: given }: { asked: Record<string, string> }) {
  const asked = useAnswer<AnatomyAnswer>(apiUrl("depth/frames", { ...given, limit: String(ROWS) }));
  return (
    <Show asked={asked} what="what the stacks are made of">
      {(answer) => <><Packages answer={answer} /><Recursion answer={answer} /><Deepest answer={answer} /></>}
    </Show>
  );
}

const letters = (answer: AnatomyAnswer) => answer.sides.map((_, at) => (answer.sides.length > 1 ? "AB"[at] : ""));

function Section({ title, said, found, shown, children }: { title: string; said: string; found: number; shown: number; children: ComponentChildren }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="quiet">{said}{found > shown && ` The first ${count(shown)} of ${count(found)} are shown.`}</p>
      {children}
    </section>
  );
}

function Packages({ answer }: { answer: AnatomyAnswer }) {
  const { packages: { package: names, kind }, sides, found } = answer;
  const two = sides.length === 2;
  const most = Math.max(...sides.flatMap((side) => [...side.package_frames]), 1e-9);
  return (
    <Section title="Frames per package" said="How many frames of each package the stack of a sample has, in the mean." found={found.packages} shown={names.length}>
      <Table label="Frames per package, as a table" looks="anatomy" heads={["Package", ...letters(answer).map((letter) => `#Frames ${letter}`.trim()), ...(two ? ["#Δ frames"] : [])]}>
        {names.map((name, row) => {
          const delta = two ? sides[1].package_frames[row] - sides[0].package_frames[row] : 0;
          return (
            <tr key={`${name} ${kind[row]}`}>
              <th scope="row"><bdi>{name.slice(0, 200) || "(frames without a file)"}</bdi>{kind[row] === "stdlib" && <span class="quiet"> standard library</span>}</th>
              {sides.map((side, at) => <td key={at} class="number"><Bar part={side.package_frames[row] / most}>{side.package_frames[row].toFixed(2)}</Bar></td>)}
              {two && <td class="number">{Math.abs(delta) < 0.005 ? "≈ 0" : `${delta > 0 ? "▲" : "▼"} ${signed(delta.toFixed(2), delta)}`}</td>}
            </tr>
          );
        })}
      </Table>
    </Section>
  );
}

function Recursion({ answer }: { answer: AnatomyAnswer }) {
  const { functions: { function: names, file }, sides, found } = answer;
  const here = place.value;
  const back = sides.length === 2 ? "compare" : "service";
  return (
    <Section title="Recursion" said={names.length > 0 ? "Functions that are more than once on a stack: in what part of the samples, how often in those, and how often at most." : "No function is more than once on a stack."} found={found.functions} shown={names.length}>
      {names.length > 0 && (
        <Table label="Functions that recur" looks="anatomy" heads={["Function", ...letters(answer).flatMap((letter) => ["samples", "mean times", "most"].map((what) => `#${`${letter} ${what}`.trim()}`))]}>
          {names.map((name, row) => (
            <tr key={`${name} ${file[row]}`}>
              <th scope="row">
                <Link to={onPage(here, back, { q: searchable(file[row] ? `${name} (${file[row]})` : name) })} title="Find in the flame graph"><bdi>{name.slice(0, 200)}</bdi></Link>{" "}
                <bdi class="quiet">{file[row].slice(0, 200)}</bdi>
              </th>
              {sides.map((side, at) => {
                const [samples, frames] = [side.recurring_samples[row], side.recurring_frames[row]];
                return (
                  <Fragment key={at}>
                    <td class="number">{percent(side.samples > 0 ? samples / side.samples : 0)}</td>
                    <td class="number">{samples > 0 ? short(frames / samples) : "–"}</td>
                    <td class="number">{count(side.recurring_most[row])}</td>
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

function Deepest({ answer }: { answer: AnatomyAnswer }) {
  const { deepest, names, sides, found } = answer;
  const two = sides.length === 2;
  const here = place.value;
  const title = two ? "Deepest new stacks" : "Deepest stacks";
  const said = !two ? "Whole stacks, the root first; what repeats is written once."
    : deepest.length > 0 ? "Call paths of B that no sample of A went through; what repeats is written once."
    : "B has no call path that A does not have.";
  return (
    <Section title={title} said={said} found={found.stacks} shown={deepest.length}>
      <ol class="stacks">
        {deepest.map(({ depth, samples, frames }, at) => {
          const path = frames.map((frame) => names[frame]);
          const band = String(depth);
          return (
            <li key={at}>
              <strong>{plural(depth, "frame")}</strong> <span class="quiet">{plural(samples, "sample")}</span>{" "}
              <Link class="button" to={onPage(here, two ? "compare" : "service", { focus: focusWordOf(path), depth_from: band, depth_until: band, by: "function" })}
                title="This path in the flame graph">open</Link>
              <span class="path">{shortened(cycles(path)).map((run, i) => <Fragment key={i}>{i > 0 && " › "}<Cycle run={run} /></Fragment>)}</span>
            </li>
          );
        })}
      </ol>
    </Section>
  );
}

const ENDS = 4;

/** Long stretches without repetition keep their ends only. */
const shortened = (runs: readonly Run[]): Run[] => runs.flatMap((run) => {
  const hidden = run.frames.length - 2 * ENDS;
  if (run.times > 1 || hidden < 2) return [run];
  return [{ frames: run.frames.slice(0, ENDS), times: 1 }, { frames: [`… ${hidden} more …`], times: 1 }, { frames: run.frames.slice(-ENDS), times: 1 }];
});

function Cycle({ run: { frames, times } }: { run: Run }) {
  const named = (frame: string) => frameParts(frame).function.slice(0, 120);
  const shown = times > 1 && frames.length > 4 ? [...frames.slice(0, 2).map(named), `… ${frames.length - 3} more …`, named(frames[frames.length - 1])] : frames.map(named);
  const words = shown.map((name, i) => <Fragment key={i}>{i > 0 && " › "}<bdi>{name}</bdi></Fragment>);
  return times > 1 ? <strong class="cycle" title={`${plural(frames.length, "frame")} in a row, ${count(times)} times`}>{frames.length > 1 ? <>({words})</> : words} ×{count(times)}</strong> : <>{words}</>;
}
