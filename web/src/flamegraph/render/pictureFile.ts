import { css, type Rgb } from "./colour.ts";
import { boxLabel, FONT, FillColours, NOTE_PIXELS, ROW_PIXELS } from "./draw.ts";
import type { VisibleGraph } from "./picture.ts";
import * as strings from "../../strings/frameStrings.ts";

/** What stands around a graph in a file, so that it means something far from the page. */
export interface Caption {
  readonly title: string;
  /** Units, query, range, sides: whatever the picture is worth nothing without. */
  readonly lines: readonly string[];
  readonly legend: readonly { readonly name: string; readonly colour: string; readonly hatch?: "new" | "removed" }[];
  readonly ground: Rgb;
  readonly text: Rgb;
}

/** More rows than these are more than a picture can be tall: the file begins with the first one in view, and says so. */
export const MAX_ROWS = 400;

const MARGIN = 16;
const LINE_PIXELS = 18;
const FONT_FAMILY = FONT.slice(FONT.indexOf(" ") + 1);
/** A monospace character is this much of its size wide, at the most, in the fonts asked for. */
const CHARACTER_WIDTH = 0.605;

interface TextLine { readonly text: string; readonly x: number; readonly y: number; readonly size: number; readonly bold: boolean }
interface Swatch { readonly x: number; readonly y: number; readonly colour: string; readonly hatch: "" | "new" | "removed" }

interface PictureLayout {
  readonly width: number;
  readonly height: number;
  /** Where the graph lies, and which of its rows. */
  readonly top: number;
  readonly firstRow: number;
  readonly rows: number;
  readonly words: readonly TextLine[];
  readonly swatches: readonly Swatch[];
}

function layoutPicture(view: VisibleGraph, caption: Caption): PictureLayout {
  const width = Math.max(view.width, 320) + 2 * MARGIN;
  const texts: TextLine[] = [];
  const swatches: Swatch[] = [];
  let y = MARGIN;
  const addText = (text: string, size: number, bold: boolean) => {
    for (const line of wrapText(text, Math.floor((width - 2 * MARGIN) / (size * CHARACTER_WIDTH)))) {
      texts.push({ text: line, x: MARGIN, y: (y += size + 6) - 6, size, bold });
    }
  };
  const totalRows = view.boxes.rows;
  const firstRow = totalRows > MAX_ROWS ? Math.min(Math.floor(view.top / ROW_PIXELS), totalRows - MAX_ROWS) : 0;
  const rows = Math.min(totalRows, MAX_ROWS);
  addText(caption.title, 16, true);
  for (const line of caption.lines) addText(line, 12, false);
  if (rows < totalRows) addText(strings.rowsOf(firstRow + 1, firstRow + rows, totalRows), 12, false);
  const top = y + 8;
  y = top + rows * ROW_PIXELS + 12;
  let x = MARGIN;
  for (const { name, colour, hatch = "" } of caption.legend) {
    const entryWidth = 24 + [...name].length * 12 * CHARACTER_WIDTH;
    if (x > MARGIN && x + entryWidth > width - MARGIN) [x, y] = [MARGIN, y + LINE_PIXELS];
    swatches.push({ x, y, colour, hatch });
    texts.push({ text: name, x: x + 18, y: y + 11, size: 12, bold: false });
    x += entryWidth + 12;
  }
  return { width, height: Math.ceil(y + (caption.legend.length > 0 ? LINE_PIXELS : 0) + MARGIN), top, firstRow, rows, words: texts, swatches };
}

/** A text in lines of at most so many characters, cut at spaces where there are any. */
function wrapText(text: string, maxCharacters: number): string[] {
  const lines: string[] = [];
  let remaining = [...text];
  while (remaining.length > maxCharacters) {
    const space = remaining.lastIndexOf(" ", maxCharacters);
    const cut = space > maxCharacters / 2 ? space : maxCharacters;
    lines.push(remaining.slice(0, cut).join(""));
    remaining = remaining.slice(cut === space ? cut + 1 : cut);
  }
  return [...lines, remaining.join("")];
}

/** A file of its own: names in it are text, and each box tells its numbers under the pointer. */
export function pictureSvg(view: VisibleGraph, caption: Caption): string {
  const { picture, boxes } = view;
  const layout = layoutPicture(view, caption);
  const colours = new FillColours(caption.ground);
  const character = 12 * CHARACTER_WIDTH;
  const out = [
    `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${layout.width}" height="${layout.height}" ` +
    `viewBox="0 0 ${layout.width} ${layout.height}" font-family="${xml(FONT_FAMILY)}" font-size="12">`,
    `<title>${xml(caption.title)}</title><desc>${xml(caption.lines.join("\n"))}</desc>`,
    "<defs>", pattern("new", 45), pattern("removed", -45), "</defs>",
    `<rect width="100%" height="100%" fill="${css(caption.ground)}"/>`,
  ];
  for (let i = 0; i < boxes.count; i++) {
    const row = boxes.level[i] - layout.firstRow;
    if (row < 0 || row >= layout.rows) continue;
    const node = boxes.node[i];
    const style = picture.style(node);
    const { fill, textColour } = colours.of(style.fill, (picture.hit !== null && picture.hit[node] === 0) || (picture.isUpward ? boxes.level[i] > view.focusRow : boxes.level[i] < view.focusRow));
    const width = boxes.sliver[i] ? boxes.width[i] : Math.max(boxes.width[i] - 1, 1);
    const rectangle = `x="${formatPixels(MARGIN + boxes.x[i])}" y="${layout.top + row * ROW_PIXELS}" width="${formatPixels(width)}" height="${ROW_PIXELS - 1}"`;
    const { title, rows } = picture.describe(node);
    out.push(`<g><title>${xml([title, ...rows.map(([name, value]) => `${name} ${value}`)].join("\n"))}</title><rect ${rectangle} fill="${fill}"/>`);
    if (style.hatch !== "") out.push(`<rect ${rectangle} fill="url(#${style.hatch})"/>`);
    const maxCharacters = Math.floor((width - 6) / character);
    // An inner svg clips what a font draws wider than this one.
    if (maxCharacters >= 2) out.push(`<svg ${rectangle}><text x="4" y="14" fill="${textColour}">${xml(isolateText(truncate(boxLabel(style, width, maxCharacters), maxCharacters)))}</text></svg>`);
    if (!boxes.sliver[i] && boxes.width[i] > NOTE_PIXELS && picture.isNoted?.(node)) {
      out.push(`<path d="M${formatPixels(MARGIN + boxes.x[i] + width)} ${layout.top + row * ROW_PIXELS}h-${NOTE_PIXELS}l${NOTE_PIXELS} ${NOTE_PIXELS}z" fill="${textColour}"/>`);
    }
    out.push("</g>");
  }
  for (const { x, y, colour, hatch } of layout.swatches) {
    out.push(`<rect x="${formatPixels(x)}" y="${y}" width="13" height="13" rx="2" fill="${xml(colour)}"/>`);
    if (hatch !== "") out.push(`<rect x="${formatPixels(x)}" y="${y}" width="13" height="13" rx="2" fill="url(#${hatch})"/>`);
  }
  for (const { text, x, y, size, bold } of layout.words) {
    out.push(`<text x="${formatPixels(x)}" y="${y}" font-size="${size}"${bold ? ' font-weight="bold"' : ""} fill="${css(caption.text)}">${xml(isolateText(text))}</text>`);
  }
  return `${out.join("\n")}\n</svg>\n`;
}

const pattern = (name: string, lean: number) =>
  `<pattern id="${name}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(${lean})">` +
  '<rect width="1.5" height="6" fill="#000" fill-opacity="0.28"/></pattern>';

/** The same picture in pixels, `ratio` for each of its own. */
export async function picturePng(svg: string, ratio = 2): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth * ratio;
  canvas.height = image.naturalHeight * ratio;
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the browser could not make the picture")))));
}

const formatPixels = (pixels: number) => String(Math.round(pixels * 100) / 100);

const truncate = (text: string, maxCharacters: number) => {
  const characters = [...text.slice(0, maxCharacters * 2 + 2)];
  return characters.length > maxCharacters ? `${characters.slice(0, Math.max(maxCharacters - 1, 1)).join("")}…` : text;
};

/** Writing from right to left keeps to itself. */
const isolateText = (text: string) => (/^[\x20-\x7e▸▲▼…·–→]*$/.test(text) ? text : `\u2068${text}\u2069`);

/** Text for an XML file: escaped, and without the characters that no XML may hold. */
export const xml = (text: string): string => text
  .replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
  .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
