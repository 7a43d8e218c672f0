import { useEffect, useState } from "preact/hooks";
import type { Side, VersionRow } from "../api/answers.ts";
import { change, place } from "../location.ts";
import { percent, plural, seconds } from "../numbers.ts";
import { joined, sideMatchers, sideName } from "../selectors.ts";
import { alone, swapped } from "../sides.ts";
import { rangeName, type Range } from "../times.ts";
import { onPage } from "../url.ts";
import { Link } from "./basics.tsx";
import { useKeys } from "./keys.ts";
import { QualityLine } from "./quality.tsx";

type Versions = readonly Pick<VersionRow, "version">[];

/** Chooses what A and B are: a version or any matchers, each over its own range if wanted. */
export function SidePickers({ versions, range, answered }: { versions: Versions; range: Range; answered: readonly Side[] | null }) {
  useKeys({ x: () => change(swapped(place.peek())) });
  return (
    <div class="sides">
      <Picker which="a" versions={versions} range={range} answered={answered?.[0] ?? null} />
      <button type="button" class="swap" title="Swap the sides (x)" aria-label="Swap the sides" onClick={() => change(swapped(place.peek()))}>⇄</button>
      <Picker which="b" versions={versions} range={range} answered={answered?.[1] ?? null} />
    </div>
  );
}

function Picker({ which, versions, range, answered }: { which: "a" | "b"; versions: Versions; range: Range; answered: Side | null }) {
  const here = place.value;
  const side = here[which];
  const own = { from: here[`${which}_from`], until: here[`${which}_until`] };
  const free = !side.startsWith("version:");
  const [typed, type] = useState(sideMatchers(side));
  const [from, typeFrom] = useState(own.from);
  const [until, typeUntil] = useState(own.until);
  useEffect(() => type(sideMatchers(side)), [side]);
  useEffect(() => { typeFrom(own.from); typeUntil(own.until); }, [own.from, own.until]);
  const letter = which.toUpperCase();
  const known = versions.some(({ version }) => `version:${version}` === side);
  return (
    <section class={`card picker picker-${which}`} aria-label={`Side ${letter}`}>
      <div class="row">
        <span class={`side side-${which}`}>{letter}</span>
        <label>
          <span class="unseen">Version of side {letter}</span>
          <select value={free ? "match:" : side} onChange={(event) => {
            const chosen = event.currentTarget.value;
            change({ [which]: chosen === "match:" ? `match:${sideMatchers(side)}` : chosen });
          }}>
            {versions.map(({ version }) => <option key={version} value={`version:${version}`}>{version.slice(0, 80) || "(no version)"}</option>)}
            {!free && !known && <option value={side}>{sideName(side).slice(0, 80)}</option>}
            <option value="match:">other labels…</option>
          </select>
        </label>
        <Link to={onPage(here, "service", { a: "", b: "", a_from: "", a_until: "", b_from: "", b_until: "", ...alone(here, which, range) })} class="button">only {letter}</Link>
      </div>
      {free && (
        <form class="row" onSubmit={(event) => { event.preventDefault(); change({ [which]: `match:${joined(typed)}` }); }}>
          <label class="grow"><span class="unseen">Matchers of side {letter}</span>
            <input class="matchers" value={typed} spellcheck={false} autocomplete="off" placeholder='e.g. node="n3" (empty: everything)' onInput={(event) => type(event.currentTarget.value)} />
          </label>
          <button>Set</button>
        </form>
      )}
      <details class="numbers">
        <summary>{own.from === "" && own.until === "" ? rangeName(range) : rangeName({ from: own.from || range.from, until: own.until || range.until })}</summary>
        <form class="row" onSubmit={(event) => { event.preventDefault(); change({ [`${which}_from`]: from.trim(), [`${which}_until`]: until.trim() }); }}>
          <label>from <input value={from} placeholder={range.from} onInput={(event) => typeFrom(event.currentTarget.value)} size={20} /></label>
          <label>until <input value={until} placeholder={range.until} onInput={(event) => typeUntil(event.currentTarget.value)} size={20} /></label>
          <button>Set range</button>
          <p class="quiet">now, -15m, -1d, or 2026-11-20T10:00:00Z; empty follows the page's range.</p>
        </form>
      </details>
      <p class="basis">
        {answered ? <>
          {plural(answered.samples, "sample")} · {plural(answered.pods, "pod")} · {plural(answered.windows, "window")} · sampled time {seconds(answered.seconds)}
          {answered.idle_share !== null && !answered.missing_states.includes("idle") && <> · {percent(answered.idle_share)} idle</>}
        </> : "–"}
      </p>
      {answered && answered.pods > 0 && <QualityLine of={answered} />}
    </section>
  );
}
