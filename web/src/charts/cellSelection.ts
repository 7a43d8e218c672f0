/** What is selected of a heatmap, in the address and as sides of a comparison. Rows are known by their names: their order may change. */

import { joinMatchers, matchAny } from "../lib/selectors.ts";
import { utcOffsetSeconds } from "../lib/times.ts";
import * as strings from "../strings/heatmapStrings.tsx";

/** Rows, and columns from first to last, both included. */
export interface CellSelection {
  readonly rows: readonly number[];
  readonly first: number;
  readonly last: number;
}

export interface Cell {
  readonly row: number;
  readonly column: number;
}

interface CellAxes {
  readonly rows: readonly { readonly key: string }[];
  readonly columns: readonly { readonly start: number }[];
}

/** The block that has two cells as its corners. */
export function selectionBetween(a: Cell, b: Cell): CellSelection {
  const [top, bottom] = [Math.min(a.row, b.row), Math.max(a.row, b.row)];
  return { rows: Array.from({ length: bottom - top + 1 }, (_, i) => top + i), first: Math.min(a.column, b.column), last: Math.max(a.column, b.column) };
}

const escapeKey = (key: string) => encodeURIComponent(key).replaceAll("~", "%7E").replaceAll("*", "%2A");

/** `first~last~row~row`: when the first and the last column begin, and the names of rows; `*` stands for all of them. */
export function formatSelection({ rows, columns }: CellAxes, selected: CellSelection): string {
  const names = selected.rows.length === rows.length ? ["*"] : selected.rows.map((row) => escapeKey(rows[row].key));
  return [columns[selected.first].start, columns[selected.last].start, ...names].join("~");
}

/** What an address selects, null if nothing of it is here any longer. */
export function parseSelection({ rows, columns }: CellAxes, text: string): CellSelection | null {
  const [first, last, ...names] = text.split("~");
  const [from, until] = [Number(first), Number(last)];
  if (text === "" || names.length === 0 || !(from <= until)) return null;
  const inside = columns.flatMap(({ start }, at) => (start >= from && start <= until ? [at] : []));
  const keys = new Set(names);
  const selectedRows = rows.flatMap(({ key }, at) => (keys.has("*") || keys.has(escapeKey(key)) ? [at] : []));
  if (inside.length === 0 || selectedRows.length === 0) return null;
  return { rows: selectedRows, first: inside[0], last: inside[inside.length - 1] };
}

export interface CellSum {
  readonly seconds: number;
  readonly podSeconds: number;
  readonly samples: number;
  readonly cells: number;
}

type Values = readonly (readonly (number | null)[])[];

/** All cells of a block together; those that were not watched count nothing. */
export function sumCells(selected: CellSelection, seconds: Values, watched: Values, samples: Values): CellSum {
  const sum = { seconds: 0, podSeconds: 0, samples: 0, cells: 0 };
  for (const row of selected.rows) {
    for (let column = selected.first; column <= selected.last; column++) {
      if (seconds[row][column] === null) continue;
      sum.seconds += seconds[row][column] ?? 0;
      sum.podSeconds += watched[row][column] ?? 0;
      sum.samples += samples[row][column] ?? 0;
      sum.cells++;
    }
  }
  return sum;
}

export interface Pod {
  readonly namespace: string;
  readonly name: string;
}

/** Matchers of some pods, and of all others. */
export function podMatchers(pods: readonly Pod[]): { selected: string; others: string } {
  const names = [...new Set(pods.map(({ name }) => name))];
  return { selected: matchAny("pod", names), others: matchAny("pod", names, true) };
}

export interface Span {
  readonly from: number;
  readonly until: number;
}

/** One side of a comparison: what matches, over a time of its own. */
export interface ComparedSide extends Span {
  readonly match: string;
}

/**
 * What selected pods are compared with: other pods at the same time, or, if all are selected, the same pods
 * in the longer part of the range before or after. Null if all of both is selected.
 */
export function complementSide(pods: readonly Pod[], all: boolean, span: Span, whole: Span): { side: ComparedSide; name: string } | null {
  if (!all) return { side: { match: podMatchers(pods).others, ...span }, name: strings.otherPodsAtSame };
  const [timeBefore, timeAfter] = [span.from - whole.from, whole.until - span.until];
  if (timeBefore <= 0 && timeAfter <= 0) return null;
  return timeBefore >= timeAfter
    ? { side: { match: "", from: whole.from, until: span.from }, name: strings.timeBeforeIt }
    : { side: { match: "", from: span.until, until: whole.until }, name: strings.timeAfterIt };
}

/** When clocks (of this browser) show an hour on a day that lasts from start to end; null if they skip it. */
export function hourSpan(start: number, end: number, hour: number): Span | null {
  let span: { from: number; until: number } | null = null;
  for (let at = start; at < end; at += 900) {
    if (Math.floor((at + utcOffsetSeconds(at)) / 3600) % 24 !== hour) continue;
    span ??= { from: at, until: at };
    span.until = at + 900;
  }
  return span;
}

/** One matcher text for the address: a side's `match:`. */
export const matchSide = (match: string): string => `match:${joinMatchers(match)}`;
