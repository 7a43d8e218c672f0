import { useEffect } from "preact/hooks";
import { compareAsked } from "../ahead.ts";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import type { FlameAnswer } from "../api/answers.ts";
import { change, place } from "../location.ts";
import { notices } from "../notices.ts";
import { Link, Notices, Segments, Show, Toggle } from "../parts/basics.tsx";
import { Changes } from "../parts/changes.tsx";
import { BandChip } from "../parts/depthband.tsx";
import { ExportsOfTwo, Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { Checks, Finding } from "../parts/finding.tsx";
import { Lensed } from "../parts/lensed.tsx";
import { Pruned } from "../parts/pruned.tsx";
import { rangeOf } from "../parts/range.tsx";
import { SidePickers } from "../parts/sides.tsx";
import { sideName } from "../selectors.ts";
import { onPage, type ViewName } from "../url.ts";
import { TwoVersions } from "./twoversions.tsx";

export function Compare({ turn }: { turn: number }) {
  return <TwoVersions turn={turn}>{() => <Compared turn={turn} />}</TwoVersions>;
}

function Compared({ turn }: { turn: number }) {
  const here = place.value;
  const range = rangeOf(here);
  const question = compareAsked(here);
  const asked = useAnswer<FlameAnswer>(apiUrl(...question));
  const answered = asked.current ? (asked.answer?.sides ?? null) : null;
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  return (
    <>
      <div class="heading">
        <h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1>
        <div class="controls"><TypePicker /><Filters range={range} /></div>
        <Link to={onPage(here, "depth", { focus: here.focus })} class="button">Stack depth of A and B</Link>
        {answered && <ExportsOfTwo sides={answered} question={question} name={here.service} />}
        <Share question={question} answered={answered} />
      </div>
      <SidePickers range={range} answered={answered} />
      <Show asked={asked} what="the comparison">{(answer) => <Difference answer={answer} current={asked.current} />}</Show>
    </>
  );
}

/** `current` is false while the answer is still the one before, so nothing here may name the new sides. */
function Difference({ answer, current }: { answer: FlameAnswer; current: boolean }) {
  const { invert, norm, view, a, b, type, sig, raw, load } = place.value;
  const names = current ? [`A ${sideName(a).slice(0, 60)}`, `B ${sideName(b).slice(0, 60)}`] : ["A …", "B …"];
  const verdict = answer.verdict ?? null;
  const refused = verdict?.direction === "incomparable";
  const compared = verdict && !refused && verdict.direction !== "unknown";
  const untold = compared && verdict.method.load === "unknown";
  return (
    <>
      <Finding verdict={current ? verdict : undefined} />
      <Notices said={verdict ? notices([], [], answer.basis) : notices(answer.sides, ["A", "B"], answer.basis)} />
      {current && verdict && <Checks verdict={verdict} told />}
      <BandChip />
      <div class="viewbar">
        <Segments<ViewName> label="View" value={view} choose={(next) => change({ view: next })}
          options={[["flame", "Differential"], ["sides", "Side by side"], ["table", "Table"], ["sandwich", "Sandwich"], ["lines", "Lines"]]} />
        <Segments label="Normalise by" value={norm} choose={(next) => change({ norm: next })}
          options={[["rate", "Per pod-second"], ["share", "Share of side"]]} />
        <Toggle on={sig} title="Leave out what is within noise: rows of tables; frames turn grey" flip={() => change({ sig: !sig })}>Only significant</Toggle>
        {verdict && <Toggle on={raw} title="All that is beyond counting noise, though pods and times may differ by as much anyway" flip={() => change({ raw: !raw })}>Raw differences</Toggle>}
        {(untold || load) && <Toggle on={load !== ""} title="Compare the sides as if they had the same load, as in a load test" flip={() => change({ load: load ? "" : "equal" })}>Assume equal load</Toggle>}
      </div>
      {(refused || untold) && !raw && <p class="notices single">No colours: {refused ? "the sides cannot be compared" : "differences may be caused by load"}. <button type="button" onClick={() => change({ raw: true })}>Show raw differences</button></p>}
      <Pruned pruned={answer.pruned} />
      {answer.sides.every(({ samples }) => samples === 0)
        ? <div class="card zero"><h2>Neither side has {type} samples in this range</h2><p>Choose other sides, another type or a longer range.</p></div>
        : <Lensed answer={answer} names={names} below={() => compared && verdict.functions.function.length > 0 && !invert && <Changes verdict={verdict} />} />}
    </>
  );
}
