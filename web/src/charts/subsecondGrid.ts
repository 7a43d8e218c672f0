import type { SubsecondHeatmapAnswer } from "../api/captures.ts";

/**
 * The cells by number: the number of a cell is the second times the rows plus its row, so that cells are numbered in the
 * order of time and a span of time is a run of them. Row 0 begins with the second.
 */
export interface SubsecondGrid {
  readonly columns: number;
  readonly rows: number;
  readonly step: number;
  readonly samples: Uint32Array;
  readonly sampled: Uint32Array;
  readonly maximum: number;
}

/** Cells, both ends included. */
export type CellSpan = readonly [first: number, last: number];

export function buildGrid(answer: SubsecondHeatmapAnswer): SubsecondGrid {
  const rows = Math.round(1000 / answer.step_ms);
  const samples = new Uint32Array(answer.seconds * rows);
  const sampled = new Uint32Array(answer.seconds * rows);
  let maximum = 0;
  answer.second.forEach((second, i) => {
    const cell = second * rows + answer.bucket[i];
    samples[cell] = answer.samples[i];
    sampled[cell] = answer.all_samples[i];
    maximum = Math.max(maximum, answer.samples[i]);
  });
  return { columns: answer.seconds, rows, step: answer.step_ms, samples, sampled, maximum };
}

const formatSeconds = (ms: number): string => String(Math.round(ms) / 1000);

export const formatSpan = (grid: SubsecondGrid, [a, b]: CellSpan): string =>
  `${formatSeconds(Math.min(a, b) * grid.step)}-${formatSeconds((Math.max(a, b) + 1) * grid.step)}`;

/** Behind a span: it is compared with the rest of the capture. */
export const REST_SUFFIX = ",rest";

export const comparesWithRest = (text: string): boolean => text.endsWith(REST_SUFFIX);

/** Microseconds [from, until) of a span as it is written; null for what is none. */
export function parseSpan(text: string): readonly [number, number] | null {
  const match = /^(\d{1,6}(?:\.\d{1,6})?)-(\d{1,6}(?:\.\d{1,6})?)(?:,rest)?$/.exec(text);
  if (!match) return null;
  const [from, until] = [Math.round(Number(match[1]) * 1e6), Math.round(Number(match[2]) * 1e6)];
  return from < until ? [from, until] : null;
}

/** The cells that a span of time touches. */
export function cellsInSpan(grid: SubsecondGrid, span: readonly [number, number]): CellSpan {
  const step = grid.step * 1000;
  const within = (cell: number) => Math.max(0, Math.min(grid.samples.length - 1, cell));
  return [within(Math.floor(span[0] / step)), within(Math.ceil(span[1] / step) - 1)];
}

/** Where arrow keys and their likes lead from a cell; null for other keys. */
export function moveCell(grid: SubsecondGrid, cell: number, key: string): number | null {
  const last = grid.samples.length - 1;
  const to = { ArrowUp: cell + 1, ArrowDown: cell - 1, ArrowRight: cell + grid.rows, ArrowLeft: cell - grid.rows, Home: 0, End: last }[key];
  return to === undefined ? null : to < 0 || to > last ? cell : to;
}

/** The cells with the most samples of the type, the most first. */
export function busiestCells(grid: SubsecondGrid, limit: number): number[] {
  const cells: number[] = [];
  grid.samples.forEach((samples, cell) => { if (samples > 0) cells.push(cell); });
  return cells.sort((a, b) => grid.samples[b] - grid.samples[a] || a - b).slice(0, limit);
}

/** How wide columns and how high rows are drawn in so much room, in whole pixels. */
export function cellSize(grid: SubsecondGrid, width: number): { readonly column: number; readonly row: number } {
  return {
    column: Math.max(3, Math.min(48, Math.floor(width / Math.max(grid.columns, 1)))),
    row: Math.max(2, Math.min(12, Math.floor(300 / grid.rows))),
  };
}

export const GUTTER_PIXELS = 54;
export const AXIS_PIXELS = 18;

/** The cell at a point of the picture, the nearest one where the point is beside it. */
export function cellAt(grid: SubsecondGrid, size: { readonly column: number; readonly row: number }, x: number, y: number): number {
  const second = Math.max(0, Math.min(grid.columns - 1, Math.floor((x - GUTTER_PIXELS) / size.column)));
  const row = Math.max(0, Math.min(grid.rows - 1, grid.rows - 1 - Math.floor(y / size.row)));
  return second * grid.rows + row;
}
