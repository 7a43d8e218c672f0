"""Child processes: how their failures are told, and that none of them stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from sidelight_cli.demo.processes.child_process import (
    ChildCommand,
    ChildFailed,
    ChildProcess,
    build_clean_environment,
    describe_exit,
    read_last_lines,
)
from sidelight_cli.demo.processes.process_group import ProcessGroup
from tests.processes import eventually, running

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def program(code: str, name: str = "program", *, output: bool = False) -> ChildCommand:
    return ChildCommand(name, (sys.executable, "-c", code), hint="Try again.", has_pipes=output)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_a_child_that_fails_at_start_is_told_with_its_last_lines_and_what_to_do(tmp_path: Path) -> None:
    code = "import sys; print('line one'); print('no room', file=sys.stderr); sys.exit(3)"
    child = await ChildProcess.start(program(code, "collector"), tmp_path)
    with pytest.raises(ChildFailed) as caught:
        await child.wait_for_port(tmp_path / "port", 120)
    assert "the collector ended with exit status 3" in caught.value.message
    assert "    line one\n    no room" in caught.value.message
    assert caught.value.hint == "Try again."


async def test_a_child_that_never_opens_its_port_is_told_after_the_bound(tmp_path: Path) -> None:
    child = await ChildProcess.start(program("import time; time.sleep(600)"), tmp_path)
    with pytest.raises(ChildFailed, match=r"did not open its port within 0.2 s.*\n.*wrote nothing"):
        await child.wait_for_port(tmp_path / "port", 0.2)
    assert await child.stop(120) == -signal.SIGTERM


async def test_a_port_half_written_is_waited_for(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    port_file.touch()
    child = await ChildProcess.start(program("import time; time.sleep(600)"), tmp_path)
    async with asyncio.TaskGroup() as group:
        port = group.create_task(child.wait_for_port(port_file, 120))
        await asyncio.sleep(0)
        port_file.write_text("8123\n")
    assert port.result() == 8123
    await child.stop(120)


async def test_a_child_that_ignores_sigterm_is_killed_with_its_own_children(tmp_path: Path) -> None:
    child = await ChildProcess.start(program(STUBBORN, output=True), tmp_path)
    grandchild = int(await child.read_line(120))
    assert await child.stop(0.3) == -signal.SIGKILL
    assert gone(child.process.pid)
    eventually("the grandchild is gone", lambda: gone(grandchild))


async def test_work_ends_as_soon_as_a_child_does(tmp_path: Path) -> None:
    before = psutil.Process().children()
    crew = ProcessGroup(tmp_path)
    await crew.start(program("import time; time.sleep(600)", "collector"))
    await crew.start(program("raise SystemExit('lost')", "sidecar one"))
    try:
        with pytest.raises(ChildFailed, match="the sidecar one ended with exit status 1") as caught:
            await crew.run_guarded(asyncio.sleep(600))
        assert "lost" in caught.value.message
    finally:
        await crew.stop_all()
    assert set(psutil.Process().children()) <= set(before)


async def test_work_that_fails_by_itself_keeps_its_own_error(tmp_path: Path) -> None:
    crew = ProcessGroup(tmp_path)
    await crew.start(program("import time; time.sleep(600)", "collector"))

    async def work() -> None:
        raise ValueError("its own")

    try:
        with pytest.raises(ValueError, match="its own"):
            await crew.run_guarded(work())
    finally:
        await crew.stop_all()


async def test_those_on_whom_nobody_depends_end_first(tmp_path: Path) -> None:
    crew, order = ProcessGroup(tmp_path), tmp_path / "order"
    code = f"""
import signal, sys, time
def end(*_):
    with open({str(order)!r}, "a") as file:
        file.write(NAME + " ")
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(600)
"""
    for name in ("collector", "service a", "service b", "sidecar a", "load a"):
        child = await crew.start(program(f"NAME = {name.split()[0]!r}{code}", name, output=True))
        await child.read_line(120)
    await crew.stop_all()
    assert order.read_text().split() == ["load", "sidecar", "service", "service", "collector"]


def test_children_end_when_the_demo_itself_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from sidelight_cli.demo.processes.child_process import ChildProcess, ChildCommand
async def main():
    sleeper = ChildCommand("sleeper", (sys.executable, "-c", "import time; time.sleep(600)"), "")
    child = await ChildProcess.start(sleeper, Path({str(tmp_path)!r}))
    Path({str(tmp_path / "pid")!r}).write_text(f"{{child.process.pid}} ")
    await asyncio.sleep(600)
asyncio.run(main())
"""
    with running(tmp_path / "log", sys.executable, "-c", code) as parent:
        eventually("the child runs", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        child = int((tmp_path / "pid").read_text())
        assert not gone(child)
        parent.end(signal.SIGKILL)
        eventually("the child is gone", lambda: gone(child))


async def test_children_lead_their_own_process_group(tmp_path: Path) -> None:
    child = await ChildProcess.start(program("import time; time.sleep(600)"), tmp_path)
    assert os.getpgid(child.process.pid) == child.process.pid != os.getpgid(0)
    await child.stop(120)


def test_the_demos_own_settings_are_not_its_childrens() -> None:
    environ = {"SIDELIGHT_RATE": "5", "SIDELIGHT_LISTEN": "x", "HOME": "/root"}
    assert build_clean_environment(environ) == {"HOME": "/root", "PYTHONUNBUFFERED": "1"}


def test_an_exit_status_is_told_in_words() -> None:
    assert describe_exit(2) == "ended with exit status 2"
    assert describe_exit(-9) == "was ended by SIGKILL"


def test_the_end_of_a_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(100_000)) + "\n\n")
    assert read_last_lines(log, 2) == ["line 99998", "line 99999"]
    assert read_last_lines(tmp_path / "absent") == []
