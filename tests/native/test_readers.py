"""The own reader finds what the py-spy crate finds: in a process that stands still, stack by stack.

The crate reads in a way of its own and is the older by years. What it cannot read is said of each test.
"""

import os
import random
import signal
import time
from contextlib import contextmanager

import pytest
from sidelight_native import snapshot

from sidelight_model import frames
from tests.native.conftest import PYTHONS

# The versions that the own reader knows.
KNOWN = {version: path for version, path in PYTHONS.items() if int(version.split(".")[1]) >= 7}
KINDS = [
    "classes", "lambdas", "comprehensions", "decorated", "called_by_c", "generators", "coroutines",
    "recursion", "made", "names", "threads",
]  # fmt: skip
MOMENTS = 5
on_known_pythons = pytest.mark.parametrize("python", list(map(str, KNOWN.values())), ids=list(KNOWN))


@on_known_pythons
@pytest.mark.parametrize("kind", KINDS)
def test_both_readers_find_the_same_stacks(start, wait_until, state, python, kind):
    target = start("kinds", 120, kind, python=python)
    # More than 200 threads are read twice.
    moments, found = 2 if kind == "threads" else MOMENTS, []

    def compared():
        time.sleep(random.uniform(0, 0.01))
        with standing(target.pid, wait_until, state):
            own = whole(target.pid)
            if own is not None and (crates := of_the_crate(target.pid)) is not None:
                assert comparable(own, python) == comparable(crates, python)
                found.append(own)
        return len(found) >= moments and (kind == "threads" or in_sight())

    def in_sight():
        return any(kind in stack for stacks in found for stack in stacks.values())

    wait_until(compared)
    if kind == "threads":
        assert all(len(stacks) > 200 for stacks in found)


@on_known_pythons
@pytest.mark.parametrize("depth", [1, 1000, 4000])
def test_both_readers_find_every_frame_of_a_recursion(start, wait_until, state, python, depth):
    target = start("recursion", 120, depth, python=python)
    with standing(target.pid, wait_until, state):
        own = snapshot(target.pid)
        assert own == snapshot(target.pid, reader="py-spy")
    assert own[0][1].count("descend") == depth


@on_known_pythons
def test_a_recursion_that_the_crate_cannot_follow_is_cut_in_sight(start, wait_until, state, python):
    target = start("recursion", 120, 10_000, python=python)
    with standing(target.pid, wait_until, state):
        [(_, stack)] = snapshot(target.pid, max_depth=200)
        [(_, longer)] = snapshot(target.pid, max_depth=20_000)
        with pytest.raises(RuntimeError):
            snapshot(target.pid, reader="py-spy")
    names = stack.split(";")
    assert len(names) == 200
    assert names[100] == frames.TRUNCATED
    assert longer.split(";")[-99:] == names[101:]
    assert longer.count("descend") == 10_000


def test_both_readers_find_the_same_greenlets(start, wait_until, state):
    target = start("greenlets", 120)
    for _ in range(MOMENTS):
        time.sleep(random.uniform(0, 0.05))
        with standing(target.pid, wait_until, state):
            own = whole(target.pid)
            assert own is None or of_the_crate(target.pid) in (None, own)


def comparable(stacks, python):
    """The stacks, in 3.10 without their last lines: the crate gives a function that has not begun another.

    The crate also shows the entry by which CPython 3.13 and later calls a class, which is no function.
    """
    if "/3.10." in python:
        return {pthread: stack.rpartition(":")[0] for pthread, stack in stacks.items()}
    return {pthread: stack.replace(";__init__ (__init__)", "") for pthread, stack in stacks.items()}


def whole(pid):
    """The stacks, by thread; None while a call is being entered: who does not notice finds a wrong one."""
    try:
        return dict(snapshot(pid))
    except RuntimeError as error:
        if "a call was being entered" in str(error):
            return None
        raise


def of_the_crate(pid):
    """The stacks as the crate finds them; None where it takes no interpreter for one, as it may anywhere."""
    try:
        return dict(snapshot(pid, reader="py-spy"))
    except RuntimeError as error:
        if "Failed to find a python interpreter" in str(error):
            return None
        raise


@contextmanager
def standing(pid, wait_until, state):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T")
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
