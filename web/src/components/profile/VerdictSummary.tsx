import type { ComponentChildren } from "preact";
import type { Effect, Verdict, Way } from "../../api/verdict.ts";
import { focusWordOf } from "../../flamegraph/tree/focus.ts";
import { frameText } from "../../flamegraph/analysis/significance.ts";
import { sandwichOf } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { place } from "../../lib/location.ts";
import { interval, percent, short, signed, sure } from "../../lib/numbers.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { Facts, Link } from "../ui/Controls.tsx";
import { rateWords } from "./ChangeTable.tsx";

const NONE = "This answer has no verdict. Colours are beyond counting noise, which is less than what pods and times differ by anyway.";

/**
 * What differs, in the collector's own words: then the call paths it comes from, and what became of depth, idle
 * time and the event loop. `verdict` is undefined while it is on its way. In a file (`apart`)
 * no page can be led to that asks the collector.
 */
export function Finding({ verdict, apart = false }: { verdict: Verdict | null | undefined; apart?: boolean }) {
  return (
    <section class="finding" aria-label="Verdict">
      <p class="verdict" role="status">{verdict === undefined ? "Loading the comparison…" : (verdict?.sentence ?? NONE)}</p>
      {verdict && verdict.direction !== "incomparable" && <><Why verdict={verdict} /><Besides verdict={verdict} apart={apart} /></>}
    </section>
  );
}

/** The call paths that a change comes from, each a way into the graph. */
function Why({ verdict: { explanation: { share, paths }, method: { unit } } }: { verdict: Verdict }) {
  if (paths.length === 0) return null;
  return (
    <div class="why">
      <span>{share === null ? "These moved, though:" : `${share > 1.005 ? "It" : `${percent(share, 0)} of it`} comes from ${paths.length === 1 ? "one call path" : `${paths.length} call paths`}:`}</span>
      <ul>
        {paths.map(({ names, delta, share: part }) => (
          <li key={names.join("\n")}>
            <Link to={{ ...place.value, view: "flame", by: "function", t: "", q: "", invert: false, collapse: false, focus: focusWordOf(names) }}
              title={`${names.map((name) => frameParts(name).function).join(" › ").slice(-300)}: open in the graph`}>
              <bdi>{frameParts(names[names.length - 1]).function.slice(0, 120)}</bdi>
            </Link>{" "}
            <span class="number">{delta > 0 ? "▲" : "▼"} {signed(rateWords(delta, unit), delta)}{share !== null && <span class="quiet"> ({percent(part, 0).replace("-", "−")})</span>}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What something is, and its words for more, less and neither. */
type Said = readonly [subject: string, more: string, less: string, same: string];

const DEPTH: Said = ["Stacks are", "deeper", "shallower", "as deep"];
const IDLE: Said = ["Threads wait", "more", "less", "as much"];
const LOOP: Said = ["The event loop is", "busier", "less busy", "as busy"];

const said = ([subject, more, less, same]: Said, way: Way, delta: number): string => (way === "more" || way === "new" ? `${subject} ${more} in B`
  : way === "less" || way === "gone" ? `${subject} ${less} in B` : way === "same" ? `${subject} ${same} in B as in A` : `Whether ${subject.toLowerCase()} ${delta < 0 ? less : more} in B cannot be told yet`);

const points = (value: number): string => (value * 100).toFixed(1);

/** What became of depth, idle time and the event loop, each a way to where it is shown; intervals are of the level that the sentence names. */
function Besides({ verdict: { depth, idle, roles, loop, method: { level } }, apart }: { verdict: Verdict; apart: boolean }) {
  const here = place.value;
  const line = (words: Said, { a, b, delta, low, high, direction }: Effect, unit: string, to: Place | null, more?: ComponentChildren) => {
    const [whole, part] = words === DEPTH ? [short, (value: number) => value.toFixed(1)] : [percent, points];
    const sentence = said(words, direction, delta);
    return (
      <li>
        {to && !apart ? <Link to={to}>{sentence}</Link> : sentence}: {whole(a)} → {whole(b)} {unit} <span class="quiet" title={sure(level)}>({signed(part(delta), delta)}{words !== DEPTH && " points"}{low !== null && high !== null && `, between ${interval(low, high, part, "and")}`})</span>{more}.
      </li>
    );
  };
  const waits = idle && (idle.a > 0 || idle.b > 0);
  const holders = loop?.holders.filter(({ effect: { a, b } }) => a + b > 0.02).slice(0, 3) ?? [];
  if (!depth && !waits && !loop) return null;
  return (
    <ul class="besides">
      {depth && line(DEPTH, depth.mean, "frames on average", onPage(here, "depth", { focus: here.focus }))}
      {waits && line(IDLE, idle, "of their time", here.type === "wall" ? null : { ...here, type: "wall", colour: "state", view: "sides" }, roles.length > 1 && roles.map(({ thread, idle: own }) => (
        <span key={thread}>; {thread === "main" ? "main threads" : "others"} {percent(own.a)} → {percent(own.b)}</span>
      )))}
      {loop && line(LOOP, loop.busy, "of its time", null, holders.map(({ function: fn, file, effect }, at) => (
        <span key={fn + file}>{at > 0 ? ", " : "; it is held by "}<Link to={{ ...here, ...sandwichOf(frameText(fn, file)) }}><bdi>{fn.slice(0, 120)}</bdi></Link> ({percent(effect.a)} → {percent(effect.b)})</span>
      )))}
    </ul>
  );
}

/**
 * What could make the sides not comparable: a line for each doubt, with what to do, and all else folded. Of a side that
 * was not watched there is nothing to say. With `told` the sentence above has said already what keeps them apart.
 */
export function Checks({ verdict: { checks, direction, sampled, method: { measured, unit } }, told = false }: { verdict: Verdict; told?: boolean }) {
  if (direction === "unknown") return null;
  const doubts = checks.filter(({ severity }) => severity !== "ok");
  const rest = checks.filter((check) => !doubts.includes(check));
  const unknown = rest.filter(({ state }) => state === "unknown").map(({ name }) => name);
  return (
    <>
      {doubts.length > 0 && (
        <ul class="notices doubts" aria-label="Before you compare">
          {doubts.map(({ name, severity, text, hint }) => (
            <li key={name}><strong>{name}</strong>{!(told && severity === "refuse") && <> {text.replace(/\.?$/, ".")}</>} {hint}</li>
          ))}
        </ul>
      )}
      <details class="numbers checks">
        <summary>Nothing {doubts.length > 0 && "else "}speaks against comparing them{unknown.length > 0 && `; not known: ${unknown.join(", ")}`}</summary>
        <Facts of={[...rest.map(({ name, text }) => [name, text] as const), ["measured", measured === "clock" && sampled ? `the whole by the kernel's clock; samples of call paths add up to ${rateWords(sampled.a, unit)} → ${rateWords(sampled.b, unit)}` : "in samples"]]} />
      </details>
    </>
  );
}
