"""Which stacks of `programs/calls.py`, `programs/chains.py` and `programs/tasks.py` can exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile

LINK = re.compile(r"((?:t\d_)?)g(\d+)$")
DEPTH, WIDTH = 10, 64

# What may stand on what, where a link of the chain is `g`. Qualified names are cut to their last part.
ENTRIES = {"call_all", "iterate_all", "serve"}
BELOW: dict[str, dict[str, set[str]]] = {
    "functions": {"g": {"g", "leaf"}},
    "threads": {"g": {"g", "leaf"}},
    "generators": {"g": {"g", "leaf"}},
    "coroutines": {"g": {"g", "leaf", "sleep"}, "sleep": {"__sleep0"}},
    "methods": {
        "wrapped": {"g"},
        "g": {"leaf", "call", "<lambda>"},
        "call": {"<listcomp>", "<genexpr>", "<lambda>"},
        "<listcomp>": {"<lambda>"},
        "<lambda>": {"wrapped"},
    },
}

# Await paths and what a task at the end of each waits for.
AWAITS = (
    ("handle", "query", "take_connection", "Queue.get", "[queue]"),
    ("handle", "fetch", "receive", "[future]"),
    ("handle", "retry", "sleep", "%5Bsleep]"),
    ("handle", "update", "_ContextManagerMixin.__aenter__", "Lock.acquire", "%5Block]"),
    ("serve", "sleep", "%5Bsleep]"),
)
COROUTINES = {"handle", "query", "take_connection", "fetch", "receive", "retry", "update", "serve"}


def call_is_legal(kind: str) -> Callable[[Sequence[str]], bool]:
    """Whether a stack, root first, is one that `calls.py` of that kind can have."""
    below = BELOW[kind]
    first = "wrapped" if kind == "methods" else "g"

    def legal(functions: Sequence[str]) -> bool:
        names = [function.rpartition(".")[2] for function in functions]
        kinds = ["g" if LINK.match(name) else name for name in names]
        start = next((i for i, name in enumerate(kinds) if name == first), None)
        if start is None:
            return not {"g", "wrapped", "leaf", "call"} & set(kinds)
        if kinds[start - 1] not in ENTRIES or names[0] not in {"<module>", "_bootstrap"}:
            return False
        chain = kinds[start:]
        links = [name for name in names[start:] if LINK.match(name)]
        at_the_end = {"leaf", "sleep"} & set(chain)
        return (
            all(b in below.get(a, ()) for a, b in pairwise(chain))
            and all(_calls(a, b) for a, b in pairwise(links))
            and (len(links) == DEPTH if at_the_end else len(links) <= DEPTH)
        )

    return legal


def _calls(caller: str, called: str) -> bool:
    (thread, a), (other, b) = (LINK.match(name).groups() for name in (caller, called))  # type: ignore[union-attr]
    return thread == other and int(b) // 2 == int(a) % (WIDTH // 2)


def chain_is_legal(functions: Sequence[str]) -> bool:
    """Whether a stack is one that `chains.py` can have: its links in order, the spinning behind the last."""
    names = [function.rpartition(".")[2] for function in functions]
    lengths = {"shallow": 2, "deep": 10}
    for name, length in lengths.items():
        links = [f"{name}_{n}" for n in range(1, length + 1)]
        found = [other for other in names if other.startswith(f"{name}_")]
        if found != links[: len(found)] or (name in names and found != links):
            return False
        if name in names and names[names.index(name) - 1] != links[-1]:
            return False
        if found and names.index(found[-1]) - names.index(found[0]) != len(found) - 1:
            return False
    return sum(any(other.startswith(f"{name}_") for other in names) for name in lengths) <= 1


def await_is_legal(functions: Sequence[str]) -> bool:
    """Whether a stack of a task, behind its state, is one that `tasks.py` can have."""
    state, *found = functions
    if state == "task_waiting":
        return tuple(found) in AWAITS
    if state == "task_ready":
        return tuple(found) in {*(path[:-1] for path in AWAITS), ("handle",)}
    # A running task is on its way to the end of a path, with the functions that its coroutine called.
    coroutines = tuple(takewhile(COROUTINES.__contains__, found))
    return (
        bool(coroutines)
        and any(path[: len(coroutines)] == coroutines for path in AWAITS)
        and not COROUTINES & set(found[len(coroutines) :])
    )
