import { apiUrl } from "../api/ask.ts";
import { epoch, type Side } from "../api/answers.ts";
import { place, PREFIX } from "../location.ts";
import { rfc3339 } from "../times.ts";
import { absolute } from "../times.ts";
import { formatPlace, type Place } from "../url.ts";
import { CopyButton } from "./copying.tsx";
import { rangeOf } from "./range.tsx";

/** Links that take away exactly the profile in view: the range the answer covered, not "the last hour". */
export function Exports({ side, name }: { side: Side; name: string }) {
  const { type } = place.value;
  const parameters = { query: side.selector, from: moment(side.from), until: moment(side.until), type };
  const file = `${encodeURIComponent(name)}.speedscope.json`;
  const profile = apiUrl(`export/${file}`, parameters);
  const title = encodeURIComponent(`${name} (${type})`);
  return (
    <span class="exports">
      <a class="button" href={apiUrl("export", { ...parameters, format: "folded", states: "1" })} download={`${name}.folded`}>Folded</a>
      <a class="button" href={profile} download={`${name}.speedscope.json`}>Speedscope file</a>
      <a class="button" target="_blank" rel="noopener" href={`${PREFIX}speedscope/index.html#profileURL=${encodeURIComponent(profile)}&title=${title}&view=left-heavy`}>Open in speedscope ↗</a>
    </span>
  );
}

const moment = (time: string | number) => rfc3339(epoch(time));

/** Copies the address with its relative times nailed down, so that it shows the same thing tomorrow. */
export function Share() {
  const link = () => {
    const here = place.peek();
    const now = Date.now() / 1000;
    const fixed: Place = { ...here, ...absolute(rangeOf(here), now) };
    const sides = {
      a_from: fix(here.a_from, now), a_until: fix(here.a_until, now), b_from: fix(here.b_from, now), b_until: fix(here.b_until, now),
    };
    return window.location.origin + PREFIX.slice(0, -1) + formatPlace({ ...fixed, ...sides });
  };
  return <CopyButton text={link} what="Link">Share</CopyButton>;
}

const fix = (text: string, now: number) => (text === "" ? "" : absolute({ from: text, until: text }, now).from);
