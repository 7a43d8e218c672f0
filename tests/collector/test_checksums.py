"""Damage is noticed, whichever bit it is, named, and left out of answers that say so."""

from __future__ import annotations

import io
import json
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from sidelight_collector.answers.export import ExportedProfile, export_folded
from sidelight_collector.ingest.dedup import read_recent_ids
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.checksum import CHECKSUM_BYTES, MAGIC, is_intact
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.manifest import ManifestDamaged
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore
from sidelight_collector.storage.segments import event_day, list_segments, read_segment, write_segment
from sidelight_collector.storage.tables import ROLLUP_PARTS, SEGMENT_PARTS, SegmentPart
from sidelight_model.counts import ProfileType
from tests.collector.stored_windows import START_NS, asked, question, stored, window

DAY = event_day(START_NS)
EVER = (0, 2**63 - 1)
LATER = START_NS / 1e9 + 3 * 86_400


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def damage(store: ObjectStore, key: str) -> None:
    """One bit in the middle."""
    content = store.get(key)
    store.put(key, flipped(content, len(content) * 4))


def told(store: ObjectStore) -> ExportedProfile:
    whole = question(start=-(10**5), end=10**5)
    return asked(
        store, lambda reading: export_folded(reading, [whole], ProfileType.WALL, lines=True, states=True)
    )


def compacted(store: ObjectStore, metrics: Metrics | None = None) -> None:
    rules = CompactionPolicy(min_segments=1, deletion_delay_seconds=0)
    one = Compaction(store, metrics or Metrics(), rules, interval_seconds=1, clock=lambda: LATER)
    for _ in range(3):
        one.run_once()


@pytest.mark.parametrize("part", SEGMENT_PARTS)
def test_any_bit_that_changes_is_noticed(part: SegmentPart) -> None:
    store = MemoryStore()
    ref = write_segment(store, [window("main;f 3 | main;[idle] 2")])
    content, table = store.get(ref.key(part)), read_segment(store, ref, part)
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    mark = range((footer - CHECKSUM_BYTES) * 8, (footer - CHECKSUM_BYTES + len(MAGIC)) * 8)
    for bit in range(len(content) * 8):
        store.put(ref.key(part), flipped(content, bit))
        if bit in mark:  # then nothing else has changed
            assert read_segment(store, ref, part).equals(table)
        else:
            with pytest.raises(ObjectDamaged, match=ref.key(part)):
                read_segment(store, ref, part)


def test_what_was_cut_off_is_noticed() -> None:
    store = MemoryStore()
    ref = write_segment(store, [window()])
    content = store.get(ref.key("samples"))
    for length in range(len(content)):
        store.put(ref.key("samples"), content[:length])
        with pytest.raises(ObjectDamaged):
            read_segment(store, ref, "samples")


def test_any_other_program_reads_a_file_with_its_checksum() -> None:
    store = MemoryStore()
    ref = write_segment(store, [window("main;f 3")])
    content = store.get(ref.key("samples"))
    assert MAGIC in content
    assert pq.read_table(io.BytesIO(content)).equals(read_segment(store, ref, "samples"))


def test_a_file_without_a_checksum_is_one_of_an_older_version() -> None:
    store = MemoryStore()
    ref = write_segment(store, [window("main;f 3")])
    content, table = store.get(ref.key("samples")), read_segment(store, ref, "samples")
    at = content.index(MAGIC)
    bare = content[:at] + content[at + CHECKSUM_BYTES :]
    assert is_intact(bare)
    store.put(ref.key("samples"), bare)
    assert read_segment(store, ref, "samples").equals(table)
    for bit in range(0, len(bare) * 8, 11):
        store.put(ref.key("samples"), flipped(bare, bit))
        with suppress(ObjectDamaged):  # and nothing else
            read_segment(store, ref, "samples")


def test_any_bit_of_a_manifest_that_changes_is_noticed() -> None:
    store = stored([window("main;f 3"), window("main;g 3", at=60)])
    compacted(store)
    content, known = store.get(manifest.key_of(DAY)), manifest.read(store, DAY).document
    assert known.blocks
    name = content.index(b'"check"') * 8
    for bit in range(len(content) * 8):
        if bit in range(name, name + 7 * 8):
            continue  # then nothing else has changed
        with pytest.raises(ManifestDamaged):
            manifest.decode("k", flipped(content, bit))


def test_a_manifest_without_a_checksum_is_one_of_an_older_version() -> None:
    store = stored([window("main;f 3")])
    compacted(store)
    written = json.loads(store.get(manifest.key_of(DAY)))
    del written["check"]
    assert manifest.decode("k", json.dumps(written).encode()) == manifest.read(store, DAY).document


def test_what_was_damaged_on_its_way_is_read_once_more() -> None:
    class Noisy(MemoryStore):
        spoilt: set[str] = set()

        def get_with_etag(self, key: str) -> tuple[bytes, str]:
            content, etag = super().get_with_etag(key)
            if key in self.spoilt:
                return content, etag
            self.spoilt.add(key)
            return flipped(content, len(content) * 4), etag

    store = Noisy()
    stored([window("main;f 3")], store=store)
    compacted(store)
    assert told(store).content == b"main;f 3\n"
    assert told(store).basis["unreadable_segments"] == 0
    assert manifest.key_of(DAY) in store.spoilt


@pytest.mark.parametrize("part", [*SEGMENT_PARTS, *ROLLUP_PARTS])
def test_a_damaged_table_of_a_block_is_named_and_does_without_or_is_left_out(part: SegmentPart) -> None:
    first, other = window("main;f 3"), window("main;g 2", at=86_400)
    store = stored([first])
    compacted(store)
    write_segment(store, [other])
    whole = told(store)
    (block,) = manifest.read(store, DAY).document.blocks
    assert part in block.parts
    damage(store, block.ref.key(part))
    with capture_logs() as logs:
        left = told(store)
    if part != "stacks":
        assert left.content == whole.content
        assert left.basis["unreadable_segments"] == 0
        # Nobody needs windows while what they add up to is there.
        assert bool(logs) is (part in ("hours", "daily"))
    else:
        assert left.content == b"main;g 2\n"
        assert left.basis["unreadable_segments"] == 1
        assert [block.ref.key_prefix in str(line) for line in logs] == [True]


def test_a_collector_begins_although_a_segment_is_damaged() -> None:
    store = stored([window("main;f 3")], [sound := window("main;g 2", at=60)])
    first = list_segments(store, *EVER)[0]
    damage(store, first.key("profiles"))
    with capture_logs() as logs:
        assert [wid for wid, _ in read_recent_ids(store, 10, START_NS)] == [sound.id]
    assert [line["segment"] for line in logs] == [first.key_prefix]


def test_windows_that_a_damaged_block_may_have_are_not_put_into_another() -> None:
    twice, other = window("main;f 3"), window("main;g 2", at=7200)
    store, metrics = stored([twice]), Metrics()
    compacted(store)
    (block,) = manifest.read(store, DAY).document.blocks
    write_segment(store, [twice])
    late = write_segment(store, [other])
    damage(store, block.ref.key("profiles"))
    before = told(store)
    compacted(store, metrics)
    after = told(store)
    assert after.content == before.content
    assert after.basis["unreadable_segments"] == before.basis["unreadable_segments"] == 1
    assert [ref.key_prefix == late.key_prefix for ref in list_segments(store, *EVER)] == [False]
    # Once for the segment that is left, and once for the block, which is not merged either.
    assert metrics.registry.get_sample_value("sidelight_compaction_errors_total") == 2
