"""Programs that are started to be recorded, with real ones."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from sidelight_cli.local.launch import LaunchedProgram, ProgramNotStarted
from sidelight_cli.local.signals import SignalWaiter, find_end_signal
from tests.processes import eventually


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def ended(program: LaunchedProgram) -> int:
    return eventually(
        "the program ends",
        lambda: None if program.poll_exit_code() is None else (program.poll_exit_code() or 0,),
    )[0]


def test_a_program_has_a_pid_of_its_own_and_its_code_is_known() -> None:
    program = LaunchedProgram.start(python("import sys; sys.stdin.read(); sys.exit(3)"), discard_output=True)
    assert program.pid != os.getpid()
    assert ended(program) == 3


def test_a_program_that_a_signal_ends_has_the_code_a_shell_gives_it() -> None:
    program = LaunchedProgram.start(python("import time; time.sleep(60)"), discard_output=True)
    program.send_signal(signal.SIGKILL)
    assert ended(program) == 128 + signal.SIGKILL
    program.send_signal(signal.SIGKILL)


def ignores(program: LaunchedProgram, number: int) -> bool:
    status = Path(f"/proc/{program.pid}/status").read_text()
    ignored = int(dict(line.split(":\t") for line in status.splitlines())["SigIgn"], 16)
    return bool(ignored >> number - 1 & 1)


def descriptors(program: LaunchedProgram) -> set[str]:
    return {path.name for path in Path(f"/proc/{program.pid}/fd").iterdir()}


def test_when_it_is_known_the_program_itself_runs() -> None:
    program = LaunchedProgram.start(["sleep", "60"], discard_output=True)
    try:
        assert Path(f"/proc/{program.pid}/comm").read_text() == "sleep\n"
        assert not ignores(program, signal.SIGPIPE)
        # While it starts, a program has a library or its locale open as well.
        eventually("it has no file of ours", lambda: descriptors(program) == {"0", "1", "2"})
    finally:
        program.terminate(20)


def test_a_program_that_does_not_listen_is_ended_by_force() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    program = LaunchedProgram.start(python(deaf), discard_output=True)
    eventually("it ignores the signal", lambda: ignores(program, signal.SIGTERM))
    program.terminate(0.2)
    assert ended(program) == 128 + signal.SIGKILL


@pytest.mark.parametrize(("word", "problem"), [("no-such-program", "No such file"), ("/etc", "ermission")])
def test_a_program_that_cannot_be_started_is_told_so(word: str, problem: str) -> None:
    with pytest.raises(ProgramNotStarted, match=problem) as refused:
        LaunchedProgram.start([word])
    assert refused.value.hint


def test_signals_wait_to_be_asked_for_and_end_a_wait_early() -> None:
    with SignalWaiter(signal.SIGUSR1, signal.SIGTERM) as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
        seen: list[signal.Signals] = []
        eventually("both came", lambda: seen.extend(signals.wait(60)[0]) or len(seen) == 2)
        assert set(seen) == {signal.SIGTERM, signal.SIGUSR1}
        assert find_end_signal(seen) is signal.SIGTERM
        assert signals.pending() == []
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_a_wait_ends_when_a_file_can_be_read() -> None:
    reading, writing = os.pipe()
    with SignalWaiter() as signals:
        assert signals.wait(0, reading) == ([], False)
        os.write(writing, b"q")
        assert signals.wait(60, reading) == ([], True)
    os.close(reading)
    os.close(writing)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalWaiter(signal.SIGHUP) as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.pending() == []
    finally:
        signal.signal(signal.SIGHUP, before)
