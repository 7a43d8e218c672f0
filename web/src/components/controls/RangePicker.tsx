import { useEffect, useRef, useState } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { formatRange, formatTypedTime, formatUtcOffset, parseTime, parseTypedTime, PRESETS, shiftRange, type Range } from "../../lib/times.ts";
import { CHOSEN_RANGE } from "../../lib/sides.ts";
import { isRangeChosen, pageRange } from "../../lib/url.ts";
import { autoRefreshSeconds } from "./autoRefresh.ts";
import * as strings from "../../strings/timelineStrings.tsx";

const REFRESH_SECONDS = [0, 10, 30, 60, 300] as const;

export function RangePicker() {
  const menu = useRef<HTMLDetailsElement>(null);
  const here = place.value;
  const range = pageRange(here);
  const isChosen = isRangeChosen(here);
  const refreshed = autoRefreshSeconds.value;
  const name = isChosen ? strings.automaticTimes : formatRange(range);
  useEffect(() => {
    const close = (event: Event) => {
      if (menu.current && event.target instanceof Node && !menu.current.contains(event.target)) menu.current.open = false;
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, []);
  const choose = (next: Range) => {
    if (menu.current) menu.current.open = false;
    // Times of both sides would hide those of the page.
    const hasOwnTimes = here.baseline_from !== "" && here.comparison_from !== "";
    change({ ...(here.page === "compare" && hasOwnTimes ? CHOSEN_RANGE : {}), from: next.from, until: next.until });
  };
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !menu.current?.open) return;
    event.preventDefault();
    menu.current.open = false;
    menu.current.querySelector("summary")?.focus();
  };
  const shift = (direction: -1 | 1) => choose(shiftRange(range, direction, Date.now() / 1000));
  return (
    <>
      {!isChosen && <button type="button" class="square shift" onClick={() => shift(-1)} aria-label={strings.earlier} title={strings.earlier}>◀</button>}
      <details class="menu" ref={menu} onKeyDown={escape}>
        <summary aria-label={strings.timeRange(name)}>{name}{refreshed > 0 && <span class="quiet"> · {strings.every(refreshed)}</span>}</summary>
        <div class="sheet">
          <ul>
            {here.page === "compare" && <li><button type="button" aria-pressed={isChosen} onClick={() => choose(CHOSEN_RANGE)}>{strings.automaticTimes}</button></li>}
            {PRESETS.map((preset) => (
              <li key={preset.name}>
                <button type="button" aria-pressed={!isChosen && preset.from === range.from && preset.until === range.until} onClick={() => choose(preset)}>{preset.name}</button>
              </li>
            ))}
          </ul>
          <TypedRange key={`${range.from} ${range.until} ${here.utc}`} range={range} choose={choose} />
          <label>{strings.autoRefresh}{" "}
            <select value={refreshed} onChange={(event) => { autoRefreshSeconds.value = Number(event.currentTarget.value); }}>
              {REFRESH_SECONDS.map((seconds) => <option key={seconds} value={seconds}>{seconds === 0 ? strings.off : strings.every(seconds)}</option>)}
            </select>
          </label>
        </div>
      </details>
      {!isChosen && range.until !== "now" && <button type="button" class="square shift" onClick={() => shift(1)} aria-label={strings.later} title={strings.later}>▶</button>}
    </>
  );
}

/** Two times as text: relative ones such as now-3h, or dates and times of the zone in use. */
function TypedRange({ range, choose }: { range: Range; choose: (next: Range) => void }) {
  const [problem, setProblem] = useState("");
  const now = Date.now() / 1000;
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const [from, until] = [String(form.get("from")), String(form.get("until"))].map((text) => parseTypedTime(text, now));
    if (from === null || until === null) return setProblem(strings.notATime);
    if ((parseTime(from, now) ?? 0) >= (parseTime(until, now) ?? 0)) return setProblem(strings.endsBeforeItBegins);
    return choose({ from, until });
  };
  const field = (name: "from" | "until", text: string) => (
    <label>{text}{" "}<input name={name} required spellcheck={false} autocomplete="off" aria-invalid={problem !== ""} aria-describedby="range-problem" defaultValue={formatTypedTime(range[name])} onInput={() => setProblem("")} /></label>
  );
  return (
    <form onSubmit={submit}>
      {field("from", strings.fromLabel)}
      {field("until", strings.until)}
      <p class="quiet">{strings.typedTimesHint(formatUtcOffset(now))}</p>
      <p class="problem" id="range-problem" role="alert">{problem}</p>
      <button class="primary">{strings.showRange}</button>
    </form>
  );
}
