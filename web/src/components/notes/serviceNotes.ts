import { useEffect } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl } from "../../api/request.ts";
import type { Note, NotesAnswer } from "../../api/answers.ts";
import { place } from "../../lib/location.ts";
import { signal } from "../../lib/signals.ts";

/** What a new note is about: a range, a function, or both. `spans` limits the list to notes on these times. */
export interface NoteDraft {
  readonly from?: string;
  readonly until?: string;
  readonly fn?: string;
  readonly spans?: readonly { readonly from: number; readonly until: number }[];
}

/** The notes on the service of the page; null until they are loaded, and where there is no collector. */
export const serviceNotes = signal<readonly Note[] | null>(null);

/** The notes that are shown with a form for a new one, or null. */
export const noteDraft = signal<NoteDraft | null>(null);

export function openNotes(draft: NoteDraft): void {
  noteDraft.value = draft;
}

/** Loads the notes on the service of the page, for as long as it is open. */
export function useServiceNotes(refreshCount: number): void {
  const request = useAnswer<NotesAnswer>(apiUrl("notes", { service: place.value.service }));
  useEffect(() => { if (refreshCount > 0) request.reload(); }, [refreshCount]);
  useEffect(() => { serviceNotes.value = request.answer?.notes ?? null; }, [request.answer]);
  useEffect(() => () => {
    serviceNotes.value = null;
    noteDraft.value = null;
  }, []);
}
