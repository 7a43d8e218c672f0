import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { ServicesAnswer, Side, VersionRow } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { percent, plural, seconds } from "../../lib/numbers.ts";
import { equals, joined, selectorOf, sideMatchers, sideName, written } from "../../lib/selectors.ts";
import { alone, captureOf, earlier, swapped, versionSide } from "../../lib/sides.ts";
import { ago, instant, rangeName, epoch, type Range } from "../../lib/times.ts";
import { onPage } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { WORDS } from "./Filters.tsx";
import { MatcherEditor } from "./MatcherEditor.tsx";
import { CaptureChoice } from "./CapturePicker.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { QualityLine } from "../answer/QualityLine.tsx";

/** How far back versions are offered: one may have ended before the page's range begins. */
const BACK = "-7d";

/** Every version of the last days or of the page's range, the newest first. */
export function useVersions(range: Range, wanted: boolean): readonly VersionRow[] {
  const now = Date.now() / 1000;
  const from = (instant(range.from, now) ?? now) < (instant(BACK, now) ?? now) ? range.from : BACK;
  const asked = useAnswer<ServicesAnswer>(wanted ? apiUrl("services", { query: selectorOf(place.value.service, ""), from }) : null);
  return [...(asked.answer?.services[0]?.versions ?? [])].sort((a, b) => epoch(b.first_seen) - epoch(a.first_seen));
}

/** Chooses what A and B are: a version, a capture or any matchers, each over its own range if wanted. */
export function SidePickers({ range, answered }: { range: Range; answered: readonly Side[] | null }) {
  const [wanted, want] = useState(false);
  // The comparison first: the lists can wait for it.
  useEffect(() => { if (answered) want(true); }, [answered]);
  const versions = useVersions(range, wanted);
  useKeys({ x: () => change(swapped(place.peek())) });
  return (
    <div class="sides">
      <Picker which="a" versions={versions} range={range} answered={answered?.[0] ?? null} />
      <button type="button" class="swap" title="Swap the sides (x)" aria-label="Swap the sides" onClick={() => change(swapped(place.peek()))}>⇄</button>
      <Picker which="b" versions={versions} range={range} answered={answered?.[1] ?? null} />
    </div>
  );
}

function Picker({ which, versions, range, answered }: { which: "a" | "b"; versions: readonly VersionRow[]; range: Range; answered: Side | null }) {
  const here = place.value;
  const side = here[which];
  const own = { from: here[`${which}_from`], until: here[`${which}_until`] };
  const capture = captureOf(side);
  const kind = side.startsWith("version:") ? side : capture !== null ? "capture" : "match";
  const [typed, type] = useState(sideMatchers(side));
  useLayoutEffect(() => type(sideMatchers(side)), [side]);
  const [adding, add] = useState(false);
  const letter = which.toUpperCase();
  const now = Date.now() / 1000;
  const choose = (chosen: string) => {
    const version = versions.find((row) => `version:${row.version}` === chosen);
    if (version) change(versionSide(which, version, range, now));
    else if (chosen === "capture") change({ [which]: `match:${equals("capture", "")}` });
    else change({ [which]: `match:${kind === "capture" ? "" : sideMatchers(side)}` });
  };
  return (
    <section class={`card picker picker-${which}`} aria-label={`Side ${letter}`}>
      <div class="row">
        <span class={`side side-${which}`}>{letter}</span>
        <label>
          <span class="unseen">Version of side {letter}</span>
          <select value={kind === "match" ? "match:" : kind} onChange={(event) => choose(event.currentTarget.value)}>
            {versions.map((row) => (
              <option key={row.version} value={`version:${row.version}`}>
                {row.version.slice(0, 80) || "(no version)"} · since {ago(epoch(row.first_seen), now)} · {plural(row.pods, "pod")}
              </option>
            ))}
            {kind === side && !versions.some(({ version }) => `version:${version}` === side) && <option value={side}>{sideName(side).slice(0, 80)}</option>}
            <option value="capture">a capture…</option>
            <option value="match:">other labels…</option>
          </select>
        </label>
        <Link to={onPage(here, "service", { a: "", b: "", a_from: "", a_until: "", b_from: "", b_until: "", ...alone(here, which, range) })} class="button"
          title="This side alone, with the same focus">only {letter}</Link>
      </div>
      {kind === "capture" && <CaptureChoice letter={letter} value={capture ?? ""} range={range} choose={(id) => change({ [which]: `match:${equals("capture", id)}` })} />}
      {kind === "match" && (
        <>
          <form class="row" onSubmit={(event) => { event.preventDefault(); change({ [which]: `match:${joined(typed)}` }); }}>
            <label class="grow"><span class="unseen">Matchers of side {letter}</span>
              <input class="matchers" value={typed} spellcheck={false} autocomplete="off" placeholder='e.g. node="n3" (empty: everything)' onInput={(event) => type(event.currentTarget.value)} />
            </label>
            <button>Set</button>
            <button type="button" aria-expanded={adding} onClick={() => add(!adding)}>+ label</button>
          </form>
          {adding && <MatcherEditor range={range} given={null} words={WORDS} cancel={() => add(false)}
            done={(matcher) => { add(false); change({ [which]: `match:${joined(sideMatchers(side), written(matcher))}` }); }} />}
        </>
      )}
      <Times which={which} own={own} range={range} />
      <p class="basis">
        {answered ? <>
          {plural(answered.samples, "sample")} · {plural(answered.pods, "pod")} · {plural(answered.windows, "window")} · sampled time {seconds(answered.seconds)}
          {answered.idle_share !== null && !answered.missing_states.includes("idle") && <> · {percent(answered.idle_share)} idle</>}
        </> : "–"}
      </p>
      {answered && answered.pods > 0 && <QualityLine of={answered} />}
      {answered?.pods === 0 && (
        <p class="row"><span>No windows here.</span>
          {(own.from !== "" || own.until !== "") && <button type="button" onClick={() => change({ [`${which}_from`]: "", [`${which}_until`]: "" })}>Use the page's range</button>}
          {earlier(range, now).length > 0 && <button type="button" onClick={() => change({ [`${which}_from`]: BACK, [`${which}_until`]: "now" })}>Look at the last 7 days</button>}
        </p>
      )}
    </section>
  );
}

/** A side's own range: an earlier one of the same length, or any. */
function Times({ which, own, range }: { which: "a" | "b"; own: Range; range: Range }) {
  const [from, typeFrom] = useState(own.from);
  const [until, typeUntil] = useState(own.until);
  useLayoutEffect(() => { typeFrom(own.from); typeUntil(own.until); }, [own.from, own.until]);
  const set = (given: Range) => change({ [`${which}_from`]: given.from.trim(), [`${which}_until`]: given.until.trim() });
  return (
    <details class="numbers">
      <summary>{own.from === "" && own.until === "" ? rangeName(range) : rangeName({ from: own.from || range.from, until: own.until || range.until })}</summary>
      <form class="row" onSubmit={(event) => { event.preventDefault(); set({ from, until }); }}>
        <label>from <input value={from} placeholder={range.from} onInput={(event) => typeFrom(event.currentTarget.value)} size={20} /></label>
        <label>until <input value={until} placeholder={range.until} onInput={(event) => typeUntil(event.currentTarget.value)} size={20} /></label>
        <button>Set range</button>
        {earlier(range, Date.now() / 1000).map((each) => <button key={each.name} type="button" onClick={() => set(each)}>{each.name}</button>)}
        <p class="quiet">now, -15m, -1d, or 2026-11-20T10:00:00Z; empty follows the page's range.</p>
      </form>
    </details>
  );
}
