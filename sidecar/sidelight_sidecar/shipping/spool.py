"""Windows on disk until the collector acknowledges them.

docs/sidecar.md describes what can be lost.

There is one file per window, `<ULID>.zst`: zstd with a checksum over the window's wire form, written to a
temporary file, synced and renamed. A window that was sent without a clear response is renamed to
`<ULID>.sent.zst`: the collector may have stored it, so it must keep its id and is never merged.

The folder never exceeds its size limit. Three quarters are for windows, an eighth is working room for
merges, and an eighth is for quarantined files (`refused/`, `corrupt/`). If a window does not fit, the
oldest windows that can be merged are merged; if none can, the oldest window is dropped.

A merge survives a crash at any point. It writes the merged window to a temporary file, writes a note with
the names of its sources, renames the merged window into place, deletes the sources, and deletes the note.
If there is a note at start, the sources are deleted if the merged window is in place; otherwise the merge
had changed nothing yet. A note can name only windows of this folder.

No other user can change the folder: files have mode 0600, folders 0700, and links are never followed.
"""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import zstandard

from sidelight_model.errors import Reason, SidelightError
from sidelight_model.window import Window, WindowLimits, decode_windows, is_window_id
from sidelight_sidecar.descriptors import reraise_if_out_of_descriptors
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.shipping import atomic_file
from sidelight_sidecar.shipping.atomic_file import compress_window, decompress_window
from sidelight_sidecar.shipping.merge import WindowSummary, can_merge, merge_windows, summarize_window
from sidelight_sidecar.shipping.quarantine import Quarantine

_MAX_MERGE_WINDOWS = 64
_MERGE_NOTE_BYTES = 1 << 13
_LIMITS = WindowLimits(max_windows=1, max_stacks=10**9, max_depth=1 << 20)


class SpoolUnwritable(SidelightError):
    """The spool's folder cannot be used."""

    reason = Reason.SPOOL_UNWRITABLE


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A window in the spool: its id, its file's size in bytes, whether it was sent."""

    id: str
    size: int
    was_sent: bool = False

    @property
    def name(self) -> str:
        return f"{self.id}.sent.zst" if self.was_sent else f"{self.id}.zst"


class Spool:
    """The spool of one sidecar.

    Every method may block on the disk, and may be called from any thread.
    """

    def __init__(
        self, folder: Path, max_bytes: int, metrics: SidecarMetrics, new_id: Callable[[int], str]
    ) -> None:
        """Open the spool in `folder`, with at most `max_bytes`.

        `new_id` makes an id with the time of a window's start (ns). Raises SpoolUnwritable.
        """
        self._folder = folder
        self._max_window_bytes = max_bytes * 3 // 4
        self._max_merge_bytes = max_bytes // 8 - _MERGE_NOTE_BYTES
        self._metrics = metrics
        self._new_id = new_id
        self._mutex = threading.RLock()
        self._entries: dict[str, SpoolEntry] = {}
        self._summaries: dict[str, WindowSummary] = {}
        self._bytes = 0
        self._quarantine = Quarantine(folder, max_bytes // 8)
        self._lock_file = self._open_directory()

    def close(self) -> None:
        self._lock_file.close()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        return self._bytes

    def put(self, window: Window) -> bool:
        """Store a window; return whether there was room.

        A window that does not fit is counted as lost. Raises OSError if the disk refuses it.
        """
        body = compress_window(window)
        with self._mutex:
            if len(body) > self._max_window_bytes:
                self._record_loss("too_large", window.total.wall)
                return False
            entry = SpoolEntry(window.id, len(body))
            try:
                self._recreate_if_removed()
                self._make_room(len(body))
                atomic_file.write_file(self._folder / entry.name, body)
            except OSError:
                self._record_loss("unwritable", window.total.wall)
                raise
            self._summaries[window.id] = summarize_window(window)
            self._add_entry(entry)
            return True

    @property
    def newest_id(self) -> str:
        """The id of the newest window, "" if the spool is empty."""
        with self._mutex:
            return max(self._entries, default="")

    def has_window_up_to(self, window_id: str) -> bool:
        """Return whether this window or an older one is still in the spool."""
        with self._mutex:
            return any(entry_id <= window_id for entry_id in self._entries)

    def list_oldest(self, count: int) -> list[SpoolEntry]:
        """Return the windows to send next."""
        with self._mutex:
            return [self._entries[key] for key in sorted(self._entries)[:count]]

    def read(self, entry: SpoolEntry) -> bytes | None:
        """Return the wire form of a window, or None if it cannot be read.

        An unreadable file is quarantined.
        """
        with self._mutex:
            current = self._entries.get(entry.id)
            return None if current is None else self._read_entry(current)

    def mark_sent(self, entries: Iterable[SpoolEntry], *, was_sent: bool) -> None:
        """Record durably whether the collector may have stored these windows."""
        with self._mutex:
            for entry in entries:
                current = self._entries.get(entry.id)
                if current is None or current.was_sent == was_sent:
                    continue
                marked = replace(current, was_sent=was_sent)
                try:
                    (self._folder / current.name).rename(self._folder / marked.name)
                except FileNotFoundError:
                    self._record_removed(current)
                else:
                    self._entries[entry.id] = marked

    def delete(self, ids: Iterable[str]) -> int:
        """Delete acknowledged windows; return how many of them were in the spool."""
        with self._mutex:
            entries = [self._entries[key] for key in ids if key in self._entries]
            for entry in entries:
                self._remove_entry(entry)
                (self._folder / entry.name).unlink(missing_ok=True)
            return len(entries)

    def quarantine_refused(self, entry: SpoolEntry, reason: str, message: str) -> None:
        """Move a window that the collector refused for good into `refused/`."""
        with self._mutex:
            current = self._entries.get(entry.id)
            if current is not None:
                self._remove_entry(current)
                note = json.dumps({"error": reason, "message": message}) + "\n"
                self._quarantine.add_refused(self._folder / current.name, f"{entry.id}.zst", note)

    def _open_directory(self) -> IO[bytes]:
        try:
            lock = atomic_file.lock_directory(self._folder)
            self._recover()
        except BlockingIOError as error:
            raise SpoolUnwritable(
                f"another sidecar uses the spool {self._folder}", hint="Give each its own --spool-dir."
            ) from error
        except atomic_file.UnsafeDirectory as error:
            raise SpoolUnwritable(
                f"the spool {self._folder} is not safe: {error}",
                hint="Give --spool-dir a directory of this user with mode 0700, below directories that only "
                "this user and root can change.",
            ) from error
        except OSError as error:
            raise SpoolUnwritable(
                f"the spool {self._folder} cannot be written: {error.strerror}",
                hint="Give --spool-dir a directory that this user may write, or mount a volume there.",
            ) from error
        return lock

    def _recreate_if_removed(self) -> None:
        """Start anew in an empty folder if somebody deleted it with all windows."""
        if self._folder.exists():
            return
        lock = atomic_file.lock_directory(self._folder)
        self._lock_file.close()
        self._lock_file = lock
        for entry in list(self._entries.values()):
            self._record_removed(entry)

    def _recover(self) -> None:
        for note in self._folder.glob("*.merge"):
            target = self._folder / f"{note.stem}.zst"
            if target.exists():
                for source in _read_merge_note(note):
                    (self._folder / source).unlink(missing_ok=True)
            note.unlink()
        for temporary in self._folder.glob("*.tmp"):
            temporary.unlink()
        for path in sorted(self._folder.glob("*.zst")):
            status = path.lstat()
            entry = _parse_file_name(path.name, status.st_size)
            if entry is not None and stat.S_ISREG(status.st_mode):
                self._add_entry(entry)
            else:
                self._quarantine_corrupt(path)
        self._make_room(0)

    def _make_room(self, size: int) -> None:
        while self._entries and self._bytes + size > self._max_window_bytes:
            group = self._find_mergeable()
            try:
                if group:
                    self._merge(group)
                    continue
            except OSError as error:
                # Nothing is dropped for want of a descriptor; later there is one.
                reraise_if_out_of_descriptors(error)
                # a merge needs disk space before it frees some; dropping a window needs none
            if self._entries:
                self._drop_window(self._entries[min(self._entries)])

    def _find_mergeable(self) -> list[SpoolEntry]:
        """Return two or more of the oldest windows that can be merged, or none."""
        groups: dict[object, list[SpoolEntry]] = {}
        for key in sorted(self._entries):
            entry = self._entries.get(key)
            summary = None if entry is None or entry.was_sent else self._summarize(entry)
            if entry is None or summary is None:
                continue
            group = groups.setdefault(summary.merge_key, [])
            size = sum(member.size for member in group) + entry.size
            if size > self._max_merge_bytes or not can_merge(
                [self._summaries[member.id] for member in group], summary
            ):
                if len(group) > 1:
                    return group
                groups[summary.merge_key] = [entry]
                continue
            group.append(entry)
            if len(group) == _MAX_MERGE_WINDOWS:
                return group
        return next((group for group in groups.values() if len(group) > 1), [])

    def _merge(self, group: Sequence[SpoolEntry]) -> None:
        windows = [window for entry in group if (window := self._decode_entry(entry)) is not None]
        if len(windows) < 2:
            return  # the other files were unreadable and are quarantined now; the caller tries again
        merged = merge_windows(windows, self._new_id)
        entry = SpoolEntry(merged.id, len(body := compress_window(merged)))
        sources = [self._entries[window.id] for window in windows]
        note = self._folder / f"{merged.id}.merge"
        temporary = atomic_file.write_temporary_file(self._folder / entry.name, body)
        try:
            atomic_file.write_file(note, json.dumps([source.name for source in sources]).encode())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        temporary.rename(self._folder / entry.name)
        atomic_file.sync_directory(self._folder)
        for source in sources:
            (self._folder / source.name).unlink()
            self._remove_entry(source)
        note.unlink()
        self._summaries[merged.id] = summarize_window(merged)
        self._add_entry(entry)
        self._metrics.spool_merged.inc(len(sources))

    def _drop_window(self, entry: SpoolEntry) -> None:
        summary = self._summarize(entry)
        if entry.id in self._entries:
            (self._folder / entry.name).unlink(missing_ok=True)
            self._remove_entry(entry)
            self._record_loss("full", summary.sample_count if summary else 0)

    def _record_removed(self, entry: SpoolEntry) -> None:
        """Count a window as lost whose file somebody deleted."""
        summary = self._summaries.get(entry.id)
        self._remove_entry(entry)
        self._record_loss("missing", summary.sample_count if summary else 0)

    def _summarize(self, entry: SpoolEntry) -> WindowSummary | None:
        if entry.id not in self._summaries:
            window = self._decode_entry(entry)
            if window is None:
                return None
            self._summaries[entry.id] = summarize_window(window)
        return self._summaries[entry.id]

    def _decode_entry(self, entry: SpoolEntry) -> Window | None:
        body = self._read_entry(entry)
        if body is None:
            return None
        try:
            (window,) = decode_windows(body, _LIMITS)
        except (SidelightError, ValueError):
            self._remove_entry(entry)
            self._quarantine_corrupt(self._folder / entry.name)
            return None
        return window

    def _read_entry(self, entry: SpoolEntry) -> bytes | None:
        path = self._folder / entry.name
        try:
            body = decompress_window(atomic_file.read_file(path, self._max_window_bytes))
            head = json.loads(body[1 : body.index(b"\n")])
            if head["id"] == entry.id:
                return body
        except FileNotFoundError:
            self._record_removed(entry)
            return None
        except OSError as error:
            reraise_if_out_of_descriptors(error)
        except (zstandard.ZstdError, ValueError, TypeError, KeyError):
            pass  # the file is unusable for any of these reasons
        self._remove_entry(entry)
        self._quarantine_corrupt(path)
        return None

    def _quarantine_corrupt(self, path: Path) -> None:
        self._metrics.spool_corrupt.inc()
        self._quarantine.add_corrupt(path)

    def _add_entry(self, entry: SpoolEntry) -> None:
        self._entries[entry.id] = entry
        self._bytes += entry.size
        self._update_metrics()

    def _remove_entry(self, entry: SpoolEntry) -> None:
        if self._entries.pop(entry.id, None) is not None:
            self._bytes -= entry.size
        self._summaries.pop(entry.id, None)
        self._update_metrics()

    def _update_metrics(self) -> None:
        self._metrics.spool_windows.set(len(self._entries))
        self._metrics.spool_bytes.set(self._bytes)

    def _record_loss(self, reason: str, samples: int) -> None:
        self._metrics.spool_dropped.labels(reason).inc()
        self._metrics.spool_dropped_samples.inc(samples)


def _parse_file_name(name: str, size: int = 0) -> SpoolEntry | None:
    """Return the entry of a window's file, or None for any other name."""
    window_id, _, rest = name.partition(".")
    is_window = is_window_id(window_id) and rest in ("zst", "sent.zst")
    return SpoolEntry(window_id, size, rest == "sent.zst") if is_window else None


def _read_merge_note(note: Path) -> list[str]:
    """Return the file names in a note.

    It is empty if one of them is no window of the spool.
    """
    try:
        names = json.loads(atomic_file.read_file(note, _MERGE_NOTE_BYTES))
    except OSError as error:
        reraise_if_out_of_descriptors(error)
        return []
    except (ValueError, RecursionError):
        return []
    if not isinstance(names, list):
        return []
    is_valid = all(isinstance(name, str) and _parse_file_name(name) is not None for name in names)
    return names if is_valid else []
