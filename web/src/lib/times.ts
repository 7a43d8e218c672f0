/** Time expressions as the API reads them: RFC 3339, epoch seconds, `now`, `-15m`, `now-15m`. */

import * as strings from "../strings/timelineStrings.tsx";

const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

let isUtc = false;

/** Chooses whether times are written in UTC or in the browser's zone. */
export function setUtc(on: boolean): void {
  isUtc = on;
}

/** The offset of the shown times from UTC at a moment, in seconds. */
export const utcOffsetSeconds = (at: number): number => (isUtc ? 0 : -new Date(at * 1000).getTimezoneOffset() * 60);

/** The name of the zone of the shown times, such as `Europe/Berlin`. */
export const timeZoneName = (): string => (isUtc ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC");

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

/**
 * A time that a person typed, as the API reads it: `now-3h`, `3h ago`, epoch seconds, or a date and time of the zone in
 * use; null if it is none.
 */
export function parseTypedTime(typed: string, now: number): string | null {
  const text = typed.trim();
  const ago = /^(\d+)\s*([smhdw])(?:\s+ago)?$/.exec(text);
  if (ago) return `-${ago[1]}${ago[2]}`;
  if (isRelativeTime(text)) return parseTime(text, now) === null ? null : text.replace(/^now-/, "-");
  const clock = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?)?$/.exec(text);
  if (clock) {
    const wall = Date.parse(`${clock[1]}T${clock[2] ?? "00:00"}${clock[3] ?? ":00"}Z`) / 1000;
    // The offset at the moment itself, which differs from that of the wall clock's number around a change of the clocks.
    const at = wall - utcOffsetSeconds(wall - utcOffsetSeconds(wall));
    return Number.isNaN(at) ? null : rfc3339(at);
  }
  const at = parseTime(text, now);
  return text === "" || at === null ? null : rfc3339(at);
}

/** A range as the fields of the picker show it: relative times as typed, others by the clock. */
export const formatTypedTime = (text: string): string => (isRelativeTime(text) ? text.replace(/^-/, "now-") : formatClock(parseTime(text, 0) ?? 0));

/** The range of the same length before (-1) or after (1); never past now. */
export function shiftRange(range: Range, direction: -1 | 1, now: number): Range {
  const [from, until] = [parseTime(range.from, now) ?? now - 3600, parseTime(range.until, now) ?? now];
  const length = until - from;
  const end = Math.min(until + direction * length, now);
  // What ends now follows the clock.
  if (direction === 1 && end >= now - 1) return { from: `-${Math.max(Math.round(length), 1)}s`, until: "now" };
  return { from: rfc3339(Math.floor(end - length)), until: rfc3339(Math.floor(end)) };
}

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
  const lengthOf = ({ from, until }: Range) => (until === "now" && isRelativeTime(from) ? parseTime(from, 0) : null);
  const preset = PRESETS.find((one) => lengthOf(one) === lengthOf(range));
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
  const minutes = utcOffsetSeconds(seconds) / 60;
  if (minutes === 0) return "UTC";
  const pad = (part: number) => String(Math.floor(part)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${pad(Math.abs(minutes) / 60)}:${pad(Math.abs(minutes) % 60)}`;
}

const SPAN = /(\d{4}-\d\d-\d\d) (\d\d:\d\d)(?:( ?– ?)(?:(\d{4}-\d\d-\d\d) )?(\d\d:\d\d))?/g;

/** A sentence of the collector with its UTC times in the zone in use, each with the offset of its own moment. */
export function inShownZone(text: string): string {
  const parts = text.split("UTC");
  if (parts.length === 1) return text;
  const ends = ([, day, time, joint, lastDay = day, lastTime]: readonly string[]) => (joint ? [`${day}T${time}Z`, `${lastDay}T${lastTime}Z`] : [`${day}T${time}Z`]).map((end) => Date.parse(end) / 1000);
  let zone = "UTC";
  return parts.map((part, i) => {
    const last = [...part.matchAll(SPAN)].at(-1);
    const isNamed = i < parts.length - 1;
    // The zone follows the times it is of; those of another offset name their own.
    if (last && isNamed) zone = formatUtcOffset(ends(last).at(-1) as number);
    return part.replace(SPAN, (...match) => {
      const [from, until = from] = ends(match);
      const [start, end] = [from, until].map((at) => formatClock(at).slice(0, 16));
      const zoneUnless = (at: number, named: string) => (formatUtcOffset(at) === named ? "" : ` ${formatUtcOffset(at)}`);
      const rest = match[3] ? `${zoneUnless(from, formatUtcOffset(until))}${match[3]}${!match[4] && end.slice(0, 10) === start.slice(0, 10) ? end.slice(11) : end}` : "";
      return `${start}${rest}${zoneUnless(until, zone)}`;
    }) + (isNamed ? zone : "");
  }).join("");
}

export const formatWithZone = (seconds: number): string => `${formatClock(seconds)} ${formatUtcOffset(seconds)}`;

/** A wider range to try when this one is empty: 7 days, then 30; null if this one covers both. */
export function widerPreset(range: Range, now: number): (Range & { readonly name: string }) | null {
  const [from, until] = [parseTime(range.from, now) ?? now, parseTime(range.until, now) ?? now];
  const covers = (preset: Range) => from <= (parseTime(preset.from, now) ?? now) + 60 && until >= now - 60;
  return PRESETS.filter((preset) => ["-7d", "-30d"].includes(preset.from)).find((preset) => !covers(preset)) ?? null;
}

export const formatClock = (seconds: number): string =>
  new Date(Math.floor(seconds + utcOffsetSeconds(seconds)) * 1000).toISOString().slice(0, 19).replace("T", " ");

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
