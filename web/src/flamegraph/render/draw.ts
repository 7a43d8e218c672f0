import { css, inkOn, mix, onGround, pixelOf, type Rgb } from "./colour.ts";
import { boxOf, type Boxes } from "./layout.ts";

export const ROW_PIXELS = 20;
export const FONT = '12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** How one node looks, apart from where it lies. */
export interface Look {
  readonly fill: Rgb;
  readonly label: string;
  readonly hatch: "" | "new" | "gone";
}

export interface Scene {
  readonly boxes: Boxes;
  readonly look: (node: number) => Look;
  /** 1 for the frames a search found; null when nothing is searched for. */
  readonly hit: Uint8Array | null;
  /** Rows above this one are the callers of what is zoomed into. */
  readonly focusLevel: number;
  readonly selected: number;
  readonly hovered: number;
}

/** What a graph is drawn on; `inks` and `raster` are kept from frame to frame. */
export interface Paper {
  readonly width: number;
  readonly height: number;
  readonly scroll: number;
  readonly characterWidth: number;
  /** Device pixels for each of the page's. */
  readonly ratio: number;
  readonly outline: Rgb;
  readonly inks: Inks;
  readonly raster: Raster;
}

/** The pixels of a canvas. Thousands of rectangles cost less as runs of numbers than as calls. */
export class Raster {
  readonly pixels: Uint32Array<ArrayBuffer>;
  private readonly image: ImageData;

  constructor(private readonly context: CanvasRenderingContext2D, readonly width: number, readonly height: number) {
    this.image = context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  show(): void {
    this.context.putImageData(this.image, 0, 0);
  }
}

/** A fill as a canvas and as its pixels take it, and the ink that is read on it. Most boxes need their pixel alone. */
export interface Ink {
  readonly fill: string;
  readonly pixel: number;
  readonly ink: "#000" | "#fff";
}

/** The fills of one theme, each worked out once. */
export class Inks {
  private readonly full = new Map<Rgb, Ink>();
  private readonly faded = new Map<Rgb, Ink>();

  constructor(readonly background: Rgb) {}

  of(fill: Rgb, faded: boolean): Ink {
    const known = faded ? this.faded : this.full;
    const found = known.get(fill);
    if (found) return found;
    const seen = onGround(fill, this.background);
    const shown = faded ? mix(seen, this.background, FADING) : seen;
    const made: Ink = { pixel: pixelOf(shown), get fill() { return css(shown); }, get ink() { return inkOn(shown); } };
    known.set(fill, made);
    return made;
  }
}

/** How much of the ground shows through frames that a search did not find, and through callers. */
export const FADING = 0.72;

/** Draws the rows in view. Everything it shows was computed before; it only paints. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, paper: Paper): void {
  const { boxes, hit, look, focusLevel } = scene;
  const { rowStart, order, sliver } = boxes;
  const { inks, ratio, raster: { pixels, width: across, height: down } } = paper;
  const gap = Math.max(Math.round(ratio), 1);
  const narrow = paper.characterWidth * 2 + 6;
  const named: number[] = [];
  const marked: number[] = [];
  const inkOf = (i: number, seen: Look) => inks.of(seen.fill, (hit !== null && hit[boxes.node[i]] === 0) || boxes.level[i] < focusLevel);
  const run = (line: Uint32Array, i: number, seen: Look) => {
    const left = Math.round(boxes.x[i] * ratio);
    const right = Math.round((boxes.x[i] + boxes.width[i]) * ratio);
    const until = Math.max(sliver[i] ? right : right - gap, left + 1);
    const { pixel } = inkOf(i, seen);
    // Most boxes are a few pixels: a call of `fill` for each takes longer.
    for (let at = left; at < until; at++) line[at] = pixel;
  };
  pixels.fill(pixelOf(inks.background));
  const lastRow = Math.min(Math.ceil((paper.scroll + paper.height) / ROW_PIXELS), boxes.rows);
  for (let row = Math.max(Math.floor(paper.scroll / ROW_PIXELS), 0); row < lastRow; row++) {
    const top = Math.round((row * ROW_PIXELS - paper.scroll) * ratio);
    const bottom = Math.min(top + Math.round(ROW_PIXELS * ratio) - gap, down);
    const first = Math.max(top, 0);
    if (first >= bottom) continue;
    const line = pixels.subarray(first * across, (first + 1) * across);
    marked.length = 0;
    for (let at = rowStart[row]; at < rowStart[row + 1]; at++) {
      const i = order[at];
      const seen = look(boxes.node[i]);
      run(line, i, seen);
      if (boxes.width[i] > narrow || seen.hatch !== "") named.push(i);
      if (boxes.width[i] > 1 && sliver[i]) marked.push(i);
    }
    // What a search marks lies on top of its neighbours.
    for (const i of marked) run(line, i, look(boxes.node[i]));
    for (let y = first + 1; y < bottom; y++) pixels.copyWithin(y * across, first * across, (first + 1) * across);
  }
  paper.raster.show();
  context.font = FONT;
  context.textBaseline = "middle";
  for (const i of named) {
    const seen = look(boxes.node[i]);
    const y = boxes.level[i] * ROW_PIXELS - paper.scroll;
    const width = Math.max(boxes.width[i] - 1, 1);
    const { ink } = inkOf(i, seen);
    if (seen.hatch !== "") hatch(context, boxes.x[i], y, width, seen.hatch, ink);
    if (width < narrow) continue;
    context.fillStyle = ink;
    label(context, badge(seen), Math.round(boxes.x[i]), y, width, paper.characterWidth);
  }
  for (const node of [scene.hovered, scene.selected]) if (node >= 0) outline(context, boxes, node, node === scene.selected ? 2 : 1, paper);
}

function outline(context: CanvasRenderingContext2D, boxes: Boxes, node: number, lineWidth: number, paper: Paper): void {
  const i = boxOf(boxes, node);
  if (i < 0) return;
  const y = boxes.level[i] * ROW_PIXELS - paper.scroll;
  context.strokeStyle = css(paper.outline);
  context.lineWidth = lineWidth;
  context.strokeRect(boxes.x[i] + 1, y + 1, Math.max(boxes.width[i] - 3, 1), ROW_PIXELS - 3);
}

/** What a box says: hatched ones in words too. */
export const badge = (look: Look) => (look.hatch === "" ? look.label : `${look.hatch} ▸ ${look.label}`);

/** Diagonal lines, leaning one way for new and the other for gone. */
function hatch(context: CanvasRenderingContext2D, x: number, y: number, width: number, kind: "new" | "gone", ink: string): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, ROW_PIXELS - 1);
  context.clip();
  context.beginPath();
  const lean = kind === "new" ? ROW_PIXELS : -ROW_PIXELS;
  for (let at = x - ROW_PIXELS - (x % 8); at < x + width + ROW_PIXELS; at += 8) {
    context.moveTo(at, y + ROW_PIXELS);
    context.lineTo(at + lean, y);
  }
  context.strokeStyle = ink;
  context.globalAlpha = 0.28;
  context.lineWidth = 1.5;
  context.stroke();
  context.restore();
}

/** A name is cut by its character count; one with other scripts in it, whose widths differ, is clipped. */
function label(context: CanvasRenderingContext2D, text: string, x: number, y: number, width: number, character: number): void {
  const room = Math.floor((width - 6) / character);
  const middle = y + ROW_PIXELS / 2;
  if (/^[\x20-\x7e▸▲▼]*$/.test(text.slice(0, room + 1))) {
    context.fillText(text.length > room ? `${text.slice(0, Math.max(room - 1, 1))}…` : text, x + 4, middle);
    return;
  }
  context.save();
  context.beginPath();
  context.rect(x, y, width, ROW_PIXELS);
  context.clip();
  context.direction = "ltr";
  context.fillText(`\u2068${text.slice(0, room * 2)}\u2069`, x + 4, middle);
  context.restore();
}
