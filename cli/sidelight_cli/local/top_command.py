"""`sidelight top`: a live table of the functions that a process runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidelight.settings import parse_settings
from sidelight.terminal_output import write_standard_output
from sidelight_cli.local import top_table
from sidelight_cli.local.launch import LaunchedProgram
from sidelight_cli.local.local_recording import LocalRecording, RootFrames, format_process_name
from sidelight_cli.local.sampling import sampling_engine as native
from sidelight_cli.local.sampling.process_set import ProcessSet, RecordPlan
from sidelight_cli.local.sampling.sampling_engine import SamplingEngine
from sidelight_cli.local.sampling.target import (
    STOP_TIMEOUT_SECONDS,
    attach,
    require_one_target,
    split_command,
)
from sidelight_cli.local.screen import Style, StyledLine, TerminalScreen
from sidelight_cli.local.settings import TOP_DESCRIPTION, TopSettings
from sidelight_cli.local.signals import SignalWaiter, find_end_signal, stop_self
from sidelight_cli.local.top_table import FunctionCounts, TableSnapshot, TableView
from sidelight_model.counts import ProfileType
from sidelight_model.terminal_width import truncate_to_width
from sidelight_sidecar.discovery.procfs import ProcFs

_REFRESHES_PER_TABLE = 5
"""Number of refreshes that a table covers: one second has too few samples for stable shares."""
_PLAIN_COLUMNS = 120
_CHILD_SCAN_SECONDS = 0.2


def run(argv: Sequence[str]) -> int:
    """Run the command; returns 0 when the target has ended or the user quits.

    Raises SidelightError.
    """
    options, command = split_command(argv)
    settings = parse_settings(TopSettings, "top", TOP_DESCRIPTION, options, None)
    require_one_target(settings.pid, command, "top")
    engine = native.create_engine()
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGWINCH)
    with SignalWaiter(*handled) as signals:
        program = LaunchedProgram.start(command, discard_output=True) if command else None
        try:
            top = TopCommand(engine, settings, signals, program)
            if settings.once or not _can_draw():
                return top.print_tables()
            return top.run_interactive()
        finally:
            engine.close()
            if program is not None:
                program.terminate(STOP_TIMEOUT_SECONDS)


def _can_draw() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    has_terminal = sys.stdout is not None and sys.stdout.isatty()
    return has_terminal and os.environ.get("TERM", "") not in ("", "dumb")


@dataclass(frozen=True, slots=True)
class _Interval:
    """The samples between two refreshes, or of several such intervals."""

    recording: LocalRecording
    seconds: float


class TopCommand:
    """Samples a target and shows tables of the recent samples or of all."""

    def __init__(
        self,
        engine: SamplingEngine,
        settings: TopSettings,
        signals: SignalWaiter,
        program: LaunchedProgram | None,
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._view = TableView(ProfileType(settings.type), settings.sort, settings.lines)
        plan = RecordPlan(
            settings.rate,
            mode=settings.mode,
            max_depth=settings.max_depth,
            include_children=settings.subprocesses,
        )
        self._pid = program.pid if program else settings.pid or 0
        self._process_set = ProcessSet(engine, ProcFs(), plan, self._pid)
        attach(self._process_set, program, signals, lambda _: None)
        self._recent_intervals: deque[_Interval] = deque(maxlen=_REFRESHES_PER_TABLE)
        self._since_reset = self._merge_intervals([])
        self._started_at = self._refreshed_at = time.monotonic()
        self._snapshots: dict[bool, TableSnapshot] = {}  # keyed by `since_start`
        self._sorted_rows: tuple[TableView, TableSnapshot, list[FunctionCounts]] | None = None

    def print_tables(self) -> int:
        """Print tables until the target ends, the time is up or an end signal arrives."""
        while True:
            arrived, _ = self._signals.wait(self._compute_wait())
            if signal.SIGTSTP in arrived:
                self._stop_self()
            is_last = find_end_signal(arrived) is not None or self._is_time_over()
            if self._refresh(force=is_last):
                is_last = is_last or self._settings.once
                if not self._print_table():
                    return 0
            if is_last or self._process_set.has_ended:
                self._report_end()
                return 0

    def run_interactive(self) -> int:
        """Draw on the terminal until q, Ctrl-C, the time limit or the target's end.

        When the target has ended, the last table is printed so that it stays visible.
        """
        with TerminalScreen() as screen:
            while not self._process_set.has_ended:
                screen.draw(self._render_page(*screen.get_size()))
                arrived, typed = self._signals.wait(self._compute_wait(), *screen.input_files)
                if find_end_signal(arrived) is not None or self._is_time_over():
                    return 0
                if signal.SIGTSTP in arrived:
                    screen.restore()
                    self._stop_self()
                    screen.enter_page()
                keys = screen.read_keys() if typed else ""
                if "q" in keys or "Q" in keys:
                    return 0
                for key in keys:
                    self._handle_key(key)
                self._refresh()
        self._print_table()
        self._report_end()
        return 0

    def _handle_key(self, key: str) -> None:
        if key == "r":
            self._recent_intervals.clear()
            self._since_reset = self._merge_intervals([])
            self._snapshots = {}
        else:
            self._view = self._view.handle_key(key)

    def _compute_wait(self) -> float:
        """Return the maximum time to wait for signals and keys, in seconds."""
        remaining = self._refreshed_at + self._settings.refresh_seconds - time.monotonic()
        return max(0.0, min(remaining, _CHILD_SCAN_SECONDS) if self._settings.subprocesses else remaining)

    def _is_time_over(self) -> bool:
        limit = self._settings.seconds
        return limit > 0 and time.monotonic() - self._started_at >= limit

    def _refresh(self, *, force: bool = False) -> bool:
        """Take the new samples if a refresh is due or forced; returns whether it did."""
        self._process_set.attach_new()
        seconds = time.monotonic() - self._refreshed_at
        if seconds < self._settings.refresh_seconds and not force:
            return False
        self._refreshed_at += seconds
        interval = _Interval(self._create_recording(), seconds)
        for batch in self._process_set.take():
            interval.recording.add(batch)
        self._recent_intervals.append(interval)
        self._since_reset.recording.merge(interval.recording)
        self._since_reset = _Interval(self._since_reset.recording, self._since_reset.seconds + seconds)
        if not self._view.is_paused or not self._snapshots:
            self._snapshots = {
                False: self._build_snapshot(self._merge_intervals(self._recent_intervals)),
                True: self._build_snapshot(self._since_reset),
            }
        return True

    def _stop_self(self) -> None:
        """Stop this process on Ctrl-Z, with sampling paused.

        A sampler that stops in the middle of a sample would keep its target stopped.
        """
        self._process_set.pause()
        since = time.monotonic()
        stop_self()
        stopped_seconds = time.monotonic() - since
        self._refreshed_at += stopped_seconds
        self._started_at += stopped_seconds
        self._process_set.resume()

    def _create_recording(self) -> LocalRecording:
        return LocalRecording(self._settings.rate, RootFrames())

    def _merge_intervals(self, intervals: Iterable[_Interval]) -> _Interval:
        total, seconds = self._create_recording(), 0.0
        for interval in intervals:
            total.merge(interval.recording)
            seconds += interval.seconds
        return _Interval(total, seconds)

    def _build_snapshot(self, interval: _Interval) -> TableSnapshot:
        session = self._process_set.last_session
        return TableSnapshot(
            counts=dict(interval.recording.counts),
            quality=interval.recording.compute_quality(),
            elapsed_seconds=interval.seconds,
            name=self._format_target(),
            mode=session.mode if session else "",
            reader_text=f"reader {session.reader}, Python {session.python}" if session else "",
            target_hz=self._settings.rate,
            process_count=interval.recording.process_count,
            running_seconds=time.monotonic() - self._started_at,
        )

    def _sort_rows(self, snapshot: TableSnapshot) -> list[FunctionCounts]:
        """Return the sorted rows, cached until the snapshot or the view changes."""
        if self._sorted_rows is None or self._sorted_rows[:2] != (self._view, snapshot):
            rows = top_table.sort_rows(
                top_table.build_rows(snapshot.counts, lines=self._view.by_line), self._view
            )
            self._sorted_rows = (self._view, snapshot, rows)
        return self._sorted_rows[2]

    def _render_page(self, columns: int, height: int) -> list[StyledLine]:
        snapshot = self._snapshots.get(self._view.since_start)
        if snapshot is None:
            return [(truncate_to_width(f"{self._format_target()} · sampling", columns), Style.BOLD)]
        first, *others = top_table.format_header(snapshot, self._view, columns)
        rows = self._sort_rows(snapshot)[: max(0, height - len(others) - 3)]
        lines = [(first, Style.BOLD), *((line, Style.PLAIN) for line in others)]
        lines.append((top_table.format_heading(self._view, columns), Style.REVERSED))
        lines += [(line, Style.PLAIN) for line in top_table.format_body(rows, snapshot, self._view, columns)]
        lines += [("", Style.PLAIN)] * (height - 1 - len(lines))
        return [*lines[: height - 1], (truncate_to_width(top_table.KEY_HELP, columns), Style.BOLD)]

    def _print_table(self) -> bool:
        """Print the table on standard output; returns False if its reader is gone."""
        snapshot = self._snapshots.get(self._view.since_start)
        if snapshot is None:
            return True
        rows = self._sort_rows(snapshot)[: self._settings.rows]
        lines = [
            *top_table.format_header(snapshot, self._view, _PLAIN_COLUMNS),
            top_table.format_heading(self._view, _PLAIN_COLUMNS),
        ]
        lines += top_table.format_body(rows, snapshot, self._view, _PLAIN_COLUMNS)
        text = "\n".join(line.rstrip() for line in lines)
        return write_standard_output(f"{text}\n\n")

    def _report_end(self) -> None:
        if self._process_set.has_ended:
            for line in self._process_set.end_reasons or [f"{self._format_target()} has ended"]:
                sys.stderr.write(f"{line}\n")

    def _format_target(self) -> str:
        root = self._process_set.root
        return format_process_name(root) if root else f"process {self._pid}"
