/** When a failed request is sent again: pure functions, without the clock and the browser. */

/**
 * `unreachable`: no answer; the collector may come back. `busy`: the collector says when to retry.
 * `final`: the same request fails again.
 */
export type FailureKind = "unreachable" | "busy" | "final";

const BUSY_REASONS = new Set(["overloaded", "query_timeout", "store_unavailable", "store_format", "engine_unavailable", "504"]);
const UNREACHABLE_REASONS = new Set(["unreachable", "offline", "shutting_down", "502", "503"]);

export const classifyFailure = (reason: string): FailureKind => (UNREACHABLE_REASONS.has(reason) ? "unreachable" : BUSY_REASONS.has(reason) ? "busy" : "final");

const MAX_BACKOFF_SECONDS = 15;

/** Retries of a request that the collector asked to wait. Requests to an unreachable collector are retried without limit. */
export const MAX_RETRIES = 5;

/**
 * Seconds until the next try: doubling up to 15, spread by `random` (0…1) so that many pages do not come at once, and
 * never before `retryAfter`.
 */
export function backoffSeconds(attempts: number, retryAfter: number | null, random: number): number {
  const exponential = Math.min(2 ** attempts, MAX_BACKOFF_SECONDS);
  return Math.max(exponential * (0.75 + 0.25 * random), retryAfter ?? 0);
}

/** Retry-After in seconds: a number or a date (RFC 9110, 10.2.3). */
export function parseRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  const seconds = /^\d+$/.test(header.trim()) ? Number(header) : Date.parse(header) / 1000 - now;
  return Number.isFinite(seconds) ? Math.max(seconds, 0) : null;
}
