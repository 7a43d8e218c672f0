import type { ComponentChildren } from "preact";
import type { Check, Effect, Verdict, Way } from "../api/verdict.ts";
import { focusWordOf } from "../flame/focus.ts";
import { frameText } from "../flame/judged.ts";
import { sandwichOf } from "../flame/offers.ts";
import { frameParts } from "../flame/packages.ts";
import { place } from "../location.ts";
import { interval, percent, plural, short, signed, sure } from "../numbers.ts";
import { onPage } from "../url.ts";
import { Link } from "./basics.tsx";
import { rateWords } from "./changes.tsx";

const NONE = "This answer has no verdict. What is coloured is beyond counting noise, which is less than what pods and times differ by anyway.";

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
      <span>{share === null ? "Within it, these moved most:" : `${plural(paths.length, "call path")} ${paths.length === 1 ? "makes" : "make"} up ${share > 1.005 ? "more than all" : percent(share, 0)} of it:`}</span>
      <ul>
        {paths.map(({ names, delta, share: part }) => (
          <li key={names.join("\n")}>
            <Link to={{ ...place.value, view: "flame", by: "function", t: "", q: "", invert: false, collapse: false, focus: focusWordOf(names) }}
              title={`${names.map((name) => frameParts(name).function).join(" › ").slice(-300)}: open in the graph`}>
              <bdi>{frameParts(names[names.length - 1]).function.slice(0, 120)}</bdi>
            </Link>{" "}
            <span class="number">{delta > 0 ? "▲" : "▼"} {signed(rateWords(delta, unit), delta)} <span class="quiet">({percent(part, 0).replace("-", "−")})</span></span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What something is, and its words for more, less and neither. */
type Said = readonly [subject: string, more: string, less: string, same: string];

const DEPTH: Said = ["Stacks are", "deeper", "less deep", "as deep as before"];
const IDLE: Said = ["Threads wait", "more", "less", "as much as before"];
const LOOP: Said = ["The event loop is", "busier", "less busy", "as busy as before"];

const said = ([subject, more, less, same]: Said, way: Way): string => (way === "more" || way === "new" ? `${subject} ${more}`
  : way === "less" || way === "gone" ? `${subject} ${less}` : way === "same" ? `${subject} ${same}` : `Whether ${subject.toLowerCase()} ${more} cannot be told yet`);

const points = (value: number): string => (value * 100).toFixed(1);

/** How a number differs, with its interval. */
function Differs({ of: { a, b, delta, low, high, direction }, words, level, frames = false }: { of: Effect; words: Said; level: number; frames?: boolean }) {
  const [whole, part] = frames ? [short, (value: number) => value.toFixed(1)] : [percent, points];
  return (
    <>{said(words, direction)}: {whole(a)} → {whole(b)}{frames ? " frames in the mean" : ""} <span class="quiet">({signed(part(delta), delta)}{frames ? "" : " points"}{low !== null && high !== null && `, ${sure(level)} ${interval(low, high, part)}`})</span></>
  );
}

function Besides({ verdict: { depth, idle, roles, loop, method: { level } }, apart }: { verdict: Verdict; apart: boolean }) {
  const here = place.value;
  const line = (children: ComponentChildren) => <li>{children}</li>;
  const waits = idle && (idle.a > 0 || idle.b > 0);
  if (!depth && !waits && !loop) return null;
  return (
    <ul class="besides">
      {depth && line(<><Differs of={depth.mean} words={DEPTH} level={level} frames />. {!apart && <Link to={onPage(here, "depth", { focus: here.focus })}>Stack depth</Link>}</>)}
      {waits && line(<><Differs of={idle} words={IDLE} level={level} />{roles.length > 1 && roles.map(({ thread, idle: own }) => (
        <span key={thread}>; {thread === "main" ? "main threads" : "others"} {percent(own.a)} → {percent(own.b)}</span>
      ))}. {!apart && here.type !== "wall" && <Link to={{ ...here, type: "wall", colour: "state", view: "sides" }}>Wall time by state</Link>}</>)}
      {loop && line(<><Differs of={loop.busy} words={LOOP} level={level} />{loop.holders.length > 0 && <>; it is held by {loop.holders.slice(0, 3).map(({ function: fn, file, effect }, at) => (
        <span key={fn + file}>{at > 0 && ", "}<Link to={{ ...here, ...sandwichOf(frameText(fn, file)) }}><bdi>{fn.slice(0, 120)}</bdi></Link> ({percent(effect.a)} → {percent(effect.b)})</span>
      ))}</>}.</>)}
    </ul>
  );
}

const STATES = { alike: "ok", differs: "differs", unknown: "not known" } as const;

/** All that could make the sides not comparable, each with its word and what to do; folded while nothing does. */
export function Checks({ checks }: { checks: readonly Check[] }) {
  const refused = checks.filter(({ severity }) => severity === "refuse");
  const apart = checks.filter(({ severity }) => severity !== "ok");
  const unknown = checks.filter(({ state, severity }) => state === "unknown" && severity === "ok");
  const named = (some: readonly Check[]) => some.map(({ name }) => name).join(", ");
  const title = (refused.length > 0 ? `The sides cannot be compared: ${named(refused)}` : apart.length > 0 ? `Look twice: ${named(apart)}` : "The sides were taken alike")
    + (unknown.length > 0 ? `; not known: ${named(unknown)}` : "");
  return (
    <details class="checks" open={apart.length > 0}>
      <summary><span class={apart.length > 0 ? "doubt" : ""}>{apart.length > 0 && <span aria-hidden="true">⚠ </span>}{title}</span></summary>
      <dl>
        {checks.map(({ name, state, severity, text, hint }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <strong class={severity === "ok" ? "" : "doubt"}>{severity === "refuse" ? "not comparable" : STATES[state]}</strong> <span>{text}</span>
              {hint !== "" && severity !== "ok" && <> <span class="quiet">{hint}</span></>}
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
