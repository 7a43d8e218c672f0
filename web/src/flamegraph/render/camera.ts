import type { Range } from "./layout.ts";

/** The narrowest range, as a part of the whole: below it the sums of a profile have no more digits. */
export const MIN_SPAN = 1e-9;

/** A part of a focus this small is what rounding leaves. */
const EPSILON = 1e-9;

/**
 * Which part of a graph is in view, relative to what is zoomed into: 0…1 is exactly that.
 *
 * Below 0 and above 1 lie its siblings, as far as the root reaches. Being relative, one camera serves two graphs
 * side by side, whose frames have other widths. It changes by wheel, pinch, drag and minimap and is no part of the
 * address, which holds the focus alone; a new focus brings it back to 0…1.
 */
export class Camera {
  private from = 0;
  private until = 1;
  private readonly listeners = new Set<(smooth: boolean) => void>();

  get moved(): boolean {
    return this.from !== 0 || this.until !== 1;
  }

  /** Calls `listener` after each change, until what it gives back is called; `smooth` where a motion may be shown. */
  listen(listener: (smooth: boolean) => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  reset(): void {
    this.set(0, 1, true);
  }

  /** The range in view, of a focus that lies at `focus` in a whole of `total`. */
  range(focus: Range, total: number): Range {
    if (!this.moved || focus.span <= 0) return focus;
    return clamp({ from: focus.from + this.from * focus.span, span: (this.until - this.from) * focus.span }, total);
  }

  /** Looks at a range of the whole. */
  show(range: Range, focus: Range, total: number): void {
    if (focus.span <= 0) return;
    const { from, span } = clamp(range, total);
    const left = (from - focus.from) / focus.span;
    const right = (from + span - focus.from) / focus.span;
    if (Math.abs(left) < EPSILON && Math.abs(right - 1) < EPSILON) this.set(0, 1, false);
    else this.set(left, right, false);
  }

  private set(from: number, until: number, smooth: boolean): void {
    if (from === this.from && until === this.until) return;
    this.from = from;
    this.until = until;
    for (const listener of this.listeners) listener(smooth);
  }
}

/** A range moved and widened as little as needed to lie in the whole and be wide enough to draw. */
export function clamp({ from, span }: Range, total: number): Range {
  const width = Math.min(Math.max(span, total * MIN_SPAN), total);
  return { from: Math.min(Math.max(from, 0), total - width), span: width };
}

/** A range `factor` times as wide in which the point at `part` (0…1) of the width keeps its place. */
export function zoomed({ from, span }: Range, part: number, factor: number): Range {
  return { from: from + span * part * (1 - factor), span: span * factor };
}
