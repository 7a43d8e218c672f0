import { css, fromCss, mix, type Rgb } from "../flamegraph/render/colour.ts";

/** What a grid is drawn with: the page's pixels, its font and its colours. */
export interface Pen {
  readonly context: CanvasRenderingContext2D;
  colour(name: string): string;
  /** The colour of a part (0 to 1) of the highest value. */
  heat(part: number): string;
}

/** A canvas made so large, and empty; null where the browser gives none to draw on. */
export function createPen(canvas: HTMLCanvasElement, width: number, height: number): Pen | null {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ink = canvas.getContext("2d");
  if (!ink) return null;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const stops = [0, 1, 2, 3].map((at) => fromCss(colour(`--heat-${at}`)));
  ink.scale(ratio, ratio);
  ink.font = "12px system-ui, sans-serif";
  ink.textBaseline = "middle";
  return { context: ink, colour, heat: (part) => css(colourOnScale(stops, part)) };
}

/** A colour on a scale through some stops, evenly apart; `part` is 0 to 1. */
export function colourOnScale(stops: readonly Rgb[], part: number): Rgb {
  const at = Math.min(Math.max(part, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  return mix(stops[low], stops[low + 1], at - low);
}
