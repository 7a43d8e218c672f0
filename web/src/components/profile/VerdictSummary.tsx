import type { ComponentChildren } from "preact";
import type { Effect, Verdict, Direction } from "../../api/verdict.ts";
import { pathKeyOfNames } from "../../flamegraph/tree/focus.ts";
import { formatFrame } from "../../flamegraph/analysis/significance.ts";
import { sandwichPlace } from "../../viewmodels/frameActions.ts";
import { frameParts } from "../../flamegraph/tree/packages.ts";
import { place } from "../../lib/location.ts";
import { interval, percent, plural, short, signed, confidenceLabel } from "../../lib/numbers.ts";
import { onPage, type Place } from "../../lib/url.ts";
import { DefinitionList, Link } from "../ui/Controls.tsx";
import { formatRate } from "./ChangeTable.tsx";

const NO_VERDICT = "This answer has no verdict. Colours mark differences beyond counting noise; pods and times can differ by more.";

/**
 * What differs, in the collector's own words: then where it starts, and what became of depth, idle
 * time and the event loop. `verdict` is undefined while it is on its way. In a file (`isOffline`)
 * no page can be led to that asks the collector.
 */
export function VerdictSummary({ verdict, isOffline = false }: { verdict: Verdict | null | undefined; isOffline?: boolean }) {
  return (
    <section class="finding" aria-label="Verdict">
      <p class="verdict" role="status">{verdict === undefined ? "Loading the comparison…" : (verdict?.summary ?? NO_VERDICT)}</p>
      {verdict && verdict.direction !== "not_comparable" && <><Culprits verdict={verdict} /><SecondaryEffects verdict={verdict} isOffline={isOffline} /></>}
    </section>
  );
}

/** The functions where the change starts, each a way into the graph. */
function Culprits({ verdict: { direction, culprits: { share, rows }, method: { unit } } }: { verdict: Verdict }) {
  if (share === null || rows.length === 0) return null;
  const isChanged = direction !== "unchanged" && direction !== "inconclusive";
  return (
    <div class="why">
      <span>{isChanged ? `The change starts here (${percent(share, 0)} of it):` : "Functions that changed anyway:"}</span>
      <ul>
        {rows.map(({ function: name, file, folded, names, delta, share: part }) => (
          <li key={`${name}\n${file}\n${delta > 0}`}>
            <Link to={{ ...place.value, view: "flame", by: "function", t: "", q: "", invert: false, collapse: false, focus: pathKeyOfNames(names) }}
              title={`${names.map((frame) => frameParts(frame).function).join(" › ").slice(-300)}: open in the graph`}>
              <bdi>{[name, ...folded].join(" › ").slice(0, 120)}</bdi>
            </Link>{" "}
            <span class="number">{delta > 0 ? "▲" : "▼"} {signed(formatRate(delta, unit), delta)}<span class="quiet"> ({percent(part, 0)})</span></span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A subject, its words for more, less and neither, and its name. */
type EffectWording = readonly [subject: string, more: string, less: string, same: string, name: string];

const DEPTH: EffectWording = ["Stacks are", "deeper", "shallower", "as deep", "Stack depth"];
const IDLE: EffectWording = ["Threads wait", "more", "less", "as much", "Wait time"];
const LOOP: EffectWording = ["The event loop is", "busier", "less busy", "as busy", "Event loop"];

const describeEffect = ([subject, more, less, same, name]: EffectWording, direction: Direction): string => (direction === "increased" || direction === "new" ? `${subject} ${more} in B`
  : direction === "decreased" || direction === "removed" ? `${subject} ${less} in B` : direction === "unchanged" ? `${subject} ${same} in B as in A` : `${name}: inconclusive`);

const formatPoints = (value: number): string => (value * 100).toFixed(1);

/** What became of depth, idle time and the event loop, each a way to where it is shown; intervals are of the level that the sentence names. */
function SecondaryEffects({ verdict: { depth, idle, thread_kinds: kinds, loop, method: { alpha_spent: level } }, isOffline }: { verdict: Verdict; isOffline: boolean }) {
  const here = place.value;
  const effectLine = (wording: EffectWording, { baseline: a, comparison: b, delta, low, high, direction }: Effect, unit: string, to: Place | null, more?: ComponentChildren) => {
    const [formatValue, formatDelta] = wording === DEPTH ? [short, (value: number) => value.toFixed(1)] : [percent, formatPoints];
    const sentence = describeEffect(wording, direction);
    const separator = sentence.includes(":") ? "," : ":";
    return (
      <li>
        {to && !isOffline ? <Link to={to}>{sentence}</Link> : sentence}{separator} {formatValue(a)} → {formatValue(b)} {unit} <span class="quiet" title={confidenceLabel(level)}>({signed(formatDelta(delta), delta)}{wording !== DEPTH && " points"}{low !== null && high !== null && `, between ${interval(low, high, formatDelta, "and")}`})</span>{more}.
      </li>
    );
  };
  const hasIdle = idle && (idle.baseline > 0 || idle.comparison > 0);
  const blockers = loop?.blockers.filter(({ effect: { baseline, comparison } }) => baseline + comparison > 0.02).slice(0, 3) ?? [];
  if (!depth && !hasIdle && !loop) return null;
  return (
    <ul class="besides">
      {depth && effectLine(DEPTH, depth.mean, "frames on average", onPage(here, "depth", { focus: here.focus }))}
      {hasIdle && effectLine(IDLE, idle, "of their time", here.type === "wall" ? null : { ...here, type: "wall", colour: "state", view: "sides" }, kinds.length > 1 && kinds.map(({ thread, idle: effect }) => (
        <span key={thread}>; {thread === "main" ? "main threads" : "others"} {percent(effect.baseline)} → {percent(effect.comparison)}</span>
      )))}
      {loop && effectLine(LOOP, loop.busy, "of its time", null, blockers.map(({ function: fn, file, effect }, at) => (
        <span key={fn + file}>{at > 0 ? ", " : "; held by "}<Link to={{ ...here, ...sandwichPlace(formatFrame(fn, file)) }}><bdi>{fn.slice(0, 120)}</bdi></Link> ({percent(effect.baseline)} → {percent(effect.comparison)})</span>
      )))}
    </ul>
  );
}

/**
 * What could make the sides not comparable: a line for each doubt, with what to do, and all else folded. Of a side that
 * was not watched there is nothing to say. With `isCauseShown` the verdict above it names the cause already.
 */
export function ComparabilityChecks({ verdict: { checks, direction, sampling_only: sampled, method: { rate_source: source, unit } }, isCauseShown = false }: { verdict: Verdict; isCauseShown?: boolean }) {
  if (direction === "no_data") return null;
  const warnings = checks.filter(({ severity }) => severity !== "ok");
  const others = checks.filter((check) => !warnings.includes(check));
  const unknown = others.filter(({ state }) => state === "unknown").map(({ name }) => name);
  return (
    <>
      {warnings.length > 0 && (
        <ul class="notices doubts" aria-label="Before you compare">
          {warnings.map(({ name, severity, text, hint }) => (
            <li key={name}><strong>{name}</strong>{!(isCauseShown && severity === "blocking") && <> {text.replace(/\.?$/, ".")}</>} {hint}</li>
          ))}
        </ul>
      )}
      <details class="numbers checks">
        <summary>✓ {plural(others.length - unknown.length, "comparability check")} passed{unknown.length > 0 && `; unknown: ${unknown.join(", ")}`}</summary>
        <DefinitionList entries={[...others.map(({ name, text }) => [name, text] as const), ["measured", source === "clock" && sampled ? `total from the kernel's clock; call path samples add up to ${formatRate(sampled.baseline, unit)} → ${formatRate(sampled.comparison, unit)}` : "in samples"]]} />
      </details>
    </>
  );
}
