import { formatAgo, toEpochSeconds, parseTime, formatWithZone, type Range } from "../lib/times.ts";

/** A service is stale if it was last seen this many seconds before the end of the range. */
export const STALE_SECONDS = 600;

export const TROUBLESHOOTING = "Check that its pods run, that their sidecar is ready (/readyz names the problem), and that the sidecar's log shows no refusals by the collector.";

/** The notice about a stale service, if the range reaches to now. */
export function staleNotices(versions: readonly { readonly last_seen: string | number }[], range: Range, now: number): string[] {
  const last = Math.max(...versions.map(({ last_seen }) => toEpochSeconds(last_seen)));
  const until = parseTime(range.until, now) ?? now;
  if (!Number.isFinite(last) || until < now - 60 || now - last <= STALE_SECONDS) return [];
  return [`Last seen ${formatAgo(last, now)} (${formatWithZone(last)}): nothing newer has arrived. ${TROUBLESHOOTING}`];
}
