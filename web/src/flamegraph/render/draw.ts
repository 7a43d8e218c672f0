import { css, textColourOn, mix, onBackground, pixelOf, type Rgb } from "./colour.ts";
import { boxOf, type Boxes } from "./layout.ts";

export const ROW_PIXELS = 20;
export const FONT = '12px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** The appearance of a node, without its position. */
export interface BoxStyle {
  readonly fill: Rgb;
  readonly label: string;
  readonly hatch: "" | "new" | "removed";
}

export interface Scene {
  readonly boxes: Boxes;
  readonly style: (node: number) => BoxStyle;
  /** 1 for frames that match the search; null without a search. */
  readonly hit: Uint8Array | null;
  /** The row of the focused frame; its callers are in the rows before it. */
  readonly focusLevel: number;
  /** Whether the roots are at the bottom, so that callers are below. */
  readonly isUpward?: boolean;
  /** The frames that something beside the graph points at. */
  readonly isLinked?: ((node: number) => boolean) | null;
  /** The frames that somebody wrote a note on. */
  readonly isNoted?: ((node: number) => boolean) | null;
  readonly selected: number;
  readonly hovered: number;
}

/** The surface that a graph is drawn on; `colours` and `raster` are reused between frames. */
export interface Surface {
  readonly width: number;
  readonly height: number;
  readonly scroll: number;
  readonly characterWidth: number;
  /** Device pixels for each of the page's. */
  readonly ratio: number;
  readonly outline: Rgb;
  readonly colours: FillColours;
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

/** A fill colour as CSS and as a pixel, and a readable text colour on it. Most boxes need their pixel alone. */
export interface FillColour {
  readonly fill: string;
  readonly pixel: number;
  readonly textColour: "#000" | "#fff";
}

/** The fill colours of one theme, each computed once. */
export class FillColours {
  private readonly full = new Map<Rgb, FillColour>();
  private readonly faded = new Map<Rgb, FillColour>();

  constructor(readonly background: Rgb) {}

  of(fill: Rgb, faded: boolean): FillColour {
    const cache = faded ? this.faded : this.full;
    const cached = cache.get(fill);
    if (cached) return cached;
    const base = onBackground(fill, this.background);
    const displayed = faded ? mix(base, this.background, FADE_SHARE) : base;
    const colour: FillColour = { pixel: pixelOf(displayed), get fill() { return css(displayed); }, get textColour() { return textColourOn(displayed); } };
    cache.set(fill, colour);
    return colour;
  }
}

/** How far frames that do not match the search, and callers, fade into the background. */
export const FADE_SHARE = 0.72;

/** Draws the rows in view. Everything it shows was computed before; it only paints. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, surface: Surface): void {
  const { boxes, hit, style: styleOf, focusLevel, isUpward, isLinked, isNoted } = scene;
  const { rowStart, order, sliver } = boxes;
  const { colours, ratio, raster: { pixels, width: pixelWidth, height: pixelHeight } } = surface;
  const gap = Math.max(Math.round(ratio), 1);
  const minLabelWidth = surface.characterWidth * 2 + 6;
  const labelled: number[] = [];
  const slivers: number[] = [];
  const linked: number[] = [];
  const noted: number[] = [];
  const colourOf = (i: number, style: BoxStyle) => colours.of(style.fill, (hit !== null && hit[boxes.node[i]] === 0) || (isUpward ? boxes.level[i] > focusLevel : boxes.level[i] < focusLevel));
  const run = (line: Uint32Array, i: number, style: BoxStyle) => {
    const left = Math.round(boxes.x[i] * ratio);
    const right = Math.round((boxes.x[i] + boxes.width[i]) * ratio);
    const until = Math.max(sliver[i] ? right : right - gap, left + 1);
    const { pixel } = colourOf(i, style);
    // Most boxes are a few pixels: a call of `fill` for each takes longer.
    for (let at = left; at < until; at++) line[at] = pixel;
  };
  pixels.fill(pixelOf(colours.background));
  const lastRow = Math.min(Math.ceil((surface.scroll + surface.height) / ROW_PIXELS), boxes.rows);
  for (let row = Math.max(Math.floor(surface.scroll / ROW_PIXELS), 0); row < lastRow; row++) {
    const top = Math.round((row * ROW_PIXELS - surface.scroll) * ratio);
    const bottom = Math.min(top + Math.round(ROW_PIXELS * ratio) - gap, pixelHeight);
    const first = Math.max(top, 0);
    if (first >= bottom) continue;
    const line = pixels.subarray(first * pixelWidth, (first + 1) * pixelWidth);
    slivers.length = 0;
    for (let at = rowStart[row]; at < rowStart[row + 1]; at++) {
      const i = order[at];
      const style = styleOf(boxes.node[i]);
      run(line, i, style);
      if (boxes.width[i] > minLabelWidth || style.hatch !== "") labelled.push(i);
      if (boxes.width[i] > 1 && sliver[i]) slivers.push(i);
      if (isLinked && !sliver[i] && isLinked(boxes.node[i])) linked.push(i);
      if (isNoted && boxes.width[i] > NOTE_PIXELS && !sliver[i] && isNoted(boxes.node[i])) noted.push(i);
    }
    // What a search marks lies on top of its neighbours.
    for (const i of slivers) run(line, i, styleOf(boxes.node[i]));
    for (let y = first + 1; y < bottom; y++) pixels.copyWithin(y * pixelWidth, first * pixelWidth, (first + 1) * pixelWidth);
  }
  surface.raster.show();
  context.font = FONT;
  context.textBaseline = "middle";
  for (const i of labelled) {
    const style = styleOf(boxes.node[i]);
    const y = boxes.level[i] * ROW_PIXELS - surface.scroll;
    const width = Math.max(boxes.width[i] - 1, 1);
    const { textColour } = colourOf(i, style);
    if (style.hatch !== "") hatch(context, boxes.x[i], y, width, style.hatch, textColour);
    if (width < minLabelWidth) continue;
    context.fillStyle = textColour;
    const maxCharacters = Math.floor((width - 6) / surface.characterWidth);
    label(context, boxLabel(style, width, maxCharacters), Math.round(boxes.x[i]), y, width, maxCharacters);
  }
  for (const i of noted) fold(context, boxes, i, colourOf(i, styleOf(boxes.node[i])).textColour, surface);
  for (const i of linked) outline(context, boxes, i, 2, surface);
  for (const node of [scene.hovered, scene.selected]) if (node >= 0) outline(context, boxes, boxOf(boxes, node), node === scene.selected ? 2 : 1, surface);
}

/** The side of a note's mark. */
export const NOTE_PIXELS = 9;

/** The mark of a note: the upper right corner of a box, folded. */
function fold(context: CanvasRenderingContext2D, boxes: Boxes, i: number, colour: string, surface: Surface): void {
  const right = boxes.x[i] + boxes.width[i] - 1;
  const top = boxes.level[i] * ROW_PIXELS - surface.scroll;
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(right - NOTE_PIXELS, top);
  context.lineTo(right, top);
  context.lineTo(right, top + NOTE_PIXELS);
  context.fill();
}

function outline(context: CanvasRenderingContext2D, boxes: Boxes, i: number, lineWidth: number, surface: Surface): void {
  if (i < 0) return;
  const y = boxes.level[i] * ROW_PIXELS - surface.scroll;
  context.strokeStyle = css(surface.outline);
  context.lineWidth = lineWidth;
  context.strokeRect(boxes.x[i] + 1, y + 1, Math.max(boxes.width[i] - 3, 1), ROW_PIXELS - 3);
}

/** Narrower boxes have no room for a file. */
const MIN_FILE_PIXELS = 140;

/** The text of a box of this width; hatched ones name their change. A file that has no room is left out before a function is cut. */
export function boxLabel({ label, hatch }: BoxStyle, width: number, maxCharacters: number): string {
  const whole = hatch === "" ? label : `${hatch} ▸ ${label}`;
  if (width >= MIN_FILE_PIXELS && whole.length <= maxCharacters) return whole;
  const name = label.replace(/ \([^()]*\)$/, "");
  const short = hatch === "" ? name : `${hatch === "new" ? "+" : "−"} ${name}`;
  return width >= MIN_FILE_PIXELS && hatch !== "" && hatch.length + 3 + name.length <= maxCharacters ? `${hatch} ▸ ${name}` : short;
}

/** Diagonal lines, leaning one way for new and the other for gone. */
function hatch(context: CanvasRenderingContext2D, x: number, y: number, width: number, kind: "new" | "removed", colour: string): void {
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
  context.strokeStyle = colour;
  context.globalAlpha = 0.28;
  context.lineWidth = 1.5;
  context.stroke();
  context.restore();
}

/** A name is cut by its character count; one with other scripts in it, whose widths differ, is clipped. */
function label(context: CanvasRenderingContext2D, text: string, x: number, y: number, width: number, maxCharacters: number): void {
  const middle = y + ROW_PIXELS / 2;
  if (/^[\x20-\x7e▸▲▼−]*$/.test(text.slice(0, maxCharacters + 1))) {
    context.fillText(text.length > maxCharacters ? `${text.slice(0, Math.max(maxCharacters - 1, 1))}…` : text, x + 4, middle);
    return;
  }
  context.save();
  context.beginPath();
  context.rect(x, y, width, ROW_PIXELS);
  context.clip();
  context.direction = "ltr";
  context.fillText(`\u2068${text.slice(0, maxCharacters * 2)}\u2069`, x + 4, middle);
  context.restore();
}
