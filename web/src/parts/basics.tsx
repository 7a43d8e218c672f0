import type { ComponentChildren } from "preact";
import type { Asked } from "../api/answer.ts";
import type { Basis } from "../api/answers.ts";
import type { Failure } from "../api/ask.ts";
import { href, place } from "../location.ts";
import { microseconds, percent, plural, seconds as duration } from "../numbers.ts";
import { joined, selectorOf, troubleAt } from "../selectors.ts";
import type { Place } from "../url.ts";
import { Said } from "./said.tsx";
import { PutOff, Underway } from "./waiting.tsx";

/** A link to another place inside the app. */
export function Link({ to, children, current, class: looks, title }: {
  to: Place; children: ComponentChildren; current?: boolean; class?: string; title?: string;
}) {
  return <a href={href(to)} data-inside="1" class={looks} title={title} aria-current={current ? "page" : undefined}>{children}</a>;
}

export function Segments<Value extends string>({ label, value, options, choose }: {
  label: string; value: Value; options: readonly (readonly [Value, string, string?])[]; choose: (value: Value) => void;
}) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(([option, text, title]) => (
        <button key={option} type="button" aria-pressed={option === value} title={title} onClick={() => choose(option)}>{text}</button>
      ))}
    </div>
  );
}

export function Toggle({ on, flip, children, title }: { on: boolean; flip: () => void; children: ComponentChildren; title?: string }) {
  return <button type="button" class="toggle" aria-pressed={on} title={title} onClick={flip}>{children}</button>;
}

export function Trouble({ failure, again }: { failure: Failure; again: () => void }) {
  const { service, query } = place.value;
  const selector = selectorOf(service, query);
  const at = failure.reason === "bad_selector" ? troubleAt(failure.message) : null;
  const mend = () => {
    const field = document.querySelector<HTMLInputElement>("#filter-text");
    const begin = selector.length - 1 - joined(query).length;
    field?.focus();
    field?.setSelectionRange(Math.max((at ?? 0) - begin, 0), field.value.length);
  };
  return (
    <Said message={failure.message} hint={failure.hint}>
      {at !== null && at <= selector.length && (
        <p class="selector">The whole selector was <code>{selector.slice(0, at)}<mark>{selector[at] ?? "␣"}</mark>{selector.slice(at + 1)}</code></p>
      )}
      <p class="quiet">reason: <code>{failure.reason}</code></p>
      <p class="row">
        {at !== null && <button type="button" class="primary" onClick={mend}>Edit the filter there</button>}
        <button type="button" class={at === null ? "primary" : ""} onClick={again}>Try again</button>
      </p>
    </Said>
  );
}

/** Shows an answer, its failure, or that it is on its way. What the collector puts off is asked again meanwhile. */
export function Show<Answer>({ asked, what, children }: { asked: Asked<Answer>; what: string; children: (answer: Answer) => ComponentChildren }) {
  const { failure, answer, loading } = asked;
  if (failure?.kind === "final" && !loading) return <Trouble failure={failure} again={asked.again} />;
  const put = failure !== null && failure.kind !== "final";
  return (
    <>
      {put ? <PutOff asked={asked} failure={failure} what={what} /> : loading && <Underway asked={asked} what={what} />}
      {answer !== null && <div class={loading || put ? "answer stale" : "answer"} aria-busy={loading}>{children(answer)}</div>}
    </>
  );
}

export function BasisLine({ basis, sampled, children }: { basis: Basis; sampled?: number; children?: ComponentChildren }) {
  return (
    <p class="basis">
      {plural(basis.samples, "sample")} · {plural(basis.pods, "pod")} · {plural(basis.windows, "window")}
      {sampled !== undefined && <> · sampled time {duration(sampled)}</>}
      {children}
    </p>
  );
}

export function Notices({ said }: { said: readonly string[] }) {
  if (said.length === 0) return null;
  return (
    <ul class="notices" aria-label="Before you read this">
      {said.map((sentence) => <li key={sentence}>{sentence}</li>)}
    </ul>
  );
}

/** A share as a bar behind its number. */
export function Bar({ part, children }: { part: number; children: ComponentChildren }) {
  return (
    <span class="bar">
      <span class="fill" aria-hidden="true" style={{ width: `${Math.min(Math.max(part, 0), 1) * 100}%` }} />
      <span>{children}</span>
    </span>
  );
}

/** A time and its share of a whole, as two cells. */
export function Spent({ us, whole }: { us: number; whole: number }) {
  const share = whole > 0 ? us / whole : 0;
  return <><td class="number">{microseconds(us)}</td><td class="number"><Bar part={share}>{percent(share)}</Bar></td></>;
}

/** What there is to say of something, as names and values. */
export const Facts = ({ of, class: looks }: { of: readonly (readonly [string, string])[]; class?: string }) => (
  <dl class={looks}>{of.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
);
