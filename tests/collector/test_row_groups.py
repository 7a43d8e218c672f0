"""Row groups that are requested alone: what is read of a large file, and that damage is noticed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from sidelight_collector.storage import row_groups, segments
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.blocks import write_block
from sidelight_collector.storage.checksum import CHECKSUM_BYTES, MAGIC, ROW_GROUPS_MAGIC, add_checksum
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.manifest import Manifest, commit, read
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore
from sidelight_collector.storage.segments import (
    SegmentRef,
    event_day,
    list_segments,
    read_row_groups,
    read_segment,
    read_service_rows,
)
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import START_NS, stored, window

SERVICES = ("ads", "cart", "pay", "shop")
DAY: date = event_day(START_NS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of any size have row groups of three rows, so their footers are most of them."""
    monkeypatch.setattr(segments, "SHARED_ROWS_PER_GROUP", 3)
    monkeypatch.setattr(segments, "MIN_PRUNED_ROWS", 1)
    monkeypatch.setattr(segments, "MIN_ZERO_ROWS", 1)
    for module in (segments, row_groups):
        monkeypatch.setattr(module, "MIN_FILE_BYTES", 1)
    monkeypatch.setattr(row_groups, "MIN_PRUNED_ROWS", 1)
    monkeypatch.setattr(row_groups, "TAIL_BYTES", 1000)
    monkeypatch.setattr(row_groups, "MAX_SHARE", 1.0)


def block_of_services(store: ObjectStore) -> SegmentRef:
    """A block as a query finds it in its manifest, of four services with three windows each."""
    stored(
        [
            window(f"main;{name} {at + 1} | main;{name};work 2 | main;idle 3", service=name, at=10 * at)
            for name in SERVICES
            for at in range(3)
        ],
        store=store,
    )
    block = write_block(store, DAY, list_segments(store, 0, 2**62), all_rollups=True)
    assert block is not None
    commit(store, DAY, Stored(Manifest(), None), Manifest((block,)))
    (found,) = read(store, DAY).document.blocks
    return found.ref


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("part", ["samples", "stacks", "sums"])
def test_a_query_of_some_services_requests_their_row_groups_alone(part: segments.SegmentPart) -> None:
    store = Counting(MemoryStore())
    ref = block_of_services(store)
    whole = read_segment(store, ref, part)
    for names in ({"cart"}, {"ads", "shop"}):
        expected = whole.filter(pa.compute.is_in(whole["service"].cast(pa.string()), pa.array(sorted(names))))
        store.reset()
        table, is_whole = read_service_rows(store, ref, part, None, names)
        assert (table.to_pylist(), is_whole) == (expected.to_pylist(), False)
        pieces = pa.concat_tables(read_row_groups(store, ref, part, None, names))
        assert pieces.to_pylist() == expected.to_pylist()
        # The end of the file, the rest of its footer, and each run of row groups; twice.
        assert 2 * (1 + len(names)) <= store.gets[ref.key(part)] <= 2 * (2 + len(names))


@pytest.mark.usefixtures("small")
def test_all_of_a_file_is_requested_at_once_if_most_of_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "MAX_SHARE", 0.1)
    store = Counting(MemoryStore())
    ref = block_of_services(store)
    for names, services in ((set(SERVICES[:3]), SERVICES), (set(SERVICES), SERVICES), ({"ads"}, ("ads",))):
        store.reset()
        table, _ = read_service_rows(store, replace(ref, services=services), "samples", None, names)
        assert set(table["service"].to_pylist()) == names
        assert store.read_bytes >= ref.sizes["samples"]
    store.reset()
    read_service_rows(store, replace(ref, sizes={}), "samples", None, {"ads"})
    assert (store.read_bytes, store.gets) == (ref.sizes["samples"], {ref.key("samples"): 1})


@pytest.mark.usefixtures("small")
def test_any_bit_that_changes_is_noticed_or_was_not_read() -> None:
    store = MemoryStore()
    ref = block_of_services(store)
    key = ref.key("stacks")
    content, rows = store.get(key), read_service_rows(store, ref, "stacks", None, {"cart"})[0]
    # Of the parts before the footer every bit, of the footer, whose hash is checked first, every seventh.
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for bit in [*range(footer * 8), *range(footer * 8, len(content) * 8, 7)]:
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        store.put(key, bytes(changed))
        try:
            table = read_service_rows(store, ref, "stacks", None, {"cart"})[0]
        except ObjectDamaged:
            continue
        assert table.equals(rows), bit


@pytest.mark.usefixtures("small")
def test_a_damaged_answer_is_asked_for_once_more() -> None:
    class Noisy(MemoryStore):
        def get_range(self, key: str, start: int, end: int) -> bytes:
            return super().get_range(key, start, end)[:-9] + b"something"

    store = Noisy()
    ref = block_of_services(store)
    assert len(read_service_rows(store, ref, "samples", None, {"cart"})[0]) == 9
    store.put(ref.key("samples"), store.get(ref.key("samples"))[:-1])
    with pytest.raises(ObjectDamaged):
        read_service_rows(store, ref, "samples", None, {"cart"})


@pytest.mark.usefixtures("small")
def test_a_file_without_hashes_of_row_groups_is_one_of_an_older_version() -> None:
    store = Counting(MemoryStore())
    ref = block_of_services(store)
    key = ref.key("samples")
    content, rows = store.get(key), read_service_rows(store, ref, "samples", None, {"cart"})[0]
    end = content.index(ROW_GROUPS_MAGIC)
    count = int.from_bytes(content[end - 4 : end], "little")
    footer = content.index(MAGIC) + CHECKSUM_BYTES
    older = add_checksum(content[: end - 4 - 8 * (count + 1)] + content[footer:])
    store.put(key, older)
    store.reset()
    assert read_service_rows(store, replace(ref, sizes={"samples": len(older)}), "samples", None, {"cart"})[
        0
    ].equals(rows)
    assert store.read_bytes > len(older)
