import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/**
 * Shows a box above the page at a point of the screen, as far as it fits. It gives the focus to the first of `first`,
 * and back when it closes; a press elsewhere closes it. With another `about` it begins anew.
 */
export function useFloating(host: RefObject<HTMLDivElement | null>, x: number, y: number, close: () => void, first: string, about = ""): void {
  const latest = useRef(close);
  latest.current = close;
  // Before the next key press, which may close it again.
  useLayoutEffect(() => {
    const box = host.current as HTMLDivElement;
    // A menu that led here has given the focus back by now.
    const previousFocus = document.activeElement;
    const closeOutside = (event: Event) => {
      if (!box.contains(event.target as Node)) latest.current();
    };
    document.addEventListener("pointerdown", closeOutside, true);
    return () => {
      document.removeEventListener("pointerdown", closeOutside, true);
      const at = document.activeElement;
      if ((at === document.body || box.contains(at)) && previousFocus instanceof HTMLElement) previousFocus.focus({ preventScroll: true });
    };
  }, []);
  // Not popover=auto, which the release of a long press would close again.
  useLayoutEffect(() => {
    const box = host.current as HTMLDivElement;
    box.showPopover();
    box.style.left = `${Math.max(Math.min(x, window.innerWidth - box.offsetWidth - 8), 4)}px`;
    box.style.top = `${Math.max(Math.min(y, window.innerHeight - box.offsetHeight - 8), 4)}px`;
    box.querySelector<HTMLElement>(first)?.focus({ preventScroll: true });
  }, [x, y, about]);
}
