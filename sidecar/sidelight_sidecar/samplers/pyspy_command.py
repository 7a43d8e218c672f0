"""The fallback sampler: runs `py-spy record -f raw` for each process and window.

Facts about the command (py-spy 0.4.3). SIGINT ends it and writes the file; SIGTERM loses the profile. `-d`
counts ticks, not seconds, so it is only a last bound in case the sidecar dies, and a watchdog on the wall
clock ends a run that hangs. Without `-i` it omits idle threads, and with it cannot distinguish them from
busy ones. This sampler omits them: CPU profiles are right, and `missing_states` says that waiting threads
are missing and gil and cpu_wait are counted as running. With `--native` it also unwinds the C stack of each
thread and mixes its frames with Python's; Cython frames have their lines in the .pyx file.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sidelight_model.counts import FURTHER_STATES, Counts
from sidelight_model.errors import Reason
from sidelight_model.folded import Stack
from sidelight_model.window import Quality
from sidelight_sidecar.discovery.processes import Proc, ProcessKey
from sidelight_sidecar.discovery.procfs import UNKNOWN_VERSION, ProcFs
from sidelight_sidecar.samplers import pyspy_output
from sidelight_sidecar.samplers.sampler import COMMAND_MODE, SampleBatch, SamplingError, add_threads

_POLL_SECONDS = 0.01
_MAX_MEMORY_BYTES = 1 << 30
_MAX_OUTPUT_BYTES = 32 << 20
MISSING_STATES = ("gil", "idle", *FURTHER_STATES)
READER = "py-spy"
NATIVE_READER = "py-spy-native"


class CommandSampler:
    """Samples by running py-spy: short gaps between windows, and on-CPU threads only."""

    is_gapless = False
    mode = COMMAND_MODE
    stops_target = True
    has_timestamps = False
    missing_states = MISSING_STATES

    def __init__(
        self,
        executable: Path,
        procfs: ProcFs,
        *,
        max_depth: int,
        explain_denial: Callable[[int], SamplingError],
        max_stacks: int | None = None,
        unwind_native: bool = False,
        attach_seconds: float = 30.0,
        watchdog_seconds: float = 10.0,
    ) -> None:
        self._executable = executable
        self._procfs = procfs
        self._max_depth = max_depth
        self._max_stacks = max_stacks
        self._unwind_native = unwind_native
        self.reader = NATIVE_READER if unwind_native else READER
        self._explain_denial = explain_denial
        self._attach_seconds = attach_seconds
        self._watchdog_seconds = watchdog_seconds
        self.name = read_command_version(executable)
        # Without it, a sidecar that is killed leaves a py-spy behind that goes on stopping the target.
        setpriv = shutil.which("setpriv")
        self._parent_death_prefix = () if setpriv is None else (setpriv, "--pdeathsig", "INT", "--")

    def attach(self, proc: Proc, *, rate_hz: float, window_seconds: float) -> CommandSession:
        return CommandSession(self, proc, rate_hz, window_seconds)

    def start_run(self, proc: Proc, rate_hz: float, window_seconds: float) -> _PySpyRun:
        """Start py-spy and wait until it samples.

        Raises SamplingError with py-spy's own message.
        """
        folder = tempfile.TemporaryDirectory(prefix="sidelight-py-spy-")
        raw, log = Path(folder.name, "raw"), Path(folder.name, "log")
        arguments = [
            *self._parent_death_prefix,
            str(self._executable),
            "record",
            "--format",
            "raw",
            "--output",
            str(raw),
        ]
        arguments += ["--pid", str(proc.pid), "--rate", str(max(1, round(rate_hz)))]
        arguments += ["--native"] if self._unwind_native else []
        arguments += ["--duration", str(math.ceil(2 * window_seconds + 60))]
        with log.open("wb") as output:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        _limit_process(process.pid)
        run = _PySpyRun(process, folder, raw, log, proc.key, self._procfs)
        deadline = time.monotonic() + self._attach_seconds
        while pyspy_output.STARTED_MESSAGE not in run.read_log():
            if run.poll() is not None:
                raise self._make_attach_error(proc, run)
            if time.monotonic() > deadline:
                run.kill()
                run.close()
                raise SamplingError(
                    f"py-spy did not attach to process {proc.pid} in {self._attach_seconds:g} seconds",
                    reason=Reason.ATTACH_LIMIT,
                    hint="Attaching is slow for processes with thousands of mappings; it is tried again.",
                )
            time.sleep(_POLL_SECONDS)
        run.mark_start()
        return run

    def finish_run(self, run: _PySpyRun, proc: Proc) -> SampleBatch:
        """End a run and read its output; a run that hangs is killed, and counted."""
        duration_ns = run.interrupt(self._watchdog_seconds)
        log = run.read_log()
        errors: dict[str, int] = {}
        counts: dict[Stack, Counts] = {}
        truncated = unreadable = 0
        if run.raw.exists():
            counts, truncated, unreadable = pyspy_output.parse_counts(run.raw.read_bytes(), self._max_depth)
        elif run.was_killed:
            errors["watchdog"] = 1
        else:
            errors["no_output"] = 1
        if failed := pyspy_output.parse_error_count(log):
            errors["failed_ticks"] = failed
        if unreadable:
            errors["unreadable_lines"] = unreadable
        threads, other = add_threads({}, {"": counts}, self._max_stacks)
        quality = Quality(
            samples=sum(count.wall for count in counts.values()),
            errors=errors,
            late_ns=pyspy_output.parse_late_ns(log),
            mode=COMMAND_MODE,
            sampler=self.name,
            python="" if proc.python_version in (None, UNKNOWN_VERSION) else str(proc.python_version),
            threads=run.threads,
            truncated=truncated,
            target_cpu_ns=run.target_cpu_ns,
            sampler_cpu_ns=run.cpu_ns,
            missing_states=MISSING_STATES,
            other=other,
            reader=self.reader,
        )
        run.close()
        return SampleBatch(threads, run.start_ns, duration_ns, quality, attach_cpu_ns=run.fixed_cpu_ns)

    def _make_attach_error(self, proc: Proc, run: _PySpyRun) -> SamplingError:
        reason, message = pyspy_output.parse_failure(run.read_log())
        run.close()
        if reason is Reason.PTRACE_DENIED:
            return self._explain_denial(proc.pid)
        return SamplingError(f"py-spy cannot sample process {proc.pid}: {message}", reason=reason)


class CommandSession:
    """Successive py-spy runs on one process."""

    mode = COMMAND_MODE

    def __init__(self, sampler: CommandSampler, proc: Proc, rate_hz: float, window_seconds: float) -> None:
        self._sampler = sampler
        self.reader = sampler.reader
        self._proc = proc
        self._rate_hz = rate_hz
        self._window_seconds = window_seconds
        self._run: _PySpyRun | None = sampler.start_run(proc, rate_hz, window_seconds)
        self._failure: str | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the current py-spy process."""
        return None if self._run is None else self._run.process.pid

    @property
    def end_reason(self) -> str | None:
        if self._run is None:
            return self._failure or "exited"
        return None if self._run.poll() is None else "exited"

    def set_rate(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz

    def take(self) -> SampleBatch:
        batch = self.stop()
        try:
            self._run = self._sampler.start_run(self._proc, self._rate_hz, self._window_seconds)
        except SamplingError as error:
            # Raising it here would lose the batch.
            self._failure = "exited" if error.reason is Reason.PID_GONE else f"failed: {error.message}"
        return batch

    def stop(self) -> SampleBatch:
        run, self._run = self._run, None
        if run is None:
            quality = Quality(mode=COMMAND_MODE, sampler=self._sampler.name, reader=self.reader)
            return SampleBatch({}, time.time_ns(), 0, quality)
        return self._sampler.finish_run(run, self._proc)


class _PySpyRun:
    """A py-spy process: its files, its clock, and the CPU time of it and its target."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        folder: tempfile.TemporaryDirectory[str],
        raw: Path,
        log: Path,
        target: ProcessKey,
        procfs: ProcFs,
    ) -> None:
        self.process = process
        self.raw = raw
        self.was_killed = False
        self.cpu_ns = 0
        self.start_ns = time.time_ns()
        self.threads = 0
        self.target_cpu_ns = 0
        self._folder = folder
        self._log = log
        self._target = target
        self._procfs = procfs
        self._started_ns = time.monotonic_ns()
        self._ended_ns: int | None = None
        self._target_cpu_at_start: int | None = None
        self._cpu_before_ticks_ns = 0
        self._cpu_after_ticks_ns: int | None = None

    @property
    def fixed_cpu_ns(self) -> int:
        """The part of `cpu_ns` that starting and ending took, and no tick."""
        after = self.cpu_ns if self._cpu_after_ticks_ns is None else self._cpu_after_ticks_ns
        return max(0, self.cpu_ns - (after - self._cpu_before_ticks_ns))

    def read_log(self) -> str:
        return self._log.read_text(errors="replace")

    def mark_start(self) -> None:
        self.start_ns, self._started_ns = time.time_ns(), time.monotonic_ns()
        self._cpu_before_ticks_ns = _read_cpu_ns(self.process.pid) or 0
        self._measure_target()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
                self._ended_ns = self._ended_ns or time.monotonic_ns()
        return self.process.returncode

    def interrupt(self, watchdog_seconds: float) -> int:
        """End the run so that it writes its file; return its duration in nanoseconds."""
        self._measure_target()
        if self.poll() is None:
            self._ended_ns = time.monotonic_ns()
            self._cpu_after_ticks_ns = _read_cpu_ns(self.process.pid)
            self.process.send_signal(signal.SIGINT)
            deadline = time.monotonic() + watchdog_seconds
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
            if self.poll() is None:
                self.kill()
        return max(1, (self._ended_ns or time.monotonic_ns()) - self._started_ns)

    def kill(self) -> None:
        self.was_killed = True
        self.process.kill()
        while self.poll() is None:
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        self._folder.cleanup()

    def _measure_target(self) -> None:
        stat = self._procfs.read_stat(self._target.pid)
        if stat is None or stat.start_ticks != self._target.start_ticks:
            return
        self.threads = max(self.threads, stat.threads)
        if self._target_cpu_at_start is None:
            self._target_cpu_at_start = stat.cpu_ns
        self.target_cpu_ns = stat.cpu_ns - self._target_cpu_at_start


def _read_cpu_ns(pid: int) -> int | None:
    """Return the CPU time of a process, None if it has ended.

    The clock of another process is the complement of its pid, shifted by 3, and 2 for the scheduler's own
    clock: `make_process_cpuclock` in the kernel's include/linux/posix-timers.h.
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        return None


def _limit_process(pid: int) -> None:
    """Limit memory and output of py-spy, which trusts the sizes in its target."""
    for name, limit in ((resource.RLIMIT_AS, _MAX_MEMORY_BYTES), (resource.RLIMIT_FSIZE, _MAX_OUTPUT_BYTES)):
        with suppress(OSError):
            resource.prlimit(pid, name, (limit, limit))


def read_command_version(executable: Path) -> str:
    """Return the output of `py-spy --version`.

    Raises SamplingError if the command cannot be run.
    """
    try:
        result = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SamplingError(
            f"the py-spy command cannot be run: {error}",
            reason=Reason.SAMPLER_MISSING,
            hint="pip install 'sidelight-sidecar[py-spy]'",
        ) from error
    return result.stdout.strip() or "py-spy"
