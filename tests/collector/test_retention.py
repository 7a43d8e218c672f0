"""What is deleted for its age, in which order, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.collector.metrics import Metrics
from sidelight.collector.retention import Retention, expired, last_expired
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.store.objects import ObjectStore, StoreUnavailable
from sidelight.collector.store.segments import list_segments, write_segment
from sidelight.stacks.window import Window

Make = Callable[..., Window]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY_NS = 86_400 * 10**9
NOW_NS = int(NOW.timestamp()) * 10**9


def segment(day: str, name: str = "0123456789abcdef") -> list[str]:
    below = f"v1/l0/{day}/1795000000000-1795000000001-{name}"
    return [f"{below}/{part}.parquet" for part in ("samples", "profiles", "stacks")]


def retention(store: ObjectStore, days: int = 14) -> Retention:
    return Retention(store, Metrics(), days=days, interval_seconds=3600, clock=NOW.timestamp)


def test_a_day_goes_when_its_last_moment_is_old_enough() -> None:
    kept, gone = segment("2026-11-07"), segment("2026-11-06")
    assert expired(kept + gone, NOW, 14) == gone
    assert expired(kept + gone, NOW.replace(hour=0, minute=0), 14) == gone
    assert set(expired(kept + gone, NOW + timedelta(hours=12), 14)) == {*kept, *gone}


@given(st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)), st.integers(0, 400))  # noqa: DTZ001
def test_no_window_younger_than_the_days_it_is_kept_ever_goes(moment: datetime, days: int) -> None:
    now = moment.replace(tzinfo=UTC)
    end_of_day = datetime.combine(last_expired(now, days), datetime.max.time(), UTC)
    assert now - end_of_day >= timedelta(days=days)


def test_samples_go_before_anything_else_so_that_no_segment_is_ever_half_there() -> None:
    keys = segment("2026-11-01", "b" * 16) + segment("2026-11-02", "a" * 16)
    order = [key.endswith("/samples.parquet") for key in expired(reversed(keys), NOW, 14)]
    assert order == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    "key",
    [
        "v1/config.json",
        "v1/l0/2020-01-01/notes.txt",
        "v1/l0/2020-01-01/1795000000000-1795000000001-0123456789abcdef/notes.parquet",
        "v1/l0/2020-01-01/1795000000000-1795000000001-0123456789ABCDEF/samples.parquet",
        "v1/l0/2020-01-01/x/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
        "v1/raw/2020-01-01/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
        "other/v1/l0/2020-01-01/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
    ],
)
def test_a_key_that_the_collector_does_not_write_is_never_deleted(key: str) -> None:
    assert expired([key], NOW, 0) == []


def test_old_segments_go_and_the_others_stay(store: ObjectStore, make_window: Make) -> None:
    for age in (0, 13, 14, 15, 16, 300):
        for number in range(3):
            write_segment(store, [make_window(start_ns=NOW_NS - age * DAY_NS + number)])
    store.put("v1/l0/2020-01-01/notes.txt", b"mine")
    retention(store).look(NOW, lambda: False)
    assert sorted({ref.key_prefix[6:16] for ref in list_segments(store, 0, 2 * NOW_NS)}) == [
        "2026-11-07",
        "2026-11-08",
        "2026-11-21",
    ]
    assert len(list(store.list("v1/l0/"))) == 3 * 3 * 3 + 1
    assert store.get("v1/l0/2020-01-01/notes.txt") == b"mine"


def test_what_is_left_when_the_collector_stops_waits_for_the_next_look(make_window: Make) -> None:
    store = MemoryStore()
    for number in range(20):
        write_segment(store, [make_window(start_ns=NOW_NS - 30 * DAY_NS + number)])
    looks = iter([False, True])
    retention(store).look(NOW, lambda: next(looks))
    assert len(list_segments(store, 0, NOW_NS)) == 12
    retention(store).look(NOW, lambda: False)
    assert list(store.list("")) == []


async def test_a_failing_store_is_counted_and_asked_again(make_window: Make) -> None:
    class Failing(MemoryStore):
        failures = 2

        def delete(self, key: str) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("away")
            super().delete(key)

    store, metrics, stop = Failing(), Metrics(), asyncio.Event()
    write_segment(store, [make_window(start_ns=NOW_NS - 30 * DAY_NS)])
    kept = Retention(store, metrics, days=14, interval_seconds=0.001, clock=NOW.timestamp)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(kept.run(stop))
        while list(store.list("")):
            await asyncio.sleep(0.001)
        stop.set()
    assert metrics.registry.get_sample_value("sidelight_retention_errors_total") == 2
    assert metrics.registry.get_sample_value("sidelight_retention_deleted_objects_total") == 3
