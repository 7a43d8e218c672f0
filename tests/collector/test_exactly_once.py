"""A window that is sent again counts once or is refused, also with another start, and after retention."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from ulid import ULID

from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import Retention, RetentionPolicy
from sidelight_collector.storage.manifest import DayState
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import event_day, write_segment
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Running, Serve
from tests.collector.stored_windows import asked

MakeWindow = Callable[..., Window]
YEAR_DAYS = RetentionDays(365, 365, 365)
TODAY = time.time_ns() // DAY_NS
FORGETFUL = {"dedup_cache_entries": 1, "compact_interval_seconds": 0, "retention_interval_seconds": 1e6}


def compact(store: ObjectStore) -> None:
    """Merge all segments into blocks."""
    policy = CompactionPolicy(min_segments=1, deletion_delay_seconds=0)
    Compaction(store, Metrics(), policy, interval_seconds=1).run_once()


def retain(store: ObjectStore, max_bytes: int) -> None:
    policy = RetentionPolicy(YEAR_DAYS, max_bytes=max_bytes)
    Retention(store, Metrics(), policy=policy, interval_seconds=1).run_once(datetime.now(UTC))


def start_of_day(days_ago: int) -> int:
    return (TODAY - days_ago) * DAY_NS


def bytes_of_blocks(store: ObjectStore, prefix: str = "v1/raw/") -> int:
    return sum(entry.size for entry in store.list(prefix))


def count_windows(store: ObjectStore, day_ns: int) -> int:
    query = WindowQuery(parse_re2_selector(""), day_ns, day_ns + DAY_NS)
    timeline = asked(
        store, lambda reading: query_timeline(reading, query, ProfileType.WALL, step_ns=HOUR_NS, max_steps=24)
    )
    return sum(timeline["windows"])


async def samples(collector: Running, days_ago: int, hours: tuple[int, int] = (0, 24)) -> int:
    """The samples of some hours of a day, as a query counts them."""
    begin = start_of_day(days_ago) // 10**9
    given = {"format": "folded", "type": "wall", "query": 'service="shop"'}
    given |= {"from": str(begin + hours[0] * 3600), "until": str(begin + hours[1] * 3600)}
    answer = await collector.get("export", given)
    assert answer.status in (200, 404), answer.body
    return (
        sum(int(line.rpartition(b" ")[2]) for line in answer.body.splitlines()) if answer.status == 200 else 0
    )


@pytest.mark.parametrize("is_timely", [True, False])
@pytest.mark.parametrize("is_later_first", [False, True])
async def test_a_repeated_id_with_another_start_counts_once(
    store: ObjectStore, serving: Serve, make_window: MakeWindow, is_timely: bool, is_later_first: bool
) -> None:
    """Also if no memory has the id any more, and whatever compaction has merged."""
    day = start_of_day(2)
    id_time_ns = day + (3 * HOUR_NS if is_timely else 12 * HOUR_NS)
    window_id = str(ULID.from_timestamp(id_time_ns // 10**6))
    first = make_window("main;f 5", start_ns=day + 3 * HOUR_NS, window_id=window_id)
    second = replace(first, start_ns=day + 7 * HOUR_NS)
    if is_later_first:
        first, second = second, first
    others = [make_window("main;g 1", start_ns=day + hour * HOUR_NS) for hour in (3, 7, 9)]
    async with serving(store, **FORGETFUL) as collector:
        assert (await collector.post(encode_windows([first]))).status == 200
        refused = await collector.post(encode_windows([second]))
        assert (refused.status, refused.reason) == (409, "duplicate_id")
        assert (await collector.post(encode_windows(others))).status == 200
        compact(store)
        assert (await collector.post(encode_windows([second]))).status == 200  # its id is forgotten
        assert await samples(collector, 2) == 5 + 3
        compact(store)
        assert await samples(collector, 2) == 5 + 3
        hours = [await samples(collector, 2, (hour, hour + 1)) for hour in (3, 7, 9)]
        assert sorted(hours) == [1, 1, 6]


async def test_a_window_that_comes_again_after_retention_by_size_is_refused(
    store: ObjectStore, serving: Serve, make_window: MakeWindow
) -> None:
    windows = [make_window("main;f 5", start_ns=start_of_day(2) + hour * HOUR_NS) for hour in (3, 3, 5)]
    late = make_window("main;f 100", start_ns=start_of_day(2) + HOUR_NS)
    async with serving(store, **FORGETFUL) as collector:
        assert (await collector.post(encode_windows(windows))).status == 200
        compact(store)
        retain(store, bytes_of_blocks(store) - 1)
        known = manifest.read(store, event_day(windows[0].start_ns)).document
        assert [block.ref.is_raw for block in known.blocks] == [False]
        for again in (windows[:1], [late]):
            answer = await collector.post(encode_windows(again))
            assert (answer.status, answer.reason) == (422, "too_old")
            assert "only sums" in answer.json["message"]
        # The day before, and today, still take windows.
        for days_ago in (3, 0):
            open_day = make_window("main 1", start_ns=min(start_of_day(days_ago), time.time_ns() - 10**9))
            assert (await collector.post(encode_windows([open_day]))).status == 200
        compact(store)
        assert await samples(collector, 2) == 15


async def test_a_window_counts_once_again_after_retention_by_size_deleted_its_day(
    store: ObjectStore, serving: Serve, make_window: MakeWindow
) -> None:
    window = make_window("main;f 5", start_ns=start_of_day(2))
    async with serving(store, **FORGETFUL) as collector:
        for one in (window, make_window()):  # the second displaces the first in the memory of ids
            assert (await collector.post(encode_windows([one]))).status == 200
        compact(store)
        retain(store, 1)
        assert await samples(collector, 2) == 0
        assert (await collector.post(encode_windows([window]))).status == 200
        assert await samples(collector, 2) == 5
        compact(store)
        assert await samples(collector, 2) == 5


def test_retention_waits_until_compaction_has_merged_what_was_acknowledged(make_window: MakeWindow) -> None:
    store, day = MemoryStore(), start_of_day(2)
    window = make_window("main 5", start_ns=day)
    write_segment(store, [window, make_window("main 5", start_ns=day)])
    compact(store)
    write_segment(store, [window, late := make_window("main 5", start_ns=day + HOUR_NS)])
    for _ in range(2):
        retain(store, bytes_of_blocks(store) + bytes_of_blocks(store, "v1/l0/") - 1)
        known = manifest.read(store, event_day(day)).document
        assert (known.state, [block.ref.is_raw for block in known.blocks]) == (DayState.CLOSING, [True])
    compact(store)
    retain(store, bytes_of_blocks(store) - 1)
    known = manifest.read(store, event_day(day)).document
    assert known.state is DayState.CLOSED
    assert sum(block.windows for block in known.blocks) == 3
    # Ingest that lost the race has committed a segment, but did not acknowledge it.
    write_segment(store, [late])
    assert count_windows(store, day) == 3
    compact(store)
    compact(store)
    assert not list(store.list("v1/l0/"))
    assert count_windows(store, day) == 3
