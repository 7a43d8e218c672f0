"""The fallback sampler: one `py-spy record -f raw` command per process and window.

What one must know of the command (py-spy 0.4.3): SIGINT ends it and writes the file, SIGTERM loses
the profile; `-d` counts ticks, not seconds, so it is only a last bound should the sidecar die, and
a watchdog on the wall clock ends a run that does not end; without `-i` it leaves idle threads out,
and with it cannot tell them from busy ones. Here they are left out: CPU profiles are right, and
`missing_states` says that idle is not there and gil is part of running. With `--native` it unwinds the
C stack of each thread as well and puts its frames among Python's, Cython's with their lines in the .pyx.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sidelight_model.counts import Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.processes import Key, Proc
from sidelight_sidecar.discovery.procfs import UNKNOWN, ProcFs
from sidelight_sidecar.samplers import pyspy_output
from sidelight_sidecar.samplers.sampler import COMMAND, Sampled, SamplingError, add_threads

_POLL_SECONDS = 0.01
MISSING = ("gil", "idle")
READER = "py-spy"
NATIVE_READER = "py-spy-native"


class CommandSampler:
    """Samples by running py-spy: a short gap between windows, and only what is on CPU."""

    gapless = False
    mode = COMMAND
    stops = True
    timed = False
    missing_states = MISSING

    def __init__(
        self,
        executable: Path,
        procfs: ProcFs,
        *,
        max_depth: int,
        explain: Callable[[int], SamplingError],
        max_stacks: int | None = None,
        native: bool = False,
        attach_seconds: float = 30.0,
        watchdog_seconds: float = 10.0,
    ) -> None:
        self._executable = executable
        self._procfs = procfs
        self._max_depth = max_depth
        self._max_stacks = max_stacks
        self._native = native
        self.reader = NATIVE_READER if native else READER
        self._explain = explain
        self._attach_seconds = attach_seconds
        self._watchdog_seconds = watchdog_seconds
        self.name = command_version(executable)
        # Else a sidecar that is killed leaves a py-spy behind that goes on stopping the target.
        setpriv = shutil.which("setpriv")
        self._leash = () if setpriv is None else (setpriv, "--pdeathsig", "INT", "--")

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> CommandSession:
        return CommandSession(self, proc, rate_hz, window_seconds)

    def begin(self, proc: Proc, rate_hz: float, window_seconds: float) -> _Run:
        """Start one py-spy and wait until it samples; raises SamplingError with what it said."""
        folder = tempfile.TemporaryDirectory(prefix="sidelight-py-spy-")
        raw, log = Path(folder.name, "raw"), Path(folder.name, "log")
        arguments = [*self._leash, str(self._executable), "record", "--format", "raw", "--output", str(raw)]
        arguments += ["--pid", str(proc.pid), "--rate", str(max(1, round(rate_hz)))]
        arguments += ["--native"] if self._native else []
        arguments += ["--duration", str(math.ceil(2 * window_seconds + 60))]
        with log.open("wb") as output:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        run = _Run(process, folder, raw, log, proc.key, self._procfs)
        deadline = time.monotonic() + self._attach_seconds
        while pyspy_output.STARTED not in run.said():
            if run.poll() is not None:
                raise self._refused(proc, run)
            if time.monotonic() > deadline:
                run.kill()
                run.close()
                raise SamplingError(
                    f"py-spy did not attach to process {proc.pid} in {self._attach_seconds:g} seconds",
                    hint="Attaching is slow for processes with thousands of mappings; it is tried again.",
                )
            time.sleep(_POLL_SECONDS)
        run.mark_begin()
        return run

    def finish(self, run: _Run, proc: Proc) -> Sampled:
        """End a run and read what it wrote; one that hangs is killed, and that counted."""
        duration_ns = run.interrupt(self._watchdog_seconds)
        log = run.said()
        errors: dict[str, int] = {}
        counts: dict[Stack, Counts] = {}
        clipped = bad = 0
        if run.raw.exists():
            counts, clipped, bad = pyspy_output.read_counts(run.raw.read_bytes(), self._max_depth)
        elif run.killed:
            errors["watchdog"] = 1
        else:
            errors["no_output"] = 1
        if failed := pyspy_output.errors_of(log):
            errors["failed_ticks"] = failed
        if bad:
            errors["unreadable_lines"] = bad
        threads, other = add_threads({}, {"": counts}, self._max_stacks)
        quality = Quality(
            samples=sum(count.wall for count in counts.values()),
            errors=errors,
            late_ns=pyspy_output.late_ns(log),
            mode=COMMAND,
            sampler=self.name,
            python="" if proc.python in (None, UNKNOWN) else str(proc.python),
            threads=run.threads,
            truncated=clipped,
            target_cpu_ns=run.target_cpu_ns,
            sampler_cpu_ns=run.cpu_ns,
            missing_states=MISSING,
            other=other,
            reader=self.reader,
        )
        run.close()
        return Sampled(threads, run.start_ns, duration_ns, quality)

    def _refused(self, proc: Proc, run: _Run) -> SamplingError:
        reason, said = pyspy_output.refusal(run.said())
        run.close()
        if reason is Reason.PTRACE_DENIED:
            return self._explain(proc.pid)
        return SamplingError(f"py-spy cannot sample process {proc.pid}: {said}", reason=reason)


class CommandSession:
    """A row of py-spy runs on one process."""

    mode = COMMAND

    def __init__(self, sampler: CommandSampler, proc: Proc, rate_hz: float, window_seconds: float) -> None:
        self._sampler = sampler
        self.reader = sampler.reader
        self._proc = proc
        self._rate_hz = rate_hz
        self._window_seconds = window_seconds
        self._run: _Run | None = sampler.begin(proc, rate_hz, window_seconds)
        self._failure: str | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the py-spy that runs now."""
        return None if self._run is None else self._run.process.pid

    @property
    def ended(self) -> str | None:
        if self._run is None:
            return self._failure or "exited"
        return None if self._run.poll() is None else "exited"

    def set_rate(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz

    def take(self) -> Sampled:
        sampled = self.stop()
        try:
            self._run = self._sampler.begin(self._proc, self._rate_hz, self._window_seconds)
        except SamplingError as error:
            # What was sampled until now is not lost with it.
            self._failure = "exited" if error.reason is Reason.PID_GONE else f"failed: {error.message}"
        return sampled

    def stop(self) -> Sampled:
        run, self._run = self._run, None
        if run is None:
            nothing = Quality(mode=COMMAND, sampler=self._sampler.name, reader=self.reader)
            return Sampled({}, time.time_ns(), 0, nothing)
        return self._sampler.finish(run, self._proc)


class _Run:
    """One py-spy command: its files, its clock, and the CPU time of both sides."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: tempfile.TemporaryDirectory[str],
        raw: Path,
        log: Path,
        target: Key,
        procfs: ProcFs,
    ) -> None:
        self.process = process
        self.raw = raw
        self.killed = False
        self.cpu_ns = 0
        self.start_ns = time.time_ns()
        self.threads = 0
        self.target_cpu_ns = 0
        self._folder = folder
        self._log = log
        self._target = target
        self._procfs = procfs
        self._begin = time.monotonic_ns()
        self._end: int | None = None
        self._cpu_before: int | None = None

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def mark_begin(self) -> None:
        self.start_ns, self._begin = time.time_ns(), time.monotonic_ns()
        self._look_at_target()

    def poll(self) -> int | None:
        """The command's return code, or None while it runs."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
                self._end = self._end or time.monotonic_ns()
        return self.process.returncode

    def interrupt(self, watchdog_seconds: float) -> int:
        """End it so that it writes its file; returns how long it sampled, in nanoseconds."""
        self._look_at_target()
        if self.poll() is None:
            self._end = time.monotonic_ns()
            self.process.send_signal(signal.SIGINT)
            deadline = time.monotonic() + watchdog_seconds
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if self.poll() is None:
                self.kill()
        return max(1, (self._end or time.monotonic_ns()) - self._begin)

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        while self.poll() is None:
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        self._folder.cleanup()

    def _look_at_target(self) -> None:
        stat = self._procfs.stat(self._target.pid)
        if stat is None or stat.start_ticks != self._target.start_ticks:
            return
        self.threads = max(self.threads, stat.threads)
        if self._cpu_before is None:
            self._cpu_before = stat.cpu_ns
        self.target_cpu_ns = stat.cpu_ns - self._cpu_before


def command_version(executable: Path) -> str:
    """What `py-spy --version` says; raises SamplingError where there is no such command."""
    try:
        said = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SamplingError(
            f"the py-spy command cannot be run: {error}",
            reason=Reason.SAMPLER_MISSING,
            hint="pip install 'sidelight-sidecar[py-spy]'",
        ) from error
    return said.stdout.strip() or "py-spy"
