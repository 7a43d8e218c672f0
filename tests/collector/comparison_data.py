"""A shop in two versions with planted differences, and comparisons asked of the stores that hold it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
from sidelight_collector.comparison.answer import Verdict, VerdictAnswer, query_verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.window import Quality, Window
from tests.collector.stored_windows import asked, question, stored, window

CPU, WALL, GIL = ProfileType.CPU, ProfileType.WALL, ProfileType.GIL
WELL = Quality(attempts=6000, samples=6000, mode="gil", sampler="sidelight", reader="own", python="3.11.7")
MINUTES = 32


def shop(
    version: str,
    luck: random.Random,
    *,
    pods: int = 6,
    at: float = 0,
    render: float = 1.0,
    busy: float = 1.0,
    deeper: int = 0,
    minutes: int = MINUTES,
    step: float = 60,
    quality: Quality = WELL,
    name: str = "render",
    **labels: str,
) -> Iterator[Window]:
    """A service whose pods and minutes differ by some per cent; `render` and `busy` are factors of times."""
    frames = "".join(f"step{depth} (deep.py:1);" for depth in range(deeper))
    for pod in range(pods):
        speed = luck.gauss(busy, 0.01)
        for minute in range(minutes):
            load = speed * luck.gauss(1, 0.02)
            parse_, rendered, other = (
                round(count * load + luck.gauss(0, count**0.5)) for count in (600, 300 * render, 500)
            )
            text = (
                f"main (a.py:1);handle (a.py:5);parse (p.py:3) {parse_} | "
                f"main (a.py:1);handle (a.py:5);{frames}{name} (r.py:9) {rendered} | "
                f"main (a.py:1);other (o.py:1) {other} | "
                f"main (a.py:1);poll (p.py:1);[idle] {6000 - parse_ - rendered - other}"
            )
            yield window(
                text,
                version=version,
                pod=f"shop-{version}-{pod}",
                at=at + minute * step,
                seconds=60,
                quality=quality,
                **labels,
            )


def built(luck: int = 7, **second: Any) -> ObjectStore:
    """A store of its own for a test that changes it: version 1, and version 2 that differs as `second` says,
    watched at the same time."""
    own = random.Random(luck)
    return stored([*shop("1", own), *shop("2", own, **second)])


_STORES: dict[str, ObjectStore] = {}


def two(luck: int = 7, **second: Any) -> ObjectStore:
    """The same store, built once for all tests of a process: they only read it."""
    key = repr((luck, sorted(second.items())))
    if key not in _STORES:
        _STORES[key] = built(luck, **second)
    return _STORES[key]


SIDES = [question(f'{{version="{one}"}}') for one in ("1", "2")]


def judged(
    store: ObjectStore, kind: ProfileType = CPU, pick: StackFilter = NO_FILTER, **wanted: Any
) -> VerdictAnswer:
    return asked(
        store,
        lambda reading: query_verdict(
            reading, SIDES, kind, stack_filter=pick, options=ComparisonOptions(**wanted), max_nodes=50_000
        ),
    )


def said(store: ObjectStore, kind: ProfileType = CPU, **wanted: Any) -> Verdict:
    return judged(store, kind, **wanted)["verdict"]


def drawn(store: ObjectStore, *, lines: bool = False, states: bool = False, **wanted: Any) -> FlameGraph:
    return asked(
        store,
        lambda reading: query_flame_graph(
            reading,
            SIDES,
            CPU,
            lines=lines,
            nodes=None,
            max_nodes=50_000,
            states=states,
            comparison_options=ComparisonOptions(**wanted),
        ),
    )


def functions(found: Verdict) -> dict[str, str]:
    """The direction of each function's total."""
    of = found["functions"]
    return dict(zip(of["function"], of["total"]["direction"], strict=True))


def check(found: Verdict, name: str) -> tuple[str, str, str]:
    one = next(one for one in found["checks"] if one["name"] == name)
    assert one["text"]
    assert one["hint"] or one["severity"] == "ok"
    return one["state"], one["severity"], one["reason"]
