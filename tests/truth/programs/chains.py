"""Chains of generators or coroutines, as argv[3] says, with a spinning function at their end.

`shallow` runs through two of them, for 40 % of the time, and `deep` through ten. Each link is a function of
its own: `deep_1` runs `deep_2`, and so on. Coroutines run in three asyncio tasks.
"""

import asyncio
import sys
import time

from telling import LUCK, Diary, Run, length, spin_until

PHASE_SECONDS = 0.0025
LENGTHS = {"shallow": 2, "deep": 10}
GENERATOR = """
def {name}_{n}(seconds):
    yield from {name}_{next}(seconds)
"""
LAST_GENERATOR = """
def {name}_{n}(seconds):
    {name}(seconds)
    yield
"""
COROUTINE = """
async def {name}_{n}(seconds):
    await {name}_{next}(seconds)
"""
LAST_COROUTINE = """
async def {name}_{n}(seconds):
    {name}(seconds)
    await sleep(0)
"""


def linked(link, last):
    """The first link of each chain."""

    def shallow(seconds):
        DIARY.begin(0)
        spin_until(time.perf_counter() + seconds)
        DIARY.end()

    def deep(seconds):
        DIARY.begin(1)
        spin_until(time.perf_counter() + seconds)
        DIARY.end()

    scope = {"shallow": shallow, "deep": deep, "sleep": asyncio.sleep}
    for name, count in LENGTHS.items():
        for n in range(1, count + 1):
            source = (link if n < count else last).format(name=name, n=n, next=n + 1)
            exec(compile(source, "chains.py", "exec"), scope)
    return {name: scope[name + "_1"] for name in LENGTHS}


def drawn():
    [name] = LUCK.choices(["shallow", "deep"], [40, 60])
    return name, length(PHASE_SECONDS)


def run_generators():
    first = linked(GENERATOR, LAST_GENERATOR)
    while RUN.on():
        name, seconds = drawn()
        for _ in first[name](seconds):
            pass


async def serve(first):
    while RUN.on():
        name, seconds = drawn()
        await first[name](seconds)


async def run_coroutines():
    first = linked(COROUTINE, LAST_COROUTINE)
    await asyncio.gather(*(serve(first) for _ in range(3)))


RUN = Run()
DIARY = Diary("main", ["shallow", "deep"])
RUN.ready()
if RUN.variant == ["generators"]:
    run_generators()
elif RUN.variant == ["coroutines"]:
    asyncio.run(run_coroutines())
else:
    sys.exit("what kind of chain?")
RUN.leave(DIARY)
