"""A sidecar that can open no more files goes on, says so, and recovers."""

from __future__ import annotations

import errno
import http.client
import json
import os
import resource
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sidelight_sidecar.descriptors import is_out_of_descriptors
from sidelight_sidecar.discovery.cgroup import Cgroups
from sidelight_sidecar.discovery.procfs import ProcFs
from tests.processes import eventually
from tests.sidecar.conftest import Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector


def test_a_sidecar_out_of_descriptors_lives_says_so_and_recovers(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    target = start("spin")
    sidecar = start_sidecar(
        "--pid", str(target.pid), "--window-seconds", "0.5", "--scan-interval-seconds", "0.2"
    )
    pid = sidecar.running.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert soft == hard
    eventually("windows arrive", lambda: len(collector.taken) >= 2)
    # A connection of its own: without descriptors the sidecar accepts none.
    connection = http.client.HTTPConnection(urlsplit(sidecar.url).netloc, timeout=60)

    def problems() -> dict[str, Any]:
        connection.request("GET", "/readyz")
        answer = json.loads(connection.getresponse().read())
        return {problem["about"]: problem["error"] for problem in answer["problems"]}

    assert problems() == {}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    eventually("it says so", lambda: problems().get("open files") == "out_of_descriptors")
    assert set(problems().values()) == {"out_of_descriptors"}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    eventually("it has recovered", lambda: problems() == {})
    before = len(collector.taken)
    eventually("windows arrive again", lambda: len(collector.taken) >= before + 2)
    assert sidecar.metric("spool_corrupt_files_total") == 0
    assert sidecar.metric("processes") == 1
    assert sidecar.running.end() == 0
    assert "root task" not in sidecar.running.said()


def test_a_scan_without_descriptors_is_an_error_and_forgets_nothing() -> None:
    procfs = ProcFs()
    known = {proc.pid: proc for proc in procfs.list_processes()}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    # The folder can be listed then, but none of its files be opened.
    for left in (0, 1):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + left, hard))
        errors: list[OSError] = []
        try:
            for read in (
                procfs.list_processes if left == 0 else ProcFs().list_processes,
                lambda: procfs.read_stat(os.getpid()),
                lambda: procfs.read_thread_states(os.getpid()),
                lambda: procfs.read_process(os.getpid()),
                lambda: Cgroups().find_path(os.getpid(), 2),
            ):
                try:
                    read()
                except OSError as error:
                    errors.append(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert all(map(is_out_of_descriptors, errors))
        assert len(errors) == (5 if left == 0 else 0)
    assert known[os.getpid()] in procfs.list_processes()


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ENOENT, False)]
)
def test_only_errors_for_want_of_descriptors_say_nothing_about_the_file(number: int, expected: bool) -> None:
    assert is_out_of_descriptors(OSError(number, os.strerror(number))) is expected


def test_a_process_whose_main_thread_has_ended_is_found_by_another_thread(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    for tid in (7, 9):
        (folder / "task" / str(tid)).mkdir(parents=True)
    ended = "7 (python3) Z 1 7 7 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 2 0 900 0 0 0 0 0 0 0"
    living = "9 (python3) R 1 7 7 0 -1 4194304 0 0 0 0 1 1 0 0 20 0 2 0 950 4096 5 0 0 0 77 0"
    (folder / "stat").write_text(ended)
    (folder / "task/7/stat").write_text(ended)
    thread = folder / "task/9"
    (thread / "stat").write_text(living)
    (thread / "exe").symlink_to("/usr/bin/python3.12")
    (thread / "maps").write_text("00-11 r-xp 00000000 08:01 1 /usr/bin/python3.12\n")
    (thread / "cmdline").write_bytes(b"python3\0app.py\0")
    (thread / "status").write_text("Name:\tpython3\nNSpid:\t7\n")
    (proc,) = ProcFs(tmp_path).list_processes()
    assert (proc.state, proc.python_version, proc.command_line) == ("R", "3.12", ("python3", "app.py"))
    assert (proc.key.start_ticks, proc.stack_start, proc.is_alive) == (900, 77, True)
