import { useLayoutEffect } from "preact/hooks";
import type { Side } from "../../api/answers.ts";
import { signal } from "../../lib/signals.ts";
import type { ApiQuery } from "../../viewmodels/shellCommands.ts";

/** What the header shares and exports: the query of the page, and the sides that the collector answered with. */
export interface SharedView {
  readonly query: ApiQuery;
  readonly sides: readonly Side[] | null;
  /** Call paths of the profile; null where a page has no files to export. */
  readonly nodeCount: number | null;
}

export const sharedView = signal<SharedView | null>(null);

/** Tells the header what the page shows, for as long as it does. */
export function useSharedView(query: ApiQuery, sides: readonly Side[] | null = null, nodeCount: number | null = null): void {
  useLayoutEffect(() => { sharedView.value = { query, sides, nodeCount }; }, [JSON.stringify(query), sides, nodeCount]);
  useLayoutEffect(() => () => { sharedView.value = null; }, []);
}
