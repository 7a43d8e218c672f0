"""What the doctor mends: nothing is lost by it, and every answer is afterwards what it was before."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sidelight_collector.doctor.checker import DoctorReport, UnsafeRepair
from sidelight_collector.doctor.findings import FindingKind, FindingSeverity
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.open_store import CONFIG_KEY
from sidelight_collector.storage.blocks import write_block
from sidelight_collector.storage.lifecycle.retention import Resolution
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.tables import ROLLUP_PARTS, SEGMENT_PARTS, SegmentPart
from sidelight_model.counts import ProfileType
from tests.collector.conftest import Forgetful
from tests.collector.damage import (
    DAMAGE,
    DAY,
    KEY,
    aged,
    block,
    changed,
    commit,
    commit_segments,
    examined,
    one_more,
    rotated,
    segment,
    told,
    whole,
    without_first,
)
from tests.collector.faults import Died, Fault, FaultyStore, steps
from tests.collector.stored_windows import window
from tests.collector.test_query_blocks import SELECTORS, answers

MENDED = {
    FindingKind.CONFIG_MISSING,
    FindingKind.MANIFEST_DAMAGED,
    FindingKind.MANIFEST_MISSING,
    FindingKind.OBJECT_MISSING,
    FindingKind.OBJECT_DAMAGED,
    FindingKind.TOTALS_DIFFER,
    FindingKind.COUNTS_DIFFER,
    FindingKind.ORPHANED_OBJECT,
    FindingKind.DELETION_OVERDUE,
}


def all_answers(store: ObjectStore) -> list[object]:
    ranges = [(-3600, 7200), (-900, 4321), (-40_000, 60_000)]
    return [
        answers(store, selector, start, end, ProfileType.WALL)
        for selector, (start, end) in zip(SELECTORS[:7:2], ranges * 2, strict=False)
    ]


@cache
def whole_answers(rows: int = 1_000_000) -> list[object]:
    """All answers of a whole store, which are the same in every kind of store."""
    return all_answers(whole(rows=rows))


def numbers(store: ObjectStore, start: float, end: float) -> list[object]:
    """Answers but for their basis, which says from which tables they come."""
    found = answers(store, "", start, end, ProfileType.WALL)
    return [
        {name: value for name, value in each.items() if name != "basis"} if isinstance(each, dict) else each
        for each in found
    ]


def by_the_hour(store: ObjectStore) -> list[object]:
    """Answers that need no window one by one."""
    found = numbers(store, -40_000, 60_000)
    # The others are a timeline of ten minutes, one of steps that are as small as can be, and two heatmaps:
    # of such steps, and of hours that begin at a quarter past.
    return [*found[:4], found[5], *found[7:9], *found[11:]]


def mended(store: ObjectStore, **changes: object) -> DoctorReport:
    return examined(store, repair=True, **changes)


def keys(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list("")]


def done(report: DoctorReport) -> list[str]:
    return [each.key for each in report.repairs if each.done]


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "store")


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_mended_and_what_is_left(
    kind: FindingKind, directory: DirectoryStore, tmp_path: Path
) -> None:
    expected = DAMAGE[kind](whole(directory))
    aged(tmp_path / "store")
    lying = keys(directory)
    report = mended(directory)
    if kind not in MENDED:
        assert told(report) == expected
        assert not report.repairs
        assert keys(directory) == lying
        return
    assert told(report) == []
    assert report.repairs
    assert all(each.done for each in report.repairs)
    assert told(examined(directory, days_later=2)) in (
        [],
        # The block that another took the place of; it is deleted by whoever compacts.
        [(FindingSeverity.WARNING, FindingKind.DELETION_OVERDUE, KEY)],
    )
    aged(tmp_path / "store")
    assert told(mended(directory)) == []
    assert told(examined(directory, days_later=30)) == []
    assert all_answers(directory) == whole_answers()


@pytest.mark.parametrize("part", [part for part in ROLLUP_PARTS if part != "sums"])
def test_what_is_added_up_is_restored(part: SegmentPart) -> None:
    restored(MemoryStore(), part)


def test_what_is_added_up_is_restored_in_every_kind_of_store(store: ObjectStore) -> None:
    restored(store, "sums")


def restored(store: ObjectStore, part: SegmentPart) -> None:
    """Lose a table of a block and have it made anew."""
    whole(store, rows=300)
    (one, *others) = manifest.read(store, DAY).document.blocks
    if part not in one.parts:
        (one, *others) = (each for each in (one, *others) if part in each.parts)
    store.delete(one.ref.key(part))
    report = mended(store)
    assert told(report) == []
    assert done(report) == [one.ref.key_prefix]
    after = manifest.read(store, DAY).document
    assert one.ref.key_prefix in after.tombstones
    assert one.ref.key_prefix not in {each.ref.key_prefix for each in after.blocks}
    assert {each.windows for each in after.blocks} >= {each.windows for each in others}
    assert all_answers(store) == whole_answers(300)


def test_a_block_that_does_not_agree_with_itself_is_not_made_anew() -> None:
    store = whole()
    ref = block(store).ref
    changed(store, ref, "samples", without_first)
    store.delete(ref.key("hours"))
    before = keys(store)
    report = mended(store)
    assert not report.repairs
    assert keys(store) == before
    assert (FindingSeverity.ERROR, FindingKind.OBJECT_MISSING, ref.key("hours")) in told(report)


@pytest.mark.parametrize("lost", [("profiles",), ("samples",), ("profiles", "samples", "daily")])
def test_of_a_block_that_has_lost_its_windows_what_they_add_up_to_is_kept(
    lost: tuple[SegmentPart, ...],
) -> None:
    store = whole()
    expected = by_the_hour(store)
    ref = block(store).ref
    for part in lost:
        store.delete(ref.key(part))
    keys_lost = [ref.key(part) for part in block(store).parts if part in lost]
    missing = [(FindingSeverity.ERROR, FindingKind.OBJECT_MISSING, key) for key in keys_lost]
    assert told(mended(store)) == missing
    report = mended(store, forget_lost=True)
    assert told(report) == []
    assert done(report) == [ref.key_prefix]
    assert set(block(store).parts) == {"hours", "stacks", "sums", "daily"} - set(lost)
    assert by_the_hour(store) == expected


@pytest.mark.parametrize("lost", [("stacks",), ("samples", "hours"), ("samples", "sums", "daily")])
def test_a_block_of_which_nothing_is_left_is_forgotten_only_when_told_to(
    lost: tuple[SegmentPart, ...],
) -> None:
    store = whole()
    first = block(store)
    for part in lost:
        store.delete(first.ref.key(part))
    assert {key for _, _, key in told(mended(store))} >= {first.ref.key(part) for part in lost}
    assert block(store) == first
    report = mended(store, forget_lost=True)
    assert done(report) == [first.ref.key_prefix]
    assert told(report) == []
    assert manifest.read(store, DAY).document == Manifest((), frozenset({first.ref.key_prefix}))


def test_a_damaged_object_is_not_lost() -> None:
    store = whole()
    key = block(store).ref.key("samples")
    store.put(key, b"PAR1")
    report = mended(store, forget_lost=True)
    assert not report.repairs
    assert (FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key) in told(report)


def test_what_is_young_is_left_alone() -> None:
    store = whole()
    made = write_block(store, DAY, [block(store).ref])
    assert made
    store.put("v1/probe/abc", b"1")
    DAMAGE[FindingKind.DELETION_OVERDUE](store)
    before = keys(store)
    assert not mended(store).repairs
    assert keys(store) == before


def test_what_somebody_else_wrote_is_left_alone(directory: DirectoryStore, tmp_path: Path) -> None:
    whole(directory)
    for key in ("v1/notes.txt", f"v1/raw/{DAY}/notes.txt", f"{block(directory).ref.key_prefix}notes.txt"):
        directory.put(key, b"mine")
    directory.put("other/x", b"not ours")
    directory.put("v1/probe/abc", b"1")
    aged(tmp_path / "store")
    before = keys(directory)
    report = mended(directory)
    assert done(report) == ["v1/probe/abc"]
    assert set(before) - set(keys(directory)) == {"v1/probe/abc"}


def test_a_table_that_no_manifest_names_is_deleted(directory: DirectoryStore, tmp_path: Path) -> None:
    whole(directory)
    one = block(directory)
    commit(directory, lambda known: replace(known, blocks=(one.drop_parts(["daily"]), *known.blocks[1:])))
    aged(tmp_path / "store")
    report = mended(directory)
    assert done(report) == [one.ref.key("daily")]
    assert one.ref.key("daily") not in keys(directory)
    assert told(report) == []


def test_a_manifest_is_made_of_blocks_that_took_the_place_of_others(directory: DirectoryStore) -> None:
    """What the lost manifest said was gone is gone again: all its windows are in other blocks."""
    whole(directory, rows=300)
    blocks = manifest.read(directory, DAY).document.blocks
    assert len(blocks) > 2
    made = write_block(directory, DAY, [each.ref for each in blocks[:2]], all_rollups=True)
    assert made
    directory.put(KEY, b"{")
    report = mended(directory)
    assert done(report) == [KEY]
    assert told(report) == []
    after = manifest.read(directory, DAY).document
    assert {each.ref for each in after.blocks} == {made.ref, *(each.ref for each in blocks[2:])}
    assert after.tombstones == {each.ref.key_prefix for each in blocks[:2]}
    assert all_answers(directory) == whole_answers(300)


def test_no_manifest_is_made_of_blocks_that_share_windows() -> None:
    store = whole()
    one, two, three = (window(at=at, pod="shop-9") for at in (60, 61, 62))
    first = commit_segments(store, [one, two])
    commit_segments(store, [two, three])
    store.put(KEY, b"{")
    report = mended(store)
    assert told(report) == [(FindingSeverity.ERROR, FindingKind.MANIFEST_DAMAGED, KEY)]
    (refused,) = report.repairs
    assert not refused.done
    assert "1 of 2 windows" in refused.what
    assert "from a copy, or move" in refused.what
    for part in first.parts:
        store.delete(first.ref.key(part))
    assert told(mended(store)) == []


@pytest.mark.parametrize("others", [True, False])
def test_a_block_whose_windows_are_gone_is_taken_only_if_it_is_alone(*, others: bool) -> None:
    store = whole()
    expected = by_the_hour(store)
    one = block(store)
    for part in ("profiles", "samples"):
        store.delete(one.ref.key(part))
    if others:
        commit_segments(store, [window(at=60, pod="shop-9")])
    store.delete(KEY)
    store.put(KEY, b"{")
    (repaired,) = mended(store).repairs
    assert repaired.done is not others
    if not others:
        assert by_the_hour(store) == expected


def test_a_manifest_is_made_of_blocks_of_services_that_are_kept_for_other_times() -> None:
    store = rotated(whole(), Resolution.HOUR, Resolution.DAY)
    before = manifest.read(store, DAY).document
    services = {each.services: set(each.parts) for each in before.blocks}
    hours, days = {"stacks", "hours", "sums", "daily"}, {"stacks", "hours", "daily"}
    assert services == {("shop",): hours, ("ads",): days}
    expected = by_the_hour(store)
    for gone in before.tombstones:
        for entry in list(store.list(gone)):
            store.delete(entry.key)
    store.put(KEY, b"{")
    report = mended(store)
    assert done(report) == [KEY]
    assert told(report) == []
    after = manifest.read(store, DAY).document
    assert {each.ref for each in after.blocks} == {each.ref for each in before.blocks}
    assert by_the_hour(store) == expected


def test_a_manifest_of_a_later_format_is_never_replaced() -> None:
    store = whole()
    DAMAGE[FindingKind.MANIFEST_NEWER](store)
    before = store.get(KEY)
    assert not mended(store).repairs
    assert store.get(KEY) == before


def test_a_store_of_a_later_format_is_left_alone() -> None:
    store = whole()
    DAMAGE[FindingKind.FORMAT_NEWER](store)
    store.delete(KEY)
    before = keys(store)
    report = mended(store)
    assert told(report) == [(FindingSeverity.ERROR, FindingKind.FORMAT_NEWER, CONFIG_KEY)]
    assert keys(store) == before


def test_nothing_is_mended_without_conditional_writes_while_collectors_may_run() -> None:
    store = whole(Forgetful())
    key = block(store).ref.key("hours")
    store.delete(key)
    before = keys(store)
    with pytest.raises(UnsafeRepair):
        mended(store)
    assert keys(store) == before
    report = mended(store, offline=True)
    assert told(report) == [(FindingSeverity.WARNING, FindingKind.CONDITIONAL_WRITES_MISSING, "")]
    assert len(report.repairs) == 1


@pytest.mark.parametrize(
    "kind",
    [
        FindingKind.OBJECT_MISSING,
        FindingKind.MANIFEST_DAMAGED,
        FindingKind.DELETION_OVERDUE,
        FindingKind.ORPHANED_OBJECT,
    ],
)
def test_a_repair_that_dies_at_any_step_loses_nothing(
    kind: FindingKind, directory: DirectoryStore, tmp_path: Path
) -> None:
    expected = numbers(whole(directory), -3600, 7200)
    DAMAGE[kind](directory)
    aged(tmp_path / "store")

    def copy(name: str) -> DirectoryStore:
        shutil.copytree(tmp_path / "store", tmp_path / name)
        return DirectoryStore(tmp_path / name)

    unharmed = FaultyStore(copy("unharmed"), at=-1)
    mended(unharmed)
    deaths = 0
    for step in steps(Fault.DIES_AFTER, unharmed.operations):
        store = copy(str(step))
        try:
            mended(FaultyStore(store, step, Fault.DIES_AFTER))
        except Died:
            deaths += 1
        else:
            continue  # a write that is refused, as those that try out conditions are
        if kind is not FindingKind.MANIFEST_DAMAGED or store.get(KEY)[-1:] == b"}":
            assert numbers(store, -3600, 7200) == expected
        if deaths % 3 == 1:  # every third, as another repair costs most of this test
            for _ in range(2):
                aged(tmp_path / str(step))
                mended(store)
            aged(tmp_path / str(step))
            assert told(examined(store, days_later=30)) == []
            assert numbers(store, -3600, 7200) == expected
    assert deaths > 4


def test_a_block_that_a_collector_compacts_meanwhile_is_left_to_it() -> None:
    store = whole()
    old = block(store)
    store.delete(old.ref.key("hours"))
    made = write_block(store, DAY, [replace(old.ref, parts=frozenset(SEGMENT_PARTS))], all_rollups=True)
    assert made

    def compacts() -> None:
        if block(store) == old:
            commit(store, lambda known: Manifest((made,), known.tombstones | {old.ref.key_prefix}))

    at, outcomes = 0, set()
    while True:
        faulty = FaultyStore(store, at, meanwhile=compacts)
        report = examined(faulty, repair=True)
        if faulty.made <= at:
            break
        blocks = manifest.read(store, DAY).document.blocks
        assert [each.windows for each in blocks] == [old.windows]
        outcomes.add(blocks == (made,))
        assert FindingKind.OBJECT_MISSING not in {kind for _, kind, _ in told(report)}
        commit(store, lambda known: Manifest((old,), known.tombstones - {old.ref.key_prefix}))
        at += 1
    assert outcomes == {True, False}


def test_a_segment_is_never_touched(directory: DirectoryStore, tmp_path: Path) -> None:
    whole(directory)
    ref = segment(directory)
    directory.put(ref.key("stacks"), b"PAR1")
    changed(directory, ref, "profiles", one_more("idle"))
    aged(tmp_path / "store")
    before = keys(directory)
    report = mended(directory, forget_lost=True)
    assert not report.repairs
    assert keys(directory) == before
