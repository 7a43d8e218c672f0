import { useLayoutEffect, useRef } from "preact/hooks";
import { useFloating } from "./useFloating.ts";

export interface MenuItem {
  readonly label: string;
  /** The key that does the same without the menu. */
  readonly key?: string;
  readonly act: () => void;
}

/** A menu at a point of the screen, in groups. It takes the focus and gives it back; Esc, Tab or a press elsewhere closes it. */
export function ContextMenu({ label, x, y, groups, close }: {
  label: string; x: number; y: number; groups: readonly (readonly MenuItem[])[]; close: () => void;
}) {
  const menu = useRef<HTMLDivElement>(null);
  const wasPressed = useRef(false);
  const latest = useRef(close);
  latest.current = close;
  useFloating(menu, x, y, close, "[role=menuitem]", label);
  useLayoutEffect(() => {
    const closeLatest = () => latest.current();
    window.addEventListener("blur", closeLatest);
    return () => window.removeEventListener("blur", closeLatest);
  }, []);
  const items = () => [...(menu.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // Single keys mean something to the page behind; here a letter goes to the next item that begins with it.
    event.stopPropagation();
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    const letter = event.key.length === 1 ? event.key.toLowerCase() : "";
    const next = to !== undefined ? all[(to + all.length) % all.length]
      : [...all.slice(at + 1), ...all].find((item) => letter.trim() !== "" && item.textContent?.toLowerCase().startsWith(letter));
    if (event.key === "Tab" || event.key === "Escape") close();
    else if (next) next.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div ref={menu} class="context-menu" popover="manual" role="menu" aria-label={label} onKeyDown={key}
      onContextMenu={(event) => event.preventDefault()}
      onPointerDown={() => { wasPressed.current = true; }}
      onClickCapture={(event) => {
        // The finger that opened the menu is let go over it: that chooses nothing. A key's click has no detail.
        if (event.detail > 0 && !wasPressed.current) event.stopPropagation();
      }}>
      <bdi class="menu-title" aria-hidden="true">{label}</bdi>
      {groups.filter((group) => group.length > 0).map((group, at) => (
        <div key={at} role="group">
          {group.map(({ label: text, key: shortcut, act }) => (
            <button key={text} type="button" role="menuitem" tabIndex={-1} onClick={() => { close(); act(); }}>
              <span>{text}</span>{shortcut && <kbd aria-hidden="true">{shortcut}</kbd>}
            </button>
          ))}
        </div>
      ))}
    </div>
  );
}
