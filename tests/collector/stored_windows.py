"""Windows written as text and stored for real, and queries asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from typing import TypeVar

from hypothesis import settings
from ulid import ULID

from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import (
    QueryContext,
    Stage1,
)
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import event_day, write_segment
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window

Answer = TypeVar("Answer")

START_NS = 1_795_253_400 * 10**9
"""2026-11-21T09:30:00Z, when the windows of these tests begin."""
SECOND_NS = 10**9
PERIOD_NS = 10_000_000

_numbers = count(1)


few_examples = settings(max_examples=30)
"""For properties each example of which writes a store and asks it, which takes a tenth of a second."""


def window(
    text: str = "main (app.py:1) 1",
    *,
    at: float = 0,
    seconds: float = 10,
    service: str = "shop",
    version: str = "1",
    pod: str = "pod-1",
    period_ns: int = PERIOD_NS,
    quality: Quality | None = None,
    **labels: str,
) -> Window:
    """A window of stacks written as `main;handle 6 | main;render;[idle] 2`, `at` seconds after START_NS."""
    counts = parse_folded("\n".join(line.strip() for line in text.split("|")))
    start_ns = START_NS + round(at * SECOND_NS)
    return Window(
        id=f"{str(ULID.from_timestamp(start_ns // 10**6))[:10]}{next(_numbers):016d}",
        labels=Labels({"service": service, "version": version, "pod": pod, **labels}),
        start_ns=start_ns,
        duration_ns=round(seconds * SECOND_NS),
        period_ns=period_ns,
        counts=counts,
        quality=quality or Quality(attempts=round(seconds * SECOND_NS) // period_ns, mode="blocking"),
    )


def stored(*segments: Iterable[Window], store: ObjectStore | None = None) -> ObjectStore:
    """A store with these segments (each split by day, as the collector does)."""
    store = store or MemoryStore()
    for windows in segments:
        by_day: dict[object, list[Window]] = {}
        for one in windows:
            by_day.setdefault(event_day(one.start_ns), []).append(one)
        for part in by_day.values():
            write_segment(store, part)
    return store


def copied(store: ObjectStore) -> MemoryStore:
    """A store in memory with the same objects: cheaper than to write the windows once more."""
    copy = MemoryStore()
    for entry in store.list(""):
        copy.put(entry.key, store.get(entry.key))
    return copy


def question(selector: str = "", *, start: float = -3600, end: float = 3600) -> WindowQuery:
    """A selector over a range in seconds from START_NS."""
    return WindowQuery(
        parse_re2_selector(selector), START_NS + round(start * SECOND_NS), START_NS + round(end * SECOND_NS)
    )


def asked(
    store: ObjectStore,
    answer: Callable[[QueryContext], Answer],
    limits: QueryLimits | None = None,
    left_out: Callable[[int], None] = lambda _: None,
    stage1: Stage1 | None = None,
) -> Answer:
    """What a query answers over a store, run as the collector runs it, with time for a busy machine."""
    with closing(QueryEngine(store, limits or QueryLimits(timeout_seconds=300), left_out, stage1)) as engine:
        return asyncio.run(engine.run(answer))
