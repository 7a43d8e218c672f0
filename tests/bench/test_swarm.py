"""A small swarm on real collectors and a real S3 server: nothing is lost, and a loss would be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import zstandard

from bench.corpus import Corpus, Shape
from bench.swarm.__main__ import Outcome, Plan, Watched, run
from bench.swarm.proof import prove
from bench.swarm.sidecars import Body, Shipped, blocks, frame
from sidelight_collector.decompress import decompress_body
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import write_hashed_segment

COMPACTING = "--compact-interval-seconds 1 --compact-min-segments 2 --flush-seconds 0.5"
RETAINING = (
    "--retention-interval-seconds 1 --max-age-days 1 "
    "--retention-raw-days 1 --retention-hour-days 1 --retention-day-days 1"
)
SMALL = Plan(
    sidecars=300,
    interval=3,
    seconds=9,
    drain=40,
    services=5,
    collectors=2,
    processes=2,
    lost=0.1,
    bodies=24,
    queries=5,
    expired=3,
    errors=0.05,
    latency=0.02,
    options=f"{COMPACTING} {RETAINING}",
)


@pytest.fixture(scope="module")
def swarmed(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(SMALL, tmp_path_factory.mktemp("swarm"), say=lambda _: None)


@pytest.mark.long
def test_every_window_is_acknowledged_and_stored_exactly_once(swarmed: Outcome) -> None:
    shipped = swarmed.shipped
    assert len(shipped) == 300 * 3
    assert swarmed.proof.wrong == []
    assert swarmed.proof.acknowledged == swarmed.proof.stored == len(shipped)


@pytest.mark.long
def test_answers_were_lost_and_windows_sent_again_to_any_collector(swarmed: Outcome) -> None:
    assert sum(result.answers["unreachable its answer was lost"] for result in swarmed.results) > 0
    assert any(one.sent > 1 for one in swarmed.shipped)
    assert swarmed.metrics["sidelight_windows_accepted_total"] >= len(swarmed.shipped)


@pytest.mark.long
def test_compaction_ran_meanwhile(swarmed: Outcome) -> None:
    assert swarmed.metrics["sidelight_compacted_windows_total"] > 0
    assert swarmed.metrics["sidelight_compaction_errors_total"] == 0


@pytest.mark.long
def test_the_api_counts_what_was_sent(swarmed: Outcome) -> None:
    assert swarmed.services["basis"]["windows"] == len(swarmed.shipped)
    assert sum(one["samples"] for one in swarmed.services["services"]) == swarmed.proof.samples


@pytest.mark.long
def test_every_query_is_answered_while_s3_requests_fail(swarmed: Outcome) -> None:
    assert swarmed.queries.failures == []
    assert set(swarmed.queries.seconds) == {"overview", "timeline", "flamegraph", "depth", "compare"}
    assert swarmed.mishaps.total() > 0


@pytest.mark.long
def test_what_expired_was_written_and_is_gone(swarmed: Outcome) -> None:
    assert swarmed.expired == 3


def test_the_growth_of_memory_is_that_of_its_second_half() -> None:
    memory = [*[1 << 30] * 1800, *((500 << 20) + second * (10 << 20) // 3600 for second in range(1800))]
    growth, error = Watched([], memory).slope()
    assert growth == pytest.approx(10, abs=0.1)
    assert error < 0.1


Stored = tuple[Sequence[HashedWindow], list[Shipped], list[Body]]


@pytest.fixture
def stored() -> Stored:
    """Windows, as what they were shipped as, all acknowledged."""
    rows = list(Corpus(Shape(pods=2, days=0.002, versions=1, stacks=20, distinct=200)).windows())
    bodies, shipped = [], []
    for at, row in enumerate(rows):
        columns = b"".join(column.tobytes() for column in (row.hashes, *row.counts))
        bodies.append(Body(at, row.window, b"", 0, columns))
        start_ns = row.window.start_ns
        shipped.append(Shipped(row.window.id, "shop", start_ns, row.digest, at, 0.0, acknowledged=1.0))
    assert len(rows) == 4
    return rows, shipped, bodies


def test_the_proof_holds_for_windows_that_lie_in_two_segments(stored: Stored) -> None:
    rows, shipped, bodies = stored
    store = MemoryStore()
    write_hashed_segment(store, rows[:3])
    write_hashed_segment(store, rows[2:])
    proof = prove(store, shipped, bodies)
    assert (proof.wrong, proof.stored, proof.repeated) == ([], 4, 1)
    assert proof.samples == 4 * 6000


def test_the_proof_names_a_window_that_is_not_stored(stored: Stored) -> None:
    rows, shipped, bodies = stored
    store = MemoryStore()
    write_hashed_segment(store, rows[1:])
    assert prove(store, shipped, bodies).wrong == [f"{rows[0].window.id} was acknowledged and is not stored"]
    shipped[0].acknowledged = None
    assert prove(store, shipped, bodies).wrong == []


def test_the_proof_names_a_window_that_was_never_sent(stored: Stored) -> None:
    rows, shipped, bodies = stored
    store = MemoryStore()
    write_hashed_segment(store, rows)
    assert prove(store, shipped[1:], bodies).wrong == [f"{rows[0].window.id} was never sent"]


def test_the_proof_names_a_window_with_other_samples_or_another_head(stored: Stored) -> None:
    rows, shipped, bodies = stored
    store = MemoryStore()
    write_hashed_segment(store, rows)
    counted = bodies[0].columns[:-8] + b"\1" * 8
    wrong = prove(store, shipped, [replace(bodies[0], columns=counted), *bodies[1:]]).wrong
    assert wrong == [f"{rows[0].window.id} has other samples than it was sent with"]
    shipped[0].digest ^= 1
    wrong = prove(store, shipped, bodies).wrong
    assert wrong == [f"{rows[0].window.id} has another digest, service or start than it was sent with"]


def test_the_proof_names_stacks_without_frames(stored: Stored) -> None:
    rows, shipped, bodies = stored
    store = MemoryStore()
    ref, other = (write_hashed_segment(store, part) for part in (rows[:2], rows[2:]))
    store.put(ref.key("stacks"), store.get(other.key("stacks")))
    missing = {h for row in rows[:2] for h in row.hashes} - {h for row in rows[2:] for h in row.hashes}
    assert missing
    assert prove(store, shipped, bodies).wrong == [f"{len(missing)} stacks of shop have no frames"]


def test_a_body_is_one_frame_that_says_its_length_as_a_sidecars_is(stored: Stored) -> None:
    text, header = b"main;handle 1\n" * 50_000, b'# {"format":1}\n'
    body = Body(0, stored[0][0].window, blocks(text), len(text), b"")
    packed = frame(header, body)
    assert zstandard.frame_content_size(packed) == len(header + text)
    assert decompress_body(packed, "zstd", 1 << 20) == header + text
    assert decompress_body(packed + packed, "zstd", 1 << 21) == (header + text) * 2
