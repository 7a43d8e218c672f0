"""The doctor finds every kind of damage that is done to a store, names it with its key, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidelight_collector.doctor.findings import (
    FindingKind,
    FindingSeverity,
    StoreFinding,
    StoreFindings,
    make_note,
)
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.blocks import write_block
from sidelight_collector.storage.checksum import MAGIC
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.lifecycle.retention import Resolution
from sidelight_collector.storage.objects import ObjectStore, StoreUnavailable
from sidelight_collector.storage.pins import Pin, add_pin
from sidelight_collector.storage.segments import write_segment
from sidelight_collector.storage.tables import BLOCK_PARTS, SCHEMAS, SEGMENT_PARTS, SegmentPart
from tests.collector.conftest import Forgetful
from tests.collector.damage import (
    DAMAGE,
    DAY,
    KEY,
    LATER,
    block,
    changed,
    commit,
    examined,
    one_more,
    rotated,
    segment,
    told,
    whole,
    without_first,
)
from tests.collector.faults import Fault, FaultyStore
from tests.collector.stored_windows import stored, window
from tests.processes import S3Server

ELSEWHERE = {
    FindingKind.GAP,
    FindingKind.NATIVE_MISSING,
    FindingKind.DIRECTORY_SHARED,
    FindingKind.CONDITIONAL_WRITES_MISSING,
    FindingKind.CONDITIONAL_WRITES_UNTESTED,
}


@pytest.mark.parametrize("rows", [1_000_000, 300])
def test_a_store_after_heavy_compaction_has_no_findings(store: ObjectStore, rows: int) -> None:
    report = examined(whole(store, rows=rows), probe=True, days_later=30)
    assert told(report) == []
    assert report.findings.is_healthy
    assert (report.format, report.conditional_writes, report.days, report.segments) == (1, True, 1, 1)
    assert report.blocks == (1 if rows == 1_000_000 else len(manifest.read(store, DAY).document.blocks))
    assert report.objects == len(list(store.list("v1/")))
    assert sum(service.windows for service in report.services) == 292
    inside = [entry.size for entry in store.list("v1/") if entry.key.endswith(".parquet")]
    assert (
        report.total_bytes
        == sum(inside)
        == pytest.approx(sum(each.total_bytes for each in report.services), abs=2)
    )


@pytest.mark.parametrize("level", Resolution)
@pytest.mark.parametrize("ads", Resolution)
def test_a_store_has_no_findings_whatever_has_gone_with_its_age(level: Resolution, ads: Resolution) -> None:
    store = rotated(whole(rows=300), level, ads)
    assert told(examined(store)) == []
    for _ in range(2):
        Compaction(
            store,
            Metrics(),
            CompactionPolicy(deletion_delay_seconds=0),
            interval_seconds=1,
            clock=lambda: LATER,
        ).run_once()
    assert told(examined(store, days_later=30)) == []


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_wrong_is_found_and_named_with_its_key_and_nothing_else(kind: FindingKind) -> None:
    store = whole()
    expected = DAMAGE[kind](store)
    report = examined(store, days_later=2)
    assert told(report) == expected
    assert all(finding.message and finding.hint for finding in report.findings)
    wrong = any(severity is not FindingSeverity.NOTE for severity, _, _ in expected)
    assert report.findings.is_healthy is not wrong


def test_every_kind_of_finding_is_tested() -> None:
    assert set(FindingKind) == set(DAMAGE) | ELSEWHERE


@pytest.mark.parametrize(
    "kind",
    [
        FindingKind.OBJECT_MISSING,
        FindingKind.MANIFEST_DAMAGED,
        FindingKind.TOTALS_DIFFER,
        FindingKind.UNKNOWN_KEY,
    ],
)
def test_it_is_found_in_every_kind_of_store(store: ObjectStore, kind: FindingKind) -> None:
    expected = DAMAGE[kind](whole(store))
    assert told(examined(store, probe=True, days_later=2)) == expected


def test_nothing_is_written_without_repair() -> None:
    for kind in (
        FindingKind.ORPHANED_OBJECT,
        FindingKind.OBJECT_MISSING,
        FindingKind.MANIFEST_DAMAGED,
        FindingKind.DELETION_OVERDUE,
    ):
        store = whole()
        expected = DAMAGE[kind](store)
        before = list(store.list(""))
        assert told(examined(store, days_later=2)) == expected
        assert list(store.list("")) == before


@pytest.mark.parametrize("part", BLOCK_PARTS)
def test_each_table_of_a_block_is_missed(part: SegmentPart) -> None:
    store = whole()
    key = block(store).ref.key(part)
    store.delete(key)
    for quick in (False, True):
        assert told(examined(store, quick=quick)) == [
            (FindingSeverity.ERROR, FindingKind.OBJECT_MISSING, key)
        ]
    hint = next(iter(examined(store).findings)).hint
    assert ("--forget-lost" in hint) is (part in SEGMENT_PARTS)


@pytest.mark.parametrize("part", BLOCK_PARTS)
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "column", "null", "type"])
def test_each_table_is_opened_and_held_against_its_schema(part: SegmentPart, damage: str) -> None:
    store = whole()
    ref = block(store).ref
    key = ref.key(part)
    content = store.get(key)
    field = SCHEMAS[part].field("service")
    if damage == "cut":
        store.put(key, content[: len(content) // 2])
    elif damage == "empty":
        store.put(key, b"")
    elif damage == "flipped":  # the same size, and the footer cannot be found
        store.put(key, content[:-6] + bytes(byte ^ 255 for byte in content[-6:]))
    elif damage == "column":
        changed(store, ref, part, lambda table: table.drop_columns(["service"]))
    elif damage == "null":
        changed(
            store,
            ref,
            part,
            lambda table: table.set_column(
                table.schema.get_field_index("service"), field, pa.nulls(len(table), field.type)
            ),
        )
    else:
        wrong = pa.field("service", pa.list_(pa.int64()))
        changed(
            store,
            ref,
            part,
            lambda table: table.set_column(
                table.schema.get_field_index("service"), wrong, pa.array([[1]] * len(table), wrong.type)
            ),
        )
    found = [each for each in told(examined(store)) if each[2] == key]
    assert found[:1] == [(FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key)]
    quick = told(examined(store, quick=True))
    assert quick == (
        [(FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key)] if damage in ("cut", "empty") else []
    )


@given(st.sampled_from(BLOCK_PARTS), st.integers(0, 10**6), st.integers(0, 7))
def test_no_bit_of_a_table_changes_unseen(part: SegmentPart, at: int, bit: int) -> None:
    store = whole()
    key = block(store).ref.key(part)
    content = bytearray(store.get(key))
    mark = content.rfind(MAGIC)
    assume(at % len(content) not in range(mark, mark + len(MAGIC)))  # then no number has changed
    content[at % len(content)] ^= 1 << bit
    store.put(key, bytes(content))
    assert (FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key) in told(examined(store))


@pytest.mark.parametrize("part", SEGMENT_PARTS)
def test_each_table_of_a_segment_is_missed_or_opened(part: SegmentPart) -> None:
    store = whole()
    ref = segment(store)
    key = ref.key(part)
    content = store.get(key)
    store.put(key, content[:-20])
    assert told(examined(store)) == [(FindingSeverity.ERROR, FindingKind.OBJECT_DAMAGED, key)]
    store.delete(key)
    if part == "samples":
        assert told(examined(store)) == [
            (FindingSeverity.NOTE, FindingKind.SEGMENT_UNFINISHED, ref.key_prefix)
        ]
    else:
        assert told(examined(store)) == [(FindingSeverity.ERROR, FindingKind.OBJECT_MISSING, key)]


@pytest.mark.parametrize(
    ("part", "column", "keys"),
    [
        ("hours", "idle", ["hours"]),
        ("hours", "windows", ["hours", ""]),
        ("sums", "running", ["sums"]),
        ("daily", "gil", ["daily"]),
        ("profiles", "idle", ["profiles"]),
        ("samples", "gil", ["samples", "samples", "samples", "samples"]),
    ],
)
def test_levels_are_held_against_each_other(part: SegmentPart, column: str, keys: list[str]) -> None:
    """Where one of the added up tables differs it is named; where samples do, they differ from all others."""
    store = whole()
    ref = block(store).ref
    changed(store, ref, part, one_more(column))
    found = told(examined(store))
    assert all(severity is FindingSeverity.ERROR for severity, _, _ in found)
    assert {key for _, kind, key in found if kind is FindingKind.TOTALS_DIFFER} == (
        {ref.key(part)}
        if part != "samples"
        else {ref.key(each) for each in ("profiles", "hours", "sums", "daily")}
    )
    assert len(found) == len(keys)
    if column == "windows":
        assert (FindingSeverity.ERROR, FindingKind.COUNTS_DIFFER, ref.key_prefix) in found


@pytest.mark.parametrize("part", ["profiles", "samples"])
def test_rows_that_are_lost_are_missed(part: SegmentPart) -> None:
    store = whole()
    ref = block(store).ref
    changed(store, ref, part, without_first)
    found = told(examined(store))
    assert (FindingSeverity.ERROR, FindingKind.COUNTS_DIFFER, ref.key_prefix) in found
    assert FindingKind.TOTALS_DIFFER in {kind for _, kind, _ in found}


@pytest.mark.parametrize(
    ("gone", "keys"), [(("profiles", "samples"), True), (("profiles", "samples", "sums"), False)]
)
def test_tables_that_a_block_is_no_longer_said_to_have_are_not_missed(
    gone: tuple[SegmentPart, ...], keys: bool
) -> None:
    store = whole()
    one = block(store)
    names = frozenset(one.ref.key(part) for part in gone)
    commit(
        store,
        lambda known: replace(
            known,
            blocks=(one.drop_parts(gone), *known.blocks[1:]),
            tombstones=known.tombstones | (names if keys else frozenset()),
        ),
    )
    assert [kind for _, kind, _ in told(examined(store, days_later=2))] == (
        [FindingKind.DELETION_OVERDUE] if keys else [FindingKind.ORPHANED_OBJECT] * len(gone)
    )
    for name in names:
        store.delete(name)
    assert told(examined(store, days_later=2)) == []
    changed(store, block(store).ref, "daily", one_more("idle"))
    key = one.ref.key("daily")
    assert told(examined(store)) == [(FindingSeverity.ERROR, FindingKind.TOTALS_DIFFER, key)]


def test_what_is_young_is_only_noted() -> None:
    store = whole()
    made = write_block(store, DAY, [block(store).ref])
    assert made
    store.put("v1/notes.txt", b"mine")
    for days, severity in (
        (0.0, FindingSeverity.NOTE),
        (0.99, FindingSeverity.NOTE),
        (1.01, FindingSeverity.WARNING),
    ):
        assert told(examined(store, days_later=days)) == [
            (severity, FindingKind.ORPHANED_OBJECT, made.ref.key_prefix),
            (severity, FindingKind.UNKNOWN_KEY, "v1/notes.txt"),
        ]
    assert examined(store, days_later=0.99).findings.is_healthy
    warned = examined(store, days_later=0.01, orphan_age_seconds=600.0)
    assert not warned.findings.is_healthy


def test_blocks_of_a_day_without_a_manifest_are_only_noted_while_one_is_young() -> None:
    store = whole()
    store.delete(KEY)
    prefix = {entry.key.rpartition("/")[0] + "/" for entry in store.list(manifest.BLOCK_ROOT)}
    assert told(examined(store)) == [
        (FindingSeverity.NOTE, FindingKind.ORPHANED_OBJECT, each) for each in prefix
    ]


def test_keys_of_pins_and_leases_are_known() -> None:
    store = whole()
    add_pin(store, Pin("incident-7", 0.0, 1.0, "shop", "", 2.0))
    store.put("v1/lease/compaction.json", b"{}")
    assert told(examined(store, days_later=2)) == []
    store.put("v1/pins/a/b.json", b"{}")
    assert told(examined(store, days_later=2)) == [
        (FindingSeverity.WARNING, FindingKind.UNKNOWN_KEY, "v1/pins/a/b.json")
    ]


def test_a_folder_that_is_no_day_is_unknown() -> None:
    store = whole()
    store.put("v1/l0/2026-02-30/x", b"1")
    store.put("v1/manifest/2026-02-30.json", b"1")
    assert {key for _, _, key in told(examined(store, days_later=2))} == {
        "v1/l0/2026-02-30/x",
        "v1/manifest/2026-02-30.json",
    }


def test_an_abandoned_probe_is_a_stray() -> None:
    store = whole()
    store.put("v1/probe/abc", b"1")
    assert told(examined(store)) == []
    assert told(examined(store, days_later=2)) == [
        (FindingSeverity.WARNING, FindingKind.ORPHANED_OBJECT, "v1/probe/abc")
    ]


def test_whether_conditional_writes_hold_is_tested_only_when_asked_for() -> None:
    forgetful = Forgetful()
    report = examined(forgetful, probe=True)
    assert (FindingSeverity.WARNING, FindingKind.CONDITIONAL_WRITES_MISSING, "") in told(report)
    assert report.conditional_writes is False
    assert list(forgetful.list("")) == []


def test_a_bucket_is_said_to_be_untested(s3_server: S3Server, new_bucket: Callable[[], str]) -> None:
    store = whole(S3Store(new_bucket(), endpoint=s3_server.endpoint))
    before = [entry.key for entry in store.list("")]
    report = examined(store)
    assert told(report) == [(FindingSeverity.NOTE, FindingKind.CONDITIONAL_WRITES_UNTESTED, "")]
    assert (report.findings.is_healthy, report.conditional_writes) == (True, None)
    assert examined(store, probe=True).conditional_writes is True
    assert [entry.key for entry in store.list("")] == before


def test_gaps_are_hours_without_a_window_of_a_service_that_was_there_before_and_after() -> None:
    store = stored(
        [window(at=3600 * hour, service="ads") for hour in (0, 1, 5, 6, 40)],
        [window(at=3600 * hour, service="shop") for hour in range(3)],
    )
    found = [finding for finding in examined(store).findings if finding.kind is FindingKind.GAP]
    assert [(each.severity, each.message) for each in found] == [
        (FindingSeverity.NOTE, "ads: no window for 3 hours, from 2026-11-21T11:00Z until 2026-11-21T14:00Z"),
        (FindingSeverity.NOTE, "ads: no window for 33 hours, from 2026-11-21T16:00Z until 2026-11-23T01:00Z"),
    ]
    assert [each.key for each in found] == [f"v1/l0/{DAY}/"] * 2


def test_a_window_that_is_twice_in_one_table_is_found() -> None:
    store = whole()
    ref = block(store).ref
    changed(store, ref, "profiles", lambda table: pa.concat_tables([table, table.slice(0, 1)]))
    assert (FindingSeverity.ERROR, FindingKind.WINDOWS_DUPLICATED, ref.key_prefix) in told(examined(store))


def test_an_id_that_came_twice_is_named() -> None:
    store = whole()
    one = window("main;x 1", at=60, pod="shop-9")
    first, second = (write_segment(store, [one, window(at=70 + at)]) for at in range(2))
    assert first != second
    other = replace(one, duration_ns=one.duration_ns + 1)
    write_segment(store, [other])
    messages = [each.message for each in examined(store).findings if each.kind is FindingKind.WINDOWS_DIFFER]
    assert messages
    assert all(one.id in message for message in messages)


def test_a_day_that_changes_meanwhile_is_looked_at_again() -> None:
    """A block that another took the place of and that is deleted while the doctor looks is not missed."""
    store = whole()
    old = block(store)

    def compacts() -> None:
        made = write_block(store, DAY, [old.ref], all_rollups=True)
        assert made
        commit(store, lambda known: replace(known, blocks=(made,)))
        for part in old.parts:
            store.delete(old.ref.key(part))

    for at in itertools.count():
        faulty = FaultyStore(store, at, meanwhile=compacts)
        report = examined(faulty)
        assert told(report) == [(FindingSeverity.NOTE, FindingKind.CONDITIONAL_WRITES_UNTESTED, "")]
        if faulty.made <= at:
            break
        old = block(store)


def test_a_store_that_fails_is_no_damage() -> None:
    store = whole()
    at = 0
    while True:
        faulty = FaultyStore(store, at, Fault.UNDONE)
        try:
            examined(faulty)
        except StoreUnavailable:
            at += 1
            continue
        assert faulty.made <= at
        break
    assert at > 10


def test_findings_beyond_the_most_are_counted() -> None:
    findings = StoreFindings(2)
    findings.add(make_note(FindingKind.GAP, str(at), "", "") for at in range(2))
    assert not findings.omitted_counts
    findings.add(
        [
            make_note(FindingKind.GAP, "2", "", ""),
            StoreFinding(FindingSeverity.ERROR, FindingKind.ORPHANED_OBJECT, "s", "", ""),
        ]
    )
    assert findings.omitted_counts == {FindingKind.GAP: 1}
    assert [each.key for each in findings] == ["s", "0", "1"]
    assert findings.counts == {FindingSeverity.ERROR: 1, FindingSeverity.WARNING: 0, FindingSeverity.NOTE: 3}


def test_what_a_service_costs() -> None:
    """Two services, one with three times the windows, for eight days."""
    windows = [
        window(f"main;f{at};g{copy} 3", at=3600 * at, service="ads" if copy else "shop", pod=f"p{copy}")
        for at in range(24 * 8)
        for copy in range(4)
    ]
    store = stored(windows)
    report = examined(store, price_per_gb_month=2.0**30, price_per_1000_requests=1000.0)
    ads, shop = report.services
    assert (ads.service, ads.windows, shop.windows) == ("ads", 576, 192)
    assert (ads.windows_per_day, shop.windows_per_day) == pytest.approx((72, 24), rel=0.12)
    assert ads.stored_now_cost == pytest.approx(ads.total_bytes, abs=1)
    only = examined(store, price_per_gb_month=2.0**30, retention_hour_days=14, retention_day_days=14)
    assert only.services[0].storage_cost == pytest.approx(14 * ads.bytes_per_day)
    assert 14 * ads.bytes_per_day < ads.storage_cost < 400 * ads.bytes_per_day
    per_day = ads.windows_per_day + shop.windows_per_day
    assert ads.requests_cost + shop.requests_cost == pytest.approx(3 * per_day * 365.25 / 12)
    assert ads.requests_cost / shop.requests_cost == pytest.approx(ads.windows_per_day / shop.windows_per_day)
    slow = examined(store, price_per_1000_requests=1000.0, flush_seconds=86_400.0, collectors=2)
    assert sum(each.requests_cost for each in slow.services) == pytest.approx(3 * 2 * 365.25 / 12)


def test_the_newest_day_does_not_lower_the_rate() -> None:
    day = timedelta(days=1).total_seconds()
    full = [window(at=day * at + 60 * minute, seconds=1) for at in range(3) for minute in range(10)]
    store = stored(full, [window(at=day * 3)])
    (shop,) = examined(store).services
    assert shop.windows_per_day == 10
    assert [service.windows_per_day for service in examined(stored([window()])).services] == [1]
