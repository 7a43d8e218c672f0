import { useMemo } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { LinesAnswer, LinesSide } from "../../api/answers.ts";
import { changeOf, divisors } from "../../flamegraph/tree/compare.ts";
import { resolveFunction, sandwichPlace } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { nameKeyText } from "../../flamegraph/tree/focus.ts";
import type { Tree } from "../../flamegraph/tree/tree.ts";
import { describeChange } from "../../flamegraph/analysis/frameDescription.ts";
import { change, place } from "../../lib/location.ts";
import { count, microseconds, percent, plural } from "../../lib/numbers.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { Link, TimeCells } from "../ui/Controls.tsx";
import { CopyButton } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { pageRange } from "../../lib/url.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { comparisonParameters, sampleFilterParameters } from "../../lib/queryParameters.ts";

/** Where inside one function time is spent, line by line. */
export function LinesView({ tree, names, norm }: { tree: Tree; names: readonly string[]; norm: Normalisation }) {
  const here = place.value;
  const functionName = useMemo(() => resolveFunction(tree.names, here.fn), [tree, here.fn]);
  const range = pageRange(here);
  const { function: name, file } = frameParts(functionName);
  const scope = names.length === 2 ? comparisonParameters(here) : { query: selectorOf(here.service, here.query), ...range, type: here.type };
  const hasFunction = here.fn !== "" && (here.by === "function" || here.by === "line");
  const request = useAnswer<LinesAnswer>(hasFunction ? apiUrl("lines", { ...scope, ...sampleFilterParameters({ ...here, scope: "" }), function: name, file }) : null);
  useKeys({ s: () => { if (hasFunction) change(sandwichPlace(functionName)); } });
  if (!hasFunction) {
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
        <h2><bdi>{functionName.slice(0, 300)}</bdi></h2>
        <Link to={{ ...here, ...sandwichPlace(functionName) }} class="button" title="s">Callers and callees</Link>
        <button type="button" onClick={() => change({ view: "table", fn: "" })}>Other function</button>
      </div>
      <AnswerView request={request} what="the lines">{(answer) => <LineTable answer={answer} names={names} norm={norm} />}</AnswerView>
    </section>
  );
}

function LineTable({ answer, names, norm }: { answer: LinesAnswer; names: readonly string[]; norm: Normalisation }) {
  const { t } = place.value;
  const { sides, line, file } = answer;
  if (line.length === 0) {
    return <p class="missing" role="status"><bdi><code>{nameKeyText(place.value.fn).slice(0, 200)}</code></bdi> has no samples here. Choose another function, type or range.</p>;
  }
  const isComparison = names.length === 2;
  const divisor = divisors(norm, sides.map((side) => side.pod_seconds), sides.map((side) => side.seconds * 1e6));
  return (
    <>
      <p class="basis">
        {sides.map(({ whole, samples }, side) =>
          `${isComparison ? `${"AB"[side]}: ` : ""}total ${percent(samples > 0 ? whole.total_samples / samples : 0, 2)} of all (${microseconds(whole.total_us)}, ${plural(whole.total_samples, "sample")}), self ${microseconds(whole.self_us)}. `)}
        Shares are of the function's total. Line numbers are of the version that ran. No source code is stored.
        {t !== "" && " Transforms do not change this table."}
        {answer.lines_total > line.length && ` The ${count(line.length)} heaviest of ${count(answer.lines_total)} lines.`}
      </p>
      <div class="wide tall" tabIndex={0} role="region" aria-label="Table of lines">
        <table>
          <thead>
            <tr>
              <th scope="col">Line</th>
              {sides.map((_, side) => (
                <LineHeadings key={side} of={isComparison ? ` ${"AB"[side]}` : ""} />
              ))}
              {isComparison && <th scope="col">Change of total</th>}
              <th scope="col"><span class="unseen">Copy</span></th>
            </tr>
          </thead>
          <tbody>
            {line.map((number, at) => (
              <tr key={number} class={at > 0 && number > line[at - 1] + 1 ? "gap-before" : ""}>
                <th scope="row"><code><bdi class="quiet">{file.slice(-80)}</bdi>{number > 0 ? `:${number}` : " (line unknown)"}</code></th>
                {sides.map((side, which) => <LineCells key={which} side={side} at={at} />)}
                {isComparison && <td>{describeChange(changeOf(pairOf(sides, (side) => side.total_us[at]), pairOf(sides, (side) => side.total_samples[at]), divisor))}</td>}
                <td><CopyButton text={() => `${file}:${number}`} what="Line">Copy</CopyButton></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const LineHeadings = ({ of }: { of: string }) => (
  <><th scope="col" class="number">Self{of}</th><th scope="col" class="number">% self</th><th scope="col" class="number">Total{of}</th><th scope="col" class="number">% total</th></>
);

const LineCells = ({ side, at }: { side: LinesSide; at: number }) => (
  <><TimeCells us={side.self_us[at]} whole={side.whole.total_us} /><TimeCells us={side.total_us[at]} whole={side.whole.total_us} /></>
);

const pairOf = (sides: readonly LinesSide[], of: (side: LinesSide) => number): [number, number] => [of(sides[0]), of(sides[1])];
