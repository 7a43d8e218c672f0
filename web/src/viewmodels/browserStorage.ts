/** Lists that this browser keeps: favourites, saved views, dismissed hints, captures in progress. A browser that keeps nothing still shows them. */

import { signal, type Signal } from "../lib/signals.ts";

/** A view that a person saved under a name; `path` is below the path prefix. */
export interface SavedView {
  readonly name: string;
  readonly path: string;
}

const storage = (): Storage | null => {
  try {
    return window.localStorage ?? null;
  } catch {
    return null;
  }
};

function load<Item>(key: string, isItem: (value: unknown) => value is Item): readonly Item[] {
  try {
    const stored: unknown = JSON.parse(storage()?.getItem(key) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isItem) : [];
  } catch {
    return [];
  }
}

/** A list under a key, and a function that replaces it. Other tabs see it when they load. */
export function storedList<Item>(key: string, isItem: (value: unknown) => value is Item): { readonly list: Signal<readonly Item[]>; readonly store: (items: readonly Item[]) => void } {
  const list = signal<readonly Item[]>(load(key, isItem));
  const store = (items: readonly Item[]) => {
    list.value = items;
    try {
      storage()?.setItem(key, JSON.stringify(items));
    } catch {
      // Full or forbidden: the list lives as long as the page.
    }
  };
  return { list, store };
}

const isText = (value: unknown): value is string => typeof value === "string";
const isSavedView = (value: unknown): value is SavedView => typeof value === "object" && value !== null && isText((value as SavedView).name) && isText((value as SavedView).path) && /^\/(?!\/)/.test((value as SavedView).path);

export const favourites = storedList("sidelight.favourites", isText);
export const savedViews = storedList("sidelight.views", isSavedView);
/** Ids of hints that were dismissed. */
export const dismissedHints = storedList("sidelight.hints", isText);
/** Ids of captures whose progress is shown on every page. */
export const followedCaptures = storedList("sidelight.captures", isText);

export function toggleFavourite(service: string): void {
  const now = favourites.list.peek();
  favourites.store(now.includes(service) ? now.filter((one) => one !== service) : [...now, service].slice(-200));
}

/** Saves a view; a view of the same name is replaced. */
export const saveView = (view: SavedView): void => savedViews.store([...savedViews.list.peek().filter(({ name }) => name !== view.name), view].slice(-100));
