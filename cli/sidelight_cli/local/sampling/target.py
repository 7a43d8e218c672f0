"""Attach to the process or program that the user names."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sidelight.settings import BadSetting
from sidelight_cli.local.launch import LaunchedProgram
from sidelight_cli.local.sampling.process_set import ProcessSet
from sidelight_cli.local.sampling.record_errors import PythonRunsBelow
from sidelight_cli.local.signals import SignalWaiter, find_end_signal
from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.sampler import SamplingError


class ProgramEndedUnsampled(SamplingError):
    """A program ended before it could be sampled; `code` is its exit code."""

    reason = Reason.PID_GONE

    def __init__(self, code: int, *, python_ran_below: bool) -> None:
        if python_ran_below:
            message = f"the program ended with code {code}: it runs no Python itself, but Python ran below it"
            hint = "Record what runs below it with --subprocesses."
        else:
            message = f"the program ended with code {code} before it could be sampled"
            hint = "Either it ran for some milliseconds only, or it is not Python."
        super().__init__(message, hint=hint)
        self.code = code


STOP_TIMEOUT_SECONDS = 5.0
_ATTACH_SECONDS = 10.0
_POLL_SECONDS = 0.02


def split_command(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments into options and, after `--`, the command of a program."""
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def require_one_target(pid: int | None, command: Sequence[str], verb: str) -> None:
    """Raise BadSetting unless exactly one of `pid` and `command` is given."""
    if (pid is None) == (not command):
        raise BadSetting(
            f"give either --pid or a program to {verb}",
            hint=f"sidelight {verb} --pid N, or: sidelight {verb} [OPTIONS] -- python app.py",
        )


def attach(
    process_set: ProcessSet,
    program: LaunchedProgram | None,
    signals: SignalWaiter,
    warn: Callable[[SamplingError], None],
) -> list[Proc]:
    """Attach to the target; returns the attached processes.

    A program that has just been started is retried for some seconds. `warn` is called once if only processes
    below it are Python. Raises SamplingError if attaching fails, ProgramEndedUnsampled, and KeyboardInterrupt
    if an end signal arrives first. All end the program.
    """
    try:
        return _attach_with_retries(process_set, program, signals, warn)
    except (SamplingError, KeyboardInterrupt):
        if program is not None:
            program.terminate(STOP_TIMEOUT_SECONDS)
        raise


def _attach_with_retries(
    process_set: ProcessSet,
    program: LaunchedProgram | None,
    signals: SignalWaiter,
    warn: Callable[[SamplingError], None],
) -> list[Proc]:
    python_runs_below = False
    deadline = time.monotonic() + _ATTACH_SECONDS
    while True:
        attached = process_set.attach_new()
        if attached:
            return attached
        if program is None or time.monotonic() >= deadline:
            raise process_set.attach_error
        error = process_set.attach_error
        if isinstance(error, PythonRunsBelow) and not python_runs_below:
            python_runs_below = True
            warn(error)
        if (code := program.poll_exit_code()) is not None:
            raise ProgramEndedUnsampled(code, python_ran_below=python_runs_below)
        arrived, _ = signals.wait(_POLL_SECONDS)
        if find_end_signal(arrived):
            raise KeyboardInterrupt
