"""Calls of the kind that argv[2] names, or each kind in a thread of its own, for argv[1] seconds."""

import asyncio
import contextlib
import functools
import itertools
import re
import sys
import threading
import time

END = time.monotonic() + float(sys.argv[1])


def leaf(*_):
    return sum(range(20))


class Base:
    def __init__(self):
        leaf()

    def method(self):
        return leaf()

    @classmethod
    def of_class(cls):
        return cls()

    @staticmethod
    def of_none():
        return leaf()

    @property
    def attribute(self):
        return self.method()

    def __getattr__(self, name):
        return leaf()

    def __add__(self, other):
        return self.attribute


class Derived(Base):
    def __init__(self):
        super().__init__()

    def method(self):
        class Inner:
            value = leaf()

        return super().method()

    def __len__(self):
        return leaf()


def classes():
    derived = Derived.of_class()
    derived.of_none()
    derived + len(derived)
    return derived.missing


def lambdas():
    return (lambda called: (lambda: called())())(lambda: leaf())


def comprehensions():
    return [{leaf(): leaf(n) for n in range(3)} for _ in (leaf(n) for n in range(3))], {leaf()}


def twice(times):
    def decorate(function):
        @functools.wraps(function)
        def wrapped(*arguments):
            return [function(*arguments) for _ in range(times)]

        return wrapped

    return decorate


@twice(2)
@twice(3)
def decorated():
    return leaf()


@functools.lru_cache(maxsize=1)
def cached(_):
    return leaf()


@contextlib.contextmanager
def context():
    leaf()
    yield leaf()


def called_by_c():
    sorted(range(5), key=leaf)
    list(map(leaf, filter(leaf, range(5))))
    functools.reduce(leaf, range(5))
    re.sub("a", lambda _: str(leaf()), "aaa")
    cached(next(COUNT))
    functools.partial(leaf, 1)()
    with context():
        leaf()


def generators():
    def inner(n):
        if n:
            yield from inner(n - 1)
        yield leaf()

    return list(itertools.chain(inner(9), inner(5))), sum(inner(3))


async def awaited(n):
    if n:
        return await awaited(n - 1)
    await asyncio.sleep(0)
    return leaf()


async def produced():
    for n in range(3):
        yield await awaited(n)


async def gathered():
    await asyncio.gather(awaited(9), awaited(2))
    return [value async for value in produced()]


def coroutines():
    asyncio.run(gathered())


def recursion():
    return descend(next(COUNT) % 300)


def descend(n):
    return descend(n - 1) if n else leaf()


MADE = """
def made_{0}(n):
    return made_{0}(n - 1) if n else leaf()
made_{0}(3)
"""


def made():
    n = next(COUNT)
    exec(compile(MADE.format("x" * (n % 7)), f"made-{n % 13}.py", "exec"), {"leaf": leaf})


def größe():
    return leaf()


def 計算():  # noqa: N802
    return größe()


def names():
    return 計算()


COUNT = itertools.count()
KINDS = (
    classes, lambdas, comprehensions, decorated, called_by_c, generators, coroutines, recursion, made, names,
)  # fmt: skip


def again(kind):
    while time.monotonic() < END:
        kind()


def main():
    chosen = [kind for kind in KINDS if sys.argv[2] in (kind.__name__, "threads")]
    threads = [threading.Thread(target=again, args=(kind,)) for kind in chosen[1:]]
    if sys.argv[2] == "threads":
        # First, while nothing else wants the GIL: each start waits for it.
        sleepers = [threading.Thread(target=time.sleep, args=(END - time.monotonic(),)) for _ in range(200)]
        threads = [*sleepers, *threads]
    for thread in threads:
        thread.daemon = True
        thread.start()
    print("ready", flush=True)
    again(chosen[0])


main()
