import { pathTo, type Shape } from "../tree/tree.ts";

/** What is drawn: one entry a box, in pre-order. `x` and `width` are pixels, `level` the row: that of the tree, less those left out above. */
export interface Boxes {
  readonly count: number;
  readonly node: Int32Array;
  readonly x: Float32Array;
  readonly width: Float32Array;
  readonly level: Int32Array;
  /** 1 where the box stands for frames too narrow to draw one by one. */
  readonly sliver: Uint8Array;
  readonly rows: number;
  /** The boxes row by row, each row from left to right: row r is `order[rowStart[r]]` to before `order[rowStart[r + 1]]`. */
  readonly order: Int32Array;
  readonly rowStart: Int32Array;
}

/** The same boxes with their roots at the bottom of so many rows, at least those there are. They take the place of the others. */
export function turnUpward(boxes: Boxes, rows: number): Boxes {
  const { level, order, rowStart: from } = boxes;
  const empty = rows - boxes.rows;
  const turned = new Int32Array(order.length);
  const rowStart = new Int32Array(rows + 1);
  for (let row = 0, at = 0; row < rows; row++) {
    rowStart[row] = at;
    const source = boxes.rows - 1 - (row - empty);
    if (source < boxes.rows) for (let i = from[source]; i < from[source + 1]; i++) turned[at++] = order[i];
    rowStart[row + 1] = at;
  }
  for (let i = 0; i < boxes.count; i++) level[i] = rows - 1 - level[i];
  return { ...boxes, rows, order: turned, rowStart };
}

/** A part of the whole width, in units of the root's total: from `from` to `from + span`. */
export interface Range {
  readonly from: number;
  readonly span: number;
}

/** A marked frame, and whatever hides one, is never narrower than this many pixels. */
export const MARK_PIXELS = 2;

/**
 * Places what lies in a range of the whole across some pixels.
 *
 * A box that reaches out of the range is cut to it, so the callers of what is zoomed into fill the width. One pass; a
 * subtree outside the range or narrower than a pixel is skipped, and neighbours that narrow share one sliver, so the
 * work follows what can be seen. `marksBefore` (see search) keeps marked frames visible. The columns are used again
 * by the next call: what it returned before is no longer valid then.
 */
export class Layout {
  private readonly columns = new Columns();

  constructor(private readonly level: Int32Array, private readonly shape: Shape, readonly total: Float64Array) {}

  /** Where a node lies in the whole, in units of `total`: callees are packed to the left of their caller. */
  rangeOf(node: number): Range {
    const { total, shape: { end } } = this;
    let from = 0;
    for (let i = 0; i < node; ) {
      // A caller begins where its first callee does; elder siblings lie to the left.
      if (end[i] > node) i++;
      else {
        from += total[i];
        i = end[i];
      }
    }
    return { from, span: total[node] };
  }

  /**
   * Of an empty range, which a focus that took no time has, the path to `focus` is drawn. Frames above level `base` are
   * left out, and those at `base` are the first row.
   */
  place(range: Range, pixels: number, marksBefore: Uint32Array | null, focus = 0, base = 0): Boxes {
    const { level, shape, columns } = this;
    columns.clear(base);
    if (range.span > 0) this.fill(range, pixels, marksBefore);
    else for (const node of pathTo(shape, focus)) columns.push(node, 0, pixels, level[node], 0);
    return columns.boxes();
  }

  private fill(range: Range, pixels: number, marksBefore: Uint32Array | null): void {
    const { level, total, columns } = this;
    const { end, deepest } = this.shape;
    const { from, span } = range;
    const until = from + span;
    const scale = pixels / span;
    // Rounding decides on which side of the range's edge a sum falls: what only touches it is outside.
    const epsilon = span * 1e-9;
    // Of each level: where its next node begins, where the subtree that it lies in ends, and how far slivers fill it.
    const start = new Float64Array(deepest + 2);
    const past = new Int32Array(deepest + 2);
    const filled = new Float64Array(deepest + 2).fill(-1);
    for (let i = 0; i < level.length; ) {
      const at = level[i];
      const width = total[i];
      const begin = start[at];
      const finish = begin + width;
      start[at] = finish;
      if (width > 0 ? finish <= from + epsilon : finish < from) {
        i = end[i];
        continue;
      }
      if (i > 0 && (width > 0 ? begin >= until - epsilon : begin > until)) {
        // Its later siblings lie further right still.
        i = past[at];
        continue;
      }
      const left = begin > from ? (begin - from) * scale : 0;
      const right = finish < until ? (finish - from) * scale : pixels;
      if (right - left >= 1) {
        columns.push(i, left, right - left, at, 0);
        start[at + 1] = begin;
        past[at + 1] = end[i];
        i++;
        continue;
      }
      if (marksBefore !== null && marksBefore[end[i]] > marksBefore[i] && left + MARK_PIXELS > filled[at]) {
        const x = Math.min(Math.max(left, filled[at]), pixels - MARK_PIXELS);
        columns.push(firstMarked(marksBefore, i, end[i]), x, MARK_PIXELS, at, 1);
        filled[at] = x + MARK_PIXELS;
      } else if (width > 0 && left >= filled[at]) {
        columns.push(i, Math.floor(left), 1, at, 1);
        filled[at] = Math.floor(left) + 1;
      }
      i = end[i];
    }
  }
}

/** The first marked node of a subtree that has one. */
function firstMarked(marksBefore: Uint32Array, first: number, end: number): number {
  const before = marksBefore[first];
  let low = first;
  for (let high = end - 1; low < high; ) {
    const middle = (low + high) >> 1;
    if (marksBefore[middle + 1] > before) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The box of a node, or -1 where none is drawn for it; boxes are in pre-order but for marked slivers. */
export function boxOf(boxes: Boxes, node: number): number {
  return boxes.node.indexOf(node);
}

/** The box under a point, or -1; of two that overlap the sliver, which is drawn on top. */
export function boxAt(boxes: Boxes, x: number, level: number): number {
  if (level < 0 || level >= boxes.rows) return -1;
  const { order, rowStart, sliver, width } = boxes;
  const first = rowStart[level];
  let low = first;
  // Slivers may lie a little off their place, so a row is sorted but for them: this stops just right of the point.
  for (let high = rowStart[level + 1]; low < high; ) {
    const middle = (low + high) >> 1;
    if (boxes.x[order[middle]] > x + MAX_OFFSET) high = middle;
    else low = middle + 1;
  }
  let under = -1;
  for (let at = low - 1; at >= first; at--) {
    const box = order[at];
    const left = boxes.x[box];
    if (left <= x && x < left + width[box]) {
      if (sliver[box] === 1) return box;
      if (under < 0) under = box;
    }
    if (left < x - MAX_OFFSET) break;
  }
  return under;
}

/** More pixels than a marked sliver may reach over its neighbour. */
const MAX_OFFSET = 2 * MARK_PIXELS;

/** Columns that grow by doubling and are used again from layout to layout. */
class Columns {
  private node = new Int32Array(4096);
  private x = new Float32Array(4096);
  private width = new Float32Array(4096);
  private level = new Int32Array(4096);
  private sliver = new Uint8Array(4096);
  private order = new Int32Array(4096);
  private rowStart = new Int32Array(64);
  private count = 0;
  private rows = 0;
  private base = 0;

  clear(base: number): void {
    this.count = 0;
    this.rows = 0;
    this.base = base;
  }

  push(node: number, x: number, width: number, treeLevel: number, sliver: number): void {
    const level = treeLevel - this.base;
    if (level < 0) return;
    const at = this.count++;
    if (at === this.node.length) this.grow();
    this.node[at] = node;
    this.x[at] = x;
    this.width[at] = width;
    this.level[at] = level;
    this.sliver[at] = sliver;
    if (level >= this.rows) this.rows = level + 1;
  }

  boxes(): Boxes {
    const { count, rows } = this;
    if (this.rowStart.length <= rows) this.rowStart = new Int32Array(rows * 2 + 1);
    const { rowStart, order, level } = this;
    // A counting sort: the boxes of a row keep their order, which is from left to right.
    rowStart.fill(0, 0, rows + 1);
    for (let i = 0; i < count; i++) rowStart[level[i]]++;
    for (let row = 1; row <= rows; row++) rowStart[row] += rowStart[row - 1];
    for (let i = count - 1; i >= 0; i--) order[--rowStart[level[i]]] = i;
    const cut = <Column extends Int32Array | Float32Array | Uint8Array>(column: Column) => column.subarray(0, count) as Column;
    return {
      count, rows, order: cut(order), rowStart,
      node: cut(this.node), x: cut(this.x), width: cut(this.width), level: cut(level), sliver: cut(this.sliver),
    };
  }

  private grow(): void {
    const length = this.node.length * 2;
    const longer = <Column extends Int32Array | Float32Array | Uint8Array>(old: Column, made: Column): Column => {
      made.set(old);
      return made;
    };
    this.node = longer(this.node, new Int32Array(length));
    this.x = longer(this.x, new Float32Array(length));
    this.width = longer(this.width, new Float32Array(length));
    this.level = longer(this.level, new Int32Array(length));
    this.sliver = longer(this.sliver, new Uint8Array(length));
    this.order = new Int32Array(length);
  }
}
