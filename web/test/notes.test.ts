import assert from "node:assert/strict";
import { test } from "node:test";
import type { Note } from "../src/api/answers.ts";
import { noteLine, noteLines, noteMarks, notesByName, noteSubject, notesIn, withNotes } from "../src/components/notes/noteText.ts";
import { setUtc } from "../src/lib/times.ts";
import { treeOf } from "../src/flamegraph/tree/tree.ts";

const MOMENT = "2026-11-21T09:30:00Z";
const AT = Date.parse(MOMENT) / 1000;

const note = (given: Partial<Note>): Note => ({
  id: "n", service: "shop", namespace: "", text: "Cache on", from: null, until: null, function: "", author: "", created: MOMENT, changed_by: "", changed: MOMENT, ...given,
});

test("a timeline marks the notes on its range, ends included, and none on functions alone", () => {
  const notes = [note({ from: MOMENT, until: MOMENT, author: "alice" }), note({ function: "f (a.py)" })];
  const marksOf = (from: number, until: number) => noteMarks(notes, { from, until });
  assert.deepEqual(marksOf(AT - 60, AT), [{ from: AT, until: AT, text: "Cache on (alice)" }]);
  assert.equal(marksOf(AT, AT + 60).length, 1);
  assert.deepEqual(marksOf(AT + 1, AT + 60), []);
  assert.deepEqual(notesIn(notes, [{ from: 0, until: 1 }, { from: AT, until: AT }]), notes);
  assert.deepEqual(notesIn(notes, [{ from: 0, until: 1 }]), [notes[1]]);
});

test("a line of a note is short, on one line, and cut between characters", () => {
  assert.equal(noteLine(note({ text: "one\n two" })), "one two");
  const long = noteLine(note({ text: "😀".repeat(1000), author: "bob" }));
  assert.equal(long, `${"😀".repeat(159)}… (bob)`);
});

test("a note belongs to each frame of its function, whatever its line", () => {
  const wire = { names: ["all", "f (a.py:1)", "f (a.py:9)", "g (a.py:1)"], name: [0, 1, 2, 3], level: [0, 1, 1, 1], sides: [{ self: [0, 1, 1, 1], samples: [0, 1, 1, 1] }] };
  const tree = treeOf(wire as never);
  const notes = [note({ function: "f (a.py)" }), note({ id: "2", function: "f (a.py)", text: "b" }), note({ from: MOMENT, until: MOMENT })];
  assert.deepEqual([...notesByName(tree, notes).keys()], [1, 2]);
  assert.deepEqual(noteLines(tree, notesByName(tree, notes)), ["◥ f (a.py): Cache on", "◥ f (a.py): b"]);
  assert.deepEqual([...notesByName({ ...tree, by: "package" }, notes)], []);
  const rows = withNotes({ title: "f (a.py:1)", rows: [["total", "1"]] }, notesByName(tree, notes).get(1)).rows;
  assert.deepEqual(rows, [["total", "1"], ["note 1", "Cache on"], ["note 2", "b"]]);
  assert.deepEqual(withNotes({ title: "g", rows: [] }, [notes[0]]).rows, [["note", "Cache on"]]);
});

test("what a note is about names its function, its moment or its range", () => {
  setUtc(true);
  assert.equal(noteSubject(note({ function: "f (a.py)" })), "f (a.py)");
  assert.equal(noteSubject(note({ from: MOMENT, until: MOMENT })), "2026-11-21 09:30:00 UTC");
  assert.equal(noteSubject(note({ from: MOMENT, until: "2026-11-21T09:45:00Z", function: "f" })), "f · 2026-11-21 09:30:00 – 09:45:00 UTC");
  setUtc(false);
});
