import { useEffect, useRef } from "preact/hooks";
import type { Offer } from "../flame/offers.ts";
import { change } from "../location.ts";
import { copy } from "./copying.tsx";

export interface OpenMenu {
  readonly title: string;
  readonly offers: readonly Offer[];
  readonly x: number;
  readonly y: number;
  /** Where the keyboard goes when the menu closes. */
  readonly from: HTMLElement;
}

/** A menu of what can be done with one row, near where it was asked for. */
export function RowMenu({ menu, close }: { menu: OpenMenu; close: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = box.current as HTMLDivElement;
    at.showPopover();
    at.style.left = `${Math.max(Math.min(menu.x, window.innerWidth - at.offsetWidth - 8), 8)}px`;
    at.style.top = `${Math.max(Math.min(menu.y, window.innerHeight - at.offsetHeight - 8), 8)}px`;
    at.querySelector("button")?.focus();
    const toggled = (event: Event) => {
      if ((event as ToggleEvent).newState !== "closed") return;
      if (at.contains(document.activeElement)) menu.from.focus();
      close();
    };
    at.addEventListener("toggle", toggled);
    return () => at.removeEventListener("toggle", toggled);
  }, [menu]);
  const walk = (event: KeyboardEvent) => {
    const items = [...(box.current as HTMLElement).querySelectorAll("button")];
    const from = items.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items[(to + items.length) % items.length].focus();
  };
  return (
    <div ref={box} class="rowmenu" popover="auto" onKeyDown={walk}>
      <strong id="rowmenu-title"><bdi>{menu.title.slice(0, 200)}</bdi></strong>
      <div role="menu" aria-labelledby="rowmenu-title">
        {menu.offers.map(({ label, key, to }) => (
          <button key={label} type="button" role="menuitem" onClick={() => { close(); change(to); }}>
            <bdi>{label}</bdi>{key !== "" && <kbd aria-hidden="true">{key}</kbd>}
          </button>
        ))}
        <button type="button" role="menuitem" onClick={() => { close(); void copy(menu.title, "Name"); }}>Copy name<kbd aria-hidden="true">c</kbd></button>
      </div>
    </div>
  );
}
