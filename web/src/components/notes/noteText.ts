import type { Note } from "../../api/answers.ts";
import type { Span } from "../../charts/timelineLayout.ts";
import type { Description } from "../../flamegraph/analysis/frameDescription.ts";
import type { Tree } from "../../flamegraph/tree/tree.ts";
import { formatWithZone, formatRange, toEpochSeconds } from "../../lib/times.ts";
import { functionText } from "../../viewmodels/frameActions.ts";
import * as strings from "../../strings/profileStrings.tsx";

/** Longer texts are whole in the list of notes alone. */
const MAX_SHORT_CHARACTERS = 160;
const MAX_NOTE_LINES = 5;

/** A note on a range, as a timeline marks it. */
export interface NoteMark extends Span {
  readonly text: string;
}

/** The text of a note in one line, with its author. */
export function noteLine({ text, author }: Note): string {
  const letters = [...text.replace(/\s+/g, " ")];
  const short = letters.length > MAX_SHORT_CHARACTERS ? `${letters.slice(0, MAX_SHORT_CHARACTERS - 1).join("")}…` : letters.join("");
  return author === "" ? short : `${short} (${author.slice(0, 80)})`;
}

/** The time that a note marks; null for one on a function alone. */
export const spanOf = ({ from, until }: Note): Span | null => (from === null || until === null ? null : { from: toEpochSeconds(from), until: toEpochSeconds(until) });

/** Whether two spans have a moment in common, their ends included. */
export const overlaps = (one: Span, other: Span): boolean => one.from <= other.until && one.until >= other.from;

/** The marks of the notes on a range that lie in a span. */
export function noteMarks(notes: readonly Note[], visible: Span): NoteMark[] {
  return notes.flatMap((note) => {
    const span = spanOf(note);
    return span && overlaps(span, visible) ? [{ ...span, text: noteLine(note) }] : [];
  });
}

/** The notes that mark one of these spans, and those on functions, which always do. */
export const notesIn = (notes: readonly Note[], spans: readonly Span[]): Note[] =>
  notes.filter((note) => {
    const span = spanOf(note);
    return !span || spans.some((one) => overlaps(span, one));
  });

/** The notes on functions of a tree, by the number of the function's name. */
export function notesByName(tree: Tree, notes: readonly Note[]): ReadonlyMap<number, readonly Note[]> {
  const byFunction = new Map<string, Note[]>();
  for (const note of notes) if (note.function !== "") byFunction.set(note.function, [...(byFunction.get(note.function) ?? []), note]);
  const found = new Map<number, readonly Note[]>();
  if (byFunction.size === 0 || tree.by) return found;
  for (let name = 0; name < tree.names.length; name++) {
    const those = byFunction.get(functionText(tree, name));
    if (those) found.set(name, those);
  }
  return found;
}

/** The notes on functions of a picture, a line for each of the first five: pixels show no text under the pointer. */
export function noteLines(tree: Tree, noted: ReadonlyMap<number, readonly Note[]>): string[] {
  const lines = new Set([...noted].flatMap(([name, notes]) => notes.map((note) => `◥ ${functionText(tree, name).slice(0, 200)}: ${noteLine(note)}`)));
  return [...lines].slice(0, MAX_NOTE_LINES);
}

/** A frame in words, with the notes on its function. */
export function withNotes({ title, rows }: Description, notes: readonly Note[] = []): Description {
  return { title, rows: [...rows, ...notes.map((note, at) => [strings.noteRow(notes.length > 1 ? at + 1 : null), noteLine(note)] as const)] };
}

/** What a note is about: a function, a time range, a moment, or more of these. */
export function noteSubject(note: Pick<Note, "from" | "until" | "function">): string {
  const { from, until } = note;
  const time = from === null || until === null ? "" : from === until ? formatWithZone(toEpochSeconds(from)) : formatRange({ from, until });
  return [note.function.slice(0, 200), time].filter((part) => part !== "").join(" · ");
}
