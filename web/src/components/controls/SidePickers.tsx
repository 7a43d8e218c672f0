import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { ServicesAnswer, Side, VersionSummary } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { percent, plural, seconds } from "../../lib/numbers.ts";
import { equals, joinMatchers, selectorOf, sideMatchers, sideName, formatMatcher } from "../../lib/selectors.ts";
import { singleSide, captureOfSide, earlierRanges, LETTERS, swapSides, versionSide, type SideName } from "../../lib/sides.ts";
import { formatAgo, parseTime, formatRange, toEpochSeconds, type Range } from "../../lib/times.ts";
import { onPage } from "../../lib/url.ts";
import { Link } from "../ui/Controls.tsx";
import { OPERATOR_LABELS } from "./Filters.tsx";
import { MatcherEditor } from "./MatcherEditor.tsx";
import { CapturePicker } from "./CapturePicker.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { QualityLine } from "../answer/QualityLine.tsx";

/** How far back versions are offered: one may have ended before the page's range begins. */
const VERSION_HISTORY = "-7d";

/** Every version of the last days or of the page's range, the newest first. */
export function useVersions(range: Range, isEnabled: boolean): readonly VersionSummary[] {
  const now = Date.now() / 1000;
  const from = (parseTime(range.from, now) ?? now) < (parseTime(VERSION_HISTORY, now) ?? now) ? range.from : VERSION_HISTORY;
  const request = useAnswer<ServicesAnswer>(isEnabled ? apiUrl("services", { query: selectorOf(place.value.service, ""), from }) : null);
  return [...(request.answer?.services[0]?.versions ?? [])].sort((a, b) => toEpochSeconds(b.first_seen) - toEpochSeconds(a.first_seen));
}

/** Chooses what A and B are: a version, a capture or any matchers, each over its own range if wanted. */
export function SidePickers({ range, sides }: { range: Range; sides: readonly Side[] | null }) {
  const [loadVersions, setLoadVersions] = useState(false);
  // The comparison first: the lists can wait for it.
  useEffect(() => { if (sides) setLoadVersions(true); }, [sides]);
  const versions = useVersions(range, loadVersions);
  useKeys({ x: () => change(swapSides(place.peek())) });
  return (
    <div class="sides">
      <SidePicker which="baseline" versions={versions} range={range} answer={sides?.[0] ?? null} />
      <button type="button" class="swap" title="Swap the sides (x)" aria-label="Swap the sides" onClick={() => change(swapSides(place.peek()))}>⇄</button>
      <SidePicker which="comparison" versions={versions} range={range} answer={sides?.[1] ?? null} />
    </div>
  );
}

function SidePicker({ which, versions, range, answer }: { which: SideName; versions: readonly VersionSummary[]; range: Range; answer: Side | null }) {
  const here = place.value;
  const side = here[which];
  const ownRange = { from: here[`${which}_from`], until: here[`${which}_until`] };
  const capture = captureOfSide(side);
  const kind = side.startsWith("version:") ? side : capture !== null ? "capture" : "match";
  const [typed, setTyped] = useState(sideMatchers(side));
  useLayoutEffect(() => setTyped(sideMatchers(side)), [side]);
  const [adding, setAdding] = useState(false);
  const letter = LETTERS[which];
  const now = Date.now() / 1000;
  const choose = (selection: string) => {
    const version = versions.find((row) => `version:${row.version}` === selection);
    if (version) change(versionSide(which, version, range, now));
    else if (selection === "capture") change({ [which]: `match:${equals("capture", "")}` });
    else change({ [which]: `match:${kind === "capture" ? "" : sideMatchers(side)}` });
  };
  return (
    <section class={`card picker picker-${letter.toLowerCase()}`} aria-label={`Side ${letter}`}>
      <div class="row">
        <span class={`side side-${letter.toLowerCase()}`}>{letter}</span>
        <label>
          <span class="unseen">Version of side {letter}</span>
          <select value={kind === "match" ? "match:" : kind} onChange={(event) => choose(event.currentTarget.value)}>
            {versions.map((row) => (
              <option key={row.version} value={`version:${row.version}`}>
                {row.version.slice(0, 80) || "(no version)"} · since {formatAgo(toEpochSeconds(row.first_seen), now)} · {plural(row.pods, "pod")}
              </option>
            ))}
            {kind === side && !versions.some(({ version }) => `version:${version}` === side) && <option value={side}>{sideName(side).slice(0, 80)}</option>}
            <option value="capture">a capture…</option>
            <option value="match:">other labels…</option>
          </select>
        </label>
        <Link to={onPage(here, "service", { baseline: "", comparison: "", baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "", ...singleSide(here, which, range) })} class="button"
          title="This side alone, with the same focus">Open {letter}</Link>
      </div>
      {kind === "capture" && <CapturePicker letter={letter} value={capture ?? ""} range={range} onSelect={(id) => change({ [which]: `match:${equals("capture", id)}` })} />}
      {kind === "match" && (
        <>
          <form class="row" onSubmit={(event) => { event.preventDefault(); change({ [which]: `match:${joinMatchers(typed)}` }); }}>
            <label class="grow"><span class="unseen">Matchers of side {letter}</span>
              <input class="matchers" value={typed} spellcheck={false} autocomplete="off" placeholder='e.g. node="n3" (empty: everything)' onInput={(event) => setTyped(event.currentTarget.value)} />
            </label>
            <button>Set</button>
            <button type="button" aria-expanded={adding} onClick={() => setAdding(!adding)}>+ label</button>
          </form>
          {adding && <MatcherEditor range={range} matcher={null} operatorLabels={OPERATOR_LABELS} onCancel={() => setAdding(false)}
            onDone={(matcher) => { setAdding(false); change({ [which]: `match:${joinMatchers(sideMatchers(side), formatMatcher(matcher))}` }); }} />}
        </>
      )}
      <SideRange which={which} ownRange={ownRange} range={range} />
      <p class="basis">
        {answer ? <>
          {plural(answer.samples, "sample")} · {plural(answer.pods, "pod")} · {plural(answer.windows, "window")} · sampled time {seconds(answer.seconds)}
          {answer.idle_share !== null && !answer.missing_states.includes("idle") && <> · {percent(answer.idle_share)} idle</>}
        </> : "–"}
      </p>
      {answer && answer.pods > 0 && <QualityLine source={answer} />}
      {answer?.pods === 0 && (
        <p class="row"><span>No windows in this range.</span>
          {(ownRange.from !== "" || ownRange.until !== "") && <button type="button" onClick={() => change({ [`${which}_from`]: "", [`${which}_until`]: "" })}>Use the page's range</button>}
          {earlierRanges(range, now).length > 0 && <button type="button" onClick={() => change({ [`${which}_from`]: VERSION_HISTORY, [`${which}_until`]: "now" })}>Show the last 7 days</button>}
        </p>
      )}
    </section>
  );
}

/** A side's own range: an earlier one of the same length, or any. */
function SideRange({ which, ownRange, range }: { which: SideName; ownRange: Range; range: Range }) {
  const [from, setFrom] = useState(ownRange.from);
  const [until, setUntil] = useState(ownRange.until);
  useLayoutEffect(() => { setFrom(ownRange.from); setUntil(ownRange.until); }, [ownRange.from, ownRange.until]);
  const applyRange = (next: Range) => change({ [`${which}_from`]: next.from.trim(), [`${which}_until`]: next.until.trim() });
  return (
    <details class="numbers">
      <summary>{ownRange.from === "" && ownRange.until === "" ? formatRange(range) : formatRange({ from: ownRange.from || range.from, until: ownRange.until || range.until })}</summary>
      <form class="row" onSubmit={(event) => { event.preventDefault(); applyRange({ from, until }); }}>
        <label>from <input value={from} placeholder={range.from} onInput={(event) => setFrom(event.currentTarget.value)} size={20} /></label>
        <label>until <input value={until} placeholder={range.until} onInput={(event) => setUntil(event.currentTarget.value)} size={20} /></label>
        <button>Set range</button>
        {earlierRanges(range, Date.now() / 1000).map((preset) => <button key={preset.name} type="button" onClick={() => applyRange(preset)}>{preset.name}</button>)}
        <p class="quiet">now, -15m, -1d, or 2026-11-20T10:00:00Z; empty follows the page's range.</p>
      </form>
    </details>
  );
}
