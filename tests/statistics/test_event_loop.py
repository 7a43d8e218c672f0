"""Who holds an event loop: stacks as they were recorded, and loops that run now."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.statistics.event_loop.loop_attribution import (
    LOOP_WAITING,
    OUTSIDE_LOOP,
    LoopAttribution,
    attribute_loop_time,
)
from sidelight_collector.statistics.event_loop.loop_comparison import compare_loops
from sidelight_collector.statistics.inference.design import SideMatrix, build_design
from sidelight_model.change import Direction
from sidelight_model.counts import STATE_FRAMES
from tests.processes import sidelight

PROGRAM = Path(__file__).parent / "programs" / "held.py"
ASYNCIO = "<module> (app.py);run (asyncio/runners.py);Runner.run (asyncio/runners.py)"
HOSTILE = [
    "Hub.run (gevent/hub.py)",
    "run (trio/_core/_run.py)",
    "select (selectors.py)",
    "%3B (a%0A.py)",
    "((",
    "f (a.py)",
]
PYTHON_LOOP = (
    f"{ASYNCIO};BaseEventLoop.run_until_complete (asyncio/base_events.py);BaseEventLoop.run_forever "
    "(asyncio/base_events.py);BaseEventLoop._run_once (asyncio/base_events.py)"
)
CALLBACK = f"{PYTHON_LOOP};Handle._run (asyncio/events.py)"


def parted(*stacks: str) -> list[str]:
    """What the last frame of each stack is to a loop."""
    return list(counted([(stack, at + 1) for at, stack in enumerate(stacks)]).elements())


def counted(stacks: list[tuple[str, int]]) -> Counter[str]:
    names = list(dict.fromkeys(frame for stack, _ in stacks for frame in stack.split(";")))
    coded = [[names.index(frame) for frame in stack.split(";")] for stack, _ in stacks]
    found = attribute_loop_time(names, lambda classes, automaton: automaton.walk(coded, classes))
    total: Counter[str] = Counter()
    for part, (_, samples) in zip(found.blocker_ids.tolist(), stacks, strict=True):
        total[said(found, part)] += samples
    return total


def said(found: LoopAttribution, part: int) -> str:
    return {LOOP_WAITING: "waits", OUTSIDE_LOOP: "outside"}.get(part) or found.blockers[part]


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (f"{PYTHON_LOOP};EpollSelector.select (selectors.py)", "waits"),
        (f"{CALLBACK};serve (app.py);query (shop/db.py);execute (psycopg2/extras.py)", "serve (app.py)"),
        (f"{CALLBACK};tick (shop/app.py:14);spin (shop/work.py:3)", "tick (shop/app.py)"),
        # The outermost coroutine that is the application's, below what only carries it.
        (f"{CALLBACK};RequestHandler._execute (tornado/web.py);Cart.get (cart.py)", "Cart.get (cart.py)"),
        (f"{CALLBACK};TaskHandle._run_coro (anyio/_core/_tasks.py);job (jobs.py)", "job (jobs.py)"),
        # Nothing of it is the application's: then the first of it.
        (
            f"{CALLBACK};RequestHandler.start (aiohttp/web_protocol.py);loads (json/__init__.py)",
            "RequestHandler.start (aiohttp/web_protocol.py)",
        ),
        (CALLBACK, "Handle._run (asyncio/events.py)"),
        # The loop's own work is busy too, held by the loop itself.
        (f"{PYTHON_LOOP};heappop (heapq.py)", "BaseEventLoop.run_forever (asyncio/base_events.py)"),
        # uvloop leaves no frame of its own.
        (f"{ASYNCIO};request (app.py);spin (work.py)", "request (app.py)"),
        (ASYNCIO, "waits"),
        # Before Python 3.11 names have no classes.
        (
            "run (asyncio/runners.py);run_until_complete (asyncio/base_events.py);run_forever "
            "(asyncio/base_events.py);_run_once (asyncio/base_events.py);_run (asyncio/events.py);f (a.py)",
            "f (a.py)",
        ),
        (
            "run (trio/_core/_run.py);unrolled_run (trio/_core/_run.py);job (tri.py);f (x.py)",
            "job (tri.py)",
        ),
        ("run (trio/_core/_run.py);EpollIOManager.get_events (trio/_core/_io_epoll.py)", "waits"),
        # Threads beside it, and programs without a loop.
        ("Thread._bootstrap (threading.py);Thread.run (threading.py);work (app.py)", "outside"),
        ("<module> (app.py);main (app.py);select (selectors.py)", "outside"),
    ],
)  # fmt: skip
def test_a_stack_says_who_holds_the_loop(stack: str, part: str) -> None:
    assert parted(stack) == [part]


def test_where_a_hub_was_seen_greenlets_hold_it_and_threads_do_not() -> None:
    found = counted([
        ("Hub.run (gevent/hub.py)", 3),
        ("job (app.py);spin (work.py)", 2),
        ("BaseServer._do_read (gevent/baseserver.py);handle (app.py)", 4),
        ("Thread._bootstrap (threading.py);work (app.py)", 1),
    ])  # fmt: skip
    assert found == {"waits": 3, "job (app.py)": 2, "handle (app.py)": 4, "outside": 1}


@given(st.lists(st.lists(st.sampled_from(sorted({*CALLBACK.split(";"), *HOSTILE})), min_size=1), max_size=8))
def test_every_sample_of_any_stacks_is_some_part_of_a_loop_or_of_none(stacks: list[list[str]]) -> None:
    found = counted([(";".join(stack), 1) for stack in stacks])
    assert sum(found.values()) == len(stacks)
    assert "" not in found


def test_a_stack_of_20000_frames_has_a_holder() -> None:
    assert parted(";".join([CALLBACK, "f (a.py)", *["deep (b.py)"] * 20_000])) == ["f (a.py)"]


def test_a_holder_is_one_whatever_calls_it() -> None:
    found = counted(
        [(f"{CALLBACK};wrap (asyncio/tasks.py);f (a.py:3)", 1), (f"{CALLBACK};f (a.py:9);g (a.py)", 2)]
    )
    assert found == {"f (a.py)": 3}


def test_a_holder_that_takes_twice_of_the_loop_is_found() -> None:
    luck = np.random.default_rng(4)
    a, b = (np.stack([luck.poisson(mean, (6, 16)) for mean in means]).astype(float) for means in (
        (400, 100, 500), (400, 200, 400)
    ))  # fmt: skip
    side = SideMatrix(np.full((6, 16), 60.0), tuple((str(at),) for at in range(6)), 60.0)
    of = build_design(side, side)
    found = compare_loops(of, LoopAttribution(np.array([0, 1, LOOP_WAITING]), ("f (a.py)", "g (a.py)")), a, b)
    assert found is not None
    assert found.busy.direction == (Direction.INCREASED,)
    assert found.busy.low[0] < 0.1 < found.busy.high[0]
    assert dict(zip(found.blockers, found.shares.direction, strict=True)) == {
        "f (a.py)": Direction.UNCHANGED,
        "g (a.py)": Direction.INCREASED,
    }


def test_without_a_loop_on_either_side_there_is_nothing_to_say() -> None:
    side = SideMatrix(np.full((1, 8), 60.0), (("a",),), 60.0)
    some, none = np.ones((2, 1, 8)), np.zeros((2, 1, 8))
    found = LoopAttribution(np.array([0]), ("f (a.py)",))
    assert compare_loops(build_design(side, side), found, some, none) is None


@pytest.mark.parametrize("name", ["asyncio", "uvloop", "tornado", "gevent"])
def test_who_computes_and_who_blocks_both_hold_a_real_loop(name: str, tmp_path: Path) -> None:
    out = tmp_path / "held.folded"
    ran = subprocess.run(
        [*sidelight("record", "--no-lines", "-o", str(out), "--", sys.executable, str(PROGRAM), name)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    stacks = []
    for line in out.read_text().splitlines():
        stack, _, samples = line.rpartition(" ")
        stacks.append(
            (";".join(frame for frame in stack.split(";") if frame not in STATE_FRAMES), int(samples))
        )
    found = counted(stacks)
    prefix = "green_" if name == "gevent" else ""
    computes, blocks = f"{prefix}request (held.py)", f"{prefix}blocked (held.py)"
    assert found["waits"]
    assert found[computes]
    assert found[blocks]
    mine = {one for one in found if one.endswith("(held.py)")}
    assert mine <= {computes, blocks, "waiting (held.py)", "<module> (held.py)"}
