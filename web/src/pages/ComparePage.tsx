import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { notices } from "../viewmodels/dataQualityNotices.ts";
import { Link, Segments, Toggle } from "../components/ui/Controls.tsx";
import { Changes } from "../components/profile/ChangeTable.tsx";
import { BandChip } from "../components/depth/DepthRangePanel.tsx";
import { ExportsOfTwo, Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { Checks, Finding } from "../components/profile/VerdictSummary.tsx";
import { Lensed } from "../components/profile/ProfileView.tsx";
import { Pruned } from "../components/answer/PrunedNotice.tsx";
import { SidePickers } from "../components/controls/SidePickers.tsx";
import { sideName } from "../lib/selectors.ts";
import { onPage, rangeOf } from "../lib/url.ts";
import { TwoVersions } from "./SideGate.tsx";
import type { ViewName } from "../lib/viewOptions.ts";
import { Show } from "../components/answer/AnswerView.tsx";
import { Notices } from "../components/answer/Notices.tsx";
import { compareAsked } from "../lib/queryParameters.ts";

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
