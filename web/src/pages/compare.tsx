import { useEffect, useMemo } from "preact/hooks";
import { useAnswer } from "../api/answer.ts";
import { apiUrl } from "../api/ask.ts";
import type { FlameAnswer } from "../api/answers.ts";
import { sum } from "../flame/reading.ts";
import { treeOf } from "../flame/tree.ts";
import { change, place } from "../location.ts";
import { notices } from "../notices.ts";
import { Link, Notices, Segments, Show } from "../parts/basics.tsx";
import { ExportsOfTwo, Share } from "../parts/exports.tsx";
import { Filters, TypePicker } from "../parts/filters.tsx";
import { Lensed, treeAsked } from "../parts/lensed.tsx";
import { Pruned } from "../parts/pruned.tsx";
import { rangeOf } from "../parts/range.tsx";
import { SidePickers } from "../parts/sides.tsx";
import { sideName } from "../selectors.ts";
import { comparison } from "../sides.ts";
import { onPage, type ViewName } from "../url.ts";
import { normWords, verdict } from "../verdict.ts";
import { TwoVersions } from "./twoversions.tsx";

export function Compare({ turn }: { turn: number }) {
  return <TwoVersions turn={turn}>{(versions) => <Compared turn={turn} versions={versions} />}</TwoVersions>;
}

function Compared({ turn, versions }: { turn: number; versions: readonly { version: string }[] }) {
  const here = place.value;
  const range = rangeOf(here);
  const question = ["compare", { ...comparison(here, range), ...treeAsked(here) }] as const;
  const asked = useAnswer<FlameAnswer>(apiUrl(...question));
  const answered = asked.current ? (asked.answer?.sides ?? null) : null;
  useEffect(() => { if (turn > 0) asked.again(); }, [turn]);
  return (
    <>
      <div class="heading">
        <h1>Compare <bdi>{here.service.slice(0, 200)}</bdi></h1>
        <Link to={onPage(here, "depth")} class="button">Stack depth of A and B</Link>
        {answered && <ExportsOfTwo sides={answered} question={question} name={here.service} />}
        <Share question={question} answered={answered} />
      </div>
      <div class="controls"><TypePicker /><Filters range={range} /></div>
      <SidePickers versions={versions} range={range} answered={answered} />
      <Show asked={asked} what="the comparison">{(answer) => <Difference answer={answer} current={asked.current} />}</Show>
    </>
  );
}

/** `current` is false while the answer is still the one before, so nothing here may name the new sides. */
function Difference({ answer, current }: { answer: FlameAnswer; current: boolean }) {
  const { norm, view, a, b, type } = place.value;
  const names = current ? [`A ${sideName(a).slice(0, 60)}`, `B ${sideName(b).slice(0, 60)}`] : ["A …", "B …"];
  const samples = useMemo(() => treeOf(answer).samples.map(sum), [answer]);
  return (
    <>
      <p class="verdict">{current ? verdict(answer.sides, samples, type) : "Loading the comparison…"}</p>
      <Notices said={notices(answer.sides, ["A", "B"], answer.basis)} />
      <div class="viewbar">
        <Segments<ViewName> label="View" value={view} choose={(next) => change({ view: next })}
          options={[["flame", "Differential"], ["sides", "Side by side"], ["table", "Table"], ["sandwich", "Sandwich"], ["lines", "Lines"]]} />
        <Segments label="Normalise by" value={norm} choose={(next) => change({ norm: next })}
          options={[["rate", "Per pod-second"], ["share", "Share of side"]]} />
        <span class="quiet norm">{normWords(norm, view)}</span>
      </div>
      <Pruned pruned={answer.pruned} />
      {samples.every((count) => count === 0)
        ? <div class="card zero"><h2>Neither side has {type} samples in this range</h2><p>Choose other sides, another type or a longer range.</p></div>
        : <Lensed answer={answer} names={names} />}
    </>
  );
}
