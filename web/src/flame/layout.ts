import type { Shape } from "./tree.ts";

/** What is drawn: one entry a box, in pre-order. `x` and `width` are pixels, `level` the row. */
export interface Boxes {
  readonly count: number;
  readonly node: Int32Array;
  readonly x: Float32Array;
  readonly width: Float32Array;
  readonly level: Int32Array;
  /** 1 where the box stands for frames too narrow to draw one by one. */
  readonly sliver: Uint8Array;
  readonly rows: number;
}

/** A marked frame, and whatever hides one, is never narrower than this many pixels. */
export const MARK_PIXELS = 2;

/**
 * Places the subtree of `focus` across `pixels`, with its callers above at full width.
 *
 * One pass; a subtree narrower than a pixel is skipped, and neighbours that narrow share one sliver, so
 * the work follows what can be seen. `marksBefore` (see search) keeps marked frames visible.
 */
export function layout(
  level: Int32Array, shape: Shape, total: Float64Array, focus: number, pixels: number, marksBefore: Uint32Array | null,
): Boxes {
  const out = new Columns();
  const above: number[] = [];
  for (let at = shape.parent[focus]; at >= 0; at = shape.parent[at]) above.push(at);
  for (const node of above.reverse()) out.push(node, 0, pixels, level[node], 0);
  out.push(focus, 0, pixels, level[focus], 0);

  const scale = total[focus] > 0 ? pixels / total[focus] : 0;
  const cursor = new Float64Array(shape.deepest + 2);
  const filled = new Float64Array(shape.deepest + 2).fill(-1);
  for (let i = focus + 1; i < shape.end[focus]; ) {
    const at = level[i];
    const x = cursor[at];
    const width = total[i] * scale;
    cursor[at] = x + width;
    if (width >= 1) {
      out.push(i, x, width, at, 0);
      cursor[at + 1] = x;
      i++;
      continue;
    }
    const marked = marksBefore !== null && marksBefore[shape.end[i]] > marksBefore[i];
    if (marked && x + MARK_PIXELS > filled[at]) {
      const left = Math.min(Math.max(x, filled[at]), pixels - MARK_PIXELS);
      out.push(firstMarked(marksBefore, i, shape.end[i]), left, MARK_PIXELS, at, 1);
      filled[at] = left + MARK_PIXELS;
    } else if (width > 0 && x >= filled[at]) {
      out.push(i, Math.floor(x), 1, at, 1);
      filled[at] = Math.floor(x) + 1;
    }
    i = shape.end[i];
  }
  return out.boxes();
}

function firstMarked(marksBefore: Uint32Array, start: number, end: number): number {
  for (let i = start; i < end; i++) if (marksBefore[i + 1] > marksBefore[i]) return i;
  return start;
}

/** The box under a point, or -1. */
export function boxAt(boxes: Boxes, x: number, level: number): number {
  let under = -1;
  for (let i = 0; i < boxes.count; i++) {
    if (boxes.level[i] !== level || x < boxes.x[i] || x >= boxes.x[i] + boxes.width[i]) continue;
    under = i;
    if (boxes.sliver[i]) return i;
  }
  return under;
}

class Columns {
  private readonly node: number[] = [];
  private readonly x: number[] = [];
  private readonly width: number[] = [];
  private readonly level: number[] = [];
  private readonly sliver: number[] = [];
  private deepest = 0;

  push(node: number, x: number, width: number, level: number, sliver: number): void {
    this.node.push(node);
    this.x.push(x);
    this.width.push(width);
    this.level.push(level);
    this.sliver.push(sliver);
    if (level > this.deepest) this.deepest = level;
  }

  boxes(): Boxes {
    return {
      count: this.node.length,
      node: Int32Array.from(this.node),
      x: Float32Array.from(this.x),
      width: Float32Array.from(this.width),
      level: Int32Array.from(this.level),
      sliver: Uint8Array.from(this.sliver),
      rows: this.deepest + 1,
    };
  }
}
