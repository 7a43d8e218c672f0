import { ago, epoch, instant, zoned, type Range } from "../lib/times.ts";

/** Not seen for this many seconds before the end of a range: a service is stale. */
export const STALE_SECONDS = 600;

export const CHECK = "If that is a surprise, check that its pods run, that the sidecar in them is ready (its /readyz names what keeps it from sampling), and that the sidecar's log shows no refusals by the collector.";

/** What to say, and what to check, of a service that was last seen long before the end of a range that reaches to now. */
export function stale(versions: readonly { readonly last_seen: string | number }[], range: Range, now: number): string[] {
  const last = Math.max(...versions.map(({ last_seen }) => epoch(last_seen)));
  const until = instant(range.until, now) ?? now;
  if (!Number.isFinite(last) || until < now - 60 || now - last <= STALE_SECONDS) return [];
  return [`Last seen ${ago(last, now)} (${zoned(last)}): nothing newer has arrived. ${CHECK}`];
}
