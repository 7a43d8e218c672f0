"""What the workers of one collector know of each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight_collector.ingest.shared_stats import SharedIngestStats
from sidelight_collector.ingest.stats import MAX_SIDECARS, IngestStats


def told(activity: IngestStats) -> tuple[int, int | None, list[tuple[str, int]]]:
    seen = [(one.pod, one.last_seen_ns) for one in activity.list_sidecars()]
    return activity.windows_acknowledged, activity.last_ingest_ns, seen


def test_each_worker_knows_at_once_what_all_of_them_took(tmp_path: Path) -> None:
    one, other = SharedIngestStats(tmp_path, "1"), SharedIngestStats(tmp_path, "2")
    assert told(one.aggregate_processes()) == told(other.aggregate_processes()) == (0, None, [])
    one.record_acknowledged([("a", "shop"), ("b", "shop"), ("a", "shop")], 10)
    assert told(other.aggregate_processes()) == (3, 10, [("b", 10), ("a", 10)])
    other.record_acknowledged([("a", "shop")], 20)
    one.record_acknowledged([("c", "shop")], 15)
    assert (
        told(one.aggregate_processes())
        == told(other.aggregate_processes())
        == (5, 20, [("a", 20), ("c", 15), ("b", 10)])
    )
    assert told(one) == (4, 15, [("c", 15), ("a", 10), ("b", 10)]), "and for itself what came to it"


def test_who_takes_the_place_of_one_that_died_goes_on_where_that_ended(tmp_path: Path) -> None:
    SharedIngestStats(tmp_path, "1").record_acknowledged([("a", "shop")], 10)
    place = SharedIngestStats(tmp_path, "1")
    assert told(place) == told(place.aggregate_processes()) == (1, 10, [("a", 10)])
    place.record_acknowledged([("b", "shop")], 20)
    assert told(SharedIngestStats(tmp_path, "2").aggregate_processes()) == (2, 20, [("b", 20), ("a", 10)])


def test_a_line_that_was_cut_off_counts_for_nothing_and_harms_nothing(tmp_path: Path) -> None:
    SharedIngestStats(tmp_path, "1").record_acknowledged([("a", "shop")], 10)
    (journal,) = tmp_path.iterdir()
    with journal.open("ab") as file:
        file.write(b'[1,20,[["b","sh')
    assert told(SharedIngestStats(tmp_path, "2").aggregate_processes()) == (1, 10, [("a", 10)])
    SharedIngestStats(tmp_path, "1").record_acknowledged([("c", "shop")], 30)
    assert told(SharedIngestStats(tmp_path, "2").aggregate_processes()) == (2, 30, [("c", 30), ("a", 10)])


def test_a_journal_is_bounded_and_says_the_same_when_it_was_shortened(tmp_path: Path) -> None:
    shared, alone = SharedIngestStats(tmp_path, "1", max_bytes=5000), IngestStats()
    for at in range(1, 1001):
        for activity in (shared, alone):
            activity.record_acknowledged([(f"pod-{at % 20}", "shop")], at)
        (journal,) = tmp_path.iterdir()
        assert journal.stat().st_size < 5000 + 2000
    assert told(shared.aggregate_processes()) == told(alone)


def test_together_too_they_remember_no_more_senders_than_one(tmp_path: Path) -> None:
    for name in ("1", "2"):
        activity = SharedIngestStats(tmp_path, name)
        activity.record_acknowledged([(f"{name}-{at}", "shop") for at in range(MAX_SIDECARS)], int(name))
    together = activity.aggregate_processes()
    assert together.windows_acknowledged == 2 * MAX_SIDECARS
    assert {one.last_seen_ns for one in together.list_sidecars()} == {2}
    assert len(together.list_sidecars()) == MAX_SIDECARS


def test_windows_are_taken_also_when_nobody_can_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shared").mkdir()
    activity = SharedIngestStats(tmp_path / "shared", "1")
    (tmp_path / "shared").rename(tmp_path / "gone")
    activity.record_acknowledged([("a", "shop")], 10)
    assert told(activity) == (1, 10, [("a", 10)])
    assert "windows not counted in the status" in capsys.readouterr().out
