import type { Ranges, Side } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { CHOSEN_RANGE, placeChanges } from "../../lib/sides.ts";
import { formatClock, inShownZone, toEpochSeconds } from "../../lib/times.ts";
import { isRangeChosen } from "../../lib/url.ts";
import { Dropdown } from "../ui/Dropdown.tsx";
import * as strings from "../../strings/comparisonStrings.tsx";

/** "22:41–23:41", with the date unless that is today. */
function shortRange({ from, until }: Side, now: number): string {
  const [start, end, today] = [formatClock(toEpochSeconds(from)), formatClock(toEpochSeconds(until)), formatClock(now)].map((clock) => [clock.slice(0, 10), clock.slice(11, 16)]);
  const named = ([date, time]: string[], last: string) => (date === last ? time : `${date} ${time}`);
  return `${named(start, today[0])}–${named(end, start[0])}`;
}

/** "both ran 22:41–23:41": the times that are compared. */
export function nameTimes(sides: readonly Side[], reason: Ranges["reason"] | undefined, now: number): string {
  const [a, b] = sides.map((side) => shortRange(side, now));
  return a === b ? `${reason === "overlap" ? strings.bothRan : ""}${a}` : `A ${a}, B ${b}`;
}

/** The times that are compared, why, and others to choose. */
export function ComparedTimes({ sides, ranges }: { sides: readonly Side[]; ranges: Ranges | undefined }) {
  const isChosen = isRangeChosen(place.value);
  return (
    <Dropdown isText text={`${nameTimes(sides, ranges?.reason, Date.now() / 1000)} ▾`} label={strings.comparedTimes(nameTimes(sides, ranges?.reason, Date.now() / 1000))}>
      {ranges && <p>{inShownZone(ranges.text)}</p>}
      <p class="row">
        {!isChosen && <button type="button" onClick={() => change(CHOSEN_RANGE)}>{strings.chooseTimesAutomatically}</button>}
        {ranges?.alternatives.map(({ label, parameters }) => <button key={label} type="button" onClick={() => change(placeChanges(place.value, parameters))}>{inShownZone(label)}</button>)}
      </p>
    </Dropdown>
  );
}
