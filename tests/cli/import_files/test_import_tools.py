"""`sidelight import` of files that the tools write in the test."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sidelight_cli.import_files.profile_file import read_profile_file
from sidelight_model.recordings.imported_profile import ImportedProfile
from tests.cli.import_files.test_import import share

SECONDS = 300
PROGRAM = """
import sys, threading, time

def inner(number):
    return sum(range(number))

def outer(until):
    while time.process_time() < until:  # CPU time: it has its share of it however busy the machine is
        inner(2000)

outer(time.process_time() + float(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "work.py"
    file.write_text(PROGRAM)
    return file


def check(profile: ImportedProfile, seconds: float) -> None:
    """Nearly all time is in the busy function, and there is at most the time of the recording."""
    assert share(profile, "inner") + share(profile, "outer") > 0.5
    assert 0.1e9 < profile.total_ns < seconds * 1.5e9
    assert profile.damaged_parts == 0


@pytest.mark.parametrize("file_format", ["raw", "speedscope", "chrometrace"])
def test_all_formats_of_py_spy_are_read(program: Path, tmp_path: Path, file_format: str) -> None:
    file, begun = tmp_path / "profile", time.monotonic()
    py_spy = [Path(sys.executable).parent / "py-spy", "record", "-r", "100", "-f", file_format, "-o", file]
    subprocess.run(
        [*py_spy, "--", sys.executable, program, "1"], check=True, timeout=SECONDS, capture_output=True
    )
    check(read_profile_file(file, 100), 10 + time.monotonic() - begun)


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Installs a package into an environment of its own, and gives its folder of programs."""

    def begin(package: str) -> Path:
        folder = tmp_path_factory.mktemp("tool")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=SECONDS)
        subprocess.run([folder / "bin" / "pip", "install", "-q", package], check=True, timeout=SECONDS)
        return folder / "bin"

    return begin


@pytest.mark.long
def test_text_and_mojo_of_austin_agree(program: Path, tmp_path: Path, install: Callable[[str], Path]) -> None:
    austin = install("austin-dist==3.7.0") / "austin"
    for option in ((), ("-b",), ("-b", "-f")):
        file = tmp_path / f"profile{''.join(option)}"
        command = [austin, "-i", "10ms", *option, "-o", file, sys.executable, program, "2"]
        begun = time.monotonic()
        subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
        check(read_profile_file(file, 100), 10 + time.monotonic() - begun)


@pytest.mark.long
def test_traces_of_viztracer_are_read(program: Path, tmp_path: Path, install: Callable[[str], Path]) -> None:
    file = tmp_path / "trace.json"
    command = [install("viztracer") / "viztracer", "-o", file, "--min_duration", "1ms", program, "1"]
    begun = time.monotonic()
    subprocess.run(command, check=True, timeout=SECONDS, capture_output=True, cwd=tmp_path)
    check(read_profile_file(file, 100), 10 + time.monotonic() - begun)


@pytest.mark.long
def test_go_tool_pprof_shows_the_same_total(tmp_path: Path) -> None:
    source = tmp_path / "main.go"
    source.write_text(
        'package main\nimport ("os"; "runtime/pprof"; "time")\n'
        "func inner(n int) int { s := 0; for i := 0; i < n; i++ { s += i * s }; return s }\n"
        "func main() { f, _ := os.Create(os.Args[1]); pprof.StartCPUProfile(f)\n"
        "  for end := time.Now().Add(time.Second); time.Now().Before(end); { inner(100000) }\n"
        "  pprof.StopCPUProfile(); f.Close() }\n"
    )
    file = tmp_path / "cpu.pb.gz"
    subprocess.run(["go", "run", source, file], check=True, timeout=SECONDS, capture_output=True)
    profile = read_profile_file(file, 100)
    top = subprocess.run(
        ["go", "tool", "pprof", "-top", "-unit", "ms", file],
        check=True,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert f"Total samples = {profile.total_ns / 1e6:.0f}ms" in top.stdout
    assert share(profile, "main.inner") > 0.5
