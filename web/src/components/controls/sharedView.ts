import { useLayoutEffect } from "preact/hooks";
import type { Side } from "../../api/answers.ts";
import { parseMatchers } from "../../lib/selectors.ts";
import { signal } from "../../lib/signals.ts";
import type { ApiQuery } from "../../viewmodels/shellCommands.ts";

/** What the header shares and exports: the query of the page, and the sides that the collector answered with. */
export interface SharedView {
  readonly query: ApiQuery;
  readonly sides: readonly Side[] | null;
  /** Call paths of the profile; null where a page has no files to export. */
  readonly nodeCount: number | null;
  /** The newest version in the range of a profile. */
  readonly version: string;
}

/** The version whose source code a page links to: that of the last side, else the newest in view. */
export function sourceVersion(): string {
  const shared = sharedView.value;
  const matchers = parseMatchers(shared?.sides?.at(-1)?.selector ?? "");
  return matchers?.find(({ name, op }) => name === "version" && op === "=")?.value ?? shared?.version ?? "";
}

export const sharedView = signal<SharedView | null>(null);

/** Tells the header what the page shows, for as long as it does. */
export function useSharedView(query: ApiQuery, sides: readonly Side[] | null = null, nodeCount: number | null = null, version = ""): void {
  useLayoutEffect(() => { sharedView.value = { query, sides, nodeCount, version }; }, [JSON.stringify(query), sides, nodeCount, version]);
  useLayoutEffect(() => () => { sharedView.value = null; }, []);
}
