"""asyncio tasks of all kinds, and the truth about them.

Writes the stacks of all tasks to argv[2] with argv[1] tasks of each kind, says "ready" and stands still in
its loop's thread until standard input ends. With argv[3] "moving" it says "ready" and keeps its loop busy.
"""

import asyncio
import ctypes
import json
import os
import sys
import types
from asyncio import tasks
from pathlib import Path

COUNT, FILE = int(sys.argv[1]), Path(sys.argv[2])


async def leaf(event):
    await event.wait()


async def middle(event):
    await leaf(event)


async def outer(event):
    await middle(event)


async def numbers(event):
    for number in range(3):
        await leaf(event)
        yield number


async def iterates(event):
    async for _ in numbers(event):
        pass


async def next_number(event):
    await anext(numbers(event), None)


async def sleeps(_):
    await asyncio.sleep(600)


async def gets(_):
    await asyncio.Queue().get()


async def times_out(event):
    async with asyncio.timeout(600):
        await middle(event)


async def waits_for(event):
    await asyncio.wait_for(leaf(event), 600)


async def gathers(event):
    await asyncio.gather(leaf(event), leaf(event))


async def groups(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(leaf(event))
        group.create_task(leaf(event))


async def shields(event):
    await asyncio.shield(leaf(event))


@types.coroutine
def by_generator(future):
    yield from future


async def old_style(_):
    await by_generator(asyncio.get_running_loop().create_future())


async def joins(event):
    await asyncio.create_task(leaf(event), name="the child")


async def soon():
    pass


KINDS = [
    outer,
    iterates,
    next_number,
    sleeps,
    gets,
    times_out,
    waits_for,
    gathers,
    groups,
    shields,
    old_style,
    joins,
]


def awaited(task):
    """The functions and lines of a task, root first."""
    chain, frames = task.get_coro(), []
    while chain is not None:
        if hasattr(chain, "cr_code"):
            code, frame, chain = chain.cr_code, chain.cr_frame, chain.cr_await
        elif hasattr(chain, "gi_code"):
            code, frame, chain = chain.gi_code, chain.gi_frame, chain.gi_yieldfrom
        elif hasattr(chain, "ag_code"):
            code, frame, chain = chain.ag_code, chain.ag_frame, chain.ag_await
        elif type(chain).__name__ in ("async_generator_asend", "anext_awaitable", "coroutine_wrapper"):
            chain = ctypes.cast(ctypes.c_uint64.from_address(id(chain) + 16).value, ctypes.py_object).value
            continue
        else:
            break
        frames.append(f"{code.co_qualname}:{frame.f_lineno}")
    return frames


def truth(others):
    # Since 3.14 `all_tasks` leaves out tasks implemented in Python.
    current, rows = asyncio.current_task(), []
    for task in {*asyncio.all_tasks(), *others}:
        future = task._fut_waiter
        waits = future is not None and not future.done()
        state = "task_running" if task is current else "task_waiting" if waits else "task_ready"
        rows.append([state, awaited(task)])
    return rows


async def turn():
    await asyncio.sleep(0)


async def turns():
    while True:
        await turn()


def stand_still():
    print("ready", flush=True)
    os.read(0, 1)


async def stay(event):
    if sys.argv[3] == "moving":
        keep = [asyncio.create_task(turns()) for _ in range(COUNT)]
        keep += [asyncio.create_task(outer(event)) for _ in range(COUNT)]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(lambda: print("ready", flush=True))
        await asyncio.gather(*keep)
    loop = asyncio.get_running_loop()
    keep = [asyncio.create_task(kind(event)) for kind in KINDS for _ in range(COUNT)]
    others = [tasks._PyTask(outer(event), loop=loop)]
    if sys.version_info >= (3, 12):
        loop.set_task_factory(asyncio.eager_task_factory)
        keep += [loop.create_task(middle(event)) for _ in range(COUNT)]
        loop.set_task_factory(None)
    await asyncio.sleep(0.1)
    keep.append(asyncio.create_task(soon()))
    FILE.write_text(json.dumps(truth(others)))
    stand_still()


asyncio.run(stay(asyncio.Event()))
