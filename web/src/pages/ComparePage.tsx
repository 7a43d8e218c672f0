import { useEffect } from "preact/hooks";
import { useAnswer } from "../api/useAnswer.ts";
import { apiUrl } from "../api/request.ts";
import type { FlameAnswer } from "../api/answers.ts";
import { change, place } from "../lib/location.ts";
import { dataQualityNotices } from "../viewmodels/dataQualityNotices.ts";
import { Link, SegmentedControl, Toggle } from "../components/ui/Controls.tsx";
import { ChangeTable } from "../components/profile/ChangeTable.tsx";
import { DepthRangeNotice } from "../components/depth/DepthRangePanel.tsx";
import { ComparisonExports, Share } from "../components/controls/Exports.tsx";
import { Filters, TypePicker } from "../components/controls/Filters.tsx";
import { ComparabilityChecks, VerdictSummary } from "../components/profile/VerdictSummary.tsx";
import { ProfileView } from "../components/profile/ProfileView.tsx";
import { PrunedNotice } from "../components/answer/PrunedNotice.tsx";
import { SidePickers } from "../components/controls/SidePickers.tsx";
import { sideName } from "../lib/selectors.ts";
import { onPage, pageRange } from "../lib/url.ts";
import { SideGate } from "./SideGate.tsx";
import type { ViewName } from "../lib/viewOptions.ts";
import { AnswerView } from "../components/answer/AnswerView.tsx";
import { Notices } from "../components/answer/Notices.tsx";
import { compareQuery } from "../lib/queryParameters.ts";

export function ComparePage({ refreshCount }: { refreshCount: number }) {
  return <SideGate refreshCount={refreshCount}>{() => <Comparison refreshCount={refreshCount} />}</SideGate>;
}

function Comparison({ refreshCount }: { refreshCount: number }) {
  const here = place.value;
  const range = pageRange(here);
  const query = compareQuery(here);
  const request = useAnswer<FlameAnswer>(apiUrl(...query));
  const answered = request.isCurrent ? (request.answer?.sides ?? null) : null;
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  return (
    <>
      <div class="heading">
        <h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1>
        <div class="controls"><TypePicker /><Filters range={range} /></div>
        <Link to={onPage(here, "depth", { focus: here.focus })} class="button">Stack depth</Link>
        {answered && <ComparisonExports sides={answered} query={query} name={here.service} />}
        <Share query={query} sides={answered} />
      </div>
      <SidePickers range={range} sides={answered} />
      <AnswerView request={request} what="the comparison">{(answer) => <ComparisonView answer={answer} isCurrent={request.isCurrent} />}</AnswerView>
    </>
  );
}

/** `isCurrent` is false while the answer is still the previous one, so nothing here may name the new sides. */
function ComparisonView({ answer, isCurrent }: { answer: FlameAnswer; isCurrent: boolean }) {
  const { invert, norm, view, baseline, comparison, type, sig, raw, load } = place.value;
  const names = isCurrent ? [`A ${sideName(baseline).slice(0, 60)}`, `B ${sideName(comparison).slice(0, 60)}`] : ["A …", "B …"];
  const verdict = answer.verdict ?? null;
  const isNotComparable = verdict?.direction === "not_comparable";
  const isCompared = verdict && !isNotComparable && verdict.direction !== "no_data";
  const isByShares = isCompared && verdict.basis === "composition";
  return (
    <>
      <VerdictSummary verdict={isCurrent ? verdict : undefined} />
      <Notices notices={verdict ? dataQualityNotices([], [], answer.basis) : dataQualityNotices(answer.sides, ["A", "B"], answer.basis)} />
      {isCurrent && verdict && <ComparabilityChecks verdict={verdict} isCauseShown />}
      <DepthRangeNotice />
      <div class="viewbar">
        <SegmentedControl<ViewName> label="View" value={view} onSelect={(next) => change({ view: next })}
          options={[["flame", "Differential"], ["sides", "Side by side"], ["table", "Table"], ["sandwich", "Sandwich"], ["lines", "Lines"]]} />
        <SegmentedControl label="Normalise by" value={norm} onSelect={(next) => change({ norm: next })}
          options={[["rate", "Per pod"], ["share", "% of total"]]} />
        <Toggle isOn={sig} title="Hide table rows within noise and draw their frames grey" onToggle={() => change({ sig: !sig })}>Hide noise</Toggle>
        {verdict && <Toggle isOn={raw} title="Colour all differences beyond counting noise; pods and times can differ by as much" onToggle={() => change({ raw: !raw })}>Show all differences</Toggle>}
        {(isByShares || load) && <Toggle isOn={load !== ""} title="Compare as if both sides had the same load, as in a load test" onToggle={() => change({ load: load ? "" : "equal" })}>Assume equal load</Toggle>}
      </div>
      {isNotComparable && !raw && <p class="notices single">Not colour-coded: A and B are not comparable. <button type="button" onClick={() => change({ raw: true })}>Colour all differences</button></p>}
      <PrunedNotice pruned={answer.pruned} />
      {answer.sides.every(({ samples }) => samples === 0)
        ? <div class="card zero"><h2>Neither side has {type} samples in this range</h2><p>Choose other sides, another type or a longer range.</p></div>
        : <ProfileView answer={answer} names={names} below={() => isCompared && verdict.functions.function.length > 0 && !invert && <ChangeTable verdict={verdict} />} />}
    </>
  );
}
