import { css, type Rgb } from "./colour.ts";
import { badge, FONT, Inks, ROW_PIXELS } from "./draw.ts";
import type { InView } from "./picture.ts";

/** What stands around a graph in a file, so that it means something far from the page. */
export interface Caption {
  readonly title: string;
  /** Units, query, range, sides: whatever the picture is worth nothing without. */
  readonly lines: readonly string[];
  readonly legend: readonly { readonly name: string; readonly colour: string; readonly hatch?: "new" | "gone" }[];
  readonly ground: Rgb;
  readonly text: Rgb;
}

/** More rows than these are more than a picture can be tall: the file begins with the first one in view, and says so. */
export const MOST_ROWS = 400;

const MARGIN = 16;
const LINE = 18;
const FAMILY = FONT.slice(FONT.indexOf(" ") + 1);
/** A monospace character is this much of its size wide, at the most, in the fonts asked for. */
const CHARACTER = 0.605;

interface Words { readonly text: string; readonly x: number; readonly y: number; readonly size: number; readonly bold: boolean }
interface Swatch { readonly x: number; readonly y: number; readonly colour: string; readonly hatch: "" | "new" | "gone" }

interface Composed {
  readonly width: number;
  readonly height: number;
  /** Where the graph lies, and which of its rows. */
  readonly top: number;
  readonly firstRow: number;
  readonly rows: number;
  readonly words: readonly Words[];
  readonly swatches: readonly Swatch[];
}

function compose(view: InView, caption: Caption): Composed {
  const width = Math.max(view.width, 320) + 2 * MARGIN;
  const words: Words[] = [];
  const swatches: Swatch[] = [];
  let y = MARGIN;
  const say = (text: string, size: number, bold: boolean) => {
    for (const line of wrapped(text, Math.floor((width - 2 * MARGIN) / (size * CHARACTER)))) {
      words.push({ text: line, x: MARGIN, y: (y += size + 6) - 6, size, bold });
    }
  };
  const all = view.boxes.rows;
  const firstRow = all > MOST_ROWS ? Math.min(Math.floor(view.top / ROW_PIXELS), all - MOST_ROWS) : 0;
  const rows = Math.min(all, MOST_ROWS);
  say(caption.title, 16, true);
  for (const line of caption.lines) say(line, 12, false);
  if (rows < all) say(`Rows ${firstRow + 1} to ${firstRow + rows} of ${all}.`, 12, false);
  const top = y + 8;
  y = top + rows * ROW_PIXELS + 12;
  let x = MARGIN;
  for (const { name, colour, hatch = "" } of caption.legend) {
    const wide = 24 + [...name].length * 12 * CHARACTER;
    if (x > MARGIN && x + wide > width - MARGIN) [x, y] = [MARGIN, y + LINE];
    swatches.push({ x, y, colour, hatch });
    words.push({ text: name, x: x + 18, y: y + 11, size: 12, bold: false });
    x += wide + 12;
  }
  return { width, height: Math.ceil(y + (caption.legend.length > 0 ? LINE : 0) + MARGIN), top, firstRow, rows, words, swatches };
}

/** A text in lines of at most so many characters, cut at spaces where there are any. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  let rest = [...text];
  while (rest.length > most) {
    const space = rest.lastIndexOf(" ", most);
    const cut = space > most / 2 ? space : most;
    lines.push(rest.slice(0, cut).join(""));
    rest = rest.slice(cut === space ? cut + 1 : cut);
  }
  return [...lines, rest.join("")];
}

/** A file of its own: names in it are text, and each box tells its numbers under the pointer. */
export function pictureSvg(view: InView, caption: Caption): string {
  const { picture, boxes } = view;
  const made = compose(view, caption);
  const inks = new Inks(caption.ground);
  const focusLevel = picture.tree.level[picture.focus];
  const character = 12 * CHARACTER;
  const out = [
    `<?xml version="1.0" encoding="UTF-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="${made.width}" height="${made.height}" ` +
    `viewBox="0 0 ${made.width} ${made.height}" font-family="${xml(FAMILY)}" font-size="12">`,
    `<title>${xml(caption.title)}</title><desc>${xml(caption.lines.join("\n"))}</desc>`,
    "<defs>", pattern("new", 45), pattern("gone", -45), "</defs>",
    `<rect width="100%" height="100%" fill="${css(caption.ground)}"/>`,
  ];
  for (let i = 0; i < boxes.count; i++) {
    const row = boxes.level[i] - made.firstRow;
    if (row < 0 || row >= made.rows) continue;
    const node = boxes.node[i];
    const look = picture.look(node);
    const { fill, ink } = inks.of(look.fill, (picture.hit !== null && picture.hit[node] === 0) || boxes.level[i] < focusLevel);
    const width = boxes.sliver[i] ? boxes.width[i] : Math.max(boxes.width[i] - 1, 1);
    const place = `x="${short(MARGIN + boxes.x[i])}" y="${made.top + row * ROW_PIXELS}" width="${short(width)}" height="${ROW_PIXELS - 1}"`;
    const { title, rows } = picture.describe(node);
    out.push(`<g><title>${xml([title, ...rows.map(([name, value]) => `${name} ${value}`)].join("\n"))}</title><rect ${place} fill="${fill}"/>`);
    if (look.hatch !== "") out.push(`<rect ${place} fill="url(#${look.hatch})"/>`);
    const room = Math.floor((width - 6) / character);
    // An inner svg clips what a font draws wider than this one.
    if (room >= 2) out.push(`<svg ${place}><text x="4" y="14" fill="${ink}">${xml(isolated(cut(badge(look), room)))}</text></svg>`);
    out.push("</g>");
  }
  for (const { x, y, colour, hatch } of made.swatches) {
    out.push(`<rect x="${short(x)}" y="${y}" width="13" height="13" rx="2" fill="${xml(colour)}"/>`);
    if (hatch !== "") out.push(`<rect x="${short(x)}" y="${y}" width="13" height="13" rx="2" fill="url(#${hatch})"/>`);
  }
  for (const { text, x, y, size, bold } of made.words) {
    out.push(`<text x="${short(x)}" y="${y}" font-size="${size}"${bold ? ' font-weight="bold"' : ""} fill="${css(caption.text)}">${xml(isolated(text))}</text>`);
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

const short = (pixels: number) => String(Math.round(pixels * 100) / 100);

const cut = (text: string, room: number) => {
  const characters = [...text.slice(0, room * 2 + 2)];
  return characters.length > room ? `${characters.slice(0, Math.max(room - 1, 1)).join("")}…` : text;
};

/** Writing from right to left keeps to itself. */
const isolated = (text: string) => (/^[\x20-\x7e▸▲▼…·–→]*$/.test(text) ? text : `\u2068${text}\u2069`);

/** Text for an XML file: escaped, and without the characters that no XML may hold. */
export const xml = (text: string): string => text
  .replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, "\ufffd")
  .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
