const pending = new Map<string, Promise<Response>>();

const LIFETIME_MS = 5000;

/** Sends a request before its page opens. The response can be taken once, within LIFETIME_MS. */
export function prefetch(url: string): void {
  if (pending.has(url)) return;
  const response = fetch(url, { headers: { Accept: "application/json" } });
  // Whoever takes it hears of a failure; if nobody does, nobody needs to.
  response.catch(() => pending.delete(url));
  pending.set(url, response);
  setTimeout(() => {
    if (pending.get(url) !== response) return;
    pending.delete(url);
    // Nobody reads it any more, and it shall not keep its connection.
    response.then((unread) => unread.body?.cancel()).catch(() => {});
  }, LIFETIME_MS);
}

/** The prefetched response of a URL, if there is one. */
export function takePrefetched(url: string): Promise<Response> | undefined {
  const response = pending.get(url);
  pending.delete(url);
  return response;
}
