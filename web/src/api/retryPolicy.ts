/** What a failed question means for asking again: everything but the clock and the browser. */

/**
 * `away`: nobody answers, and whoever does may be on the way back. `busy`: the collector says when to come again.
 * `final`: asking the same again brings the same.
 */
export type Kind = "away" | "busy" | "final";

const BUSY = new Set(["overloaded", "query_timeout", "store_unavailable", "store_format", "engine_unavailable", "504"]);
const AWAY = new Set(["unreachable", "offline", "shutting_down", "502", "503"]);

export const kindOf = (reason: string): Kind => (AWAY.has(reason) ? "away" : BUSY.has(reason) ? "busy" : "final");

const LONGEST_SECONDS = 15;

/** How often a question that was put off is asked again by itself. A collector that comes back is waited for without end. */
export const MOST_TRIES = 5;

/**
 * Seconds until the next try: doubling up to 15, spread by `luck` (0…1) so that many pages do not come at once, and
 * never before the collector said.
 */
export function pause(tries: number, told: number | null, luck: number): number {
  const grown = Math.min(2 ** tries, LONGEST_SECONDS);
  return Math.max(grown * (0.75 + 0.25 * luck), told ?? 0);
}

/** Retry-After in seconds: a number or a date (RFC 9110, 10.2.3). */
export function retryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : Date.parse(header) / 1000 - now;
  return Number.isFinite(seconds) ? Math.max(seconds, 0) : null;
}
