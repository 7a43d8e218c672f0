import { formatAgo, toEpochSeconds, parseTime, formatWithZone, type Range } from "../lib/times.ts";
import * as strings from "../strings/qualityStrings.ts";

/** A service is stale if it was last seen this many seconds before the end of the range. */
export const STALE_SECONDS = 600;

export const TROUBLESHOOTING = strings.troubleshooting;

/** The notice about a stale service, if the range reaches to now. */
export function staleNotices(versions: readonly { readonly last_seen: string | number }[], range: Range, now: number): string[] {
  const last = Math.max(...versions.map(({ last_seen }) => toEpochSeconds(last_seen)));
  const until = parseTime(range.until, now) ?? now;
  if (!Number.isFinite(last) || until < now - 60 || now - last <= STALE_SECONDS) return [];
  return [strings.staleService(formatAgo(last, now), formatWithZone(last), TROUBLESHOOTING)];
}
