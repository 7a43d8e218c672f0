import type { Change } from "../tree/compare.ts";
import { hash } from "../tree/focus.ts";
import { groupOf, type Group } from "../tree/groups.ts";
import { STATES, sum, type State } from "../tree/tree.ts";
import { frameParts, packageOf } from "../tree/packages.ts";

/** A colour as 0xRRGGBB. */
export type Rgb = number;

/** Whose a file is, and the hue of its package. */
export interface PackageStyle {
  readonly group: Group;
  readonly hue: number;
}

/**
 * A frame's colour: its package gives the hue, its function the shade, so one symbol always has one
 * colour. Application code is strong, third-party code softer, the standard library pale; frames without
 * a file (`total`, `(other)`) are grey.
 * `styles` caches the style of each file.
 */
export function frameColour(text: string, styles = new Map<string, PackageStyle>()): Rgb {
  const { function: name, file } = frameParts(text);
  let style = styles.get(file);
  if (!style) {
    style = { group: groupOf(text), hue: HUES[Math.floor(toUnitInterval(hash(packageOf(text).name, 7)) * HUES.length)] };
    styles.set(file, style);
  }
  const { group, hue } = style;
  if (group === "no file") return hsl(240, 0.03, 0.72);
  const shade = toUnitInterval(hash(name, 11));
  if (group === "standard library") return hsl(205 + hue / 12, 0.16, 0.72 + shade * 0.1);
  return group === "application" ? hsl(hue, 0.66, 0.61 + shade * 0.12) : hsl(hue, 0.4, 0.7 + shade * 0.09);
}

/**
 * Idle is pale and the waits for a CPU and the GIL are grey, so that none reads as work; running to holding the GIL goes
 * from light and warm to dark and cold. The wait for the GIL has a tint of its colour. All of them stay apart for an eye
 * that lacks one kind of cone.
 */
export const STATE_COLOURS: Readonly<Record<State, Rgb>> = {
  idle: 0xd5dae3, running: 0xf6b03f, gil: 0x7e1fa0, cpu_wait: 0x7f95bb, gil_wait: 0xa060b8, lock: 0xbea380, poll: 0x86cdea, io: 0x2a7a68, sleep: 0xf2ebb6, task_running: 0xd9541e, task_ready: 0x5b3f14, task_waiting: 0xa9d8b4,
};

/** The colour of a frame's largest state, the paler the less of its time that is. Steps, so that few colours are drawn. */
export function stateColour(part: (state: State) => number): Rgb {
  const parts = STATES.map(part);
  const whole = sum(parts);
  if (whole <= 0) return NEUTRAL;
  const largest = Math.max(...parts);
  return mix(0xffffff, STATE_COLOURS[STATES[parts.indexOf(largest)]], Math.round(4 + (12 * largest) / whole) / 16);
}

/** From pale over orange to dark red: lighter and darker tell it without hue. Steps, so that few colours are drawn. */
export const HEAT: readonly Rgb[] = Array.from({ length: 33 }, (_, at) =>
  (at < 16 ? mix(0xf4ede0, 0xee8f3d, at / 16) : mix(0xee8f3d, 0x7d1028, (at - 16) / 16)));

/** The heat of a part of the hottest; its root, because few frames have most of the time. */
export const heatColour = (part: number): Rgb => HEAT[Math.round(Math.sqrt(Math.min(Math.max(part, 0), 1)) * 32)];

/** Hues that stay apart from each other and from the pale blue of the standard library. */
const HUES = [12, 28, 42, 58, 84, 126, 158, 178, 232, 262, 286, 334];

export const NEUTRAL: Rgb = 0xc9ccd3;
const NEUTRAL_ON_DARK: Rgb = 0x3f4552;
/** Paler than within noise: nothing is known. */
export const NOT_JUDGED: Rgb = 0xebecf0;
const NOT_JUDGED_ON_DARK: Rgb = 0x262b34;
const INCREASED: Rgb = 0xe06b00;
const DECREASED: Rgb = 0x1f74c4;

/** Blue to orange on one scale: full colour at half and at twice; grey inside the counting noise. */
export function changeColour(change: Change): Rgb {
  if (change.direction === "not_judged") return NOT_JUDGED;
  if (change.direction === "unchanged" || change.direction === "no_data") return NEUTRAL;
  const strength = 0.25 + 0.75 * Math.min(Math.abs(change.doublings), 1);
  return mix(NEUTRAL, change.delta > 0 ? INCREASED : DECREASED, strength);
}

/** Black or white, whichever contrasts more with the fill (WCAG relative luminance). */
export function textColourOn(fill: Rgb): "#000" | "#fff" {
  const linear = [fill >> 16, (fill >> 8) & 255, fill & 255].map((channel) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.1791 ? "#000" : "#fff";
}

/** A fill on a ground: what did not change stands back on a dark one too. */
export function onBackground(fill: Rgb, background: Rgb): Rgb {
  if ((fill !== NEUTRAL && fill !== NOT_JUDGED) || textColourOn(background) === "#000") return fill;
  return fill === NEUTRAL ? NEUTRAL_ON_DARK : NOT_JUDGED_ON_DARK;
}

export const css = (colour: Rgb): string => `#${colour.toString(16).padStart(6, "0")}`;

/** Reads #rgb and #rrggbb: a build may shorten one to the other. */
export function fromCss(text: string): Rgb {
  const digits = text.trim().slice(1);
  return Number.parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16) || 0;
}

/** A colour as the bytes of an image lie in memory: every browser's machine is little-endian. */
export const pixelOf = (colour: Rgb): number => (0xff000000 | ((colour & 255) << 16) | (colour & 0xff00) | (colour >> 16)) >>> 0;

export function mix(from: Rgb, to: Rgb, part: number): Rgb {
  let mixed = 0;
  for (const shift of [16, 8, 0]) {
    const a = (from >> shift) & 255;
    const b = (to >> shift) & 255;
    mixed |= Math.round(a + (b - a) * part) << shift;
  }
  return mixed;
}

/** Spreads a 32-bit hash over 0…1. */
function toUnitInterval(value: number): number {
  const mixed = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / 0x1_0000_0000;
}

function hsl(hue: number, saturation: number, lightness: number): Rgb {
  const amplitude = saturation * Math.min(lightness, 1 - lightness);
  const channel = (offset: number) => {
    const at = (offset + hue / 30) % 12;
    return Math.round(255 * (lightness - amplitude * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return (channel(0) << 16) | (channel(8) << 8) | channel(4);
}
