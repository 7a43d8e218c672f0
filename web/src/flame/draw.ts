import { css, inkOn, mix, type Rgb } from "./colour.ts";
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

/** What a graph is drawn on; `inks` are kept from frame to frame. */
export interface Paper {
  readonly width: number;
  readonly height: number;
  readonly scroll: number;
  readonly characterWidth: number;
  readonly outline: Rgb;
  readonly inks: Inks;
}

/** A fill as the canvas takes it, and the ink that is read on it. */
export interface Ink {
  readonly fill: string;
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
    const shown = faded ? mix(fill, this.background, FADING) : fill;
    const made = { fill: css(shown), ink: inkOn(shown) };
    known.set(fill, made);
    return made;
  }
}

/** How much of the ground shows through frames that a search did not find, and through callers. */
export const FADING = 0.72;

/** Draws the rows in view. Everything it shows was computed before; it only paints. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, paper: Paper): void {
  const { boxes, hit, look, focusLevel } = scene;
  const { rowStart, order } = boxes;
  context.fillStyle = css(paper.inks.background);
  context.fillRect(0, 0, paper.width, paper.height);
  context.font = FONT;
  context.textBaseline = "middle";
  const firstRow = Math.max(Math.floor(paper.scroll / ROW_PIXELS), 0);
  const lastRow = Math.min(Math.ceil((paper.scroll + paper.height) / ROW_PIXELS), boxes.rows);
  const narrowest = paper.characterWidth * 2 + 6;
  let filled = "";
  for (let row = firstRow; row < lastRow; row++) {
    const y = row * ROW_PIXELS - paper.scroll;
    for (let at = rowStart[row]; at < rowStart[row + 1]; at++) {
      const i = order[at];
      const node = boxes.node[i];
      const seen = look(node);
      const { fill, ink } = paper.inks.of(seen.fill, (hit !== null && hit[node] === 0) || row < focusLevel);
      const x = boxes.x[i];
      const width = boxes.sliver[i] ? boxes.width[i] : Math.max(boxes.width[i] - 1, 1);
      if (fill !== filled) context.fillStyle = filled = fill;
      context.fillRect(x, y, width, ROW_PIXELS - 1);
      if (seen.hatch !== "") hatch(context, x, y, width, seen.hatch, ink);
      if (width < narrowest) continue;
      context.fillStyle = filled = ink;
      label(context, badge(seen), x, y, width, paper.characterWidth);
    }
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
