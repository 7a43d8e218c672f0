import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** What the arrow keys visit: controls outside of panels that open. */
const ITEMS = ":is(button, select, summary, a[href]):not(:disabled):not(.choices *):not(.sheet *):not(.editor *)";
const OBSERVED = { childList: true, subtree: true, attributes: true, attributeFilter: ["tabindex", "disabled"] };

/** Reads styles alone: to ask for a box would lay the page out while it is still being built. */
const isVisible = (element: HTMLElement) => element.checkVisibility();

/** Controls that are one tab stop: the arrow keys, Home and End move between them (the ARIA pattern "toolbar"). */
export function Toolbar({ label, class: className = "", children }: { label: string; class?: string; children: ComponentChildren }) {
  return <div class={`row ${className}`} role="toolbar" aria-label={label} {...useOneTabStop(["ArrowLeft"], ["ArrowRight"])}>{children}</div>;
}

/** Links below each other that are one tab stop: all arrow keys, Home and End move between them. */
export const LinkGroup = ({ children }: { children: ComponentChildren }) =>
  <div class="linkgroup" {...useOneTabStop(["ArrowLeft", "ArrowUp"], ["ArrowRight", "ArrowDown"])}>{children}</div>;

/** The handlers of an element whose controls are one tab stop. */
function useOneTabStop(back: readonly string[], forth: readonly string[]) {
  const host = useRef<HTMLDivElement>(null);
  const current = useRef<HTMLElement | null>(null);
  const items = () => [...(host.current?.querySelectorAll<HTMLElement>(ITEMS) ?? [])].filter(isVisible);
  const update = () => {
    const all = items();
    const stop = all.find((item) => item === current.current) ?? all[0];
    // Only what differs is set: each change is observed again.
    for (const item of all) {
      const index = item === stop ? 0 : -1;
      if (item.getAttribute("tabindex") !== String(index)) item.tabIndex = index;
    }
  };
  useLayoutEffect(() => {
    let frame = requestAnimationFrame(update);
    // Once for all changes before the next frame.
    const observer = new MutationObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(update);
    });
    observer.observe(host.current as HTMLElement, OBSERVED);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, []);
  const move = (event: KeyboardEvent) => {
    const all = items();
    const at = all.indexOf(event.target as HTMLElement);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const to = forth.includes(event.key) ? at + 1 : back.includes(event.key) ? at - 1 : event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : null;
    if (to === null) return;
    event.preventDefault();
    all[(to + all.length) % all.length].focus();
  };
  const follow = (event: FocusEvent) => {
    if (!items().includes(event.target as HTMLElement)) return;
    current.current = event.target as HTMLElement;
    update();
  };
  return { ref: host, onKeyDown: move, onFocusIn: follow };
}
