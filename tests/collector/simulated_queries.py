"""Queries over a small world: what they ask, and which windows the answer has counted how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from sidelight_collector.answers.export import export_folded
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_context import Deadline, QueryContext, SegmentUnreadable
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.tables import HOUR_NS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window

MIDNIGHT = 1_795_219_200
"""2026-11-21T00:00:00Z; the world begins on that day."""
DAY_NS = 24 * HOUR_NS
EVER = (MIDNIGHT * 10**9 - 40 * DAY_NS, MIDNIGHT * 10**9 + 3 * DAY_NS)


class Inline(Executor):
    """Does at once what it is given."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)
        return future


@dataclass(frozen=True)
class Claim:
    """What is asked, and the answer: how often each window was counted, and of how many it tells."""

    from_ns: int = EVER[0]
    until_ns: int = EVER[1]
    pod: str = ""
    by_window: bool = False
    timeline: bool = False
    counted: Mapping[int, int] = field(default_factory=dict, repr=False)
    windows: int = field(default=0, repr=False)
    unreadable: int = field(default=0, repr=False)

    def covers(self, window: Window) -> bool:
        """Whether the answer is about this window."""
        return self.from_ns <= window.start_ns < self.until_ns and self.pod in ("", window.labels["pod"])


def drawn(luck: Random) -> Claim:
    """Any question: the whole, a day, whole hours, or some moment until another; of one pod or of all."""
    today_ns = MIDNIGHT * 10**9
    begin = today_ns + luck.randrange(-2 * DAY_NS, DAY_NS)
    ranges = [
        EVER,
        EVER,
        (today_ns, today_ns + DAY_NS),
        (begin // HOUR_NS * HOUR_NS, begin // HOUR_NS * HOUR_NS + 30 * HOUR_NS),
        (begin, begin + luck.randrange(2 * DAY_NS)),
    ]
    pod = luck.choice(("", "", "p1"))
    return Claim(*luck.choice(ranges), pod, by_window=luck.random() < 0.2, timeline=luck.random() < 0.3)


def ask(
    store: ObjectStore,
    claim: Claim,
    cache: TableCache | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> Claim:
    """The claim with its answer, asked as the collector asks, but in one thread."""
    selector = parse_re2_selector(f'{{pod="{claim.pod}"}}' if claim.pod else "")
    question = WindowQuery(selector, claim.from_ns, claim.until_ns, claim.by_window)
    reading = QueryContext(store, cache or TableCache(1 << 20), Inline(), Deadline(30.0, clock))
    while True:
        try:
            if claim.timeline:
                drawn = query_timeline(reading, question, ProfileType.WALL, step_ns=HOUR_NS, max_steps=2**62)
                assert sum(drawn["windows"]) == drawn["basis"]["windows"]
                basis, counted = drawn["basis"], digits(sum(drawn["samples"]) // 2)
            else:
                told = export_folded(reading, [question], ProfileType.WALL, lines=True, states=False)
                basis, counted = told.basis, read(told.content.decode())
        except SegmentUnreadable:
            continue
        assert digits(basis["samples"] // 2) == counted, "the basis is of other windows than the answer"
        return replace(
            claim, counted=counted, windows=basis["windows"], unreadable=basis["unreadable_segments"]
        )


def read(text: str) -> dict[int, int]:
    """Which windows folded text has counted how often: by what they share, and by what is their own."""
    counts = {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in text.splitlines())}
    shared = digits(counts.pop("main", 0))
    own = {int(stack.removeprefix("main;f")): count for stack, count in counts.items()}
    assert own == {number: times * 4**number for number, times in shared.items()}, text
    return shared


def digits(samples: int) -> dict[int, int]:
    """Of the sum of 4 ** number how often each number is in it."""
    found, number = {}, 0
    while samples:
        samples, times = divmod(samples, 4)
        if times:
            found[number] = times
        number += 1
    return found
