"""Ingest statistics of several worker processes, shared through journal files.

Each worker appends to its own journal, and all workers read all of them. A line describes one segment. It
is written before the windows are acknowledged, so that every worker then reports them. A worker that
replaces a dead one continues its journal. An incomplete line, which a dying writer leaves, is ignored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from sidelight.file_output import replace_file
from sidelight_collector.ingest.stats import IngestStats, Sender, SenderActivity, fill_namespace

MAX_JOURNAL_BYTES: Final = 1 << 20
"""Growth of a journal after which it is compacted to one line."""
_SUFFIX: Final = ".activity"
_log = structlog.get_logger()

ActivityBySender = Mapping[Sender, SenderActivity]


class SharedIngestStats(IngestStats):
    """Statistics of one of several processes that share a directory.

    `process` is the unique name of this process.
    """

    def __init__(self, directory: Path, process: str, max_bytes: int = MAX_JOURNAL_BYTES) -> None:
        super().__init__()
        self._directory = directory
        self._path = directory / f"{process}{_SUFFIX}"
        self._max_bytes = max_bytes
        with suppress(FileNotFoundError):
            self.merge(*_read_journal(self._path))
        self._compact_journal()

    def record_acknowledged(self, senders: Iterable[Sender], now_ns: int) -> None:
        senders = list(senders)
        super().record_acknowledged(senders, now_ns)
        activity = {sender: SenderActivity(now_ns, windows) for sender, windows in Counter(senders).items()}
        line = _encode_line(len(senders), now_ns, activity)
        try:
            with self._path.open("ab", buffering=0) as file:
                file.write(line)
            self._remaining_bytes -= len(line)
            if self._remaining_bytes < 0:
                self._compact_journal()
        except OSError as error:
            _log.warning("windows not counted in the status", path=str(self._path), error=str(error))

    def aggregate_processes(self) -> IngestStats:
        merged = IngestStats()
        for path in self._directory.glob(f"*{_SUFFIX}"):
            merged.merge(*_read_journal(path))
        return merged

    def _compact_journal(self) -> None:
        senders: dict[Sender, SenderActivity] = {
            (sidecar.pod, sidecar.service, sidecar.namespace): SenderActivity(
                sidecar.last_seen_ns, sidecar.windows
            )
            for sidecar in self.list_sidecars()
        }
        replace_file(self._path, _encode_line(self.windows_acknowledged, self.last_ingest_ns, senders))
        self._remaining_bytes = self._max_bytes


def _encode_line(windows: int, last_ns: int | None, senders: ActivityBySender) -> bytes:
    rows = [[*sender, one.last_seen_ns, one.windows] for sender, one in senders.items()]
    return json.dumps([windows, last_ns, rows], separators=(",", ":")).encode() + b"\n"


def _read_journal(path: Path) -> tuple[int, int | None, ActivityBySender]:
    """Merge the lines of a journal."""
    total, latest_ns, senders = 0, 0, dict[Sender, SenderActivity]()
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # the writer died, or has not written the rest yet
        windows, last_ns, rows = json.loads(line)
        total += windows
        latest_ns = max(latest_ns, last_ns or 0)
        for *names, at, sent in rows:
            sender = fill_namespace(tuple(names))
            senders[sender] = SenderActivity(at, sent) + senders.get(sender, SenderActivity())
    return total, latest_ns or None, senders
