import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { visibleWindow } from "../../lib/windowing.ts";

/** Draws only the rows in view of a scrolling box; a change of `key` goes back to the first. */
export function useVirtualRows(count: number, row: number, key: unknown, target = "button") {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  const pendingFocus = useRef(-1);
  const measure = () => {
    const at = box.current as HTMLDivElement;
    setView({ top: at.scrollTop, height: at.clientHeight });
  };
  useLayoutEffect(() => {
    (box.current as HTMLDivElement).scrollTop = 0;
    measure();
  }, [key]);
  const focusRow = (at: number) => box.current?.querySelector<HTMLElement>(`tr[data-row="${at}"]${target === "" ? "" : ` ${target}`}`)?.focus();
  // A row that was out of view can take the keyboard once it is there.
  useLayoutEffect(() => {
    if (pendingFocus.current >= 0) focusRow(pendingFocus.current);
    pendingFocus.current = -1;
  }, [view]);
  const focusAt = (to: number) => {
    const at = Math.min(Math.max(to, 0), count - 1);
    const element = box.current as HTMLDivElement;
    if (element.querySelector(`tr[data-row="${at}"]`)) focusRow(at);
    else {
      pendingFocus.current = at;
      element.scrollTop = Math.max(at * row - element.clientHeight / 2, 0);
    }
  };
  /** Scrolls a row into view, without the keyboard. */
  const reveal = (at: number) => {
    const element = box.current as HTMLDivElement;
    // The heading covers the first row.
    if ((at + 1) * row > element.scrollTop + element.clientHeight - row || at * row < element.scrollTop) element.scrollTop = Math.max(at * row - element.clientHeight / 2, 0);
  };
  return { box, shown: visibleWindow(count, view.top, view.height, row), look: measure, go: focusAt, reveal };
}

/** The row that has the keyboard, or -1. */
export function rowIndexOf(element: Element | null): number {
  const row = element?.closest<HTMLElement>("tr[data-row]");
  return row ? Number(row.dataset.row) : -1;
}
