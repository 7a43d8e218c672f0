"""Who holds the event loop on two sides of real stores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sidelight.collector.query.picking import ALL
from sidelight.collector.query.sides import Wanted
from sidelight.collector.query.told import Verdict
from sidelight.collector.query.verdict import verdict
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.window import Quality, Window
from tests.collector.storing import asked, question, stored, window

LOOP = "main (a.py:1);run_forever (asyncio/base_events.py:600);_run_once (asyncio/base_events.py:1900)"
CALLBACK = f"{LOOP};_run (asyncio/events.py:80)"
THREAD = "_bootstrap (threading.py:995);_worker (pool.py:9)"
WELL = Quality(attempts=6000, samples=6000, mode="gil", sampler="sidelight", reader="own", python="3.11.7")


def service(
    version: str, luck: random.Random, *, blocked: float, quality: Quality = WELL
) -> Iterator[Window]:
    """A service whose callback `query` waits for its database without letting others run."""
    for pod in range(5):
        for minute in range(16):
            busy, stuck = (round(mean * luck.gauss(1, 0.03)) for mean in (1500, blocked))
            text = (
                f"{CALLBACK};serve (app.py:7);loads (json/__init__.py:3) {busy} | "
                f"{CALLBACK};query (db.py:9);recv (socket.py:5);[idle] {stuck} | "
                f"{LOOP};select (selectors.py:450);[idle] {6000 - busy - stuck} | "
                f"{THREAD};[idle] 6000"
            )
            yield window(
                text, version=version, pod=f"{version}-{pod}", at=minute * 60, seconds=60, quality=quality
            )


def said(store: ObjectStore, kind: ProfileType) -> Verdict:
    sides = [question(f'{{version="{one}"}}') for one in ("1", "2")]
    return asked(
        store, lambda reading: verdict(reading, sides, kind, pick=ALL, wanted=Wanted(), most=50_000)
    )["verdict"]


@pytest.mark.parametrize("kind", [ProfileType.WALL, ProfileType.CPU])
def test_a_callback_that_blocks_holds_the_loop_and_takes_no_cpu(kind: ProfileType) -> None:
    luck = random.Random(3)
    store = stored([*service("1", luck, blocked=600), *service("2", luck, blocked=1800)])
    found = said(store, kind)["loop"]
    assert found is not None
    assert found["busy"]["a"] == pytest.approx(0.35, abs=0.02)
    assert found["busy"]["b"] == pytest.approx(0.55, abs=0.02)
    assert found["busy"]["direction"] == "more"
    holders = {one["function"]: one for one in found["holders"]}
    assert holders["query"]["b"] == pytest.approx(0.3, abs=0.02)
    assert holders["query"]["effect"]["direction"] == "more"
    assert holders["serve"]["effect"]["direction"] in ("same", "unclear")
    assert holders.keys() == {"query", "serve"}


def test_where_waiting_is_not_seen_nothing_is_said_of_loops() -> None:
    luck = random.Random(3)
    blind = replace(WELL, missing_states=("idle",))
    sides = [*service("1", luck, blocked=600), *service("2", luck, blocked=600, quality=blind)]
    assert said(stored(sides), ProfileType.CPU)["loop"] is None


def test_without_an_event_loop_there_is_none_to_tell_of() -> None:
    windows = [
        window(
            "main (a.py:1);work (a.py:2) 100 | main (a.py:1);[idle] 9", version=one, pod=f"{one}-{pod}", at=at
        )
        for one in ("1", "2")
        for pod in range(2)
        for at in range(0, 600, 60)
    ]
    assert said(stored(windows), ProfileType.WALL)["loop"] is None
