"""Compaction changes what lies in the store and never what is answered, whatever goes wrong at any step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date

import pyarrow as pa
import pytest

from sidelight_collector.answers.export import ExportedProfile, export_folded
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.lifecycle.compaction import (
    Compaction,
    CompactionPolicy,
    DayInputs,
    is_day_complete,
    select_merge_inputs,
)
from sidelight_collector.storage.manifest import Block, Manifest
from sidelight_collector.storage.objects import ObjectStore, StoreUnavailable
from sidelight_collector.storage.segments import (
    SegmentRef,
    encode_parquet,
    event_day,
    list_segments,
    write_segment,
)
from sidelight_collector.storage.tables import SEGMENT_PARTS, SegmentPart
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.faults import Died, Fault, FaultyStore, steps
from tests.collector.stored_windows import START_NS, asked, copied, question, stored, window

DAY = event_day(START_NS)
EVER = (0, 2**63 - 1)
LATER = START_NS / 1e9 + 3 * 86_400
RULES = CompactionPolicy(
    min_segments=4,
    max_wait_seconds=600,
    max_block_rows=40,
    deletion_delay_seconds=600,
    orphan_age_seconds=3600,
)


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: float = LATER
    passed: float = field(default=0.0)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.passed += seconds


def compaction(
    store: ObjectStore, clock: Clock, rules: CompactionPolicy = RULES, metrics: Metrics | None = None
) -> Compaction:
    return Compaction(
        store,
        metrics or Metrics(),
        rules,
        interval_seconds=60,
        clock=lambda: clock.now,
        timer=lambda: clock.passed,
    )


def settle(store: ObjectStore) -> None:
    """All that a compaction without trouble does in a day."""
    clock = Clock()
    one = compaction(store, clock)
    for _ in range(4):
        one.run_once()
        clock.wait(3600)


def told(store: ObjectStore) -> ExportedProfile:
    """What is answered over everything; from where it was taken may change."""
    whole = question(start=-(10**6), end=10**6)
    found = asked(
        store, lambda reading: export_folded(reading, [whole], ProfileType.WALL, lines=True, states=True)
    )
    return replace(found, basis={**found.basis, "resolutions": []})


def keys(store: ObjectStore, prefix: str = "v1/") -> list[str]:
    return [entry.key for entry in store.list(prefix)]


def objects(block: Block) -> list[str]:
    """The keys of a block."""
    return [block.ref.key(part) for part in block.parts]


def some_windows(count: int = 12) -> list[list[Window]]:
    """Segments of windows, some of which are in two."""
    windows = [
        window(
            f"main;a{at % 3} 3 | main;b;[idle] {at + 1}", at=at * 60, service=f"s{at % 2}", pod=f"p{at % 3}"
        )
        for at in range(count)
    ]
    return [windows[at : at + 2] for at in range(0, count, 2)] + [windows[3:5]]


SMALL = stored(*some_windows(6))
"""Four segments: small, as the tests that try every step copy it for each."""


def test_segments_become_one_block_and_are_deleted_after_a_while() -> None:
    store, clock = stored(*some_windows()), Clock()
    before, segments = told(store), keys(store, "v1/l0/")
    one = compaction(store, clock)
    one.run_once()
    blocks = manifest.read(store, DAY).document.blocks
    assert [block.windows for block in blocks] == [12]
    assert keys(store, "v1/l0/") == segments
    assert told(store) == before
    clock.wait(RULES.deletion_delay_seconds - 1)
    one.run_once()
    assert keys(store, "v1/l0/") == segments
    clock.wait(1)
    one.run_once()
    assert keys(store) == [manifest.key_of(DAY), *sorted(objects(blocks[0]))]
    assert manifest.read(store, DAY).document == Manifest(blocks)
    assert told(store) == before


def test_it_works_on_every_kind_of_store(store: ObjectStore) -> None:
    clock = Clock()
    stored(*some_windows(), store=store)
    before = told(store)
    one = compaction(store, clock, replace(RULES, min_segments=2, max_block_rows=16))
    for _ in range(3):
        one.run_once()
        assert told(store) == before
        clock.wait(RULES.deletion_delay_seconds)
    assert keys(store, "v1/l0/") == []
    blocks = manifest.read(store, DAY).document.blocks
    assert sorted(keys(store, manifest.BLOCK_ROOT)) == sorted(
        key for block in blocks for key in objects(block)
    )


def test_what_comes_late_becomes_part_of_the_block_of_its_day() -> None:
    store = stored(*some_windows())
    settle(store)
    late = window("main;late 2", at=30)
    write_segment(store, [late])
    clock = Clock()
    one = compaction(store, clock)
    one.run_once()
    (block,) = manifest.read(store, DAY).document.blocks
    assert block.windows == 13
    assert b"main;late 2" in told(store).content


def test_a_day_in_order_is_not_looked_at_again() -> None:
    store, clock = stored(*some_windows()), Clock()
    settle(store)
    counted = FaultyStore(store, at=-1)
    one = compaction(counted, clock)
    one.run_once()
    first = counted.made
    one.run_once()
    assert counted.made - first == 2 < first  # which days have segments, and which have manifests


def tended(store: ObjectStore, clock: Clock, rules: CompactionPolicy) -> None:
    """Three looks, each after the objects of the one before may be deleted."""
    one = compaction(store, clock, rules)
    for _ in range(3):
        one.run_once()
        clock.wait(RULES.deletion_delay_seconds)


@pytest.mark.parametrize("fault", Fault)
def test_whatever_goes_wrong_at_any_step_nothing_is_lost_or_counted_twice(fault: Fault) -> None:
    expected, rules = told(SMALL), replace(RULES, min_segments=2, max_block_rows=16)
    unharmed = FaultyStore(copied(SMALL), at=-1)
    tended(unharmed, Clock(), rules)
    assert unharmed.made > 30
    for step in steps(fault, unharmed.operations):
        store = copied(SMALL)
        with suppress(Died):
            tended(FaultyStore(store, step, fault), Clock(), rules)
        assert told(store) == expected, f"step {step}"
        # Somebody else goes on, and in the end nothing is left over.
        settle(store)
        assert told(store) == expected, f"after step {step}"
        of_day = manifest.read(store, DAY).document
        named = {block.ref.key_prefix for block in (*of_day.blocks, *of_day.live_rollups)}
        assert {key[: key.rfind("/") + 1] for key in keys(store)} == {manifest.ROOT, *named}, f"step {step}"


def test_two_at_once_never_undo_each_other() -> None:
    expected = told(SMALL)
    step = 0
    while True:
        store, clock = copied(SMALL), Clock()
        other = compaction(store, clock)
        racing = FaultyStore(store, step, meanwhile=other.run_once)
        one = compaction(racing, clock, replace(RULES, min_segments=2, max_block_rows=16))
        for _ in range(3):
            one.run_once()
            assert told(store) == expected, f"step {step}"
            clock.wait(RULES.deletion_delay_seconds)
        if racing.made <= step:
            break
        settle(store)
        assert told(store) == expected, f"after step {step}"
        step += 1
    assert step > 30


def test_a_query_that_began_before_a_step_ends_with_the_same_answer() -> None:
    expected = told(SMALL)
    step = 0
    while True:
        store, clock = copied(SMALL), Clock()
        one = compaction(store, clock, replace(RULES, min_segments=2))
        reading = FaultyStore(store, step, meanwhile=one.run_once)
        assert told(reading) == expected, f"step {step}"
        if reading.made <= step:
            break
        step += 1
    assert step > 5


def test_a_block_that_took_too_long_is_not_committed() -> None:
    store, clock = stored(*some_windows()), Clock()
    slow = FaultyStore(store, 5, meanwhile=lambda: clock.wait(RULES.orphan_age_seconds / 2 + 1))
    compaction(slow, clock).run_once()
    assert manifest.read(store, DAY).etag is None
    assert len({key.rpartition("/")[0] for key in keys(store, manifest.BLOCK_ROOT)}) == 1


def test_a_block_that_was_deleted_before_it_was_committed_is_not_committed() -> None:
    store, clock = stored(*some_windows()), Clock()
    expected = told(store)

    def delete() -> None:
        for key in keys(store, manifest.BLOCK_ROOT):
            store.delete(key)

    steps = 0
    while not manifest.read(store, DAY).document.blocks:
        # Just before the block is looked at for the last time.
        racing = FaultyStore(store, steps, meanwhile=delete)
        compaction(racing, clock).run_once()
        assert told(store) == expected
        steps += 1


@pytest.mark.parametrize("known", [True, False])
def test_samples_of_a_segment_that_was_deleted_while_it_was_sent_once_more_go(known: bool) -> None:
    windows = some_windows()
    store, clock, metrics = stored(*windows), Clock(), Metrics()
    expected = told(store)
    settle(store)
    ref = write_segment(store, windows[0] if known else [window("main;new 2"), window("main;new 3")])
    for part in SEGMENT_PARTS:
        if part != "samples":
            store.delete(ref.key(part))
    assert told(store).basis["unreadable_segments"] == 1
    one = compaction(store, clock, metrics=metrics)
    for _ in range(3):
        one.run_once()
        clock.wait(RULES.deletion_delay_seconds)
    left = told(store)
    assert left.content == expected.content
    assert left.basis["unreadable_segments"] == (0 if known else 1)
    assert bool(keys(store, "v1/l0/")) is not known
    errors = metrics.registry.get_sample_value("sidelight_compaction_errors_total")
    assert errors == (0 if known else 1)


def other_columns() -> bytes:
    return encode_parquet(pa.table({"wid": ["x"]}))


@pytest.mark.parametrize(
    ("part", "content"),
    [
        *((part, b"PAR1 and no more") for part in SEGMENT_PARTS),
        *((part, other_columns()) for part in SEGMENT_PARTS),
        ("profiles", None),
        ("stacks", None),
    ],
)
def test_a_damaged_segment_stays_and_the_others_are_compacted(
    part: SegmentPart, content: bytes | None
) -> None:
    store, clock, metrics = stored(*some_windows()), Clock(), Metrics()
    ref = list_segments(store, *EVER)[0]
    whole = told(store)
    if content is None:
        store.delete(ref.key(part))
    else:
        store.put(ref.key(part), content)
    before = told(store)
    assert before.basis["unreadable_segments"] == 1
    one = compaction(store, clock, metrics=metrics)
    for _ in range(4):
        one.run_once()
        clock.wait(RULES.deletion_delay_seconds)
    assert list_segments(store, *EVER) == [ref]
    # The block may have the stacks that the segment lost.
    assert told(store) == (whole if part == "stacks" else before)
    assert metrics.registry.get_sample_value("sidelight_compaction_errors_total") == 1


def test_a_damaged_manifest_stops_its_own_day_only() -> None:
    store, clock, metrics = stored(*some_windows()), Clock(), Metrics()
    next_day = window(at=86_400)
    write_segment(store, [next_day])
    store.put(manifest.key_of(DAY), b"{")
    before = told(store)
    compaction(store, clock, metrics=metrics).run_once()
    assert manifest.read(store, event_day(next_day.start_ns)).document.blocks
    assert told(store) == before
    assert metrics.registry.get_sample_value("sidelight_compaction_errors_total") == 1


def test_foreign_objects_are_left_alone() -> None:
    store = stored(*some_windows())
    foreign = [
        f"v1/raw/{DAY}/notes.txt",
        "v1/l0/notes.txt",
        f"v1/l0/{DAY}/x/notes.txt",
        "v1/l0/x/y",
        "v1/raw/x",
    ]
    for key in foreign:
        store.put(key, b"")
    settle(store)
    assert set(foreign) <= set(keys(store))


def sized(rows: Sequence[int], root: str = "raw") -> list[tuple[SegmentRef, int]]:
    return [
        (
            manifest.parse_key_prefix(
                f"v1/{root}/{DAY}/{1_795_253_400_000 + at:013d}-1795253500000-{at:016x}/"
            ),
            count,
        )
        for at, count in enumerate(rows)
    ]


def day_of(blocks: Sequence[int] = (), segments: Sequence[int] = ()) -> DayInputs:
    return DayInputs(DAY, Stored(Manifest(), None), sized(blocks), sized(segments, "l0"))


def chosen(day: DayInputs, now: float, rules: CompactionPolicy) -> list[int]:
    """The numbers of the segments or blocks that become one."""
    return [int(ref.key_prefix[-17:-1], 16) for ref in select_merge_inputs(day, now, rules)]


SOON = 1_795_253_500 + 599


@pytest.mark.parametrize(
    ("day", "now", "expected"),
    [
        (day_of(), LATER, []),
        (day_of(segments=[10] * 3), SOON, []),
        (day_of(segments=[10] * 3), SOON + 1, [0, 1, 2]),
        (day_of(segments=[10] * 4), SOON, [0, 1, 2, 3]),
        (day_of(segments=[10] * 300), SOON, list(range(256))),
        (day_of(segments=[8 << 20, 1, 1]), SOON + 1, [0]),
        (day_of(segments=[4 << 20, 4 << 20, 1]), SOON + 1, [0, 1]),
        (day_of(blocks=[10] * 31), SOON, []),
        (day_of(blocks=[10] * 32), SOON, list(range(32))),
        (day_of(blocks=[10] * 33), SOON, list(range(32))),
        (day_of(blocks=[900, *[10] * 16, 900, *[10] * 16]), SOON, [*range(1, 17), *range(18, 34)]),
        (day_of(segments=[4 << 20, 4 << 20]), SOON, [0, 1]),
        (day_of(segments=[4 << 20, (4 << 20) - 1]), SOON, []),
        (day_of(segments=[8 << 20]), SOON, []),
        (day_of(blocks=[250] * 4), SOON, [0, 1, 2, 3]),
        (day_of(blocks=[250] * 3), SOON, []),
        (day_of(blocks=[300] * 4), SOON, [0, 1, 2]),
        (day_of(blocks=[999] * 32), SOON, []),
        (day_of(blocks=[1000] * 20), LATER, []),
        (day_of(blocks=[900, 10]), SOON, []),
        (day_of(blocks=[900, 10]), LATER, [0, 1]),
        (day_of(blocks=[900, 101]), LATER, []),
        (day_of(blocks=[900, 101, 5]), LATER, [1, 2]),
        (day_of(blocks=[900, 90, 5, 500, 400]), LATER, [0, 1, 2]),
        (day_of(blocks=[999, 500, 400]), LATER, [1, 2]),
        (day_of(blocks=[10]), LATER, []),
        (day_of(blocks=[10] * 32, segments=[1]), SOON, list(range(32))),
        (day_of(blocks=[10] * 8, segments=[1]), LATER, [0]),
    ],
)
def test_what_is_compacted_first(day: DayInputs, now: float, expected: list[int]) -> None:
    assert (
        chosen(day, now, CompactionPolicy(min_segments=4, max_wait_seconds=600, max_block_rows=1000))
        == expected
    )


def test_a_day_is_over_an_hour_after_its_end() -> None:
    midnight = 1_795_305_600
    assert not is_day_complete(date(2026, 11, 21), midnight + 3599)
    assert is_day_complete(date(2026, 11, 21), midnight + 3600)


def test_it_stops_between_two_steps() -> None:
    store, clock, looks = stored(*some_windows()), Clock(), 0

    def stopped() -> bool:
        nonlocal looks
        looks += 1
        return looks > 2

    compaction(store, clock, replace(RULES, min_segments=2, max_block_rows=16)).run_once(stopped)
    assert len(manifest.read(store, DAY).document.blocks) <= 1


def test_a_store_that_fails_is_waited_for() -> None:
    class Failing(MemoryStore):
        def list(self, prefix: str, start_after: str = ""):  # type: ignore[no-untyped-def]
            raise StoreUnavailable("the store cannot be reached")

    async def run(one: Compaction, done: Callable[[], bool]) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(one.run(stop))
        async with asyncio.timeout(30):
            while not done():
                await asyncio.sleep(0.001)
        stop.set()
        await running

    metrics = Metrics()
    one = Compaction(Failing(), metrics, RULES, interval_seconds=0.001)
    errors = "sidelight_compaction_errors_total"
    asyncio.run(run(one, lambda: (metrics.registry.get_sample_value(errors) or 0) >= 2))


def test_blocks_keep_the_order_in_which_they_count() -> None:
    store, clock = MemoryStore(), Clock()
    first = [window("main 1", at=at) for at in range(6)]
    for one in first:
        write_segment(store, [one])
        compaction(store, clock, replace(RULES, min_segments=1, max_block_rows=2)).run_once()
    order = [block.ref.min_start_ms for block in manifest.read(store, DAY).document.blocks]
    assert order == sorted(order)
    assert isinstance(manifest.read(store, DAY).document.blocks[0], Block)
