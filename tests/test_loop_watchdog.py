"""A process whose event loop stands still writes its stacks to standard error."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, itertools, threading, time
from sidelight import logs
from sidelight.loop_watchdog import log_stalls, run_beside

def block():
    {block}

async def serve():
    await asyncio.sleep(0)
    block()
    await asyncio.sleep(0.5)
    return 42

logs.configure(json=True)
print(asyncio.run(run_beside(log_stalls(0.3), serve())))
"""


def run(block: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.replace("{block}", block)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_stacks_are_written_while_c_code_holds_the_gil() -> None:
    ran = run("sum(itertools.repeat(0, 100_000_000))")
    assert ran.stdout == "42\n"
    assert "in block\n" in ran.stderr
    assert "in serve\n" in ran.stderr
    assert '"event": "the event loop stood still"' in ran.stderr


def test_a_loop_that_runs_writes_nothing() -> None:
    ran = run("pass")
    assert (ran.stdout, "in block" in ran.stderr) == ("42\n", False)
