"""The installation of `make demo`: targets of a Makefile made side by side, their progress, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sidelight_cli.demo.install import InstallStep, build_environment, format_steps
from tests.processes import ROOT, eventually, running

MAKEFILE = """
first second: # each waits for the other
	@touch began-$@
	@until [ -e began-first ] && [ -e began-second ]; do sleep 0.05; done
	@touch $@
lasting:
	@echo waiting for ever
	@sleep 600 & echo $$! > sleeper.part && mv sleeper.part sleeper && wait
failing: # as soon as the other one runs
	@until [ -e sleeper ]; do sleep 0.05; done
	@echo 'no room left' && exit 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def installer(*steps: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "sidelight_cli.demo.install", *steps)


def install(folder: Path, *steps: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        installer(*steps), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_install_makes_targets_side_by_side_and_then_says_nothing(folder: Path) -> None:
    made = install(folder, "one=first", "two=second")
    assert made.returncode == 0, made.stdout
    lines = made.stdout.splitlines()
    assert lines[:2] == ["[1/2] one …", "[2/2] two …"]
    assert sorted(line.partition(" in ")[0] for line in lines[2:]) == [
        "[1/2] one: installed",
        "[2/2] two: installed",
    ]
    again = install(folder, "one=first", "two=second")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_install_shows_the_output_of_a_failed_target_and_stops_the_rest(folder: Path) -> None:
    failed = install(folder, "one=lasting", "two=failing")
    assert failed.returncode == 1
    assert "error: two could not be installed:\n    no room left\n" in failed.stdout
    assert "`make failing`" in failed.stdout
    eventually("the rest has ended", lambda: ended(int((folder / "sleeper").read_text())))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_install_leaves_no_process_behind(folder: Path, number: signal.Signals) -> None:
    with running(folder / "log", *installer("one=lasting"), cwd=folder) as process:
        eventually("the target is being made", lambda: (folder / "sleeper").exists() or not process.alive())
        assert process.end(number) == 130, process.said()
        eventually("the target has ended", lambda: ended(int((folder / "sleeper").read_text())))
        assert "Traceback" not in process.said()


def test_install_shows_seconds_and_the_last_line_of_output(tmp_path: Path) -> None:
    done, busy = (
        InstallStep(name, name, tmp_path / name, started_at=10.0) for name in ("packages", "sampler")
    )
    done.ended_at = 17.2
    busy.log.write_bytes(b"one\r\n\x1b[1mCompiling\x1b[0m a\rCompiling py-spy v0.4.3\n\n")
    steps = [("[1/2] packages", done), ("[2/2] sampler", busy)]
    lines = format_steps(steps, 22.4, 80).splitlines()
    assert lines == [
        "[1/2] packages: installed in 7 s",
        "[2/2] sampler: 12 s …  Compiling py-spy v0.4.3",
    ]
    assert all(len(line) < 40 for line in format_steps(steps, 22.4, 40).splitlines())


def test_install_passes_variables_to_make_and_not_the_job_server() -> None:
    flags = " -j4 --jobserver-auth=fifo:/tmp/GMfifo1 -- PYTHON=python3.12"
    assert build_environment({"MAKEFLAGS": flags})["MAKEFLAGS"].split() == ["--", "PYTHON=python3.12"]
    assert build_environment({"MAKEFLAGS": "-j --jobserver-fds=3,4"})["MAKEFLAGS"].split() == []


def test_a_fresh_checkout_installs_the_demo_into_an_environment_of_its_own() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "demo", "VENV=.absent"],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Python packages=.demo/.packages" in plan.stdout
    assert ".demo/python/bin/python -m sidelight.main demo" in plan.stdout
    assert "requirements/dev.txt" not in plan.stdout
