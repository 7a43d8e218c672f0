"""`sidelight doctor`."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

from sidelight.settings import parse
from sidelight_collector.doctor.checker import examine
from sidelight_collector.doctor.doctor_report import as_json, as_text
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_collector.storage.backends.open_store import open_store

DESCRIPTION: Final = (
    "Check whether a store is whole, and say what its services cost. "
    "The exit code is 0 if nothing is wrong and 1 if something is."
)
_EVERY_SECONDS: Final = 0.1


class Progress:
    """One line on a terminal that is written over; nothing elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0.0

    def step(self, what: str) -> None:
        """Show what is being done, if it is time."""
        now = time.monotonic()
        if self._stream.isatty() and now - self._shown >= _EVERY_SECONDS:
            self._shown = now
            self._write(f"\r\x1b[K{what[:100]}")

    def end(self) -> None:
        """Remove the line."""
        if self._shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def run(argv: list[str]) -> int:
    """Check once; 0 if nothing is wrong, 1 if something is. Raises SidelightError if it cannot be known."""
    settings = parse(DoctorSettings, "doctor", DESCRIPTION, argv, None)
    store = open_store(
        settings.store,
        s3_endpoint=settings.s3_endpoint,
        timeout_seconds=settings.store_timeout_seconds,
        read_only=not (settings.repair or settings.probe),
    )
    progress = Progress(sys.stderr)
    try:
        report = examine(store, settings, time.time, progress.step)
    finally:
        progress.end()
    sys.stdout.write(as_json(report) if settings.json else as_text(report))
    sys.stdout.flush()
    return 0 if report.findings.healthy else 1
