import type { ComponentChildren } from "preact";
import { href } from "../../lib/location.ts";
import { shareColumn, type Format } from "../../lib/quantities.ts";
import type { Place } from "../../lib/url.ts";

/** A link to another place inside the app. `early`: its answer exists, and may be requested before the link is pressed. */
export function Link({ to, children, current, class: className, title, early, onClick }: {
  to: Place; children: ComponentChildren; current?: boolean; class?: string; title?: string; early?: boolean; onClick?: () => void;
}) {
  return <a href={href(to)} data-inside={early ? "early" : "1"} class={className} title={title} onClick={onClick} aria-current={current ? "page" : undefined}>{children}</a>;
}

/** One of a few values: radio buttons that are one tab stop. */
export function SegmentedControl<Value extends string>({ label, value, options, onSelect }: {
  label: string; value: Value; options: readonly (readonly [Value, string, string?])[]; onSelect: (value: Value) => void;
}) {
  const stop = Math.max(options.findIndex(([option]) => option === value), 0);
  return (
    <div class="segments" role="radiogroup" aria-label={label} onKeyDown={moveChoice}>
      {options.map(([option, text, title], at) => (
        <button key={option} type="button" role="radio" aria-checked={option === value} tabIndex={at === stop ? 0 : -1} title={title} onClick={() => onSelect(option)}>{text}</button>
      ))}
    </div>
  );
}

/** The arrow keys choose the next radio button; inside a toolbar they only move, and Space chooses. */
function moveChoice(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const group = event.currentTarget as HTMLElement;
  if (!step || group.closest('[role="toolbar"]') || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const radios = [...group.querySelectorAll<HTMLElement>('[role="radio"]')];
  const next = radios[(radios.indexOf(document.activeElement as HTMLElement) + step + radios.length) % radios.length];
  event.preventDefault();
  next.focus();
  next.click();
}

export function Toggle({ isOn, onToggle, children, title }: { isOn: boolean; onToggle: () => void; children: ComponentChildren; title?: string }) {
  return <button type="button" class="toggle" aria-pressed={isOn} title={title} onClick={onToggle}>{children}</button>;
}

/** A share as a bar behind its number. */
export function Bar({ part, children }: { part: number; children: ComponentChildren }) {
  return (
    <span class="barcell"><span>{children}</span><span class="track" aria-hidden="true"><span class="fill" style={{ width: `${Math.min(Math.max(part, 0), 1) * 100}%` }} /></span></span>
  );
}

/** A number in a cell, with a bar in a column of its own beside it, from the left. `head` names it where a row is a card. */
export function BarCell({ part, head, children }: { part: number; head: string; children: ComponentChildren }) {
  return (
    <td role="cell" class="number" data-head={head}>
      <Bar part={part}>{children}</Bar>
    </td>
  );
}

/** A value as a bar in a column of its own; `most` is the largest of the column. */
export const Meter = ({ value, most, class: className = "" }: { value: number; most: number; class?: string }) => (
  <td class="meter" aria-hidden="true"><span class={className} style={{ width: `${most > 0 ? Math.min(Math.abs(value) / most, 1) * 60 : 0}px` }} /></td>
);

/** A share of a whole, the same as a bar, and the time. `most` is the largest time of the column. */
export function TimeCells({ us, whole, format, most }: { us: number; whole: number; format: Format; most: number }) {
  return <><td class="number">{shareColumn(whole > 0 ? us / whole : 0)}</td><Meter value={us} most={most} /><td class="number time">{format(us)}</td></>;
}

/** What there is to say of something, as names and values. */
export const DefinitionList = ({ entries, class: className }: { entries: readonly (readonly [string, string])[]; class?: string }) => (
  <dl class={className}>{entries.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
);
