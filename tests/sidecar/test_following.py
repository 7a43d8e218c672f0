"""Masters and workers as real programs make them, found with their roles and followed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import ProcessFilter, ProcessKey, select_processes
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.attach_limiter import AttachLimiter
from sidelight_sidecar.samplers.guard import Guard, has_stopped_thread
from sidelight_sidecar.samplers.sampler import SamplingError
from sidelight_sidecar.sampling.session_handle import SessionHandle
from tests.processes import Running, eventually, running
from tests.sidecar.conftest import Start, StartSidecar, proc_of
from tests.sidecar.fake_collector import FakeCollector

CROWD = 40
MASTER_IN_C = """\
#include <Python.h>
#include <unistd.h>
int main(void) {
    Py_Initialize();
    PyRun_SimpleString("import time");
    for (int worker = 0; worker < 2; worker++) {
        PyOS_BeforeFork();
        if (fork() == 0) {
            PyOS_AfterFork_Child();
            return PyRun_SimpleString("while True: time.sleep(0.01)");
        }
        PyOS_AfterFork_Parent();
    }
    for (;;) pause();
}
"""


def roles(pid: int, procfs: ProcFs) -> dict[int, str]:
    found = select_processes(procfs.list_processes(), ProcessFilter(frozenset({pid})), own_pid=-1)
    return {key.pid: one.role for key, one in found.items()}


def workers(target: Running) -> list[int]:
    return [int(pid) for pid in re.findall(r"worker (\d+)", target.said())]


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_the_workers_of_multiprocessing_are_found_and_its_aids_are_not(
    method: str, start: Start, procfs: ProcFs
) -> None:
    target = start("pool", method)
    both = eventually("both work", lambda: workers(target)[1:] and workers(target))
    expected = {target.pid: "master", both[0]: "worker", both[1]: "worker"}
    eventually(f"they are {expected}", lambda: roles(target.pid, procfs) == expected)
    pythons = [proc for proc in procfs.list_processes() if proc.python_version is not None]
    family = {proc.pid for proc in pythons if proc.ppid == target.pid}
    assert len(family - set(expected)) == {"spawn": 1, "forkserver": 2, "fork": 0}[method]


def test_a_master_in_c_and_its_workers_are_found(tmp_path: Path, procfs: ProcFs) -> None:
    compiler = shutil.which("cc")
    library = Path(sysconfig.get_config_var("LIBDIR") or "") / str(sysconfig.get_config_var("LDLIBRARY"))
    assert compiler is not None, "this test needs a C compiler: run `make tools`"
    assert library.suffix != ".a", "this test needs a shared libpython: run `make tools`"
    (tmp_path / "master.c").write_text(MASTER_IN_C)
    binary = tmp_path / "webserver"
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    include = sysconfig.get_path("include")
    command = [compiler, str(tmp_path / "master.c"), f"-I{include}", "-o", str(binary), *link]
    subprocess.run(command, check=True)
    with running(tmp_path / "log", str(binary), env={"PYTHONHOME": sys.base_prefix}) as master:
        try:
            eventually(
                "a master and two workers",
                lambda: sorted(roles(master.pid, procfs).values()) == ["master", "worker", "worker"],
            )
        finally:
            for pid in roles(master.pid, procfs):
                os.kill(pid, signal.SIGKILL)


async def test_a_pid_that_is_another_process_by_the_time_of_the_attach_is_let_go(start: Start) -> None:
    target = start("spin")
    now = proc_of(target)
    before = replace(now, key=ProcessKey(now.pid, now.key.start_ticks - 1))

    class Attaches:
        stopped = 0

        def attach(self, *_: object, **__: object) -> Attaches:
            return self

        def stop(self) -> None:
            self.stopped += 1

    sampler = Attaches()
    limiter = AttachLimiter(time.monotonic, lambda: 0.5)
    handle = SessionHandle(before, Guard(ProcFs()), limiter, SidecarMetrics(), HealthBoard())
    with pytest.raises(SamplingError) as refused:
        await handle.attach(sampler, 1, 1)  # type: ignore[arg-type]
    assert (refused.value.reason, sampler.stopped) == (Reason.PID_GONE, 1)


def test_forty_workers_that_start_at_once_are_all_sampled_and_run_on(
    start: Start, start_sidecar: StartSidecar, collector: FakeCollector, procfs: ProcFs
) -> None:
    target = start("crowd", str(CROWD))
    sidecar = start_sidecar("--pid", str(target.pid), "--rate", "20", "--window-seconds", "1")

    def sampled_as() -> dict[int, str]:
        return {window.quality.pid: window.labels["process"] for window in collector.taken}

    eventually("it is sampled alone", lambda: sampled_as() == {target.pid: "main"})
    os.kill(target.pid, signal.SIGUSR1)
    eventually("every worker is sampled", lambda: len(sampled_as()) == 1 + CROWD, seconds=120)
    eventually("its master is one", lambda: sampled_as()[target.pid] == "master")
    assert sorted(sampled_as().values()) == ["master", *["worker"] * CROWD]
    assert sidecar.running.end(seconds=60) == 0
    pids = sampled_as().keys()
    eventually(
        "none is stopped", lambda: not any(has_stopped_thread(procfs.read_thread_states(pid)) for pid in pids)
    )
