"""A block has the windows of what it was made of, each once, whatever they were made of in which order."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.stack_hashing import hash_stack
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.blocks import (
    InputUnreadable,
    has_all_objects,
    merge_tables,
    sum_stacks_by_hour,
    write_block,
)
from sidelight_collector.storage.live_objects import list_live_objects
from sidelight_collector.storage.manifest import Block, Manifest, ManifestDamaged
from sidelight_collector.storage.objects import ObjectMissing, StoreIncompatible
from sidelight_collector.storage.segments import event_day, list_segments, read_segment
from sidelight_collector.storage.tables import (
    BLOCK_PARTS,
    HOUR_NS,
    SCHEMAS,
    SEGMENT_PARTS,
    SUMS,
    SegmentPart,
    build_segment_tables,
    compute_group_ids,
)
from sidelight_model.counts import STATES
from sidelight_model.window import Window
from tests.collector.stored_windows import START_NS, few_examples, stored, window
from tests.model.strategies import windows as any_windows

DAY = event_day(START_NS)
EVER = (0, 2**63 - 1)
NO_BYTES: dict[SegmentPart, int] = dict.fromkeys(SEGMENT_PARTS, 0)
near = st.builds(replace, any_windows, start_ns=st.integers(START_NS, START_NS + 10**13))


@few_examples
@given(st.lists(near, min_size=1, max_size=8, unique_by=lambda one: one.id), st.data())
def test_a_block_is_what_a_segment_of_the_same_windows_would_be(
    windows: list[Window], data: st.DataObject
) -> None:
    places = [data.draw(st.sets(st.integers(0, 3), min_size=1)) for _ in windows]
    pieces = [[one for one, at in zip(windows, places, strict=True) if piece in at] for piece in range(4)]
    tables = merge_tables([build_segment_tables(piece) for piece in pieces if piece])
    whole = build_segment_tables(windows)
    for part in SEGMENT_PARTS:
        assert tables.get_part(part).schema == SCHEMAS[part]
        rows, expected = tables.get_part(part).to_pylist(), whole.get_part(part).to_pylist()
        if part == "samples":  # in the same order of windows, but within a window by how common a hash is
            assert [row["wid"] for row in rows] == [row["wid"] for row in expected]
            times = Counter(row["h"] for row in rows)
            order = {row["wid"]: at for at, row in enumerate(rows)}
            assert rows == sorted(rows, key=lambda row: (order[row["wid"]], -times[row["h"]], row["h"]))
            rows, expected = (
                sorted(each, key=lambda row: (row["wid"], row["h"])) for each in (rows, expected)
            )
        assert rows == expected


@few_examples
@given(st.lists(near, min_size=1, max_size=8, unique_by=lambda one: one.id))
def test_sums_are_what_samples_add_up_to_in_each_group(windows: list[Window]) -> None:
    tables = build_segment_tables(windows)
    sums, number = sum_stacks_by_hour(tables), compute_group_ids(tables.profiles)
    assert sums.schema == SUMS
    group = dict(zip(tables.profiles["wid"].to_pylist(), number.to_pylist(), strict=True))
    labels = ("service", "version", "namespace", "process", "thread", "capture")
    expected: dict[tuple[object, ...], list[int]] = {}
    for one in windows:
        hour = one.start_ns // HOUR_NS * HOUR_NS
        keys = (*(one.labels.get(name, "") for name in labels), hour, one.period_ns, group[one.id])
        for stack, counts in one.counts.items():
            if any(counts):
                row = expected.setdefault((*keys, hash_stack(stack)), [0] * len(STATES))
                row[:] = [before + count for before, count in zip(row, counts, strict=True)]
    rows = [list(row.values()) for row in sums.to_pylist()]
    head, tail = slice(0, -len(STATES)), slice(-len(STATES), None)
    assert {tuple(row[head]): row[tail] for row in rows} == expected
    assert len(sums) == len(expected)
    times = Counter(sums["h"].to_pylist())
    order = [(row["group"], -times[row["h"]], row["h"]) for row in sums.to_pylist()]
    assert order == sorted(order)
    first_seen = list(dict.fromkeys(number.to_pylist()))
    assert first_seen == sorted(first_seen)


def test_a_block_has_sums_if_they_are_far_fewer_or_all_else_may_go() -> None:
    alike = [window("main;a 3 | main;b 1", at=at * 900, pod=f"pod-{at}") for at in range(8)]
    few, many, all_of_them = {*SEGMENT_PARTS, "hours"}, {*SEGMENT_PARTS, "hours", "sums"}, set(BLOCK_PARTS)
    for windows, parts in ((alike, all_of_them), (alike[:2], many), (alike[:1], few)):
        store = stored(windows)
        refs = list_segments(store, *EVER)
        block = made(write_block(store, DAY, refs))
        assert set(block.parts) == block.ref.parts == parts
        assert set(made(write_block(store, DAY, refs, all_rollups=True)).parts) == all_of_them
        for part in parts:
            assert has_all_objects(store, block)
            content = store.get(block.ref.key(part))
            assert len(content) == block.parts[part]
            store.delete(block.ref.key(part))
            assert not has_all_objects(store, block)
            store.put(block.ref.key(part), content)


def made(block: Block | None) -> Block:
    assert block is not None
    return block


def test_windows_that_another_block_has_are_left_out() -> None:
    windows = [window(f"main;a{at} 3 | main;b 1", at=at) for at in range(3)]
    store = stored(windows)
    refs = list_segments(store, *EVER)
    block = made(
        write_block(store, DAY, refs, find_excluded_ids=lambda _: pa.array([windows[1].id, "other"]))
    )
    assert read_segment(store, block.ref, "profiles")["wid"].to_pylist() == [windows[0].id, windows[2].id]
    assert set(read_segment(store, block.ref, "samples")["wid"].to_pylist()) == {windows[0].id, windows[2].id}
    every_id = pa.array([one.id for one in windows])
    assert write_block(store, DAY, refs, find_excluded_ids=lambda _: every_id) is None


def test_a_window_counts_as_it_is_in_the_first_input_that_has_it() -> None:
    first, other = window("main 3"), window("main 5 | main;new 1")
    clash = replace(other, id=first.id)
    tables = merge_tables([build_segment_tables([first]), build_segment_tables([clash, other])])
    assert tables.samples.filter(pa.compute.equal(tables.samples["wid"], first.id))[
        "running"
    ].to_pylist() == [3]
    assert len(tables.profiles) == 2


def test_a_block_reads_like_a_segment_and_counts_once_it_is_named() -> None:
    windows = [window("main;a 3 | main;b 1", at=at, service=f"s{at % 2}") for at in range(5)]
    store = stored(windows[:3], windows[2:])
    refs = list_segments(store, *EVER)
    block = made(write_block(store, DAY, refs))
    assert (block.services, block.windows, block.rows) == (("s0", "s1"), 5, 10)
    assert block.bytes == sum(entry.size for entry in store.list(block.ref.key_prefix))
    assert has_all_objects(store, block)
    assert list_live_objects(store, *EVER).refs == refs
    base = manifest.read(store, DAY)
    assert manifest.commit(store, DAY, base, Manifest((block,), frozenset(ref.key_prefix for ref in refs)))
    assert list_live_objects(store, *EVER).refs == [block.ref]
    sorted_ids = [one.id for one in sorted(windows, key=lambda one: (one.labels["service"], one.start_ns))]
    assert read_segment(store, block.ref, "profiles")["wid"].to_pylist() == sorted_ids
    # It may hold windows of this range only.
    until = START_NS + 5 * 10**9
    assert list_live_objects(store, START_NS, START_NS + 1).refs == [block.ref]
    assert list_live_objects(store, until, until + 1).refs == []
    assert list_live_objects(store, START_NS, START_NS).refs == []
    store.delete(block.ref.key("stacks"))
    assert not has_all_objects(store, block)


def test_only_one_of_two_commits_on_the_same_manifest_is_made() -> None:
    store, block = (
        MemoryStore(),
        Block(
            manifest.parse_key_prefix(f"v1/raw/{DAY}/{'1' * 13}-{'2' * 13}-{'a' * 16}/"), (), 1, 1, NO_BYTES
        ),
    )
    none = manifest.read(store, DAY)
    first = manifest.commit(store, DAY, none, Manifest((block,)))
    assert first
    assert manifest.commit(store, DAY, none, Manifest()) is None
    assert manifest.read(store, DAY) == first
    assert manifest.commit(store, DAY, first, Manifest())
    assert manifest.commit(store, DAY, first, Manifest((block,))) is None
    assert manifest.list_days(store) == [DAY]
    for key in ("v1/manifest/notes.txt", "v1/manifest/2026-99-99.json"):
        store.put(key, b"")
    assert manifest.list_days(store) == [DAY]


def test_a_manifest_is_the_same_bytes_for_the_same_blocks_and_is_read_back() -> None:
    places = [
        manifest.parse_key_prefix(f"v1/{root}/{DAY}/{'1' * 13}-{'2' * 13}-{'a' * 16}/")
        for root in ("raw", "l0")
    ]
    block = Block(places[0], ("ads", "größe"), 60, 9120, {"profiles": 7, "stacks": 8, "samples": 9})
    old = Block(replace(places[0], parts=frozenset(["hours"])), ("ads",), 60, 9120, {"hours": 5})
    assert block.drop_parts(["profiles"]).parts == {"stacks": 8, "samples": 9}
    assert block.drop_parts(["profiles"]).ref.parts == {"stacks", "samples"}
    assert (block.bytes, old.bytes) == (24, 5)
    whole = Manifest((block, old), frozenset([places[1].key_prefix, places[0].key("samples")]))
    assert manifest.decode("key", whole.encode()) == whole
    assert json.loads(whole.encode())["format"] == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"format": 1}',
        b'{"blocks": [], "format": "1", "gone": []}',
        b'{"blocks": [], "format": 1, "gone": ["v1/config.json"]}',
        b'{"blocks": [{"key": "v1/l0/../x/"}], "format": 1, "gone": []}',
        b'{"blocks": [{"bytes": 1, "key": "v1/raw/2026-11-21/1111111111111-2222222222222-aaaaaaaaaaaaaaaa/", '
        b'"rows": 1, "services": [], "sums": null, "windows": 1}], "format": 1, "gone": []}',
        b'{"blocks": [{"key": "v1/raw/2026-11-21/1111111111111-2222222222222-aaaaaaaaaaaaaaaa/", "parts": '
        b'{"new": 1}, "rows": 1, "services": [], "windows": 1}], "format": 1, "gone": []}',
        b'{"blocks": [], "format": 1, "gone": [1]}',
        b'{"blocks": [], "format": 1, "gone": '
        b'["v1/raw/2026-11-21/1111111111111-2222222222222-aaaaaaaaaaaaaaaa/new.parquet"]}',
    ],
)
def test_a_damaged_manifest_is_told_and_its_segments_count_again(content: bytes) -> None:
    store = stored([window()])
    store.put(manifest.key_of(DAY), content)
    with pytest.raises(ManifestDamaged, match=f"v1/manifest/{DAY}"):
        manifest.read(store, DAY)
    found = list_live_objects(store, *EVER)
    assert (len(found.refs), found.damaged_manifests) == (1, 1)


def test_a_later_format_is_refused() -> None:
    store = stored([window()])
    store.put(manifest.key_of(DAY), b'{"blocks": [], "format": 2, "gone": []}')
    with pytest.raises(StoreIncompatible, match="format 2"):
        list_live_objects(store, *EVER)


def test_an_input_that_cannot_be_read_is_named() -> None:
    store = stored([window()], [window(at=1)])
    refs = list_segments(store, *EVER)
    store.put(refs[1].key("stacks"), b"PAR1")
    with pytest.raises(InputUnreadable, match=refs[1].key_prefix) as failure:
        write_block(store, DAY, refs)
    assert failure.value.ref == refs[1]
    store.delete(refs[0].key("samples"))
    with pytest.raises(ObjectMissing):
        write_block(store, DAY, refs)
    assert not list(store.list(manifest.BLOCK_ROOT))
