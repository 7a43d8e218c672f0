import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { ServicesAnswer, Side, VersionSummary } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { percent, seconds } from "../../lib/numbers.ts";
import { equals, joinMatchers, selectorOf, sideMatchers, sideName, formatMatcher } from "../../lib/selectors.ts";
import { singleSide, captureOfSide, earlierRanges, LETTERS, sideInForce, swapSides, versionSide, type SideName } from "../../lib/sides.ts";
import { formatAgo, parseTime, formatRange, rfc3339, toEpochSeconds, type Range } from "../../lib/times.ts";
import { isRangeChosen, onPage, type Place } from "../../lib/url.ts";
import { Dropdown } from "../ui/Dropdown.tsx";
import { Link } from "../ui/Controls.tsx";
import { OPERATOR_LABELS } from "./Filters.tsx";
import { MatcherEditor } from "./MatcherEditor.tsx";
import { CapturePicker } from "./CapturePicker.tsx";
import { useKeys } from "../ui/useKeys.ts";
import { QualityLine } from "../answer/QualityLine.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

/** How far back versions are offered: one may have ended before the page's range begins. */
const VERSION_HISTORY = "-7d";

/** Every version of the last days or of the page's range, the newest first. */
function useVersions(range: Range, isEnabled: boolean): readonly VersionSummary[] {
  const now = Date.now() / 1000;
  const from = (parseTime(range.from, now) ?? now) < (parseTime(VERSION_HISTORY, now) ?? now) ? range.from : VERSION_HISTORY;
  const request = useAnswer<ServicesAnswer>(isEnabled ? apiUrl("services", { query: selectorOf(place.value.service, ""), from }) : null);
  return [...(request.answer?.services[0]?.versions ?? [])].sort((a, b) => toEpochSeconds(b.first_seen) - toEpochSeconds(a.first_seen));
}

/** Chooses what A and B are: a version, a capture or any matchers, each over its own range if wanted. */
export function SidePickers({ range, sides, isSettled }: { range: Range; sides: readonly Side[] | null; isSettled: boolean }) {
  const [loadVersions, setLoadVersions] = useState(false);
  // The comparison first: the lists can wait for it.
  useEffect(() => { if (isSettled) setLoadVersions(true); }, [isSettled]);
  const versions = useVersions(range, loadVersions);
  const here = place.value;
  // A side that the collector chose is written down with the first change of the other.
  const inForce: Place = { ...here, baseline: sideInForce(here, "baseline", sides?.[0].selector), comparison: sideInForce(here, "comparison", sides?.[1].selector) };
  const swap = () => change(swapSides(inForce));
  useKeys({ x: swap });
  const picker = (which: SideName, at: number) => <SidePicker which={which} inForce={inForce} versions={versions} range={range} answer={sides?.[at] ?? null} />;
  return (
    <div class="sides">
      {picker("baseline", 0)}
      <button type="button" class="swap" title={strings.swapSidesHint} aria-label={strings.swapSides} onClick={swap}>⇄</button>
      {picker("comparison", 1)}
    </div>
  );
}

function SidePicker({ which, inForce, versions, range, answer }: { which: SideName; inForce: Place; versions: readonly VersionSummary[]; range: Range; answer: Side | null }) {
  const side = inForce[which];
  const ownRange = { from: inForce[`${which}_from`], until: inForce[`${which}_until`] };
  const capture = captureOfSide(side);
  const kind = side.startsWith("version:") ? side : capture !== null ? "capture" : side === "" ? "" : "match";
  const [typed, setTyped] = useState(sideMatchers(side));
  useLayoutEffect(() => setTyped(sideMatchers(side)), [side]);
  const [adding, setAdding] = useState(false);
  const section = useRef<HTMLElement>(null);
  const letter = LETTERS[which];
  const now = Date.now() / 1000;
  const set = (changes: Partial<Place>) => change({ baseline: inForce.baseline, comparison: inForce.comparison, ...changes });
  const choose = (selection: string) => {
    const version = versions.find((row) => `version:${row.version}` === selection);
    if (version) {
      set(isRangeChosen(place.peek()) ? { [which]: selection, [`${which}_from`]: "", [`${which}_until`]: "" } : versionSide(which, version, range, now));
      return;
    }
    set(selection === "capture" ? { [which]: `match:${equals("capture", "")}` } : { [which]: `match:${kind === "capture" ? "" : sideMatchers(side)}` });
    // Where the rest of the choice is made.
    section.current?.querySelector("details.drop")?.setAttribute("open", "");
  };
  return (
    <section class="picker" aria-label={strings.side(letter)} ref={section}>
      <span class={`side side-${letter.toLowerCase()}`}>{letter}</span>
      <label>
        <span class="unseen">{strings.versionOfSide(letter)}</span>
        <select value={kind === "match" ? "match:" : kind} onChange={(event) => choose(event.currentTarget.value)}>
          {side === "" && <option value="">…</option>}
          {versions.map((row) => (
            <option key={row.version} value={`version:${row.version}`}>
              {row.version.slice(0, 80) || strings.noVersionLabelled}{`version:${row.version}` !== kind && strings.sincePod(formatAgo(toEpochSeconds(row.first_seen), now), row.pods)}
            </option>
          ))}
          {kind === side && side !== "" && !versions.some(({ version }) => `version:${version}` === side) && <option value={side}>{sideName(side).slice(0, 80)}</option>}
          <option value="capture">{capture ? strings.captureNamed(capture) : strings.captureOption}</option>
          <option value="match:">{kind === "match" ? sideName(side).slice(0, 80) : strings.otherLabelsOption}</option>
        </select>
      </label>
      <Dropdown isText text="⋯" label={strings.detailsOfSide(letter)}>
        <p class="row">
          <Link to={onPage(inForce, "service", { baseline: "", comparison: "", baseline_from: "", baseline_until: "", comparison_from: "", comparison_until: "", ...singleSide(inForce, which, range) })} class="button"
            title={strings.openSideHint}>{strings.open(letter)}</Link>
        </p>
        {kind === "capture" && <CapturePicker letter={letter} value={capture ?? ""} range={range} onSelect={(id) => set({ [which]: `match:${equals("capture", id)}` })} />}
        {kind === "match" && (
          <>
            <form class="row" onSubmit={(event) => { event.preventDefault(); set({ [which]: `match:${joinMatchers(typed)}` }); }}>
              <label class="grow"><span class="unseen">{strings.matchersOfSide(letter)}</span>
                <input class="matchers" value={typed} spellcheck={false} autocomplete="off" placeholder={strings.matchersPlaceholder} onInput={(event) => setTyped(event.currentTarget.value)} />
              </label>
              <button>{strings.set}</button>
              <button type="button" aria-expanded={adding} onClick={() => setAdding(!adding)}>{strings.addLabel}</button>
            </form>
            {adding && <MatcherEditor range={range} matcher={null} operatorLabels={OPERATOR_LABELS} onCancel={() => setAdding(false)}
              onDone={(matcher) => { setAdding(false); set({ [which]: `match:${joinMatchers(sideMatchers(side), formatMatcher(matcher))}` }); }} />}
          </>
        )}
        <SideRange which={which} ownRange={ownRange} range={answer ? { from: rfc3339(toEpochSeconds(answer.from)), until: rfc3339(toEpochSeconds(answer.until)) } : range} />
        <p class="basis">
          {answer ? <>
            {strings.sideData(answer.samples, answer.pods, answer.windows, seconds(answer.seconds))}
            {answer.idle_share !== null && !answer.missing_states.includes("idle") && <>{" "}{strings.idle(percent(answer.idle_share))}</>}
          </> : "–"}
        </p>
        {answer && answer.pods > 0 && <QualityLine source={answer} />}
        {answer?.pods === 0 && <p>{strings.noWindowsInRange}</p>}
      </Dropdown>
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
    <form class="row" onSubmit={(event) => { event.preventDefault(); applyRange({ from, until }); }}>
      <span>{formatRange({ from: ownRange.from || range.from, until: ownRange.until || range.until })}</span>
      <label>{strings.fromLabel}{" "}<input value={from} placeholder={range.from} onInput={(event) => setFrom(event.currentTarget.value)} size={20} /></label>
      <label>{strings.until}{" "}<input value={until} placeholder={range.until} onInput={(event) => setUntil(event.currentTarget.value)} size={20} /></label>
      <button>{strings.setRange}</button>
      {earlierRanges(range, Date.now() / 1000).map((preset) => <button key={preset.name} type="button" onClick={() => applyRange(preset)}>{preset.name}</button>)}
      {(ownRange.from !== "" || ownRange.until !== "") && <button type="button" onClick={() => applyRange({ from: "", until: "" })}>{strings.usePagesRange}</button>}
      <p class="quiet">{strings.rangeSyntax}</p>
    </form>
  );
}
