import { useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { DepthSide, FlameAnswer } from "../../api/answers.ts";
import { formatDepthRange, parseDepthRange, type DepthRange } from "../../lib/depthRange.ts";
import { change, place } from "../../lib/location.ts";
import { percent } from "../../lib/numbers.ts";
import { onPage } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { ProfileView } from "../profile/ProfileView.tsx";
import { PrunedNotice } from "../answer/PrunedNotice.tsx";
import { AnswerView } from "../answer/AnswerView.tsx";
import * as strings from "../../strings/depthStrings.tsx";

/** The chosen depths in numbers, where they can be typed, and the flame graph of their samples. */
export function DepthRangePanel({ range, sides, names, deepest, onSelect, url }: {
  range: DepthRange | null; sides: readonly DepthSide[]; names: readonly string[]; deepest: number; onSelect: (next: DepthRange | null) => void; url: string;
}) {
  return (
    <section class="card" aria-label={strings.selectedDepths}>
      <DepthRangeForm range={range} deepest={deepest} onSelect={onSelect} />
      {range && (
        <>
          <p class="basis" role="status">
            {sides.map((side, at) => {
              const all = side.samples_at.reduce((sum, samples) => sum + samples, 0);
              const inside = side.samples_at.reduce((sum, samples, i) => (side.depth[i] >= range.from && side.depth[i] <= range.until ? sum + samples : sum), 0);
              return <span key={names[at]}>{at > 0 && " · "}{strings.samples(<bdi>{names[at]}</bdi>, inside, percent(all > 0 ? inside / all : 0))}</span>;
            })} {formatDepthRange(range)}
          </p>
          <DepthFlameGraph url={url} names={names} />
        </>
      )}
    </section>
  );
}

function DepthRangeForm({ range, deepest, onSelect }: { range: DepthRange | null; deepest: number; onSelect: (next: DepthRange | null) => void }) {
  const [from, setFrom] = useState("");
  const [until, setUntil] = useState("");
  useLayoutEffect(() => { setFrom(range ? String(range.from) : ""); setUntil(range ? String(range.until) : ""); }, [range?.from, range?.until]);
  const field = (text: string, type: (text: string) => void) => (
    <input type="number" min={1} max={Math.max(deepest, range?.until ?? 1)} step={1} size={6} value={text} onInput={(event) => type(event.currentTarget.value)} />
  );
  return (
    <form class="row ends" onSubmit={(event) => { event.preventDefault(); onSelect(parseDepthRange({ min_depth: from, max_depth: until }, deepest)); }}>
      <label>{strings.depthFrom}{" "}{field(from, setFrom)}</label>
      <label>{strings.until}{" "}{field(until, setUntil)}</label>
      <button>{strings.showTheseSamples}</button>
      {range ? <button type="button" onClick={() => onSelect(null)}>{strings.allDepths}</button>
        : <span class="quiet">{strings.depthRangeHint}</span>}
    </form>
  );
}

function DepthFlameGraph({ url, names }: { url: string; names: readonly string[] }) {
  const request = useAnswer<FlameAnswer>(url);
  const here = place.value;
  const isComparison = names.length === 2;
  return (
    <AnswerView request={request} what={strings.flameGraphOfThese}>
      {(answer) => (
        <>
          <p class="row">
            <Link class="button" to={onPage(here, isComparison ? "compare" : "service", { min_depth: here.min_depth, max_depth: here.max_depth, focus: here.focus })}>
              {isComparison ? strings.compareTheseSamples : strings.openInProfile}
            </Link>
          </p>
          <PrunedNotice pruned={answer.pruned} />
          {answer.sides.every(({ samples }) => samples === 0) ? <p>{strings.noSamplesAtThese}</p> : <ProfileView answer={answer} names={isComparison ? names : [""]} />}
        </>
      )}
    </AnswerView>
  );
}

/** Says on other pages that only some depths are shown, and how to see all again. */
export function DepthRangeNotice() {
  const range = parseDepthRange(place.value, 0);
  if (!range) return null;
  const { min_depth, max_depth } = place.value;
  const description = max_depth === "" ? strings.atLeastFramesDeep(min_depth) : min_depth === "" ? strings.atMostFramesDeep(max_depth) : formatDepthRange(range);
  return (
    <p class="notices single">
      {strings.onlySamplesWhoseStacks(description)}{" "}<button type="button" onClick={() => change({ min_depth: "", max_depth: "" })}>{strings.allDepths}</button>
    </p>
  );
}
