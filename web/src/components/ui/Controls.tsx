import type { ComponentChildren } from "preact";
import { href } from "../../lib/location.ts";
import { microseconds, percent } from "../../lib/numbers.ts";
import type { Place } from "../../lib/url.ts";

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
