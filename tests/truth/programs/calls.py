"""Functions that call only given others: `g<n>` calls `g<2n % 64>` or `g<(2n + 1) % 64>`, ten deep.

Any other pair of neighbours in a stack never existed; on the tenth stands `leaf`. argv[3] says of what kind
the 64 are: functions, generators, coroutines, `methods` (each call through a decorator, a method, a
comprehension and a lambda), or `threads`: functions in four threads, `t0_g<n>` to `t3_g<n>`, which never call
each other's.
"""

import asyncio
import functools
import threading

from telling import Run

WIDTH, DEPTH = 64, 10
FUNCTION = """
def {t}g{n}(depth, bits):
    if depth == 1:
        return leaf()
    return ({t}g{right} if bits & 1 else {t}g{left})(depth - 1, bits >> 1)
"""
GENERATOR = """
def {t}g{n}(depth, bits):
    if depth == 1:
        yield leaf()
        return
    yield from ({t}g{right} if bits & 1 else {t}g{left})(depth - 1, bits >> 1)
"""
COROUTINE = """
async def {t}g{n}(depth, bits):
    if depth == 1:
        await sleep(0)
        return leaf()
    return await ({t}g{right} if bits & 1 else {t}g{left})(depth - 1, bits >> 1)
"""
METHOD = """
class Holder{n}:
    def call(self, depth, bits):
        called = {t}g{right} if bits & 1 else {t}g{left}
        return [(lambda d: called(d, bits >> 1))(d) for d in (depth - 1,)][0]

@passing
def {t}g{n}(depth, bits):
    if depth == 1:
        return max([leaf()], key=lambda value: -value)
    return Holder{n}().call(depth, bits)
"""


def leaf():
    return sum(range(10))


def passing(function):
    @functools.wraps(function)
    def wrapped(depth, bits):
        return function(depth, bits)

    return wrapped


def linked(template, thread=""):
    """The 64 functions."""
    scope = {"leaf": leaf, "sleep": asyncio.sleep, "passing": passing}
    for n in range(WIDTH):
        source = template.format(t=thread, n=n, left=2 * n % WIDTH, right=(2 * n + 1) % WIDTH)
        exec(compile(source, "calls.py", "exec"), scope)
    return [scope[f"{thread}g{n}"] for n in range(WIDTH)]


def paths():
    """Where to begin and which way to turn, again and again all of them."""
    turn = 0
    while RUN.on():
        for _ in range(100):
            turn += 1
            yield turn % WIDTH, turn * 40503 & 0x3FF


def call_all(starts):
    for start, bits in paths():
        assert starts[start](DEPTH, bits) == 45


def iterate_all(starts):
    for start, bits in paths():
        for value in starts[start](DEPTH, bits):
            assert value == 45


async def await_all(starts):
    async def serve():
        for start, bits in paths():
            assert await starts[start](DEPTH, bits) == 45

    await asyncio.gather(*(serve() for _ in range(4)))


def in_threads():
    threads = [
        threading.Thread(target=call_all, args=(linked(FUNCTION, f"t{number}_"),)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Python answers a signal in the main thread, when that runs, and any thread may be handed it.
        while thread.is_alive():
            thread.join(0.2)


RUN = Run()
RUN.ready()
{
    "functions": lambda: call_all(linked(FUNCTION)),
    "generators": lambda: iterate_all(linked(GENERATOR)),
    "coroutines": lambda: asyncio.run(await_all(linked(COROUTINE))),
    "methods": lambda: call_all(linked(METHOD)),
    "threads": in_threads,
}[RUN.variant[0]]()
RUN.leave()
