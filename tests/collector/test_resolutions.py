"""Windows become hours, then days, then nothing; what is still answered is answered right."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from sidelight_collector.answers.catalog import list_label_values, list_services
from sidelight_collector.answers.export import export_folded
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import manifest
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import (
    RESOLUTION_PARTS,
    Resolution,
    Retention,
    RetentionPolicy,
    plan_retention,
    resolution_of,
)
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.objects import ObjectStore, StoreRefused, StoreUnavailable
from sidelight_collector.storage.pins import Pin, PinDamaged, add_pin, read_pins, remove_pin
from sidelight_collector.storage.segments import event_day
from sidelight_collector.storage.tables import SCHEMAS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.faults import Fault, FaultyStore, steps
from tests.collector.stored_windows import START_NS, asked, copied, question, stored, window

DAY_SECONDS = 86_400
FIRST = event_day(START_NS)
KEEP = RetentionDays(2, 4, 6)
WALL = ProfileType.WALL


def some_days(days: int = 1) -> list[Window]:
    """Two services on two pods, a window every quarter of an hour of six hours of each day."""
    return [
        window(
            f"main;f{at % 3} {at + 1} | main;g;[idle] 2",
            at=day * DAY_SECONDS + at * 900,
            service=service,
            pod=f"{service}-{pod}",
        )
        for day in range(days)
        for at in range(24)
        for service in ("ads", "shop")
        for pod in range(2)
    ]


class Collector:
    """Compaction and retention over one store, at any time."""

    def __init__(self, store: ObjectStore, policy: RetentionPolicy | None = None) -> None:
        self.store = store
        self.days = 0.0
        self.metrics = Metrics()
        rules = CompactionPolicy(min_segments=4, deletion_delay_seconds=0, orphan_age_seconds=3600)
        self.compaction = Compaction(
            store, self.metrics, rules, interval_seconds=1, clock=lambda: self.now.timestamp()
        )
        self.retention = Retention(
            store,
            self.metrics,
            policy=policy or RetentionPolicy(KEEP),
            interval_seconds=1,
            revisit=self.compaction.revisit,
        )

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(START_NS / 1e9, UTC) + timedelta(days=self.days)

    def look(self, days: float) -> list[Block]:
        """So many days after the first window; the blocks of its day then."""
        self.days = days
        for _ in range(2):
            self.compaction.run_once()
            self.retention.run_once(self.now)
        self.compaction.run_once()
        return list(manifest.read(self.store, FIRST).document.blocks)


def tables(store: ObjectStore, day: date = FIRST) -> set[str]:
    """Which tables there are of a day, whatever names them."""
    found = [entry.key for root in ("v1/l0/", manifest.BLOCK_ROOT) for entry in store.list(f"{root}{day}/")]
    return {key.rpartition("/")[2].removesuffix(".parquet") for key in found}


def folded_text(store: ObjectStore, selector: str, start: float, end: float) -> str:
    one = question(selector, start=start, end=end)
    return asked(
        store, lambda reading: export_folded(reading, [one], WALL, lines=True, states=True)
    ).content.decode()


def test_a_block_loses_its_tables_with_age_and_goes_in_the_end() -> None:
    collector = Collector(stored(some_days()))
    levels = {
        1: Resolution.WINDOW,
        2: Resolution.WINDOW,
        3: Resolution.HOUR,
        4: Resolution.HOUR,
        5: Resolution.DAY,
        6: Resolution.DAY,
    }
    for days, level in levels.items():
        (block,) = collector.look(days)
        assert resolution_of(block) is level
        assert tables(collector.store) == block.ref.parts
        assert block.ref.parts == RESOLUTION_PARTS[level]
        assert block.windows == 96
        assert block.bytes == sum(entry.size for entry in collector.store.list(block.ref.key_prefix))
    assert collector.look(7) == []
    assert [entry.key for entry in collector.store.list("v1/")] == []
    assert collector.metrics.registry.get_sample_value("sidelight_retention_downsampled_blocks_total") == 2


def test_an_hour_still_answers_as_its_windows_did_and_a_day_as_its_hours() -> None:
    windows = some_days()
    plain, collector = stored(windows), Collector(stored(windows))
    whole_hours, whole_day = (-1800, 3 * 3600 - 1800), (-DAY_SECONDS, DAY_SECONDS)
    for days, ranges in ((3, [whole_hours, whole_day]), (5, [whole_day])):
        collector.look(days)
        for start, end in ranges:
            for selector in ("", '{service="shop"}', '{version="1", service!="ads"}', '{service="no"}'):
                one = question(selector, start=start, end=end)
                assert folded_text(collector.store, selector, start, end) == folded_text(
                    plain, selector, start, end
                )
                expected = asked(plain, lambda reading, one=one: query_depth(reading, [one], WALL))
                found = asked(collector.store, lambda reading, one=one: query_depth(reading, [one], WALL))
                assert found["sides"] == expected["sides"]
                said = [each["resolution"] for each in found["basis"]["resolutions"]]
                assert said == (["hour" if days == 3 else "day"] if found["basis"]["windows"] else [])


def test_what_is_known_of_windows_outlives_their_stacks() -> None:
    windows = some_days()
    plain, collector = stored(windows), Collector(stored(windows))
    collector.look(5)
    for start, end in ((-1800, 3 * 3600 - 1800), (-DAY_SECONDS, DAY_SECONDS)):
        one = question('{service="shop"}', start=start, end=end)
        for answer in (
            lambda reading, one=one: list_services(reading, one)["services"],
            lambda reading, one=one: list_label_values(reading, one, "pod")["values"],
            lambda reading, one=one: query_timeline(reading, one, WALL, step_ns=7200 * 10**9, max_steps=99)[
                "samples"
            ],
        ):
            assert asked(collector.store, answer) == asked(plain, answer)


def test_the_steps_of_a_timeline_are_hours_where_windows_are_gone() -> None:
    collector = Collector(stored(some_days()))
    one = question("", start=-1800, end=3 * 3600 - 1800)
    ask = lambda reading: query_timeline(reading, one, WALL, step_ns=None, max_steps=999)  # noqa: E731
    collector.look(2)
    assert asked(collector.store, ask)["step_seconds"] == 60
    collector.look(3)
    found = asked(collector.store, ask)
    assert (found["step_seconds"], found["windows"]) == (3600, [8, 16, 16])


def test_an_hour_and_a_day_belong_to_a_range_if_they_began_in_it() -> None:
    collector = Collector(stored(some_days()))
    collector.look(3)
    # The first hour of windows began half an hour before START_NS.
    for start, end, windows in ((-1800, 0, 8), (-1799, 1800, 0), (-1799, 1801, 16), (-3600, -1800, 0)):
        found = asked(
            collector.store,
            lambda reading, start=start, end=end: query_depth(
                reading, [question("", start=start, end=end)], WALL
            ),
        )
        assert found["basis"]["windows"] == windows
    collector.look(5)
    midnight = -(START_NS // 10**9 % DAY_SECONDS)
    for start, end, windows in ((midnight, midnight + 1, 96), (midnight + 1, DAY_SECONDS, 0)):
        found = asked(
            collector.store,
            lambda reading, start=start, end=end: query_depth(
                reading, [question("", start=start, end=end)], WALL
            ),
        )
        assert found["basis"]["windows"] == windows


@pytest.mark.parametrize("days", [3, 5])
def test_windows_that_are_kept_only_with_others_are_left_out_and_counted(days: int) -> None:
    collector = Collector(stored(some_days()))
    collector.look(days)
    one = question('{pod="shop-1"}', start=-DAY_SECONDS, end=DAY_SECONDS)
    found = asked(collector.store, lambda reading: query_depth(reading, [one], WALL))
    assert (found["basis"]["windows"], found["basis"]["unresolved_windows"]) == (0, 24)
    both = question('{pod=~"shop-.*"}', start=-DAY_SECONDS, end=DAY_SECONDS)
    found = asked(collector.store, lambda reading: query_depth(reading, [both], WALL))
    assert (found["basis"]["windows"], found["basis"]["unresolved_windows"]) == (48, 0)


def test_services_are_kept_as_long_as_each_is_to_be() -> None:
    windows = some_days()
    policy = RetentionPolicy(KEEP, {"shop": RetentionDays(3, 5, 9), "gone": RetentionDays(0, 0, 0)})
    collector = Collector(stored(windows), policy)
    blocks = {block.services: block for block in collector.look(3)}
    assert {services: resolution_of(block) for services, block in blocks.items()} == {
        ("shop",): Resolution.WINDOW,
        ("ads",): Resolution.HOUR,
    }
    assert [block.windows for block in blocks.values()] == [48, 48]
    one = ('{pod="shop-1"}', 0, 7200)
    assert folded_text(collector.store, *one) == folded_text(stored(windows), *one)
    levels = {block.services: resolution_of(block) for block in collector.look(4)}
    assert levels == {("shop",): Resolution.HOUR, ("ads",): Resolution.HOUR}
    assert [block.services for block in collector.look(7)] == [("shop",)]
    assert collector.look(10) == []
    assert [entry.key for entry in collector.store.list("v1/")] == []


def test_a_day_with_a_service_that_is_kept_for_longer_loses_the_others() -> None:
    windows = some_days()
    collector = Collector(
        stored(windows), RetentionPolicy(RetentionDays(0, 0, 0), {"shop": RetentionDays(9, 9, 9)})
    )
    (block,) = collector.look(2)
    assert (block.services, resolution_of(block), block.windows) == (("shop",), Resolution.WINDOW, 48)
    assert '"ads' not in folded_text(collector.store, "", -DAY_SECONDS, DAY_SECONDS)


def test_the_oldest_windows_go_first_when_there_are_too_many_bytes() -> None:
    everything = Collector(stored(some_days(4)), RetentionPolicy(RetentionDays(99, 99, 99)))
    everything.look(4)
    days = [FIRST + timedelta(days=day) for day in range(4)]

    def whole(collector: Collector) -> int:
        known = [manifest.read(collector.store, day).document for day in days]
        return sum(block.bytes for one in known for block in (*one.blocks, *one.live_rollups))

    def levels(most_bytes: int) -> list[Resolution | None]:
        collector = Collector(
            stored(some_days(4)), RetentionPolicy(RetentionDays(99, 99, 99), {}, most_bytes)
        )
        collector.look(4)
        assert whole(collector) <= most_bytes
        found = [manifest.read(collector.store, day).document.blocks for day in days]
        return [resolution_of(blocks[0]) if blocks else None for blocks in found]

    size = whole(everything)
    (block,) = manifest.read(everything.store, FIRST).document.blocks
    raw = block.parts["profiles"] + block.parts["samples"]
    # Rollups of windows go with the windows.
    rollups = sum(entry.size for entry in everything.store.list(manifest.ROLLUP_ROOT))
    # Sizes differ a little from day to day, as ids do.
    assert levels(size + 200) == [Resolution.WINDOW] * 4
    assert levels(size - raw // 2) == [Resolution.HOUR, *[Resolution.WINDOW] * 3]
    assert levels(size - raw * 3 // 2) == [
        Resolution.HOUR,
        Resolution.HOUR,
        Resolution.WINDOW,
        Resolution.WINDOW,
    ]
    assert levels(size - raw * 4 - rollups - 200) == [Resolution.DAY, *[Resolution.HOUR] * 3]
    assert levels(1) == [None] * 4


def test_today_never_goes_for_its_size() -> None:
    collector = Collector(stored(some_days()), RetentionPolicy(RetentionDays(99, 99, 99), {}, 1))
    assert sum(block.windows for block in collector.look(0.5)) == 96
    assert collector.look(1) == []


def test_a_pin_keeps_everything_of_its_days_and_service() -> None:
    collector = Collector(stored(some_days(2)))
    store = collector.store
    start = START_NS / 1e9
    add_pin(store, Pin("inc-42", start, start + 60, "shop", "INC-42", start))
    blocks = collector.look(20)
    assert [(block.services, resolution_of(block)) for block in blocks] == [(("shop",), Resolution.WINDOW)]
    assert tables(store, FIRST + timedelta(days=1)) == set()
    assert read_pins(store)[0].reason == "INC-42"
    remove_pin(store, "inc-42")
    assert collector.look(20) == []
    assert [entry.key for entry in store.list("v1/")] == []


def test_a_pin_of_all_services_holds_against_size_too() -> None:
    collector = Collector(stored(some_days(2)), RetentionPolicy(RetentionDays(99, 99, 99), {}, 1))
    add_pin(collector.store, Pin("all", START_NS / 1e9, START_NS / 1e9 + 1, "", "", 0))
    assert [resolution_of(block) for block in collector.look(20)] == [Resolution.WINDOW]
    assert manifest.read(collector.store, FIRST + timedelta(days=1)).document.blocks == ()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 2}', b'{"format": 1, "from": "x"}', b"\xff"])
def test_nothing_goes_while_a_pin_cannot_be_read(content: bytes) -> None:
    collector = Collector(stored(some_days()))
    collector.store.put("v1/pins/broken.json", content)
    with pytest.raises(PinDamaged, match="broken"):
        read_pins(collector.store)
    (block,) = collector.look(20)
    assert resolution_of(block) is Resolution.WINDOW
    assert collector.metrics.registry.get_sample_value("sidelight_retention_errors_total") == 2
    remove_pin(collector.store, "broken")
    assert collector.look(20) == []


def test_pins_have_names_of_their_own() -> None:
    store = stored()
    pin = Pin("a.b-c_1", 1.5, 2.5, "größe", "why", 3.5)
    add_pin(store, pin)
    assert read_pins(store) == [pin]
    with pytest.raises(StoreRefused, match="already"):
        add_pin(store, pin)
    for name in ("", "../x", "A", "a" * 64, "-a", "a/b"):
        with pytest.raises(StoreRefused, match="name of a pin"):
            add_pin(store, Pin(name, 0, 1, "", "", 0))
        with pytest.raises(StoreRefused, match="name of a pin"):
            remove_pin(store, name)
    with pytest.raises(StoreRefused, match="no pin"):
        remove_pin(store, "a.b-c_2")
    store.put("v1/pins/notes.txt", b"mine")
    assert len(read_pins(store)) == 1


def test_a_plan_says_what_would_go_and_why_and_does_nothing() -> None:
    collector = Collector(stored(some_days()))
    collector.look(2)
    before = [entry.key for entry in collector.store.list("v1/")]
    found = plan_retention(
        collector.store,
        RetentionPolicy(KEEP, {"shop": RetentionDays(9, 9, 9)}),
        collector.now + timedelta(days=1),
    )
    (change,) = found.changes
    assert (change.day, change.cause, dict(change.services_by_resolution)) == (
        FIRST,
        "age",
        {Resolution.HOUR: ["ads"], Resolution.WINDOW: ["shop"]},
    )
    assert change.freed_bytes == 0
    whole = plan_retention(collector.store, RetentionPolicy(KEEP), collector.now + timedelta(days=1))
    parts = change.block.parts
    assert whole.changes[0].freed_bytes == parts["profiles"] + parts["samples"]
    pressed = plan_retention(collector.store, RetentionPolicy(RetentionDays(9, 9, 9), {}, 1), collector.now)
    assert [each.cause for each in pressed.changes] == []
    assert len(pressed.expired_keys[3]) == len(SCHEMAS)
    assert [entry.key for entry in collector.store.list("v1/")] == before


@pytest.mark.parametrize(("days", "levels"), [(3, [Resolution.HOUR]), (5, [Resolution.DAY]), (7, [])])
@pytest.mark.parametrize("fault", list(Fault)[:2])
def test_whatever_goes_wrong_nothing_is_lost_before_its_time(
    days: int, levels: list[Resolution], fault: Fault
) -> None:
    start, whole = Collector(stored(some_days())), (-DAY_SECONDS, DAY_SECONDS)
    start.look(2)
    expected = folded_text(start.store, "", *whole)

    def look(at: int) -> tuple[Collector, list[str]]:
        collector = Collector(copied(start.store))
        collector.days = days
        faulty = FaultyStore(collector.store, at, fault)
        Retention(faulty, Metrics(), policy=RetentionPolicy(KEEP), interval_seconds=1).run_once(collector.now)
        return collector, faulty.operations

    _, unharmed = look(-1)
    assert not {"put", "delete"}.isdisjoint(unharmed)
    for at in steps(fault, unharmed):
        collector, _ = look(at)
        if days < 7:
            assert folded_text(collector.store, "", *whole) == expected
        blocks = collector.look(days)
        assert [resolution_of(block) for block in blocks] == levels


def test_a_store_that_is_away_is_counted_and_asked_again() -> None:
    collector = Collector(stored(some_days()))
    collector.look(2)

    class Away(FaultyStore):
        def list(self, prefix: str, start_after: str = "") -> object:  # type: ignore[override]
            raise StoreUnavailable("away")

    metrics = Metrics()
    Retention(Away(collector.store, -1), metrics, policy=RetentionPolicy(KEEP), interval_seconds=1).run_once(
        collector.now
    )
    assert metrics.registry.get_sample_value("sidelight_retention_errors_total") == 1


def test_a_damaged_manifest_leaves_its_day_as_it_is() -> None:
    collector = Collector(stored(some_days(2)))
    collector.look(2)
    key = manifest.key_of(FIRST)
    content = collector.store.get(key)
    collector.store.put(key, json.dumps({"format": 1}).encode())
    collector.days = 4
    collector.retention.run_once(collector.now)
    assert (
        resolution_of(manifest.read(collector.store, FIRST + timedelta(days=1)).document.blocks[0])
        is Resolution.HOUR
    )
    collector.store.put(key, content)
    (block,) = collector.look(4)
    assert resolution_of(block) is Resolution.HOUR
