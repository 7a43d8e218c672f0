const begun = new Map<string, Promise<Response>>();

const KEPT_MS = 5000;

/** Asks a question whose page is not there yet; the answer is for one use, and soon. */
export function begin(url: string): void {
  if (begun.has(url)) return;
  const response = fetch(url, { headers: { Accept: "application/json" } });
  // Whoever takes it hears of a failure; if nobody does, nobody needs to.
  response.catch(() => begun.delete(url));
  begun.set(url, response);
  setTimeout(() => begun.delete(url), KEPT_MS);
}

/** What was asked ahead, if it was. */
export function taken(url: string): Promise<Response> | undefined {
  const response = begun.get(url);
  begun.delete(url);
  return response;
}
