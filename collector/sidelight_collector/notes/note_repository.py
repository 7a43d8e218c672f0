"""Notes in the object store, shared by any number of collectors.

    v1/notes/SERVICE/NAMESPACE.json    the notes on a service in a namespace

SERVICE and NAMESPACE are digests of the two labels. A document is replaced only if it has not changed since
it was read. Retention leaves empty documents in place: to delete one could lose a note that another
collector adds in the same moment. All calls block.
"""

from __future__ import annotations

import re
import secrets
from base64 import b32encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from sidelight_collector.notes.note import NOTE_ID_PATTERN, Note, NoteRequest, digest_label
from sidelight_collector.storage.documents import DocumentCollection, parse_document
from sidelight_collector.storage.objects import ObjectDamaged, ObjectMissing, ObjectStore
from sidelight_model.errors import Reason, SidelightError

ROOT: Final = "v1/notes/"
FORMAT: Final = 1
CACHE_BYTES: Final = 8 << 20
_DAY_SECONDS: Final = 86_400
_KEY_PATTERN: Final = re.compile(rf"{ROOT}[a-z2-7]{{16}}/[a-z2-7]{{16}}\.json")

NoteDocument = tuple[Note, ...]


class NoteNotFound(SidelightError):
    """There is no note with this id, or it has expired."""

    reason = Reason.NOT_FOUND

    def __init__(self, note_id: str) -> None:
        super().__init__(
            f"there is no note {note_id[:64]!r}",
            hint="Somebody deleted it, or it is too old; GET /api/v1/notes lists the notes of a service.",
        )


class TooManyNotes(SidelightError):
    """The service has as many notes as it may have."""

    reason = Reason.TOO_MANY_NOTES


@dataclass(frozen=True, slots=True)
class NotePolicy:
    """Limits of notes: most of a service in a namespace, and their days."""

    max_per_service: int = 200
    retention_days: float = 400.0


class NoteRepository:
    """The notes in a store. Safe to use from many threads."""

    def __init__(self, store: ObjectStore, policy: NotePolicy) -> None:
        self._store = store
        self._policy = policy
        self._documents: DocumentCollection[NoteDocument] = DocumentCollection(
            store, encode_notes, decode_notes, name="notes", cache_bytes=CACHE_BYTES
        )

    def close(self) -> None:
        """Stop the reading threads."""
        self._documents.close()

    def list_notes(self, service: str, predicate: Callable[[Note], bool], now: float) -> list[Note]:
        """List the notes on a service that satisfy `predicate`, in order of their start."""
        entries = self._store.list(f"{ROOT}{digest_label(service)}/")
        listed = self._documents.load_listed(entry for entry in entries if _KEY_PATTERN.fullmatch(entry.key))
        notes = [
            note
            for document in listed
            for note in document
            if note.service == service and not self._is_expired(note, now) and predicate(note)
        ]
        return sorted(notes, key=lambda note: (note.start or note.created_at, note.created_at, note.id))

    def create(self, request: NoteRequest, namespace: str, author: str, now: float) -> Note:
        """Add a note, and return it. Raises TooManyNotes."""
        owner = f"{digest_label(request.service)}-{digest_label(namespace)}"
        note = Note(
            id=f"{owner}-{b32encode(secrets.token_bytes(5)).decode().lower()}",
            service=request.service,
            namespace=namespace,
            text=request.text,
            start=request.start,
            until=request.until,
            function=request.function,
            author=author,
            created_at=now,
            changed_by=author,
            changed_at=now,
        )

        def add(document: NoteDocument) -> NoteDocument:
            existing = tuple(other for other in document if not self._is_expired(other, now))
            limit = self._policy.max_per_service
            if len(existing) >= limit:
                raise TooManyNotes(
                    f"{request.service[:80]!r} has {len(existing)} notes, and a service may have {limit}",
                    hint="Delete notes that nobody needs, or raise the collector's --max-notes-per-service.",
                )
            return (*existing, note)

        key = _key_of(note.id)
        try:
            self._documents.update(key, add)
        except ObjectMissing:
            if self._documents.commit(key, add(()), None) is None:  # another collector was faster
                self._documents.update(key, add)
        return note

    def change(
        self, note_id: str, may_read: Callable[[Note], bool], text: str, user: str, now: float
    ) -> Note:
        """Replace the text of a note, and return the note.

        Raises NoteNotFound, also if `may_read` is false.
        """

        def edit(document: NoteDocument) -> NoteDocument:
            note = self._find(document, note_id, may_read, now)
            changed = replace(note, text=text, changed_by=user, changed_at=now)
            return tuple(changed if other is note else other for other in document)

        return self._find(self._update(note_id, edit), note_id, may_read, now)

    def delete(self, note_id: str, may_read: Callable[[Note], bool], now: float) -> None:
        """Delete a note. Raises NoteNotFound, also if `may_read` is false."""

        def remove(document: NoteDocument) -> NoteDocument:
            note = self._find(document, note_id, may_read, now)
            return tuple(other for other in document if other is not note)

        self._update(note_id, remove)

    def delete_expired(self, now: float, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Delete expired notes; return how many."""
        deleted = 0
        for entry in list(self._store.list(ROOT)):
            if should_stop():
                break
            if not _KEY_PATTERN.fullmatch(entry.key):
                continue
            documents = list(self._documents.load_listed([entry]))
            expired = sum(self._is_expired(note, now) for document in documents for note in document)
            if expired:
                with suppress(ObjectMissing, ObjectDamaged):
                    self._documents.update(entry.key, lambda document: self._keep_unexpired(document, now))
                deleted += expired
        return deleted

    def _keep_unexpired(self, document: NoteDocument, now: float) -> NoteDocument:
        return tuple(note for note in document if not self._is_expired(note, now))

    def _is_expired(self, note: Note, now: float) -> bool:
        return now - note.changed_at > self._policy.retention_days * _DAY_SECONDS

    def _find(
        self, document: NoteDocument, note_id: str, may_read: Callable[[Note], bool], now: float
    ) -> Note:
        for note in document:
            if note.id == note_id and may_read(note) and not self._is_expired(note, now):
                return note
        raise NoteNotFound(note_id)

    def _update(self, note_id: str, change: Callable[[NoteDocument], NoteDocument]) -> NoteDocument:
        if not NOTE_ID_PATTERN.fullmatch(note_id):
            raise NoteNotFound(note_id)
        try:
            return self._documents.update(_key_of(note_id), change)
        except ObjectMissing:
            raise NoteNotFound(note_id) from None


def is_note_key(key: str) -> bool:
    """Return whether an object has notes."""
    return bool(_KEY_PATTERN.fullmatch(key))


def encode_notes(document: NoteDocument) -> bytes:
    """Encode the notes on a service in a namespace for the store."""
    notes = [
        {
            "id": note.id,
            "service": note.service,
            "namespace": note.namespace,
            "text": note.text,
            "from": note.start,
            "until": note.until,
            "function": note.function,
            "author": note.author,
            "created": note.created_at,
            "changed_by": note.changed_by,
            "changed": note.changed_at,
        }
        for note in document
    ]
    return orjson.dumps({"format": FORMAT, "notes": notes}, option=orjson.OPT_SORT_KEYS)


def decode_notes(key: str, content: bytes) -> NoteDocument:
    """Decode a stored document. Raises ObjectDamaged."""
    document = parse_document(key, content, FORMAT)
    try:
        return tuple(map(_note_from_json, document["notes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _note_from_json(fields: dict[str, Any]) -> Note:
    start, until = (None if fields[name] is None else float(fields[name]) for name in ("from", "until"))
    return Note(
        id=str(fields["id"]),
        service=str(fields["service"]),
        namespace=str(fields["namespace"]),
        text=str(fields["text"]),
        start=start,
        until=until,
        function=str(fields["function"]),
        author=str(fields["author"]),
        created_at=float(fields["created"]),
        changed_by=str(fields["changed_by"]),
        changed_at=float(fields["changed"]),
    )


def _key_of(note_id: str) -> str:
    service, namespace, _ = note_id.split("-")
    return f"{ROOT}{service}/{namespace}.json"
