"""What the workers of one collector did, in a journal of each that all of them read.

A line says what came with one segment, and is in the file before the windows are answered: whoever has the
answer finds it told, whichever worker is asked. A worker that comes in the place of one that died goes on
with its journal. A line that was cut off with its writer counts for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from sidelight_collector.ingest.stats import IngestStats, Sender, fill_namespace

MAX_JOURNAL_BYTES: Final = 1 << 20
"""What a journal may grow by before it is written anew in short."""
_SUFFIX: Final = ".activity"
_log = structlog.get_logger()

LastSeenBySender = Mapping[Sender, int]


class SharedIngestStats(IngestStats):
    """The activity of one process of several, each with a name of its own and one directory for all."""

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
        line = _encode_line(len(senders), now_ns, dict.fromkeys(senders, now_ns))
        try:
            with self._path.open("ab", buffering=0) as file:
                file.write(line)
            self._remaining_bytes -= len(line)
            if self._remaining_bytes < 0:
                self._compact_journal()
        except OSError as error:
            _log.warning("windows not counted in the status", path=str(self._path), error=str(error))

    def aggregate_processes(self) -> IngestStats:
        together = IngestStats()
        for path in self._directory.glob(f"*{_SUFFIX}"):
            together.merge(*_read_journal(path))
        return together

    def _compact_journal(self) -> None:
        senders: dict[Sender, int] = {
            (seen.pod, seen.service, seen.namespace): seen.last_seen_ns for seen in self.list_sidecars()
        }
        beside = self._path.with_suffix(".new")
        beside.write_bytes(_encode_line(self.windows_acknowledged, self.last_ingest_ns, senders))
        beside.replace(self._path)
        self._remaining_bytes = self._max_bytes


def _encode_line(windows: int, last_ns: int | None, senders: LastSeenBySender) -> bytes:
    seen = [[*sender, at] for sender, at in senders.items()]
    return json.dumps([windows, last_ns, seen], separators=(",", ":")).encode() + b"\n"


def _read_journal(path: Path) -> tuple[int, int | None, LastSeenBySender]:
    """What the lines of a journal tell together."""
    total, latest_ns, senders = 0, 0, dict[Sender, int]()
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # its writer died, or is about to write the rest
        windows, last_ns, seen = json.loads(line)
        total += windows
        latest_ns = max(latest_ns, last_ns or 0)
        for *who, at in seen:
            sender = fill_namespace(tuple(who))
            senders[sender] = max(at, senders.get(sender, 0))
    return total, latest_ns or None, senders
