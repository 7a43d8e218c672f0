"""Attach to the process or program that the user names."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sidelight.settings import BadSetting
from sidelight_cli.local.launch import LaunchedProgram
from sidelight_cli.local.sampling.process_set import ProcessSet
from sidelight_cli.local.signals import SignalWaiter, find_end_signal
from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.sampler import SamplingError

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


def attach(process_set: ProcessSet, program: LaunchedProgram | None, signals: SignalWaiter) -> list[Proc]:
    """Attach to the target; returns the attached processes.

    A program that has just been started is retried for some seconds. Raises SamplingError if attaching
    fails, and KeyboardInterrupt if an end signal arrives first; both end the program.
    """
    try:
        return _attach_with_retries(process_set, program, signals)
    except (SamplingError, KeyboardInterrupt):
        if program is not None:
            program.terminate(STOP_TIMEOUT_SECONDS)
        raise


def _attach_with_retries(
    process_set: ProcessSet, program: LaunchedProgram | None, signals: SignalWaiter
) -> list[Proc]:
    deadline = time.monotonic() + _ATTACH_SECONDS
    while True:
        attached = process_set.attach_new()
        if attached:
            return attached
        if program is None or time.monotonic() >= deadline:
            raise process_set.attach_error
        if (code := program.poll_exit_code()) is not None:
            raise SamplingError(
                f"the program ended with code {code} before it could be sampled",
                reason=Reason.PID_GONE,
                hint="Either it ran for some milliseconds only, or it is not Python.",
            )
        arrived, _ = signals.wait(_POLL_SECONDS)
        if find_end_signal(arrived):
            raise KeyboardInterrupt
