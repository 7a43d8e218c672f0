import { css, inkOn, mix, type Rgb } from "./colour.ts";
import type { Boxes } from "./layout.ts";

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

export interface Paper {
  readonly width: number;
  readonly height: number;
  readonly scroll: number;
  readonly characterWidth: number;
  readonly background: Rgb;
  readonly outline: Rgb;
}

/** Draws the rows in view. Everything it shows was computed before; it only paints. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, paper: Paper): void {
  const { boxes } = scene;
  context.fillStyle = css(paper.background);
  context.fillRect(0, 0, paper.width, paper.height);
  context.font = FONT;
  context.textBaseline = "middle";
  const firstRow = Math.floor(paper.scroll / ROW_PIXELS);
  const lastRow = Math.ceil((paper.scroll + paper.height) / ROW_PIXELS);
  for (let i = 0; i < boxes.count; i++) {
    if (boxes.level[i] < firstRow || boxes.level[i] > lastRow) continue;
    drawBox(context, scene, paper, i);
  }
  for (let i = 0; i < boxes.count; i++) {
    const node = boxes.node[i];
    if (node !== scene.selected && node !== scene.hovered) continue;
    const y = boxes.level[i] * ROW_PIXELS - paper.scroll;
    context.strokeStyle = css(paper.outline);
    context.lineWidth = node === scene.selected ? 2 : 1;
    context.strokeRect(boxes.x[i] + 1, y + 1, Math.max(boxes.width[i] - 3, 1), ROW_PIXELS - 3);
  }
}

function drawBox(context: CanvasRenderingContext2D, scene: Scene, paper: Paper, i: number): void {
  const { boxes, hit } = scene;
  const node = boxes.node[i];
  const look = scene.look(node);
  const faded = (hit !== null && !hit[node]) || boxes.level[i] < scene.focusLevel;
  const fill = faded ? mix(look.fill, paper.background, 0.72) : look.fill;
  const x = boxes.x[i];
  const y = boxes.level[i] * ROW_PIXELS - paper.scroll;
  const width = boxes.sliver[i] ? boxes.width[i] : Math.max(boxes.width[i] - 1, 1);
  context.fillStyle = css(fill);
  context.fillRect(x, y, width, ROW_PIXELS - 1);
  const ink = inkOn(fill);
  if (look.hatch !== "") hatch(context, x, y, width, look.hatch, ink);
  if (width < paper.characterWidth * 2 + 6) return;
  context.fillStyle = ink;
  label(context, badge(look), x, y, width, paper.characterWidth);
}

const badge = (look: Look) => (look.hatch === "" ? look.label : `${look.hatch} ▸ ${look.label}`);

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
