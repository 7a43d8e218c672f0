"""What is deleted for its age, in which order, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import (
    Retention,
    RetentionPolicy,
    last_expired_day,
    plan_retention,
)
from sidelight_collector.storage.manifest import list_days
from sidelight_collector.storage.objects import ObjectStore, StoreUnavailable
from sidelight_collector.storage.segments import list_segments, write_segment
from sidelight_model.window import Window

Make = Callable[..., Window]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY_NS = 86_400 * 10**9
NOW_NS = int(NOW.timestamp()) * 10**9


def segment(day: str, name: str = "0123456789abcdef") -> list[str]:
    below = f"v1/l0/{day}/1795000000000-1795000000001-{name}"
    return [f"{below}/{part}.parquet" for part in ("samples", "profiles", "stacks")]


def block(day: str) -> list[str]:
    below = f"v1/raw/{day}/1795000000000-1795000000001-0123456789abcdef"
    return [f"{below}/{part}.parquet" for part in ("samples", "profiles", "stacks")]


def groups(keys: Iterable[str], now: datetime, days: int) -> Sequence[Sequence[str]]:
    """What is deleted of a store with these objects."""
    store = MemoryStore()
    for key in keys:
        store.put(key, b"")
    return plan_retention(store, whole_days(days), now).expired_keys


def gone(keys: Iterable[str], now: datetime, days: int) -> list[str]:
    """What is deleted, in order."""
    return list(chain.from_iterable(groups(keys, now, days)))


def whole_days(days: int) -> RetentionPolicy:
    """Windows are kept one by one, and then not at all."""
    return RetentionPolicy(RetentionDays(days, days, days))


def retention(store: ObjectStore, days: int = 14) -> Retention:
    return Retention(store, Metrics(), policy=whole_days(days), interval_seconds=3600, clock=NOW.timestamp)


def test_a_day_goes_when_its_last_moment_is_old_enough() -> None:
    kept, old = segment("2026-11-07"), segment("2026-11-06")
    assert gone(kept + old, NOW, 14) == old
    assert gone(kept + old, NOW.replace(hour=0, minute=0), 14) == old
    assert set(gone(kept + old, NOW + timedelta(hours=12), 14)) == {*kept, *old}


@given(st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)), st.integers(0, 400))  # noqa: DTZ001
def test_no_window_younger_than_the_days_it_is_kept_ever_goes(moment: datetime, days: int) -> None:
    now = moment.replace(tzinfo=UTC)
    end_of_day = datetime.combine(last_expired_day(now, days), datetime.max.time(), UTC)
    assert now - end_of_day >= timedelta(days=days)


def test_what_makes_others_count_goes_before_them() -> None:
    segments = segment("2026-11-01", "b" * 16) + segment("2026-11-02", "a" * 16)
    manifests = ["v1/manifest/2026-11-01.json", "v1/manifest/2026-11-02.json"]
    keys = [*block("2026-11-01"), *segments, *manifests, *block("2026-11-07"), "v1/manifest/2026-11-07.json"]
    samples, rest, named, blocks, _ = groups(reversed(keys), NOW, 14)
    assert samples == sorted(key for key in segments if key.endswith("/samples.parquet"))
    assert rest == sorted(set(segments) - set(samples))
    assert named == manifests
    assert blocks == sorted(block("2026-11-01"))


@pytest.mark.parametrize(
    "key",
    [
        "v1/config.json",
        "v1/l0/2020-01-01/notes.txt",
        "v1/l0/2020-01-01/1795000000000-1795000000001-0123456789abcdef/notes.parquet",
        "v1/l0/2020-01-01/1795000000000-1795000000001-0123456789ABCDEF/samples.parquet",
        "v1/l0/2020-01-01/x/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
        "v1/raw/2020-01-01/notes.txt",
        "v1/manifest/2020-01-01.txt",
        "v1/lease/2020-01-01.txt",
        "v1/manifest/notes/2020-01-01.json",
        "v1/r1h/2020-01-01/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
        "other/v1/l0/2020-01-01/1795000000000-1795000000001-0123456789abcdef/samples.parquet",
    ],
)
def test_a_key_that_the_collector_does_not_write_is_never_deleted(key: str) -> None:
    assert gone([key], NOW, 0) == []


def test_old_segments_go_and_the_others_stay(store: ObjectStore, make_window: Make) -> None:
    for age in (0, 13, 14, 15, 16, 300):
        for number in range(3):
            write_segment(store, [make_window(start_ns=NOW_NS - age * DAY_NS + number)])
    store.put("v1/l0/2020-01-01/notes.txt", b"mine")
    retention(store).run_once(NOW, lambda: False)
    assert sorted({ref.key_prefix[6:16] for ref in list_segments(store, 0, 2 * NOW_NS)}) == [
        "2026-11-07",
        "2026-11-08",
        "2026-11-21",
    ]
    assert len(list(store.list("v1/l0/"))) == 3 * 3 * 3 + 1
    assert store.get("v1/l0/2020-01-01/notes.txt") == b"mine"


def test_blocks_go_with_their_day(make_window: Make) -> None:
    store = MemoryStore()
    for age in (1, 15, 30):
        write_segment(store, [make_window(start_ns=NOW_NS - age * DAY_NS)])
    rules = CompactionPolicy(min_segments=1, deletion_delay_seconds=0)
    for _ in range(2):
        Compaction(store, Metrics(), rules, interval_seconds=1, clock=NOW.timestamp).run_once()
    assert len(list_days(store)) == 3
    retention(store).run_once(NOW, lambda: False)
    assert {key.split("/")[2][:10] for key in (entry.key for entry in store.list("v1/"))} == {"2026-11-20"}


def test_leases_of_days_that_are_gone_go_too_and_last() -> None:
    keys = [*segment("2026-11-06"), "v1/lease/2026-11-06.json", "v1/lease/2026-11-07.json"]
    assert gone(keys, NOW, 14)[-1] == "v1/lease/2026-11-06.json"
    store = MemoryStore()
    for key in keys:
        store.put(key, b"")
    retention(store).run_once(NOW, lambda: False)
    assert [entry.key for entry in store.list("v1/")] == ["v1/lease/2026-11-07.json"]


def test_what_is_left_when_the_collector_stops_waits_for_the_next_look(make_window: Make) -> None:
    store = MemoryStore()
    for number in range(20):
        write_segment(store, [make_window(start_ns=NOW_NS - 30 * DAY_NS + number)])
    looks = iter([False, True])
    retention(store).run_once(NOW, lambda: next(looks))
    assert len(list_segments(store, 0, NOW_NS)) == 12
    retention(store).run_once(NOW, lambda: False)
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
    kept = Retention(store, metrics, policy=whole_days(14), interval_seconds=0.001, clock=NOW.timestamp)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(kept.run(stop))
        while list(store.list("")):
            await asyncio.sleep(0.001)
        stop.set()
    assert metrics.registry.get_sample_value("sidelight_retention_errors_total") == 2
    assert metrics.registry.get_sample_value("sidelight_retention_deleted_objects_total") == 3
