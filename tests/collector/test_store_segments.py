"""Segments: committed whole or not at all, found by time, read back as they were written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from sidelight_collector.query.query_context import load_view
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore, StoreUnavailable
from sidelight_collector.storage.segments import ROWS_PER_GROUP, list_segments, read_segment, write_segment
from sidelight_collector.storage.tables import SCHEMAS, SEGMENT_PARTS, build_segment_tables
from sidelight_model.counts import STATES, Counts
from sidelight_model.folded import Stack, parse_folded
from sidelight_model.labels import RESERVED_LABELS, Labels
from sidelight_model.window import Quality, Window
from tests.collector.stored_windows import few_examples

Make = Callable[..., Window]
DAY_NS = 86_400 * 10**9
NOON_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * 10**9
EVER = (0, 2**63 - 1)

stacks = st.lists(
    st.sampled_from(["main", "f (a b.py:1)", "g %3B", "é", "(truncated)"]), min_size=1, max_size=5
)
counts = st.builds(Counts, *[st.integers(0, 10**6)] * len(STATES))
words = st.sampled_from(["", "a", "b"])
windows = st.builds(
    Window,
    id=st.builds(lambda: str(ULID())),
    labels=st.builds(
        lambda service, free: Labels({"service": service, **free}),
        st.sampled_from(["shop", "ads"]),
        st.dictionaries(st.sampled_from(["version", "pod", "zone", "node", "thread"]), words),
    ),
    start_ns=st.integers(NOON_NS, NOON_NS + 10**13),
    duration_ns=st.integers(1, 10**10),
    period_ns=st.just(10**7),
    counts=st.dictionaries(stacks.map(lambda frames: Stack(";".join(frames))), counts, max_size=6),
    quality=st.builds(
        Quality,
        attempts=st.integers(0, 2**63 - 1),
        errors=st.dictionaries(st.sampled_from(["gone", "torn"]), st.integers(0, 2**63 - 1)),
        mode=words,
        missing_states=st.sampled_from([(), ("gil",), ("idle", "gil")]),
        stopped_ns=st.integers(0, 2**63 - 1),
        reduced=st.sampled_from([(), ("cpu",), ("cgroup", "paused")]),
    ),
)


def rows(table: pa.Table) -> list[dict[str, object]]:
    return list(table.to_pylist())


@few_examples
@given(st.lists(windows, min_size=1, max_size=6))
def test_what_is_read_back_adds_up_to_what_was_written(written: list[Window]) -> None:
    store = MemoryStore()
    ref = write_segment(store, written)
    profiles = {str(row["wid"]): row for row in rows(read_segment(store, ref, "profiles"))}
    texts = {
        (row["service"], row["h"]): ";".join(row["frames"])  # type: ignore[arg-type]
        for row in rows(read_segment(store, ref, "stacks"))
    }
    found: dict[str, dict[str, Counts]] = {window.id: {} for window in written}
    for row in rows(read_segment(store, ref, "samples")):
        count = Counts(*(row[state] for state in STATES))  # type: ignore[misc]
        found[str(row["wid"])][texts[row["service"], row["h"]]] = count
    for window in written:
        assert found[window.id] == {stack: count for stack, count in window.counts.items() if any(count)}
        row = profiles[window.id]
        assert Counts(*(row[state] for state in STATES)) == window.total  # type: ignore[misc]
        labels = {name: row[name] for name in RESERVED_LABELS} | dict(row["labels"])  # type: ignore[call-overload]
        assert Labels(labels) == window.labels
        assert (row["ts"], row["duration_ns"]) == (window.start_ns, window.duration_ns)
        assert (row["attempts"], row["errors"]) == (
            window.quality.attempts,
            sorted(window.quality.errors.items()),
        )


@few_examples
@given(st.lists(windows, min_size=1, max_size=6))
def test_tables_have_their_schema_and_order_also_after_reading(written: list[Window]) -> None:
    store, tables = MemoryStore(), build_segment_tables(written)
    ref = write_segment(store, written)
    for part in SEGMENT_PARTS:
        table = read_segment(store, ref, part)
        assert table.schema.equals(SCHEMAS[part])
        assert table.equals(tables.get_part(part))
    order = [
        (row["service"], row["ts"] // (3600 * 10**9), row["pod"], row["ts"], row["wid"], row["h"])  # type: ignore[operator]
        for row in rows(tables.samples)
    ]
    assert order == sorted(order)
    keys = [(row["service"], row["h"]) for row in rows(tables.stacks)]
    assert len(set(keys)) == len(keys)
    assert [h for _, h in sorted(keys)] == [
        h for service in sorted(dict(keys)) for s, h in keys if s == service
    ]


def test_a_stack_is_named_by_the_hash_of_its_folded_text(make_window: Make) -> None:
    tables = build_segment_tables([make_window("main (a.py:1);f;[gil] 2")])
    (stack,) = rows(tables.stacks)
    assert stack["h"] == xxhash.xxh3_64_intdigest(b"main (a.py:1);f")
    assert (stack["depth"], stack["frames"]) == (2, ["main (a.py:1)", "f"])


def test_a_stack_of_twenty_thousand_frames_is_stored(make_window: Make) -> None:
    deep = ";".join(f"f{n % 7}" for n in range(20_000))
    tables = build_segment_tables([make_window(f"{deep} 1")])
    assert tables.stacks["depth"].to_pylist() == [20_000]


def test_a_window_without_stacks_is_a_profile_without_samples(store: ObjectStore, make_window: Make) -> None:
    ref = write_segment(store, [make_window("")])
    assert [read_segment(store, ref, part).num_rows for part in SEGMENT_PARTS] == [1, 0, 0]
    assert read_segment(store, ref, "stacks").schema.equals(SCHEMAS["stacks"])


def test_the_same_windows_are_the_same_segment_in_any_order(store: ObjectStore, make_window: Make) -> None:
    both = [make_window("a 1", start_ns=NOON_NS), make_window("b 2", start_ns=NOON_NS + 1)]
    first = write_segment(store, both)
    before = {entry.key: store.get(entry.key) for entry in store.list("")}
    assert write_segment(store, reversed(both)) == first
    assert {entry.key: store.get(entry.key) for entry in store.list("")} == before
    other = write_segment(store, [both[0], replace(both[1], counts=parse_folded("b 3"))])
    assert other != first


def test_some_columns_may_be_read_without_the_others(make_window: Make) -> None:
    store = MemoryStore()
    ref = write_segment(store, [make_window("a 1")])
    assert read_segment(store, ref, "samples", ["h", "gil"]).column_names == ["h", "gil"]


@pytest.mark.parametrize("writes", range(3))
def test_a_collector_that_dies_while_writing_leaves_no_segment(make_window: Make, writes: int) -> None:
    class Dying(MemoryStore):
        left = writes

        def put(
            self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> str:
            if not self.left:
                raise StoreUnavailable("dead")
            self.left -= 1
            return super().put(key, content, if_absent=if_absent, if_match=if_match)

    store, window = Dying(), make_window("a 1", start_ns=NOON_NS)
    with pytest.raises(StoreUnavailable):
        write_segment(store, [window])
    assert list_segments(store, *EVER) == []
    store.left = 3
    ref = write_segment(store, [window])
    assert list_segments(store, *EVER) == [ref]
    assert read_segment(store, ref, "samples").num_rows == 1


def test_a_range_finds_the_segments_that_may_hold_its_windows(store: ObjectStore, make_window: Make) -> None:
    ms = 10**6
    days = [NOON_NS + n * DAY_NS for n in range(-1, 2)]
    refs = [
        write_segment(store, [make_window(start_ns=start), make_window(start_ns=start + 5 * ms)])
        for start in days
    ]
    today = NOON_NS
    assert list_segments(store, *EVER) == refs
    assert list_segments(store, today, today + 1) == [refs[1]]
    assert list_segments(store, today + 5 * ms, today + 6 * ms) == [refs[1]]
    assert list_segments(store, today + 6 * ms, today + 7 * ms) == []
    assert list_segments(store, today - ms, today) == []
    assert list_segments(store, days[0], days[2]) == refs[:2]
    assert list_segments(store, today, today) == []
    assert list_segments(store, today + 1, today) == []
    assert list_segments(store, -1, -(10**30)) == []
    assert list_segments(store, -(10**30), 10**30) == refs


def test_a_segment_of_two_days_or_of_nothing_or_with_a_window_twice_is_a_mistake(make_window: Make) -> None:
    midnight = NOON_NS + DAY_NS // 2
    window = make_window()
    for wrong in ([make_window(start_ns=midnight - 1), make_window(start_ns=midnight)], [], [window, window]):
        with pytest.raises(ValueError, match="segment"):
            write_segment(MemoryStore(), wrong)


def test_a_segment_of_more_stacks_than_a_row_group_holds_is_read_back(make_window: Make) -> None:
    store, stacks = MemoryStore(), ROWS_PER_GROUP + 9
    ref = write_segment(store, [make_window("\n".join(f"main;f{number} 1" for number in range(stacks)))])
    table, is_whole = load_view(store, ref, "stacks")
    assert is_whole
    assert len({tuple(frames) for frames in table["frames"].to_pylist()}) == stacks
