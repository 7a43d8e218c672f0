"""Which blocks may have an id of a segment, or a window of the same process and time."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from ulid import ULID

from sidelight_collector.storage import manifest
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.window_ids import SegmentWindows, find_id_span
from tests.collector.stored_windows import START_NS

START_MS = START_NS // 10**6
HOUR_MS = 3_600_000


def profiles(ids: list[str], *starts_ms: int) -> pa.Table:
    starts = [start * 10**6 for start in starts_ms]
    return pa.table({"wid": ids, "ts": pa.array(starts, pa.int64())})


def ulid(after_ms: int = 0) -> str:
    return str(ULID.from_timestamp(START_MS + after_ms))


def block(first_ms: int, last_ms: int, ids: tuple[int, int] | None, *, stray: bool = False) -> SegmentRef:
    prefix = (
        f"{manifest.BLOCK_ROOT}2026-11-21/{START_MS + first_ms:013d}-{START_MS + last_ms:013d}-{'0' * 16}/"
    )
    span = None if ids is None else (START_MS + ids[0], START_MS + ids[1])
    return replace(manifest.parse_key_prefix(prefix), id_span_ms=span, has_stray_ids=stray)


SEGMENT = block(0, 0, None)


@pytest.mark.parametrize(
    ("id_after_ms", "of", "expected"),
    [
        (1000, block(-60_000, -1, (0, 999)), False),
        (1000, block(-60_000, -1, (0, 1000)), True),
        (1000, block(-60_000, -1, (1000, 1001)), True),
        (1000, block(-60_000, -1, (1001, 2000)), False),
        # The same time, though other ids.
        (1000, block(-60_000, 0, (0, 999)), True),
        (1000, block(0, 60_000, (1001, 2000)), True),
        (1000, block(1, 60_000, (1001, 2000)), False),
        # Written by a version that does not tell: by hours.
        (1000, block(-60_000, -1, None), True),
        (1000, block(-2 * HOUR_MS, -2 * HOUR_MS, None), False),
        (1000, block(-2 * HOUR_MS, -2 * HOUR_MS, None, stray=True), True),
        (-2 * HOUR_MS, block(-2 * HOUR_MS, -2 * HOUR_MS, None), True),
        (-2 * HOUR_MS, block(-2 * HOUR_MS, -2 * HOUR_MS, (0, 1000), stray=True), False),
    ],
)
def test_a_block_may_share_windows_if_its_times_overlap(
    id_after_ms: int, of: SegmentRef, expected: bool
) -> None:
    windows = SegmentWindows([(SEGMENT, profiles([ulid(id_after_ms)], START_MS))])
    assert windows.may_share(of) is expected


def test_ids_that_are_no_ulids_may_be_in_any_block_with_stray_ids() -> None:
    windows = SegmentWindows(
        [
            (SEGMENT, profiles([ulid(1000)], START_MS)),
            (SEGMENT, profiles(["no ULID", ulid()], START_MS, START_MS)),
        ]
    )
    assert windows.may_share(block(-60_000, -1, (-60_000, -1)))
    assert windows.may_share(block(-2 * HOUR_MS, -2 * HOUR_MS, (-60_000, -1), stray=True))
    assert not windows.may_share(block(-2 * HOUR_MS, -2 * HOUR_MS, (-60_000, -1)))


def test_without_segments_no_block_shares_windows() -> None:
    assert not SegmentWindows([]).may_share(block(0, 0, (0, 0)))
    assert not SegmentWindows([]).may_share(block(0, 0, None))


def test_the_span_of_ids_is_unknown_if_one_is_no_ulid() -> None:
    assert find_id_span(profiles([ulid(5), ulid(3), ulid(4)], 1, 2, 3)) == (START_MS + 3, START_MS + 5)
    assert find_id_span(profiles([ulid(5), "no ULID"], 1, 2)) is None
    assert find_id_span(profiles([])) is None


def test_a_manifest_keeps_the_span_of_ids() -> None:
    one = manifest.Block(block(0, 1, (2, 3)), ("shop",), 1, 1, {"samples": 1})
    unknown = manifest.Block(block(0, 1, None), ("shop",), 1, 1, {"samples": 1})
    kept = manifest.decode("key", manifest.Manifest((one, unknown)).encode()).blocks
    assert [at.ref.id_span_ms for at in kept] == [(START_MS + 2, START_MS + 3), None]
