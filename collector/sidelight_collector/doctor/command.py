"""The command `sidelight doctor`."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

from sidelight.settings import parse_settings
from sidelight.terminal_output import CLEAR_LINE, write_standard_output
from sidelight_collector.doctor.settings import DoctorSettings
from sidelight_model.terminal_width import escape_unprintable

DESCRIPTION: Final = (
    "Check whether a store is whole, and say what its services cost. "
    "The exit code is 0 if nothing is wrong and 1 if something is."
)
_REFRESH_SECONDS: Final = 0.1


class ProgressLine:
    """A progress line that is overwritten on a terminal; elsewhere it shows nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown_at = 0.0

    def show(self, what: str) -> None:
        """Show the current activity, at most once per refresh interval."""
        now = time.monotonic()
        if self._stream.isatty() and now - self._shown_at >= _REFRESH_SECONDS:
            self._shown_at = now
            self._stream.write(CLEAR_LINE)
            self._write(escape_unprintable(what[:100]))

    def clear(self) -> None:
        """Remove the line."""
        if self._shown_at:
            self._write(CLEAR_LINE)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def run(argv: list[str]) -> int:
    """Check the store once and print a report.

    Returns the exit code: 0 without problems, 1 with errors or warnings. Raises SidelightError if the store
    cannot be checked.
    """
    settings = parse_settings(DoctorSettings, "doctor", DESCRIPTION, argv, None)
    # Imported here: --help and wrong settings need no Arrow.
    from sidelight_collector.doctor.checker import check_store
    from sidelight_collector.doctor.doctor_report import render_json, render_text
    from sidelight_collector.storage.backends.open_store import open_store

    store = open_store(
        settings.store,
        s3_endpoint=settings.s3_endpoint,
        timeout_seconds=settings.store_timeout_seconds,
        read_only=not (settings.repair or settings.probe),
    )
    progress = ProgressLine(sys.stderr)
    try:
        report = check_store(store, settings, time.time, progress.show)
    finally:
        progress.clear()
    write_standard_output(render_json(report).encode() if settings.json else render_text(report))
    return 0 if report.findings.is_healthy else 1
