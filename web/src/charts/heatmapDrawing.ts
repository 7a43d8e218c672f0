import type { Cell, CellSelection } from "./cellSelection.ts";
import { createPen } from "./pen.ts";
import { axisTicks } from "./timelineLayout.ts";

/** A grid of cells to draw, whatever its rows and columns are. */
export interface Grid {
  /** What it is a picture of. */
  readonly title: string;
  readonly rows: readonly { readonly key: string; readonly name: string; readonly marks: readonly Mark[] }[];
  /** Columns by when they begin, and what stands above them. */
  readonly columns: readonly { readonly start: number; readonly text: string }[];
  /** The length of a column in seconds where all are equal: its axis then has round times. */
  readonly step?: number;
  /** What decides the colour, by row and column; null where nothing was watched. */
  readonly value: readonly (readonly (number | null)[])[];
  /** What makes a value a number of the unit. */
  readonly scale: number;
  readonly unit: string;
  /** All that is known of a cell, in words. */
  describe(cell: Cell): string;
}

/** Something that happened on a row at the start of a column. */
export interface Mark {
  readonly column: number;
  readonly text: string;
}

export interface Geometry {
  readonly gutter: number;
  readonly top: number;
  readonly wide: number;
  readonly high: number;
  readonly width: number;
  readonly height: number;
}

const ROW_PIXELS = 24;
const TOP = 24;
const MIN_CELL_PIXELS = 4;

export function geometry(rows: number, columns: number, width: number): Geometry {
  const gutter = Math.round(Math.min(Math.max(width * 0.22, 120), 220));
  const wide = Math.max((width - gutter) / Math.max(columns, 1), MIN_CELL_PIXELS);
  return { gutter, top: TOP, wide, high: ROW_PIXELS, width: gutter + wide * columns, height: TOP + ROW_PIXELS * rows };
}

/** The cells under a point: one, or on a name its whole row, on the axis its whole column. */
export function cellsAt(of: Geometry, rows: number, columns: number, x: number, y: number): { from: Cell; to: Cell } | null {
  const row = Math.floor((y - of.top) / of.high);
  const column = Math.floor((x - of.gutter) / of.wide);
  if (row >= rows || column >= columns || (row < 0 && column < 0)) return null;
  if (row < 0) return { from: { row: 0, column }, to: { row: rows - 1, column } };
  if (column < 0) return { from: { row, column: 0 }, to: { row, column: columns - 1 } };
  return { from: { row, column }, to: { row, column } };
}

export const maxValue = (grid: Grid): number => grid.value.reduce((most, row) => row.reduce<number>((all, one) => Math.max(all, one ?? 0), most), 0);

/** Draws a grid in the page's colours. */
export function drawHeatmap(canvas: HTMLCanvasElement, grid: Grid, of: Geometry, selected: CellSelection | null, cursor: Cell | null): void {
  const pen = createPen(canvas, of.width, of.height);
  if (!pen) return;
  const { context: ctx, colour, heat } = pen;
  const maximum = maxValue(grid);
  const missingPattern = hatch(ctx, colour("--edge"));
  const x = (column: number) => of.gutter + column * of.wide;
  const y = (row: number) => of.top + row * of.high;
  const gap = of.wide > 8 ? 1 : 0;
  grid.value.forEach((row, at) => row.forEach((value, column) => {
    ctx.fillStyle = value === null ? missingPattern : heat(maximum > 0 ? value / maximum : 0);
    ctx.fillRect(x(column), y(at), of.wide - gap, of.high - 1);
  }));
  ctx.fillStyle = colour("--text");
  grid.rows.forEach(({ name }, at) => ctx.fillText(fitText(ctx, name, of.gutter - 8), 0, y(at) + of.high / 2));
  axis(ctx, grid, of, colour("--quiet"));
  grid.rows.forEach(({ marks }, at) => marks.forEach((mark) => {
    const empty = mark.column - 1 - grid.value[at].findLastIndex((value, column) => column < mark.column && value !== null);
    drawMark(ctx, mark, x(mark.column), y(at), of, empty * of.wide, colour);
  }));
  if (selected) outline(ctx, selected, of, colour("--panel"), colour("--text"));
  if (cursor) {
    ctx.strokeStyle = colour("--focus");
    ctx.lineWidth = 2;
    ctx.strokeRect(x(cursor.column) + 1, y(cursor.row) + 1, Math.max(of.wide - 2, 2), of.high - 3);
  }
  canvas.dataset.drawn = `${grid.rows.length} ${grid.columns.length} ${of.gutter} ${of.top} ${of.wide} ${of.high}`;
}

/** Stripes for what was not watched, so that it is no colour of the scale. */
function hatch(ctx: CanvasRenderingContext2D, ink: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const on = tile.getContext("2d");
  if (!on) return "transparent";
  on.strokeStyle = ink;
  on.beginPath();
  for (const from of [-6, 0, 6]) {
    on.moveTo(from, 6);
    on.lineTo(from + 6, 0);
  }
  on.stroke();
  return ctx.createPattern(tile, "repeat") ?? "transparent";
}

/** A text that fits, cut at its start: names of pods differ at their ends. */
function fitText(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  const end = text.slice(-120);
  if (end === text && ctx.measureText(text).width <= width) return text;
  let [cut, fits] = [0, end.length];
  while (fits - cut > 1) {
    const middle = (cut + fits) >> 1;
    if (ctx.measureText(`…${end.slice(middle)}`).width <= width) fits = middle;
    else cut = middle;
  }
  return `…${end.slice(fits)}`;
}

function axis(ctx: CanvasRenderingContext2D, grid: Grid, of: Geometry, ink: string): void {
  ctx.fillStyle = ink;
  let free = of.gutter;
  if (grid.step !== undefined && grid.columns.length > 1) {
    const [start, end] = [grid.columns[0].start, grid.columns[0].start + grid.columns.length * grid.step];
    for (const { at, text } of axisTicks(start, end, Math.max(Math.floor((of.width - of.gutter) / 90), 1))) {
      const x = of.gutter + ((at - start) / (end - start)) * (of.width - of.gutter);
      if (x >= free && x + ctx.measureText(text).width <= of.width) ctx.fillText(text, x, of.top / 2);
      free = Math.max(free, x + ctx.measureText(text).width + 24);
    }
    return;
  }
  grid.columns.forEach(({ text }, column) => {
    const at = of.gutter + column * of.wide;
    const width = ctx.measureText(text).width;
    if (at < free || at + width > of.width) return;
    ctx.fillText(text, at, of.top / 2);
    free = at + width + 24;
  });
}

/** A line where something begins, and its name where that covers no cell: in the room before it. */
function drawMark(ctx: CanvasRenderingContext2D, mark: Mark, x: number, y: number, of: Geometry, space: number, colour: (name: string) => string): void {
  const wide = ctx.measureText(mark.text).width + 10;
  ctx.fillStyle = colour("--panel");
  ctx.fillRect(x - (wide < space ? wide : 3), y, wide < space ? wide : 6, of.high - 1);
  ctx.fillStyle = colour("--text");
  ctx.fillRect(x - 2, y, 3, of.high - 1);
  if (wide < space) ctx.fillText(mark.text, x - wide + 3, y + of.high / 2);
}

/** A frame around what is selected: two lines, so that it shows on every colour. Rows that touch are framed together. */
function outline(ctx: CanvasRenderingContext2D, { rows, first, last }: CellSelection, of: Geometry, under: string, over: string): void {
  const runs: [number, number][] = [];
  for (const row of rows) {
    const run = runs.at(-1);
    if (run && run[1] === row - 1) run[1] = row;
    else runs.push([row, row]);
  }
  for (const [top, bottom] of runs) {
    const box = [of.gutter + first * of.wide, of.top + top * of.high, (last - first + 1) * of.wide, (bottom - top + 1) * of.high - 1] as const;
    for (const [line, ink] of [[4, under], [2, over]] as const) {
      ctx.lineWidth = line;
      ctx.strokeStyle = ink;
      ctx.strokeRect(box[0] + 1, box[1] + 1, Math.max(box[2] - 2, 1), box[3] - 2);
    }
  }
}
