import { useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import type { DepthSide, FlameAnswer } from "../../api/answers.ts";
import { bandName, bandOf, type Band } from "../../lib/depthRange.ts";
import { change, place } from "../../lib/location.ts";
import { count, percent } from "../../lib/numbers.ts";
import { onPage } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { Lensed } from "../profile/ProfileView.tsx";
import { Pruned } from "../answer/PrunedNotice.tsx";
import { Show } from "../answer/AnswerView.tsx";

/** The chosen depths in numbers, where they can be typed, and the flame graph of their samples. */
export function DepthBand({ band, sides, names, deepest, pick, url }: {
  band: Band | null; sides: readonly DepthSide[]; names: readonly string[]; deepest: number; pick: (band: Band | null) => void; url: string;
}) {
  return (
    <section class="card" aria-label="Chosen depths">
      <Ends band={band} deepest={deepest} pick={pick} />
      {band && (
        <>
          <p class="basis" role="status">
            {sides.map((side, at) => {
              const all = side.samples_at.reduce((sum, samples) => sum + samples, 0);
              const inside = side.samples_at.reduce((sum, samples, i) => (side.depth[i] >= band.from && side.depth[i] <= band.until ? sum + samples : sum), 0);
              return <span key={names[at]}>{at > 0 && " · "}<bdi>{names[at]}</bdi>: {count(inside)} samples, {percent(all > 0 ? inside / all : 0)}</span>;
            })} {bandName(band)}
          </p>
          <Graph url={url} names={names} />
        </>
      )}
    </section>
  );
}

function Ends({ band, deepest, pick }: { band: Band | null; deepest: number; pick: (band: Band | null) => void }) {
  const [from, typeFrom] = useState("");
  const [until, typeUntil] = useState("");
  useLayoutEffect(() => { typeFrom(band ? String(band.from) : ""); typeUntil(band ? String(band.until) : ""); }, [band?.from, band?.until]);
  const field = (text: string, type: (text: string) => void) => (
    <input type="number" min={1} max={Math.max(deepest, band?.until ?? 1)} step={1} size={6} value={text} onInput={(event) => type(event.currentTarget.value)} />
  );
  return (
    <form class="row ends" onSubmit={(event) => { event.preventDefault(); pick(bandOf({ depth_from: from, depth_until: until }, deepest)); }}>
      <label>Depth from {field(from, typeFrom)}</label>
      <label>until {field(until, typeUntil)}</label>
      <button>Show these samples</button>
      {band ? <button type="button" onClick={() => pick(null)}>All depths</button>
        : <span class="quiet">Drag across a chart, or name depths here, to see the flame graph of only those samples.</span>}
    </form>
  );
}

function Graph({ url, names }: { url: string; names: readonly string[] }) {
  const asked = useAnswer<FlameAnswer>(url);
  const here = place.value;
  const two = names.length === 2;
  return (
    <Show asked={asked} what="the flame graph of these depths">
      {(answer) => (
        <>
          <p class="row">
            <Link class="button" to={onPage(here, two ? "compare" : "service", { depth_from: here.depth_from, depth_until: here.depth_until, focus: here.focus })}>
              {two ? "Compare these samples" : "Open in the profile"}
            </Link>
          </p>
          <Pruned pruned={answer.pruned} />
          {answer.sides.every(({ samples }) => samples === 0) ? <p>No sample is so deep.</p> : <Lensed answer={answer} names={two ? names : [""]} />}
        </>
      )}
    </Show>
  );
}

/** Says on other pages that only some depths are shown, and how to see all again. */
export function BandChip() {
  const band = bandOf(place.value, 0);
  if (!band) return null;
  const { depth_from, depth_until } = place.value;
  const words = depth_until === "" ? `at least ${depth_from} frames deep` : depth_from === "" ? `at most ${depth_until} frames deep` : bandName(band);
  return (
    <p class="notices single">
      Only samples whose stacks are {words}. <button type="button" onClick={() => change({ depth_from: "", depth_until: "" })}>All depths</button>
    </p>
  );
}
