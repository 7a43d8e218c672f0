/** Time expressions as the API reads them: RFC 3339, epoch seconds, `now`, `-15m`, `now-15m`. */

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Epoch seconds of an expression, or null when it is none. */
export function instant(text: string, now: number): number | null {
  if (text === "now") return now;
  const relative = /^(?:now)?-(\d+)([smhdw])$/.exec(text);
  if (relative) return now - Number(relative[1]) * UNIT_SECONDS[relative[2]];
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) >= 1e12 ? Number(text) / 1000 : Number(text);
  const parsed = Date.parse(text);
  return Number.isNaN(parsed) ? null : parsed / 1000;
}

export const isRelative = (text: string): boolean => text === "now" || /^(now)?-/.test(text);

/** RFC 3339 in UTC, whole seconds when they are whole. */
export const rfc3339 = (seconds: number): string => new Date(Math.round(seconds * 1000)).toISOString().replace(".000Z", "Z");

export interface Range {
  readonly from: string;
  readonly until: string;
}

export const PRESETS: readonly (Range & { readonly name: string })[] = [
  { name: "last 15 minutes", from: "-15m", until: "now" },
  { name: "last hour", from: "-1h", until: "now" },
  { name: "last 6 hours", from: "-6h", until: "now" },
  { name: "last 24 hours", from: "-1d", until: "now" },
  { name: "last 7 days", from: "-7d", until: "now" },
  { name: "last 30 days", from: "-30d", until: "now" },
];

/** The same range with its ends nailed down, for a link that shows the same thing tomorrow. */
export function absolute(range: Range, now: number): Range {
  const fixed = (text: string) => {
    const at = instant(text, now);
    return at === null || !isRelative(text) ? text : rfc3339(Math.floor(at));
  };
  return { from: fixed(range.from), until: fixed(range.until) };
}

/** A range in a person's words; clock times are the browser's, with their zone. */
export function rangeName(range: Range): string {
  const preset = PRESETS.find(({ from, until }) => from === range.from && until === range.until);
  if (preset) return preset.name;
  const back = lengthName(range.from);
  if (back !== null && range.until === "now") return `last ${back}`;
  const [from, until] = [range.from, range.until].map((text) => (isRelative(text) ? null : instant(text, 0)));
  if (from === null || until === null) return `${momentName(range.from)} – ${momentName(range.until)}`;
  const [start, end] = [clock(from), clock(until)];
  const sameDay = start.slice(0, 10) === end.slice(0, 10) && zone(from) === zone(until);
  return sameDay ? `${start} – ${end.slice(11)} ${zone(until)}` : `${zoned(from)} – ${zoned(until)}`;
}

function momentName(text: string): string {
  const back = lengthName(text);
  if (back !== null) return `${back} ago`;
  const at = isRelative(text) ? null : instant(text, 0);
  return at === null ? text : zoned(at);
}

const UNIT_NAMES: readonly (readonly [string, number])[] = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** "25 hours" of `-1500m`; null for what is not so long ago. */
function lengthName(text: string): string | null {
  const back = text === "now" || !isRelative(text) ? null : instant(text, 0);
  if (back === null || back === 0) return null;
  const [name, size] = UNIT_NAMES.find((unit) => -back % unit[1] === 0) ?? ["second", 1];
  const many = -back / size;
  return `${many} ${name}${many === 1 ? "" : "s"}`;
}

/** The browser's offset from UTC at a moment: "UTC", "UTC+02:00". */
export function zone(seconds: number): string {
  const minutes = -new Date(seconds * 1000).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const two = (part: number) => String(Math.floor(part)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

export const zoned = (seconds: number): string => `${clock(seconds)} ${zone(seconds)}`;

/** A range to look at when this one is empty: 7 days, then 30; null when this one holds both. */
export function instead(range: Range, now: number): (Range & { readonly name: string }) | null {
  const [from, until] = [instant(range.from, now) ?? now, instant(range.until, now) ?? now];
  const held = (preset: Range) => from <= (instant(preset.from, now) ?? now) + 60 && until >= now - 60;
  return PRESETS.filter((preset) => ["-7d", "-30d"].includes(preset.from)).find((preset) => !held(preset)) ?? null;
}

export function clock(seconds: number): string {
  const at = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** "4 min ago" and the like. */
export function ago(seconds: number, now: number): string {
  const passed = Math.max(now - seconds, 0);
  if (passed < 60) return `${Math.round(passed)} s ago`;
  if (passed < 3600) return `${Math.round(passed / 60)} min ago`;
  if (passed < 172_800) return `${Math.round(passed / 3600)} h ago`;
  return `${Math.round(passed / 86_400)} days ago`;
}
const STEPS = [10, 60, 300, 900, 3600, 7200, 21_600, 86_400];

/** A timeline's step that makes at most some 130 of a range; nothing finer than windows usually are. */
export function stepSeconds(range: Range, now: number): number {
  const length = (instant(range.until, now) ?? now) - (instant(range.from, now) ?? now);
  return STEPS.find((step) => length / step <= 130) ?? 86_400;
}

/** Epoch seconds of a time in an answer. */
export function epoch(time: string | number): number {
  return typeof time === "number" ? time : Date.parse(time) / 1000;
}
