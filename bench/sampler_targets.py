"""The programs that bench/sampler.py and bench/stops.py sample.

    python bench/sampler_targets.py spin DEPTH IDLE_THREADS | crowd THREADS | wait THREADS | tasks TASKS
    python bench/sampler_targets.py service NAME PORT_FILE TASKS

Each prints one line when it is ready, and exits at the end of its input. `spin` runs a loop DEPTH calls
deep beside waiting threads. It adds up the time it loses: gaps between two consecutive readings of the
clock. For each line of input it prints the sum.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

STEP_NS = 10_000
"""A step of the loop takes about 0.1 us; in a longer gap the thread did not run."""


def spin(depth: int, idle_threads: int) -> None:
    lost = [0]
    for _ in range(idle_threads):
        threading.Thread(target=threading.Event().wait, daemon=True).start()

    def turn(left: int) -> None:
        if left > 1:
            turn(left - 1)
            return
        now = time.perf_counter_ns
        last = now()
        while True:
            at = now()
            if at - last > STEP_NS:
                lost[0] += at - last
            last = at

    sys.setrecursionlimit(depth + 1000)
    threading.stack_size(256 << 20)
    threading.Thread(target=turn, args=(depth,), daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(lost[0], flush=True)


def crowd(threads: int) -> None:
    """Spin beside threads of which each wakes about once a second."""
    threading.stack_size(256 * 1024)
    for n in range(threads):
        threading.Thread(target=wake_every_second, args=(n / threads,), daemon=True).start()
    spin(5, 0)


def wake_every_second(phase: float) -> None:
    time.sleep(phase)
    while True:
        time.sleep(1)


def wait(threads: int) -> None:
    for _ in range(threads):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def tasks(count: int) -> None:
    """Keep a loop busy beside so many tasks, each three coroutines deep."""
    import asyncio

    async def leaf(event: asyncio.Event) -> None:
        await event.wait()

    async def root(event: asyncio.Event) -> None:
        await leaf(event)

    async def turns() -> AsyncIterator[None]:
        while True:
            yield await asyncio.sleep(0)

    async def stay() -> None:
        event = asyncio.Event()
        waiting = [asyncio.create_task(root(event)) for _ in range(count)]
        await asyncio.sleep(0)
        print("ready", flush=True)
        async for _ in turns():
            assert not waiting[0].done()

    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    asyncio.run(stay())


def service(name: str, tasks: int) -> None:
    """Run an example service beside so many waiting tasks until the input ends."""
    import asyncio

    run, waiting = asyncio.BaseEventLoop.run_forever, []

    def run_beside_tasks(loop: asyncio.BaseEventLoop) -> None:
        while len(waiting) < tasks:
            waiting.append(loop.create_task(asyncio.Event().wait()))
        run(loop)

    asyncio.BaseEventLoop.run_forever = run_beside_tasks  # type: ignore[method-assign]
    examples = Path(__file__).parent.parent / "examples"
    sys.path.insert(0, str(examples))
    sys.argv = [str(examples / f"{name}.py"), "--port-file", sys.argv[3]]
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    import runpy

    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["spin", depth, threads]:
            spin(int(depth), int(threads))
        case ["crowd", threads]:
            crowd(int(threads))
        case ["wait", threads]:
            wait(int(threads))
        case ["tasks", count]:
            tasks(int(count))
        case ["service", name, _, count]:
            service(name, int(count))
