import { useMemo } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { LinesAnswer, LinesSide } from "../../api/answers.ts";
import { changeOf, divisors } from "../../flamegraph/tree/compare.ts";
import { functionMeant, sandwichOf } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { wordText } from "../../flamegraph/tree/focus.ts";
import type { Tree } from "../../flamegraph/tree/tree.ts";
import { changeWords } from "../../flamegraph/analysis/frameDescription.ts";
import { change, place } from "../../lib/location.ts";
import { count, microseconds, percent, plural } from "../../lib/numbers.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { Link, Spent } from "../ui/Controls.tsx";
import { CopyButton } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { rangeOf } from "../../lib/url.ts";
import { Show } from "../answer/AnswerView.tsx";
import { comparison, pickedBy } from "../../lib/queryParameters.ts";

/** Where inside one function time is spent, line by line. */
export function LinesView({ tree, names }: { tree: Tree; names: readonly string[] }) {
  const here = place.value;
  const whose = useMemo(() => functionMeant(tree.names, here.fn), [tree, here.fn]);
  const range = rangeOf(here);
  const { function: name, file } = frameParts(whose);
  const scope = names.length === 2 ? comparison(here, range) : { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const about = here.fn !== "" && (here.by === "function" || here.by === "line");
  const asked = useAnswer<LinesAnswer>(about ? apiUrl("lines", { ...scope, ...pickedBy({ ...here, scope: "" }), function: name, file }) : null);
  useKeys({ s: () => { if (about) change(sandwichOf(whose)); } });
  if (!about) {
    return (
      <div class="card zero">
        <h2>Lines are of one function</h2>
        <p>Choose it in the table (<kbd>l</kbd> on a row) or in the flame graph (<kbd>l</kbd> on a frame).</p>
        <button type="button" class="primary" onClick={() => change({ view: "table", by: "function" })}>Open the table</button>
      </div>
    );
  }
  return (
    <section class="panel lines" aria-label="Lines of one function">
      <div class="tools">
        <h2><bdi>{whose.slice(0, 300)}</bdi></h2>
        <Link to={{ ...here, ...sandwichOf(whose) }} class="button" title="s">Callers and callees</Link>
        <button type="button" onClick={() => change({ view: "table", fn: "" })}>Other function</button>
      </div>
      <Show asked={asked} what="the lines">{(answer) => <LineTable answer={answer} names={names} />}</Show>
    </section>
  );
}

function LineTable({ answer, names }: { answer: LinesAnswer; names: readonly string[] }) {
  const { t, norm } = place.value;
  const { sides, line, file } = answer;
  if (line.length === 0) {
    return <p class="missing" role="status"><bdi><code>{wordText(place.value.fn).slice(0, 200)}</code></bdi> has no samples here. Choose another function, type or range.</p>;
  }
  const two = names.length === 2;
  const divisor = divisors(norm, sides.map((side) => side.pod_seconds), sides.map((side) => side.seconds * 1e6));
  return (
    <>
      <p class="basis">
        {sides.map(({ whole, samples }, side) =>
          `${two ? `${"AB"[side]}: ` : ""}total ${percent(samples > 0 ? whole.total_samples / samples : 0, 2)} of all (${microseconds(whole.total_us)}, ${plural(whole.total_samples, "sample")}), self ${microseconds(whole.self_us)}. `)}
        Shares are of the function's total. No source code is stored, so lines have numbers alone: those of the version that ran.
        {t !== "" && " Transforms do not change this table."}
        {answer.lines > line.length && ` The ${count(line.length)} heaviest of ${count(answer.lines)} lines.`}
      </p>
      <div class="wide tall" tabIndex={0} role="region" aria-label="Table of lines">
        <table>
          <thead>
            <tr>
              <th scope="col">Line</th>
              {sides.map((_, side) => (
                <Headings key={side} of={two ? ` ${"AB"[side]}` : ""} />
              ))}
              {two && <th scope="col">Total, in words</th>}
              <th scope="col"><span class="unseen">Copy</span></th>
            </tr>
          </thead>
          <tbody>
            {line.map((number, at) => (
              <tr key={number} class={at > 0 && number > line[at - 1] + 1 ? "gap-before" : ""}>
                <th scope="row"><code><bdi class="quiet">{file.slice(-80)}</bdi>{number > 0 ? `:${number}` : " (line not known)"}</code></th>
                {sides.map((side, which) => <Cells key={which} side={side} at={at} />)}
                {two && <td>{changeWords(changeOf(pair(sides, (side) => side.total_us[at]), pair(sides, (side) => side.total_samples[at]), divisor))}</td>}
                <td><CopyButton text={() => `${file}:${number}`} what="Line">Copy</CopyButton></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const Headings = ({ of }: { of: string }) => (
  <><th scope="col" class="number">Self{of}</th><th scope="col" class="number">share</th><th scope="col" class="number">Total{of}</th><th scope="col" class="number">share</th></>
);

const Cells = ({ side, at }: { side: LinesSide; at: number }) => (
  <><Spent us={side.self_us[at]} whole={side.whole.total_us} /><Spent us={side.total_us[at]} whole={side.whole.total_us} /></>
);

const pair = (sides: readonly LinesSide[], of: (side: LinesSide) => number): [number, number] => [of(sides[0]), of(sides[1])];
