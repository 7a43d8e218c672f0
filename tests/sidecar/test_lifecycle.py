"""A sidecar's life in a pod: before the service, after it, and beside a Job."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import eventually, running
from tests.sidecar.conftest import Sidecar, Start, StartSidecar
from tests.sidecar.fake_collector import FakeCollector, Reply


def words(sidecar: Sidecar) -> list[str]:
    return [problem["error"] for problem in sidecar.get("/readyz")[1]["problems"]]


def wakes(sidecar: Sidecar) -> int:
    """How often the thread that samples has slept, as it does before each tick."""
    tasks = Path(f"/proc/{sidecar.running.pid}/task").iterdir()
    (sampler,) = (task for task in tasks if (task / "comm").read_text().startswith("sidelight-sampl"))
    lines = (sampler / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_a_native_sidecar_starts_before_the_service_and_ends_after_it_with_all_windows_sent(
    tmp_path: Path, start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """An init container with restartPolicy Always: it is told to end when the service has ended."""
    sidecar = start_sidecar("--match", str(tmp_path), "--window-seconds", "0.5")
    assert sidecar.get("/livez") == (200, {"live": True})
    eventually("it has looked", lambda: words(sidecar) == ["nothing_to_watch"])
    target = start("grows", str(tmp_path))
    eventually("it is sampled", lambda: len(collector.taken) >= 2)
    assert sidecar.get("/readyz")[0] == 200
    assert target.end() == -signal.SIGTERM
    eventually("it is gone", lambda: sidecar.metric("processes") == 0)
    gone_ns = time.time_ns()
    assert sidecar.running.end() == 0
    assert "windows_left=0" in sidecar.running.said()
    last = collector.taken[-1]
    assert last.start_ns + last.duration_ns <= gone_ns
    assert sum(window.duration_ns for window in collector.taken) > 0


def test_a_sidecar_that_never_saw_a_service_ends_in_order(
    start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    sidecar = start_sidecar("--match", str(tmp_path / "nothing"))
    eventually("it has looked", lambda: words(sidecar) == ["nothing_to_watch"])
    assert sidecar.running.end() == 0


def test_told_to_end_with_the_service_still_running_it_sends_the_window_that_is_open(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    """An ordinary container is told at the same time as the service, which may take long to end."""
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--window-seconds", "60")
    eventually("there is a session", lambda: sidecar.metric("sessions") == 1)
    before = wakes(sidecar)
    eventually("ticks are made", lambda: wakes(sidecar) >= before + 20)
    assert collector.taken == []
    assert sidecar.running.end() == 0
    (window,) = collector.taken
    assert window.quality.attempts > 0
    assert target.alive()


def test_a_collector_that_is_away_holds_up_no_end_longer_than_the_flush(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    collector.decide = lambda windows: Reply(503, {"error": "overloaded"}, {"Retry-After": "600"})
    target = start("spin")
    sidecar = start_sidecar("--pid", str(target.pid), "--shutdown-flush-seconds", "1")
    eventually("windows wait", lambda: sidecar.metric("spool_windows") >= 1)
    assert sidecar.running.end() == 0
    assert collector.taken == []
    assert "windows_left=0" not in sidecar.running.said()


def sampled_pids(collector: FakeCollector) -> set[int]:
    return {window.quality.pid for window in collector.taken}


@contextmanager
def job(folder: Path) -> Iterator[str]:
    """A shell that runs Python twice, one after the other until a file `1`, or `2`, is there, and ends."""
    (folder / "job.py").write_text(
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    )
    script = "; ".join(f"{sys.executable} {folder}/job.py {folder}/{part}" for part in (1, 2))
    with running(folder / "job.log", "sh", "-c", script) as shell:
        yield str(shell.pid)


def test_beside_a_job_a_sidecar_ends_by_itself_when_the_job_has(
    tmp_path: Path, start_sidecar: StartSidecar, collector: FakeCollector
) -> None:
    sidecar = start_sidecar("--match", f"{tmp_path}/job", "--exit-when-done-seconds", "5")
    eventually("it waits for a first process", lambda: words(sidecar) == ["nothing_to_watch"])
    with job(tmp_path):
        for part in (1, 2):
            eventually("another process is sampled", lambda part=part: len(sampled_pids(collector)) == part)
            (tmp_path / str(part)).touch()
        eventually("it ends", lambda: not sidecar.running.alive())
    assert sidecar.running.process.returncode == 0
    assert "every process that was watched has ended" in sidecar.running.said()
    assert "windows_left=0" in sidecar.running.said()


@pytest.mark.parametrize("options", [(), ("--exit-when-done-seconds", "3600")])
def test_otherwise_a_sidecar_waits_for_what_is_started_next(
    options: tuple[str, ...], tmp_path: Path, start: Start, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar("--match", str(tmp_path), *options)
    start("grows", str(tmp_path)).end()
    start("grows", str(tmp_path)).end()
    eventually("none is left", lambda: sidecar.metric("processes") == 0)
    again = start("grows", str(tmp_path))
    eventually("the next is watched", lambda: sidecar.get("/readyz")[1]["pids"] == [again.pid])
