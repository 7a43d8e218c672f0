import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { windowOf } from "../../lib/windowing.ts";

/** Draws only the rows in view of a scrolling box; a change of `key` goes back to the first. */
export function useRows(count: number, row: number, key: unknown) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  const wanted = useRef(-1);
  const look = () => {
    const at = box.current as HTMLDivElement;
    setView({ top: at.scrollTop, height: at.clientHeight });
  };
  useLayoutEffect(() => {
    (box.current as HTMLDivElement).scrollTop = 0;
    look();
  }, [key]);
  const focusRow = (at: number) => box.current?.querySelector<HTMLElement>(`tr[data-row="${at}"] button`)?.focus();
  // A row that was out of view can take the keyboard once it is there.
  useLayoutEffect(() => {
    if (wanted.current >= 0) focusRow(wanted.current);
    wanted.current = -1;
  }, [view]);
  const go = (to: number) => {
    const at = Math.min(Math.max(to, 0), count - 1);
    const there = box.current as HTMLDivElement;
    if (there.querySelector(`tr[data-row="${at}"]`)) focusRow(at);
    else {
      wanted.current = at;
      there.scrollTop = Math.max(at * row - there.clientHeight / 2, 0);
    }
  };
  return { box, shown: windowOf(count, view.top, view.height, row), look, go };
}

/** The row that has the keyboard, or -1. */
export function rowOf(element: Element | null): number {
  const row = element?.closest<HTMLElement>("tr[data-row]");
  return row ? Number(row.dataset.row) : -1;
}
