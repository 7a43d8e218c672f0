import { useEffect, useRef } from "preact/hooks";
import { change, place } from "../../lib/location.ts";
import { parseTime, PRESETS, formatRange, rfc3339, formatUtcOffset, type Range } from "../../lib/times.ts";
import { CHOSEN_RANGE } from "../../lib/sides.ts";
import { isRangeChosen, pageRange } from "../../lib/url.ts";
import * as strings from "../../strings/timelineStrings.tsx";

/** `datetime-local` fields speak local time without a zone. */
function field(text: string, now: number): string {
  const at = parseTime(text, now) ?? now;
  const shifted = at - new Date(at * 1000).getTimezoneOffset() * 60;
  return rfc3339(Math.floor(shifted)).slice(0, 19);
}

export function RangePicker() {
  const menu = useRef<HTMLDetailsElement>(null);
  const here = place.value;
  const range = pageRange(here);
  const isChosen = isRangeChosen(here);
  const name = isChosen ? strings.automaticTimes : formatRange(range);
  const now = Date.now() / 1000;
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
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const [from, until] = [String(form.get("from")), String(form.get("until"))].map((text) => Date.parse(text) / 1000);
    if (from < until) choose({ from: rfc3339(from), until: rfc3339(until) });
  };
  return (
    <details class="menu" ref={menu} onKeyDown={escape}>
      <summary aria-label={strings.timeRange(name)}>{name}</summary>
      <div class="sheet">
        <ul>
          {here.page === "compare" && <li><button type="button" aria-pressed={isChosen} onClick={() => choose(CHOSEN_RANGE)}>{strings.automaticTimes}</button></li>}
          {PRESETS.map((preset) => (
            <li key={preset.name}>
              <button type="button" aria-pressed={!isChosen && preset.from === range.from && preset.until === range.until} onClick={() => choose(preset)}>{preset.name}</button>
            </li>
          ))}
        </ul>
        <form onSubmit={submit}>
          <label>{strings.fromLabel}{" "}<input type="datetime-local" name="from" step="1" required defaultValue={field(range.from, now)} /></label>
          <label>{strings.until}{" "}<input type="datetime-local" name="until" step="1" required defaultValue={field(range.until, now)} /></label>
          <p class="quiet">{strings.timeZoneOfBrowser(formatUtcOffset(now))}</p>
          <button class="primary">{strings.showRange}</button>
        </form>
      </div>
    </details>
  );
}
