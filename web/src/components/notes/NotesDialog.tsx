import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "../../api/useAnswer.ts";
import { apiUrl, type Failure } from "../../api/request.ts";
import { sendRequest } from "../../api/captures.ts";
import type { Note, ValuesAnswer } from "../../api/answers.ts";
import { change, place } from "../../lib/location.ts";
import { formatAgo, formatWithZone, toEpochSeconds } from "../../lib/times.ts";
import { parseMatchers, selectorOf } from "../../lib/selectors.ts";
import { noteSubject, notesIn } from "./noteText.ts";
import { sandwichPlace } from "../../viewmodels/frameActions.ts";
import { ErrorCard } from "../answer/ErrorCard.tsx";
import { noteDraft, serviceNotes, type NoteDraft } from "./serviceNotes.ts";
import * as strings from "../../strings/timelineStrings.tsx";

const MAX_CHARACTERS = 1000;

/** The notes on times and functions of a service, and a form that writes, changes and deletes them. */
export function NotesDialog({ draft }: { draft: NoteDraft }) {
  const { service, query } = place.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const [edited, setEdited] = useState<Note | null>(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isSending, setSending] = useState(false);
  const values = useAnswer<ValuesAnswer>(apiUrl("labels/namespace/values", { query: selectorOf(service, ""), from: "-7d" }));
  const namespaces = values.answer?.values ?? [];
  const filtered = parseMatchers(query)?.find(({ name, op }) => name === "namespace" && op === "=")?.value;
  // Without data the collector knows best.
  const namespace = chosen ?? filtered ?? namespaces[0];
  const all = serviceNotes.value ?? [];
  const notes = (draft.fn ? all.filter((note) => note.function === draft.fn) : draft.spans ? notesIn(all, draft.spans) : all).toReversed();
  useLayoutEffect(() => {
    dialog.current?.showModal();
    box.current?.focus();
  }, []);
  /** Sends a change, and shows what it makes of the list. */
  const send = async (request: () => Promise<(before: readonly Note[]) => readonly Note[]>) => {
    if (isSending) return;
    setSending(true);
    setFailure(null);
    try {
      const apply = await request();
      serviceNotes.value = apply(serviceNotes.peek() ?? []);
      setEdited(null);
      setText("");
      box.current?.focus();
    } catch (error) {
      setFailure(error as Failure);
    }
    setSending(false);
  };
  const save = (event: Event) => {
    event.preventDefault();
    const written = text.trim();
    if (written === "") return;
    void send(async () => {
      const note = edited
        ? await sendRequest<Note>("PATCH", apiUrl(`notes/${edited.id}`), { text: written }, strings.notesNeedToken)
        : await sendRequest<Note>("POST", apiUrl("notes"), { service, text: written, ...(namespace !== undefined && { namespace }), ...(draft.fn ? { function: draft.fn } : { from: draft.from, until: draft.until }) }, strings.notesNeedToken);
      return (before) => (note ? [...before.filter(({ id }) => id !== note.id), note].sort(byStart) : before);
    });
  };
  const remove = ({ id }: Note) => void send(async () => {
    await sendRequest("DELETE", apiUrl(`notes/${id}`), undefined, strings.notesNeedToken);
    return (before) => before.filter((note) => note.id !== id);
  });
  const edit = (note: Note) => {
    setEdited(note);
    setText(note.text);
    box.current?.focus();
  };
  const show = (to: Parameters<typeof change>[0]) => {
    dialog.current?.close();
    change(to);
  };
  const subject = noteSubject(edited ?? { from: draft.from ?? null, until: draft.until ?? null, function: draft.fn ?? "" });
  return (
    <dialog ref={dialog} class="notes-dialog" aria-labelledby="notes-title" onClose={() => { noteDraft.value = null; }}>
      <h2 id="notes-title">{strings.notesOn(<bdi>{(draft.fn ?? service).slice(0, 200)}</bdi>)}</h2>
      {notes.length === 0 && <p class="quiet">{strings.noNotes}</p>}
      {notes.length > 0 && (
        <ul class="note-list" aria-label={strings.notes} tabIndex={0}>
          {notes.map((note) => <NoteItem key={note.id} note={note} show={show} edit={() => edit(note)} remove={() => remove(note)} hasSubject={!draft.fn} />)}
        </ul>
      )}
      <form onSubmit={save}>
        <label for="note-text">{edited ? strings.changeNote : strings.newNote}{" "}<bdi class="quiet">{subject}</bdi></label>
        <textarea id="note-text" ref={box} rows={3} required maxLength={MAX_CHARACTERS} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {!edited && namespaces.length > 1 && (
          <label>{strings.namespace}{" "}
            <select value={namespace} onChange={(event) => setChosen(event.currentTarget.value)}>
              {namespaces.map((one) => <option key={one} value={one}>{one === "" ? strings.noNamespace : one.slice(0, 100)}</option>)}
            </select>
          </label>
        )}
        {failure && <ErrorCard message={failure.message} hint={failure.hint} />}
        <p class="row">
          <button class="primary" aria-disabled={isSending || values.loading}>{edited ? strings.saveChange : strings.save}</button>
          {edited && <button type="button" onClick={() => { setEdited(null); setText(""); }}>{strings.discardChange}</button>}
          <span class="gap" />
          <button type="button" onClick={() => dialog.current?.close()}>{strings.close}</button>
        </p>
      </form>
    </dialog>
  );
}

/** One note, and what can be done with it. It is deleted in two presses, because nothing brings it back. */
function NoteItem({ note, show, edit, remove, hasSubject }: { note: Note; show: (to: Parameters<typeof change>[0]) => void; edit: () => void; remove: () => void; hasSubject: boolean }) {
  const [isSure, setSure] = useState(false);
  const { from, until, created, changed } = note;
  const when = (time: string) => formatAgo(toEpochSeconds(time), Date.now() / 1000);
  const subject = noteSubject(note);
  return (
    <li>
      <p class="note-text"><bdi>{note.text}</bdi></p>
      <p class="quiet">
        {hasSubject && <><bdi>{subject}</bdi> · </>}{note.namespace !== "" && <><bdi>{note.namespace}</bdi> · </>}<bdi>{note.author || strings.anonymous}</bdi> · <span title={formatWithZone(toEpochSeconds(created))}>{when(created)}</span>
        {changed !== created && <> · {strings.changedBy(<bdi>{note.changed_by || strings.anonymous}</bdi>, when(changed))}</>}
      </p>
      <p class="row">
        {from !== null && until !== null && from !== until && hasSubject && <button type="button" onClick={() => show({ from, until })}>{strings.showNotedRange}<span class="unseen">{" "}{subject}</span></button>}
        {note.function !== "" && hasSubject && <button type="button" onClick={() => show(sandwichPlace(note.function))}>{strings.showFunction}<span class="unseen">{" "}{subject}</span></button>}
        <button type="button" onClick={edit}>{strings.editNote}<span class="unseen">{" "}{note.text.slice(0, 40)}</span></button>
        <button type="button" onClick={() => (isSure ? remove() : setSure(true))} onBlur={() => setSure(false)}>{isSure ? strings.reallyDelete : strings.deleteNote}<span class="unseen">{" "}{note.text.slice(0, 40)}</span></button>
      </p>
    </li>
  );
}

const byStart = (a: Note, b: Note) => toEpochSeconds(a.from ?? a.created) - toEpochSeconds(b.from ?? b.created);
