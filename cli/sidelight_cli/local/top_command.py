"""`sidelight top`: a table of what a process is doing, drawn anew every second."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sidelight.settings import parse
from sidelight_cli.local import top_table
from sidelight_cli.local.launch import Program
from sidelight_cli.local.local_recording import Recording, Roots, process_name
from sidelight_cli.local.sampling import sampling_engine as native
from sidelight_cli.local.sampling.process_set import Plan, Watch
from sidelight_cli.local.sampling.sampling_engine import Engine
from sidelight_cli.local.sampling.target import END_SECONDS, begin, one_of_both, split
from sidelight_cli.local.screen import Line, Screen, Style
from sidelight_cli.local.settings import TOP, TopSettings
from sidelight_cli.local.signals import Signals, ending, stand_still
from sidelight_cli.local.top_table import Row, Shown, View
from sidelight_model.counts import ProfileType
from sidelight_model.terminal_width import cut
from sidelight_sidecar.discovery.procfs import ProcFs

_WINDOW = 5
"""Tables are of this many refreshes: one second has too few samples to compare its shares."""
_PLAIN_COLUMNS = 120
_FOLLOW_SECONDS = 0.2


def run(argv: Sequence[str]) -> int:
    """0 when the target has ended or somebody asked to quit; raises SidelightError."""
    options, command = split(argv)
    settings = parse(TopSettings, "top", TOP, options, None)
    one_of_both(settings.pid, command, "top")
    engine = native.engine()
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGWINCH)
    with Signals(*watched) as signals:
        program = Program.start(command, quiet=True) if command else None
        try:
            top = Top(engine, settings, signals, program)
            if settings.once or not _can_draw():
                return top.print_tables()
            return top.show()
        finally:
            engine.close()
            if program is not None:
                program.end(END_SECONDS)


def _can_draw() -> bool:
    """Whether standard output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@dataclass(frozen=True, slots=True)
class _Interval:
    """What was counted between two refreshes, or over several."""

    recording: Recording
    seconds: float


class Top:
    """Samples a target and keeps what the tables are made of."""

    def __init__(
        self, engine: Engine, settings: TopSettings, signals: Signals, program: Program | None
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._view = View(ProfileType(settings.type), settings.sort, settings.lines)
        plan = Plan(
            settings.rate, mode=settings.mode, max_depth=settings.max_depth, follow=settings.subprocesses
        )
        self._pid = program.pid if program else settings.pid or 0
        self._watch = Watch(engine, ProcFs(), plan, self._pid)
        begin(self._watch, program, signals)
        self._recent: deque[_Interval] = deque(maxlen=_WINDOW)
        self._all = self._sum([])
        self._begin = self._since = time.monotonic()
        self._shown: dict[bool, Shown] = {}  # by whether it is since the start
        self._rows: tuple[View, Shown, list[Row]] | None = None

    def print_tables(self) -> int:
        """One table after another, as text, until the target ends, the time is up or a signal comes."""
        while True:
            arrived, _ = self._signals.wait(self._turn())
            if signal.SIGTSTP in arrived:
                self._stand_still()
            last = ending(arrived) is not None or self._time_is_up()
            if self._tick(now=last):
                last = last or self._settings.once
                if not self._print():
                    return 0
            if last or self._watch.over:
                self._say_if_ended()
                return 0

    def show(self) -> int:
        """Draw on the terminal until q, Ctrl-C or the target's end; then the last table stays to be read."""
        with Screen() as screen:
            while not self._watch.over:
                screen.draw(self._page(*screen.size()))
                arrived, typed = self._signals.wait(self._turn(), *screen.inputs)
                if ending(arrived) is not None or self._time_is_up():
                    return 0
                if signal.SIGTSTP in arrived:
                    screen.give_back()
                    self._stand_still()
                    screen.take_over()
                keys = screen.keys() if typed else ""
                if "q" in keys or "Q" in keys:
                    return 0
                for key in keys:
                    self._press(key)
                self._tick()
        self._print()
        self._say_if_ended()
        return 0

    def _press(self, key: str) -> None:
        if key == "r":
            self._recent.clear()
            self._all = self._sum([])
            self._shown = {}
        else:
            self._view = self._view.after(key)

    def _turn(self) -> float:
        """How long to wait at most for signals and keys."""
        left = self._since + self._settings.refresh_seconds - time.monotonic()
        return max(0.0, min(left, _FOLLOW_SECONDS) if self._settings.subprocesses else left)

    def _time_is_up(self) -> bool:
        limit = self._settings.seconds
        return limit > 0 and time.monotonic() - self._begin >= limit

    def _tick(self, *, now: bool = False) -> bool:
        """Take what was sampled when a refresh is due (or now, or when all is over); whether it was."""
        self._watch.look()
        seconds = time.monotonic() - self._since
        if seconds < self._settings.refresh_seconds and not now:
            return False
        self._since += seconds
        taken = _Interval(self._empty(), seconds)
        for one in self._watch.take():
            taken.recording.add(one)
        self._recent.append(taken)
        self._all.recording.absorb(taken.recording)
        self._all = _Interval(self._all.recording, self._all.seconds + seconds)
        if not self._view.held or not self._shown:
            self._shown = {False: self._seen(self._sum(self._recent)), True: self._seen(self._all)}
        return True

    def _stand_still(self) -> None:
        """Ctrl-Z: a sampler that stops in the middle of a sample would hold its target."""
        self._watch.pause()
        since = time.monotonic()
        stand_still()
        still = time.monotonic() - since
        self._since += still
        self._begin += still
        self._watch.resume()

    def _empty(self) -> Recording:
        return Recording(self._settings.rate, Roots())

    def _sum(self, intervals: Iterable[_Interval]) -> _Interval:
        total, seconds = self._empty(), 0.0
        for interval in intervals:
            total.absorb(interval.recording)
            seconds += interval.seconds
        return _Interval(total, seconds)

    def _seen(self, interval: _Interval) -> Shown:
        session = self._watch.last
        return Shown(
            counts=dict(interval.recording.counts),
            ledger=interval.recording.ledger(),
            elapsed=interval.seconds,
            name=self._name(),
            mode=session.mode if session else "",
            how=f"reader {session.reader}, Python {session.python}" if session else "",
            asked_hz=self._settings.rate,
            processes=interval.recording.processes,
            running=time.monotonic() - self._begin,
        )

    def _arranged(self, shown: Shown) -> list[Row]:
        """The rows of a table; they are made anew only where the table or the view is another."""
        if self._rows is None or self._rows[:2] != (self._view, shown):
            rows = top_table.arranged(top_table.rows(shown.counts, lines=self._view.lines), self._view)
            self._rows = (self._view, shown, rows)
        return self._rows[2]

    def _page(self, columns: int, height: int) -> list[Line]:
        shown = self._shown.get(self._view.since_start)
        if shown is None:
            return [(cut(f"{self._name()} · sampling", columns), Style.STRONG)]
        first, *others = top_table.header(shown, self._view, columns)
        rows = self._arranged(shown)[: max(0, height - len(others) - 3)]
        lines = [(first, Style.STRONG), *((line, Style.PLAIN) for line in others)]
        lines.append((top_table.heading(self._view, columns), Style.REVERSED))
        lines += [(line, Style.PLAIN) for line in top_table.body(rows, shown, self._view, columns)]
        lines += [("", Style.PLAIN)] * (height - 1 - len(lines))
        return [*lines[: height - 1], (cut(top_table.HELP, columns), Style.STRONG)]

    def _print(self) -> bool:
        """The table as text on standard output; False when nobody reads it any more."""
        shown = self._shown.get(self._view.since_start)
        if shown is None:
            return True
        rows = self._arranged(shown)[: self._settings.rows]
        lines = [
            *top_table.header(shown, self._view, _PLAIN_COLUMNS),
            top_table.heading(self._view, _PLAIN_COLUMNS),
        ]
        lines += top_table.body(rows, shown, self._view, _PLAIN_COLUMNS)
        text = "\n".join(line.rstrip() for line in lines)
        try:
            sys.stdout.buffer.write(f"{text}\n\n".encode(sys.stdout.encoding or "utf-8", "replace"))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Nothing must be flushed at exit into what takes no more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return False
        return True

    def _say_if_ended(self) -> None:
        if self._watch.over:
            for line in self._watch.reasons or [f"{self._name()} has ended"]:
                sys.stderr.write(f"{line}\n")

    def _name(self) -> str:
        root = self._watch.root
        return process_name(root) if root else f"process {self._pid}"
