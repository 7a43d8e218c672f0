"""`sidelight record`: sample one process for a while and write what was seen."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

from sidelight.settings import parse
from sidelight_cli.local import output, record_report
from sidelight_cli.local.formats import Shape, document
from sidelight_cli.local.launch import Program
from sidelight_cli.local.local_recording import Recording, Roots, process_name
from sidelight_cli.local.output import Output
from sidelight_cli.local.sampling import sampling_engine as native
from sidelight_cli.local.sampling.process_set import Plan, Taken, Watch
from sidelight_cli.local.sampling.sampling_engine import Engine
from sidelight_cli.local.sampling.target import END_SECONDS, begin, one_of_both, split
from sidelight_cli.local.settings import DEFAULT_SECONDS, RECORD, RecordSettings
from sidelight_cli.local.signals import Signals, ending, stand_still
from sidelight_model.terminal_width import cut
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers.sampler import SamplingError

_TURN_SECONDS = 0.25
_PATIENCE_SECONDS = 0.02
_MOST_NAMED = 50
_TIMED_SECONDS, _TIMED_MOST = 300, 100_000
"""Seconds of one thread's samples that a session keeps with their times. They are asked for every turn, so
this is room for a thousand threads, or for a hundred while the machine lets nobody turn for three seconds."""


def run(argv: Sequence[str]) -> int:
    """0 when a recording was written (or the recorded program's own code); raises SidelightError."""
    options, command = split(argv)
    settings = parse(RecordSettings, "record", RECORD, options, None)
    one_of_both(settings.pid, command, "record")
    engine = native.engine()
    # Found out before a program is started or sampled for nothing.
    output.check(output.choose(settings.output, settings.format, settings.pid or 0, time.time()))
    with Signals(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP) as signals:
        program = Program.start(command) if command else None
        recorder = Recorder(engine, settings, signals, program)
        try:
            return recorder.run()
        finally:
            engine.close()


class Recorder:
    """One recording from attaching to the last line on standard error."""

    def __init__(
        self, engine: Engine, settings: RecordSettings, signals: Signals, program: Program | None
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._program = program
        self._pid = program.pid if program else settings.pid or 0
        given = settings.seconds
        self._seconds = (0.0 if program else DEFAULT_SECONDS) if given is None else given
        self._output: Output = output.choose(settings.output, settings.format, self._pid, time.time())
        timed = 0
        if self._output.format == "speedscope":
            timed = min(int(settings.rate * _TIMED_SECONDS) + 1, _TIMED_MOST)
        plan = Plan(
            rate_hz=settings.rate,
            mode=settings.mode,
            max_depth=settings.max_depth,
            thread_names=settings.threads or timed > 0,
            timed=timed,
            follow=settings.follow,
        )
        self._watch = Watch(engine, ProcFs(), plan, self._pid)
        self._recording = Recording(settings.rate, Roots(settings.processes, settings.threads))
        self._progress = Progress(sys.stderr) if program is None else None
        self._asked_to_end: signal.Signals | None = None
        self._start_ns = 0
        self._begin = self._end = 0.0
        self._still = self._cpu = 0.0
        self._named = 1

    def run(self) -> int:
        """Record, write, tell; returns the exit code. Raises SidelightError."""
        first, *others = begin(self._watch, self._program, self._signals)
        self._start_ns, self._begin, self._cpu = time.time_ns(), time.monotonic(), time.process_time()
        _say(f"recording {process_name(first)}: {self._how()}, {self._until()}")
        self._tell(others)
        self._sample()
        try:
            self._finish()
        finally:
            code = self._wait_for_program()
        return code

    def _sample(self) -> None:
        """Sample until the time is up, the target has ended or somebody asks to end."""
        while not self._watch.over and self._asked_to_end is None:
            left = self._seconds - self._elapsed() if self._seconds else _TURN_SECONDS
            if left <= 0:
                break
            arrived, _ = self._signals.wait(min(left, _TURN_SECONDS))
            self._asked_to_end = ending(arrived)
            if signal.SIGTSTP in arrived:
                self._stand_still()
            self._add(self._watch.take())
            self._tell(self._watch.look())
            if self._progress is not None:
                ledger = self._recording.ledger()
                self._progress.show(record_report.progress(ledger, self._elapsed(), self._seconds))
        self._end = time.monotonic()
        self._add(self._watch.close())
        if self._progress is not None:
            self._progress.clear()

    def _tell(self, attached: Sequence[Proc]) -> None:
        """Name the processes that are recorded too, up to a bound: there may be thousands."""
        for proc in attached:
            self._named += 1
            if self._named <= _MOST_NAMED:
                if self._progress is not None:
                    self._progress.clear()
                _say(f"and {process_name(proc)}")

    def _add(self, some: Iterable[Taken]) -> None:
        for taken in some:
            self._recording.add(taken)

    def _stand_still(self) -> None:
        """Ctrl-Z: a sampler that stops in the middle of a sample would hold its target."""
        self._add(self._watch.take())
        self._watch.pause()
        since = time.monotonic()
        stand_still()
        self._still += time.monotonic() - since
        self._watch.resume()

    def _elapsed(self) -> float:
        return (self._end or time.monotonic()) - self._begin - self._still

    def _finish(self) -> None:
        """Write the document and say what it is worth. Raises SamplingError when there is nothing."""
        ledger, profile = self._recording.ledger(), self._recording.profile()
        if not profile.samples:
            raise SamplingError(
                f"nothing was recorded of {self._name()}: {ledger.attempts:,} samples tried, "
                f"{ledger.errors_text()}",
                hint="Record for longer." if not ledger.failed else "Try another --mode.",
            )
        settings, elapsed = self._settings, self._elapsed()
        shape = Shape(self._output.format, settings.kind, settings.lines, settings.states, settings.follow)
        cpu = time.process_time() - self._cpu
        quality = list(record_report.quality(ledger, self._how(), settings.rate, elapsed, cpu))
        length_ns = int((self._end - self._begin) * 1e9)
        content = document(
            self._recording, shape, self._name(), quality, start_ns=self._start_ns, length_ns=length_ns
        )
        output.write(self._output, content)
        _say(f"wrote {self._output.name} ({self._output.format})", *quality)
        _say(*record_report.functions(profile, shape.shown))
        mode = self._watch.last.mode if self._watch.last else ""
        left_out = self._recording.lanes.left_out
        _say(*record_report.remarks(ledger, profile, shape.shown, mode, left_out))
        _say(*record_report.losses(self._watch.refused, self._watch.reasons))

    def _wait_for_program(self) -> int:
        """Let the program end in its own time; its exit code."""
        if self._program is None:
            return 0
        if self._asked_to_end in (signal.SIGTERM, signal.SIGHUP):
            self._program.send(self._asked_to_end)
        stronger = iter((signal.SIGTERM, signal.SIGKILL))
        patience = time.monotonic() + END_SECONDS
        while (code := self._program.code()) is None:
            arrived, _ = self._signals.wait(_PATIENCE_SECONDS)
            if signal.SIGTSTP in arrived:
                stand_still()
            if ending(arrived):
                self._program.send(next(stronger, signal.SIGKILL))
            if time.monotonic() > patience:
                _say(f"waiting for the program (process {self._pid}) to end; Ctrl-C asks it to")
                patience = float("inf")
        return code

    def _name(self) -> str:
        root = self._watch.root
        name = process_name(root) if root else f"process {self._pid}"
        more = self._recording.processes - 1
        return f"{name} and {more} below it" if more > 0 else name

    def _how(self) -> str:
        session = self._watch.last
        return f"mode {session.mode}, reader {session.reader}, Python {session.python}" if session else ""

    def _until(self) -> str:
        limit = f"for {self._seconds:g} s" if self._seconds else "until it ends"
        return f"{limit}; Ctrl-C ends the recording and writes what there is"


class Progress:
    """One line on a terminal, written over and over; nothing where there is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None

    def show(self, text: str) -> None:
        if self._stream is not None:
            try:
                columns = os.get_terminal_size(self._stream.fileno()).columns
            except OSError:
                columns = 80
            self._stream.write(f"\r\x1b[K{cut(text, max(1, columns - 1))}")
            self._stream.flush()

    def clear(self) -> None:
        self.show("")


def _say(*lines: str) -> None:
    sys.stderr.writelines(f"{line}\n" for line in lines)
    sys.stderr.flush()
