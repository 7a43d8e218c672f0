import { mix, onBackground, pixelOf, type Rgb } from "./colour.ts";
import { FADE_SHARE, Raster } from "./draw.ts";
import { Layout, type Range } from "./layout.ts";
import { zoomed } from "./camera.ts";
import type { Picture } from "./picture.ts";
import * as strings from "../../strings/frameStrings.ts";

export const MINIMAP_PIXELS = 32;
/** So near an edge of the part in view a drag widens it; a finger needs more. */
const GRIP_PIXELS = 6;
const TOUCH_GRIP_PIXELS = 16;

export interface MinimapViewport {
  /** Which part of the width is in view, and of how much. */
  readonly range: Range;
  readonly total: number;
  /** Which rows are: the first and how many, as parts of all. */
  readonly top: number;
  readonly height: number;
}

/**
 * The whole tree on a strip, with a frame around the part in view that can be moved and widened.
 *
 * The tree is painted once for each picture, pixel by pixel; what moves is the frame alone.
 */
export class Minimap {
  readonly element = document.createElement("div");
  private readonly canvas = document.createElement("canvas");
  private readonly frame = document.createElement("div");
  private painted: unknown[] = [];
  /** The rows of the whole tree, as many as are drawn. */
  rows = 1;
  private viewport: MinimapViewport | null = null;
  private grip: { readonly kind: "move" | "from" | "until" | "new"; readonly part: number; readonly range: Range } | null = null;

  constructor(private readonly moveTo: (range: Range) => void, private readonly scroll: (part: number) => void) {
    this.element.className = "minimap";
    this.frame.className = "minimap-frame";
    this.element.append(this.canvas, this.frame);
    this.element.addEventListener("pointerdown", (event) => this.pointerDown(event));
    this.element.addEventListener("pointermove", (event) => this.pointerMove(event));
    for (const end of ["pointerup", "pointercancel"] as const) this.element.addEventListener(end, () => (this.grip = null));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.show(null);
  }

  /** Frames what is in view; null where that is the whole, and all of its rows. */
  show(viewport: MinimapViewport | null): void {
    const { element, frame } = this;
    element.classList.toggle("idle", viewport === null);
    this.viewport = viewport;
    if (!viewport) {
      for (const name of ["tabindex", "role", "aria-label", "aria-valuenow", "aria-valuetext"]) element.removeAttribute(name);
      return;
    }
    element.tabIndex = 0;
    element.setAttribute("role", "slider");
    element.setAttribute("aria-label", strings.partInView);
    const { range, total, top, height } = viewport;
    const left = (range.from / total) * 100;
    const width = (range.span / total) * 100;
    frame.style.left = `${left}%`;
    frame.style.width = `${width}%`;
    frame.style.top = `${top * 100}%`;
    frame.style.height = `${height * 100}%`;
    element.setAttribute("aria-valuenow", String(Math.round(left + width / 2)));
    element.setAttribute("aria-valuetext", strings.viewedPart(digits(width), digits(left), digits(left + width)));
  }

  /** What paints the tree; null where it is there already, or on its way. */
  painter(picture: Picture, width: number, ratio: number, background: Rgb): (() => void) | null {
    const inputs = [picture.tree, picture.total, picture.style, picture.hit, picture.isUpward, width, ratio, background];
    if (inputs.every((input, at) => input === this.painted[at])) return null;
    this.painted = inputs;
    return () => this.paint(picture, width, ratio, background);
  }

  private paint(picture: Picture, width: number, ratio: number, background: Rgb): void {
    const pixelWidth = Math.round(width * ratio);
    const pixelHeight = Math.round(MINIMAP_PIXELS * ratio);
    this.canvas.width = pixelWidth;
    this.canvas.height = pixelHeight;
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context) return;
    const { level } = picture.tree;
    const boxes = new Layout(level, picture.shape, picture.total).place({ from: 0, span: picture.total[0] }, pixelWidth, null);
    const raster = new Raster(context, pixelWidth, pixelHeight);
    const pixels = raster.pixels.fill(pixelOf(background));
    this.rows = boxes.rows;
    const row = pixelHeight / boxes.rows;
    for (let i = 0; i < boxes.count; i++) {
      const node = boxes.node[i];
      const fill = onBackground(picture.style(node).fill, background);
      const colour = pixelOf(picture.hit !== null && picture.hit[node] === 0 ? mix(fill, background, FADE_SHARE) : fill);
      const left = Math.round(boxes.x[i]);
      const right = Math.max(Math.round(boxes.x[i] + boxes.width[i]), left + 1);
      const level = picture.isUpward ? boxes.rows - 1 - boxes.level[i] : boxes.level[i];
      const bottom = Math.max(Math.round((level + 1) * row), Math.floor(level * row) + 1);
      for (let y = Math.floor(level * row); y < bottom; y++) pixels.fill(colour, y * pixelWidth + left, y * pixelWidth + right);
    }
    raster.show();
  }

  private pointerDown(event: PointerEvent): void {
    if (!this.viewport || event.button !== 0) return;
    const { range, total } = this.viewport;
    const part = this.partOf(event);
    const grip = ((event.pointerType === "touch" ? TOUCH_GRIP_PIXELS : GRIP_PIXELS) / this.element.clientWidth) * total;
    const at = part * total;
    const until = range.from + range.span;
    const wide = range.span > grip * 3;
    const kind = wide && Math.abs(at - range.from) < grip ? "from"
      : wide && Math.abs(at - until) < grip ? "until"
      : at > range.from - grip && at < until + grip && range.span < total ? "move" : "new";
    this.grip = { kind, part, range };
    this.element.setPointerCapture(event.pointerId);
    if (kind === "new" && range.span < total) this.moveTo({ from: at - range.span / 2, span: range.span });
    this.scrollTo(event);
  }

  private pointerMove(event: PointerEvent): void {
    const { grip, viewport } = this;
    if (!grip || !viewport) return;
    const by = (this.partOf(event) - grip.part) * viewport.total;
    const { from, span } = grip.range;
    const edges = grip.kind === "move" ? [from + by, from + by + span]
      : grip.kind === "from" ? [from + by, from + span]
      : grip.kind === "until" ? [from, from + span + by]
      : [grip.part * viewport.total, grip.part * viewport.total + by];
    // A new part needs a drag of some width; before that the press has moved the frame there.
    if (grip.kind === "new" && Math.abs(by / viewport.total) * this.element.clientWidth < 4) return;
    this.moveTo({ from: Math.max(Math.min(...edges), grip.kind === "move" ? -Infinity : 0), span: Math.abs(edges[1] - edges[0]) });
    this.scrollTo(event);
  }

  /** Where rows are out of view, a drag up or down scrolls to them. */
  private scrollTo(event: PointerEvent): void {
    if (!this.viewport || this.viewport.height >= 1) return;
    const box = this.element.getBoundingClientRect();
    this.scroll((event.clientY - box.top) / box.height - this.viewport.height / 2);
  }

  private key(event: KeyboardEvent): void {
    if (!this.viewport || event.ctrlKey || event.metaKey || event.altKey) return;
    const { range, total } = this.viewport;
    const step = range.span / 10;
    const key = event.shiftKey ? ({ ArrowLeft: "+", ArrowRight: "-" }[event.key] ?? event.key) : event.key;
    const to: Record<string, Range | undefined> = {
      ArrowLeft: { from: range.from - step, span: range.span },
      ArrowRight: { from: range.from + step, span: range.span },
      "+": zoomed(range, 0.5, 0.8),
      "-": zoomed(range, 0.5, 1.25),
      Home: { from: 0, span: range.span },
      End: { from: total - range.span, span: range.span },
    };
    const inputs = Object.hasOwn(to, key) ? to[key] : undefined;
    if (!inputs) return;
    event.preventDefault();
    this.moveTo(inputs);
  }

  private partOf(event: PointerEvent): number {
    const box = this.element.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  }
}

const digits = (percent: number) => percent.toFixed(percent > 0 && percent < 1 ? 3 : 1);
