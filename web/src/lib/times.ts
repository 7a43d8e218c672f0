/** Time expressions as the API reads them: RFC 3339, epoch seconds, `now`, `-15m`, `now-15m`. */

import * as strings from "../strings/timelineStrings.tsx";

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/** Epoch seconds of a time expression; null if it is invalid. */
export function parseTime(text: string, now: number): number | null {
  if (text === "now") return now;
  const relative = /^(?:now)?-(\d+)([smhdw])$/.exec(text);
  if (relative) return now - Number(relative[1]) * UNIT_SECONDS[relative[2]];
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) >= 1e12 ? Number(text) / 1000 : Number(text);
  const milliseconds = Date.parse(text);
  return Number.isNaN(milliseconds) ? null : milliseconds / 1000;
}

export const isRelativeTime = (text: string): boolean => text === "now" || /^(now)?-/.test(text);

/** RFC 3339 in UTC, whole seconds when they are whole. */
export const rfc3339 = (seconds: number): string => new Date(Math.round(seconds * 1000)).toISOString().replace(".000Z", "Z");

export interface Range {
  readonly from: string;
  readonly until: string;
}

export const PRESETS: readonly (Range & { readonly name: string })[] = [
  { name: "last 15 minutes", from: "-15m", until: "now" },
  { name: strings.lastHour, from: "-1h", until: "now" },
  { name: "last 6 hours", from: "-6h", until: "now" },
  { name: "last 24 hours", from: "-1d", until: "now" },
  { name: "last 7 days", from: "-7d", until: "now" },
  { name: "last 30 days", from: "-30d", until: "now" },
];

/** The range with absolute ends, for a link that shows the same tomorrow. */
export function toAbsolute(range: Range, now: number): Range {
  const resolve = (text: string) => {
    const at = parseTime(text, now);
    return at === null || !isRelativeTime(text) ? text : rfc3339(Math.floor(at));
  };
  return { from: resolve(range.from), until: resolve(range.until) };
}

/** A readable range; clock times are in the browser's time zone, which is named. */
export function formatRange(range: Range): string {
  const preset = PRESETS.find(({ from, until }) => from === range.from && until === range.until);
  if (preset) return preset.name;
  const duration = formatDuration(range.from);
  if (duration !== null && range.until === "now") return strings.last(duration);
  const [from, until] = [range.from, range.until].map((text) => (isRelativeTime(text) ? null : parseTime(text, 0)));
  if (from === null || until === null) return `${formatMoment(range.from)} – ${formatMoment(range.until)}`;
  const [start, end] = [formatClock(from), formatClock(until)];
  const sameDay = start.slice(0, 10) === end.slice(0, 10) && formatUtcOffset(from) === formatUtcOffset(until);
  return sameDay ? `${start} – ${end.slice(11)} ${formatUtcOffset(until)}` : `${formatWithZone(from)} – ${formatWithZone(until)}`;
}

function formatMoment(text: string): string {
  const duration = formatDuration(text);
  if (duration !== null) return strings.ago(duration);
  const at = isRelativeTime(text) ? null : parseTime(text, 0);
  return at === null ? text : formatWithZone(at);
}

const UNITS: readonly (readonly [string, number])[] = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** "25 hours" of `-1500m`; null for what is not so long ago. */
function formatDuration(text: string): string | null {
  const offset = text === "now" || !isRelativeTime(text) ? null : parseTime(text, 0);
  if (offset === null || offset === 0) return null;
  const [name, size] = UNITS.find((unit) => -offset % unit[1] === 0) ?? ["second", 1];
  const count = -offset / size;
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

/** The browser's offset from UTC at a moment: "UTC", "UTC+02:00". */
export function formatUtcOffset(seconds: number): string {
  const minutes = -new Date(seconds * 1000).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const pad = (part: number) => String(Math.floor(part)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.abs(minutes) / 60)}:${pad(Math.abs(minutes) % 60)}`;
}

export const formatWithZone = (seconds: number): string => `${formatClock(seconds)} ${formatUtcOffset(seconds)}`;

/** A wider range to try when this one is empty: 7 days, then 30; null if this one covers both. */
export function widerPreset(range: Range, now: number): (Range & { readonly name: string }) | null {
  const [from, until] = [parseTime(range.from, now) ?? now, parseTime(range.until, now) ?? now];
  const covers = (preset: Range) => from <= (parseTime(preset.from, now) ?? now) + 60 && until >= now - 60;
  return PRESETS.filter((preset) => ["-7d", "-30d"].includes(preset.from)).find((preset) => !covers(preset)) ?? null;
}

export function formatClock(seconds: number): string {
  const at = new Date(seconds * 1000);
  const pad = (part: number) => String(part).padStart(2, "0");
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${time}`;
}

/** "4 min ago" and the like. */
export function formatAgo(seconds: number, now: number): string {
  const elapsed = Math.max(now - seconds, 0);
  if (elapsed < 60) return strings.sAgo(Math.round(elapsed));
  if (elapsed < 3600) return strings.minAgo(Math.round(elapsed / 60));
  if (elapsed < 172_800) return strings.hAgo(Math.round(elapsed / 3600));
  return strings.daysAgo(Math.round(elapsed / 86_400));
}
const TIMELINE_STEPS = [10, 60, 300, 900, 3600, 7200, 21_600, 86_400];

/** A step that divides a range into at most about 130; no finer than windows usually are. */
export function timelineStepSeconds(range: Range, now: number): number {
  const length = (parseTime(range.until, now) ?? now) - (parseTime(range.from, now) ?? now);
  return TIMELINE_STEPS.find((step) => length / step <= 130) ?? 86_400;
}

/** Epoch seconds of a time in an answer. */
export function toEpochSeconds(time: string | number): number {
  return typeof time === "number" ? time : Date.parse(time) / 1000;
}
