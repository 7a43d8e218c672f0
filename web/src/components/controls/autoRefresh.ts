import { useEffect } from "preact/hooks";
import { signal } from "../../lib/signals.ts";

/** Seconds between refreshes of the page; 0 for none. It lasts until the page is loaded again. */
export const autoRefreshSeconds = signal(0);

/** Refreshes every so many seconds while the page is visible. */
export function useAutoRefresh(refresh: () => void): void {
  const seconds = autoRefreshSeconds.value;
  useEffect(() => {
    if (seconds === 0) return undefined;
    const timer = setInterval(() => { if (!document.hidden) refresh(); }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
}
