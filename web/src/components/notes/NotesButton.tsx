import { notesIn } from "./noteText.ts";
import { openNotes, serviceNotes, type NoteDraft } from "./serviceNotes.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** Opens the notes on some spans of time and on functions, with a form for a new one; nothing where there is no collector. */
export function NotesButton({ draft }: { draft: NoteDraft & Required<Pick<NoteDraft, "spans">> }) {
  const notes = serviceNotes.value;
  return notes && <button type="button" aria-haspopup="dialog" title={strings.notesHint} onClick={() => openNotes(draft)}>{strings.notesButton(notesIn(notes, draft.spans).length)}</button>;
}

/** Opens the notes on one function; nothing where there is no collector. */
export function FunctionNotesButton({ fn, disabled }: { fn: string; disabled: boolean }) {
  const notes = serviceNotes.value;
  return notes && <button type="button" aria-haspopup="dialog" disabled={disabled} onClick={() => openNotes({ fn })}>{strings.notesButton(notes.filter((note) => note.function === fn).length)}</button>;
}
