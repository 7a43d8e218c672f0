"""`sidelight record`: sample one process for a while and write the recording."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TextIO

from sidelight.settings import BadSetting, parse_settings
from sidelight.terminal_output import CLEAR_LINE
from sidelight_cli.local import output, record_report
from sidelight_cli.local.formats import DocumentOptions, render_document
from sidelight_cli.local.launch import LaunchedProgram
from sidelight_cli.local.local_recording import LocalRecording, RootFrames, format_process_name
from sidelight_cli.local.output import RecordingOutput
from sidelight_cli.local.sampling import sampling_engine as native
from sidelight_cli.local.sampling.process_set import ProcessBatch, ProcessSet, RecordPlan
from sidelight_cli.local.sampling.sampling_engine import SamplingEngine
from sidelight_cli.local.sampling.target import (
    STOP_TIMEOUT_SECONDS,
    ProgramEndedUnsampled,
    attach,
    require_one_target,
    split_command,
)
from sidelight_cli.local.settings import DEFAULT_SECONDS, RECORD_DESCRIPTION, RecordSettings
from sidelight_cli.local.signals import SignalWaiter, find_end_signal, stop_self
from sidelight_model.counts import ProfileType
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers.sampler import SamplingError

_TICK_SECONDS = 0.25
_POLL_SECONDS = 0.02
_TASKS_HZ = 5.0
_MAX_NAMED_PROCESSES = 50
_TIMELINE_SECONDS, _MAX_TIMELINE_SAMPLES = 300, 100_000
"""Capacity of a session's timeline: seconds of one thread's samples, and the maximum number of samples.

The command fetches the samples every `_TICK_SECONDS`. 300 seconds of one thread are room for a thousand
threads, or for a hundred threads if the command gets no CPU for three seconds."""


def run(argv: Sequence[str]) -> int:
    """Run the command and return its exit code.

    It is 0 after a recording was written, or the exit code of the recorded program. Raises SidelightError.
    """
    options, command = split_command(argv)
    settings = parse_settings(RecordSettings, "record", RECORD_DESCRIPTION, options, None)
    require_one_target(settings.pid, command, "record")
    engine = native.create_engine()
    # Fail before a program is started or sampled in vain.
    output.check_output(
        output.choose_output(settings.output, settings.format, settings.pid or 0, time.time())
    )
    with SignalWaiter(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP) as signals:
        program = LaunchedProgram.start(command) if command else None
        recorder = RecordCommand(engine, settings, signals, program)
        try:
            return recorder.run()
        except ProgramEndedUnsampled as error:
            _print_problem(error, "error")
            return error.code or 1
        finally:
            engine.close()


class RecordCommand:
    """One recording, from attaching to the report on standard error."""

    def __init__(
        self,
        engine: SamplingEngine,
        settings: RecordSettings,
        signals: SignalWaiter,
        program: LaunchedProgram | None,
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._program = program
        self._pid = program.pid if program else settings.pid or 0
        default_seconds = 0.0 if program else DEFAULT_SECONDS
        self._seconds = default_seconds if settings.seconds is None else settings.seconds
        self._output: RecordingOutput = output.choose_output(
            settings.output, settings.format, self._pid, time.time()
        )
        timed = 0
        if self._output.format == "speedscope":
            timed = min(int(settings.rate * _TIMELINE_SECONDS) + 1, _MAX_TIMELINE_SAMPLES)
        plan = RecordPlan(
            rate_hz=settings.rate,
            mode=settings.mode,
            max_depth=settings.max_depth,
            thread_names=settings.threads or timed > 0,
            timeline_samples=timed,
            include_children=settings.include_children,
            tasks_hz=_TASKS_HZ if settings.type == ProfileType.TASKS else 0.0,
        )
        if plan.tasks_hz and self._output.format == "speedscope":
            raise BadSetting("--type tasks has no timeline", hint="Use --format folded or svg.")
        self._process_set = ProcessSet(engine, ProcFs(), plan, self._pid)
        self._recording = LocalRecording(settings.rate, RootFrames(settings.processes, settings.threads))
        self._progress = RecordProgressLine(sys.stderr) if program is None else None
        self._end_signal: signal.Signals | None = None
        self._start_ns = 0
        self._started_at = self._ended_at = 0.0
        self._stopped_seconds = self._cpu_at_start = 0.0
        self._named_processes = 1

    def run(self) -> int:
        """Record, write the file and report; returns the exit code.

        Raises SidelightError.
        """
        first, *others = attach(self._process_set, self._program, self._signals, _print_problem)
        self._start_ns, self._started_at, self._cpu_at_start = (
            time.time_ns(),
            time.monotonic(),
            time.process_time(),
        )
        _print_status(
            f"recording {format_process_name(first)}: {self._describe_reader()}, {self._describe_limit()}"
        )
        self._announce(others)
        self._sample()
        try:
            self._write_recording()
        finally:
            code = self._wait_for_program()
        return code

    def _sample(self) -> None:
        """Sample until the time is up, the target has ended or an end signal arrives."""
        while not self._process_set.has_ended and self._end_signal is None:
            remaining = self._seconds - self._elapsed_seconds() if self._seconds else _TICK_SECONDS
            if remaining <= 0:
                break
            arrived, _ = self._signals.wait(min(remaining, _TICK_SECONDS))
            self._end_signal = find_end_signal(arrived)
            if signal.SIGTSTP in arrived:
                self._stop_self()
            self._add_batches(self._process_set.take())
            self._announce(self._process_set.attach_new())
            if self._progress is not None:
                quality = self._recording.compute_quality()
                self._progress.show(
                    record_report.format_progress(quality, self._elapsed_seconds(), self._seconds)
                )
        self._ended_at = time.monotonic()
        self._add_batches(self._process_set.close())
        if self._progress is not None:
            self._progress.clear()

    def _announce(self, attached: Sequence[Proc]) -> None:
        """Print the names of further recorded processes, up to a limit.

        There may be thousands of them.
        """
        for proc in attached:
            self._named_processes += 1
            if self._named_processes <= _MAX_NAMED_PROCESSES:
                if self._progress is not None:
                    self._progress.clear()
                _print_status(f"and {format_process_name(proc)}")

    def _add_batches(self, batches: Iterable[ProcessBatch]) -> None:
        for batch in batches:
            self._recording.add(batch)

    def _stop_self(self) -> None:
        """Stop this process on Ctrl-Z, with sampling paused.

        A sampler that stops in the middle of a sample would keep its target stopped.
        """
        self._add_batches(self._process_set.take())
        self._process_set.pause()
        since = time.monotonic()
        stop_self()
        self._stopped_seconds += time.monotonic() - since
        self._process_set.resume()

    def _elapsed_seconds(self) -> float:
        return (self._ended_at or time.monotonic()) - self._started_at - self._stopped_seconds

    def _write_recording(self) -> None:
        """Write the file and report its quality.

        Raises SamplingError if there are no samples, RecordingWriteFailed if the file cannot be written.
        """
        sampling_quality, profile = self._recording.compute_quality(), self._recording.build_profile()
        if not profile.samples:
            raise SamplingError(
                f"nothing was recorded of {self._format_target()}: {sampling_quality.attempts:,} "
                "samples tried, "
                f"{sampling_quality.format_errors()}",
                hint="Record for longer." if not sampling_quality.failed_ticks else "Try another --mode.",
            )
        settings, elapsed = self._settings, self._elapsed_seconds()
        options = DocumentOptions(
            self._output.format,
            settings.profile_type,
            settings.lines,
            settings.states,
            settings.include_children,
        )
        cpu = time.process_time() - self._cpu_at_start
        quality_lines = list(
            record_report.format_quality(
                sampling_quality, self._describe_reader(), settings.rate, elapsed, cpu
            )
        )
        length_ns = int((self._ended_at - self._started_at) * 1e9)
        content = render_document(
            self._recording,
            options,
            self._format_target(),
            quality_lines,
            start_ns=self._start_ns,
            length_ns=length_ns,
        )
        output.write_output(self._output, content)
        _print_status(f"wrote {self._output.display_name} ({self._output.format})", *quality_lines)
        _print_status(*record_report.format_functions(profile, options.shown_type))
        mode = self._process_set.last_session.mode if self._process_set.last_session else ""
        dropped_samples = self._recording.timelines.dropped_samples
        _print_status(
            *record_report.format_remarks(
                sampling_quality, profile, options.shown_type, mode, dropped_samples
            )
        )
        _print_status(
            *record_report.format_losses(self._process_set.attach_errors, self._process_set.end_reasons)
        )

    def _wait_for_program(self) -> int:
        """Wait until the recorded program ends; returns its exit code.

        Without a program the code is 0. SIGTERM and SIGHUP are passed on. Further end signals send it
        SIGTERM, then SIGKILL.
        """
        if self._program is None:
            return 0
        if self._end_signal in (signal.SIGTERM, signal.SIGHUP):
            self._program.send_signal(self._end_signal)
        next_signals = iter((signal.SIGTERM, signal.SIGKILL))
        reminder_at = time.monotonic() + STOP_TIMEOUT_SECONDS
        while (code := self._program.poll_exit_code()) is None:
            arrived, _ = self._signals.wait(_POLL_SECONDS)
            if signal.SIGTSTP in arrived:
                stop_self()
            if find_end_signal(arrived):
                self._program.send_signal(next(next_signals, signal.SIGKILL))
            if time.monotonic() > reminder_at:
                _print_status(f"waiting for the program (process {self._pid}) to end; Ctrl-C asks it to")
                reminder_at = float("inf")
        return code

    def _format_target(self) -> str:
        root = self._process_set.root
        name = format_process_name(root) if root else f"process {self._pid}"
        more = self._recording.process_count - 1
        return f"{name} and {more} below it" if more > 0 else name

    def _describe_reader(self) -> str:
        session = self._process_set.last_session
        if session is None:
            return ""
        names = f", no thread names: {session.names_problem}" if session.names_problem else ""
        return f"mode {session.mode}, reader {session.reader}, Python {session.python}{names}"

    def _describe_limit(self) -> str:
        limit = f"for {self._seconds:g} s" if self._seconds else "until it ends"
        return f"{limit}; Ctrl-C ends the recording and writes what there is"


class RecordProgressLine:
    """A progress line that is overwritten on a terminal; silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None

    def show(self, text: str) -> None:
        if self._stream is not None:
            try:
                columns = os.get_terminal_size(self._stream.fileno()).columns
            except OSError:
                columns = 80
            self._stream.write(CLEAR_LINE)
            self._stream.write(truncate_to_width(text, max(1, columns - 1)))
            self._stream.flush()

    def clear(self) -> None:
        self.show("")


def _print_problem(error: SamplingError, severity: str = "warning") -> None:
    _print_status(f"{severity}: {error.message}", f"hint: {error.hint}")


def _print_status(*lines: str) -> None:
    # Lines hold titles and names that processes choose.
    sys.stderr.writelines(f"{escape_unprintable(line)}\n" for line in lines)
    sys.stderr.flush()
