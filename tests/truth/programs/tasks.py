"""argv[3] asyncio tasks, each on one await path after another: 1,000 changes of path a second in all.

`query`, `fetch`, `retry` and `update` have 60, 25, 10 and 5 % of the time. A task records when it enters and
leaves each. At the end the stacks of `asyncio.all_tasks()` must be on the paths of these records.
"""

import asyncio
import json
import time
from array import array
from collections import Counter
from pathlib import Path

from telling import LUCK, Run, length

CHANGES_PER_SECOND = 1000


async def query(seconds):
    await take_connection(seconds)


async def take_connection(seconds):
    queue = asyncio.Queue()
    asyncio.get_running_loop().call_later(seconds, queue.put_nowait, None)
    await queue.get()


async def fetch(seconds):
    await receive(seconds)


async def receive(seconds):
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_later(seconds, lambda: future.done() or future.set_result(None))
    await future


async def retry(seconds):
    await asyncio.sleep(seconds)


async def update(seconds):
    lock = asyncio.Lock()
    await lock.acquire()
    asyncio.get_running_loop().call_later(seconds, lock.release)
    async with lock:
        pass


async def handle():
    while True:
        [path] = LUCK.choices(PATHS, SHARES)
        seconds = length(COUNT / CHANGES_PER_SECOND)
        ENTERED[path.__name__].append(time.time_ns())
        await path(seconds)
        LEFT[path.__name__].append(time.time_ns())


async def serve():
    tasks = [asyncio.create_task(handle()) for _ in range(COUNT)]
    await asyncio.sleep(0)
    RUN.ready()
    while RUN.on():
        await asyncio.sleep(0.05)
    # A task that is ready to leave is still on its path.
    found = Counter(task.get_coro().cr_await.__name__ for task in asyncio.all_tasks() & set(tasks))
    assert found == Counter({name: len(ENTERED[name]) - len(LEFT[name]) for name in ENTERED}), found


PATHS, SHARES = (query, fetch, retry, update), (60, 25, 10, 5)
RUN = Run()
COUNT = int(RUN.variant[0])
ENTERED = {path.__name__: array("q") for path in PATHS}
LEFT = {path.__name__: array("q") for path in PATHS}
asyncio.run(serve())
moments = {
    "entered": {name: rows.tolist() for name, rows in ENTERED.items()},
    "left": {name: rows.tolist() for name, rows in LEFT.items()},
}
Path(RUN.path).write_text(json.dumps([{"thread": "tasks", **moments}]))
