import { useLayoutEffect, useRef } from "preact/hooks";
import { place } from "../../lib/location.ts";

/** What a key does; false where it does nothing, so that another component may. */
export type KeyBindings = Readonly<Record<string, () => unknown>>;

/** Single keys that do something while the component shows; a key pressed in a field or a dialog is not meant. */
export function useKeys(keys: KeyBindings): void {
  // Read at the press: an effect would still hold the last render's keys for a moment.
  const latest = useRef(keys);
  latest.current = keys;
  // Before the first paint: who sees the component may press its keys.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!isShortcut(event) || !Object.hasOwn(latest.current, event.key)) return;
      if (latest.current[event.key]() !== false) event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function isShortcut(event: KeyboardEvent): boolean {
  if (!place.peek().keys || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  const at = event.target instanceof Element ? event.target : null;
  return !at?.closest("input, textarea, select, dialog, [contenteditable]");
}
