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
import { largest, timeColumn } from "../../lib/quantities.ts";
import { microseconds, percent } from "../../lib/numbers.ts";
import { selectorOf } from "../../lib/selectors.ts";
import { SourceLink } from "../controls/SourceLink.tsx";
import { Link, TimeCells } from "../ui/Controls.tsx";
import { Table } from "../ui/Table.tsx";
import { CopyButton } from "../ui/CopyButton.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { pageRange } from "../../lib/url.ts";
import type { Normalisation } from "../../lib/viewOptions.ts";
import { AnswerView } from "../answer/AnswerView.tsx";
import { comparisonParameters, sampleFilterParameters } from "../../lib/queryParameters.ts";
import * as strings from "../../strings/profileStrings.tsx";

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
        <h2>{strings.linesAreOfOneFunction}</h2>
        <p>{strings.howToChooseFunction(<kbd>l</kbd>, <kbd>l</kbd>)}</p>
        <button type="button" class="primary" onClick={() => change({ view: "table", by: "function" })}>{strings.openTable}</button>
      </div>
    );
  }
  return (
    <section class="panel lines" aria-label={strings.linesOfOneFunction}>
      <div class="tools">
        <h2><bdi>{functionName.slice(0, 300)}</bdi></h2>
        <Link to={{ ...here, ...sandwichPlace(functionName) }} class="button" title="s">{strings.callersAndCallees}</Link>
        <button type="button" onClick={() => change({ view: "table", fn: "" })}>{strings.otherFunction}</button>
      </div>
      <AnswerView request={request} what={strings.theLines}>{(answer) => <LineTable answer={answer} names={names} norm={norm} />}</AnswerView>
    </section>
  );
}

function LineTable({ answer, names, norm }: { answer: LinesAnswer; names: readonly string[]; norm: Normalisation }) {
  const { t } = place.value;
  const { sides, line, file } = answer;
  if (line.length === 0) {
    return <p class="missing" role="status">{strings.hasNoSamplesHere(<bdi><code>{nameKeyText(place.value.fn).slice(0, 200)}</code></bdi>)}</p>;
  }
  const isComparison = names.length === 2;
  const most = largest(...sides.map(({ total_us: us }) => us));
  const divisor = divisors(norm, sides.map((side) => side.pod_seconds), sides.map((side) => side.seconds * 1e6));
  return (
    <>
      <p class="basis">
        {sides.map(({ whole, samples }, side) =>
          strings.linesTotals(isComparison ? `${"AB"[side]}: ` : "", percent(samples > 0 ? whole.total_samples / samples : 0, 2), microseconds(whole.total_us), whole.total_samples, microseconds(whole.self_us)))}
        {strings.linesNote} {t !== "" && strings.transformsDoNotChange} {answer.lines_total > line.length && strings.heaviestOfLines(line.length, answer.lines_total)}
      </p>
      <Table label={strings.tableOfLines} className="tall cards" heads={[
        strings.line,
        ...sides.flatMap((_, side) => headingsOf(isComparison ? ` ${"AB"[side]}` : "")),
        ...(isComparison ? [strings.changeOfTotal] : []),
        `~${strings.copy}`,
      ]}>
        {line.map((number, at) => (
          <tr key={number} class={at > 0 && number > line[at - 1] + 1 ? "gap-before" : ""}>
            <th scope="row"><code><bdi class="quiet">{file.slice(-80)}</bdi>{number > 0 ? `:${number}` : strings.lineUnknown}</code></th>
            {sides.map((side, which) => <LineCells key={which} side={side} at={at} most={most} />)}
            {isComparison && <td>{describeChange(changeOf(pairOf(sides, (side) => side.total_us[at]), pairOf(sides, (side) => side.total_samples[at]), divisor))}</td>}
            <td><SourceLink frame={`x (${file}${number > 0 ? `:${number}` : ""})`} />{" "}<CopyButton text={() => `${file}:${number}`} what={strings.line}>{strings.copy}</CopyButton></td>
          </tr>
        ))}
      </Table>
    </>
  );
}

const headingsOf = (of: string) => [`#${strings.percentSelf}${of}`, "", `#${strings.selfText(of)}`, `#${strings.percentTotal}${of}`, "", `#${strings.totalText(of)}`];

const LineCells = ({ side, at, most }: { side: LinesSide; at: number; most: number }) => (
  <>{[side.self_us, side.total_us].map((of, which) => <TimeCells key={which} us={of[at]} whole={side.whole.total_us} most={most} format={timeColumn(most)} />)}</>
);

const pairOf = (sides: readonly LinesSide[], of: (side: LinesSide) => number): [number, number] => [of(sides[0]), of(sides[1])];
