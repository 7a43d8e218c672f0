"""The corpus of the benchmarks: the same windows for the same seed, of the size asked for, and real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.corpus import Corpus, Shape
from bench.corpus.stacks import PROGRAMS, recorded, service, version
from sidelight_collector.stack_hashing import HashedWindow, hash_window
from sidelight_model.window import decode_windows, encode_windows

SMALL = Shape(pods=3, processes=2, days=0.05, versions=2, stacks=60, distinct=900)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(SMALL)


def columns(row: HashedWindow) -> tuple[object, ...]:
    return row.digest, row.hashes, row.counts, row.stacks


def test_equal_seeds_give_equal_bytes_and_others_do_not() -> None:
    shape = replace(SMALL, days=0.01)
    corpus, same, other = Corpus(shape), Corpus(shape), Corpus(replace(shape, seed=2))
    text = [encode_windows([corpus.window(row)]) for row in corpus.windows()]
    assert text == [encode_windows([same.window(row)]) for row in same.windows()]
    assert not set(text) & {encode_windows([other.window(row)]) for row in other.windows()}


def test_a_window_made_as_columns_is_the_one_that_is_read_from_its_text(corpus: Corpus) -> None:
    for row in corpus.windows():
        (read,) = decode_windows(encode_windows([corpus.window(row)]))
        assert columns(hash_window(read)) == columns(row)


def test_there_are_as_many_windows_and_stacks_as_asked_for(corpus: Corpus) -> None:
    rows = list(corpus.windows())
    assert len(rows) == SMALL.windows == 3 * 2 * 72
    assert len({row.window.id for row in rows}) == len(rows)
    assert [row.window.start_ns for row in rows] == sorted(row.window.start_ns for row in rows)
    assert sum(len(row.hashes) for row in rows) / len(rows) == pytest.approx(SMALL.stacks, rel=0.1)
    for each in ("2026.11.1", "2026.11.2"):
        seen = {h for row in rows if row.window.labels["version"] == each for h in row.hashes}
        assert 0.5 * SMALL.distinct < len(seen) <= SMALL.distinct


def test_pods_come_and_go_and_every_replica_has_one_at_any_moment() -> None:
    shape = replace(SMALL, days=1.5, window_seconds=3600, processes=1)
    rows = list(Corpus(shape).windows())
    by_turn: dict[int, set[str]] = {}
    for row in rows:
        turn = (row.window.start_ns - shape.start_ns) // (3600 * 10**9)
        by_turn.setdefault(turn, set()).add(row.window.labels["pod"])
    assert {len(pods) for pods in by_turn.values()} == {3}
    assert len(set[str]().union(*by_turn.values())) > 2 * 3


def test_a_version_moves_lines_and_changes_some_functions() -> None:
    known = service(2000, seed=1)
    before, after = (dict(version(known, number, seed=1)) for number in (0, 1))
    assert set(before) != set(after)
    assert set(before) & set(after), "stacks through files that nobody edited stay"
    names = [
        {frame.rpartition(":")[0] for one in made.values() for frame in one.frames}
        for made in (before, after)
    ]
    assert len(names[0] & names[1]) > 0.9 * len(names[0])


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_was_recorded_with_all_states(program: str) -> None:
    counts = recorded(program)
    assert len(counts) > 500
    for state in range(3):
        assert any(count[state] for count in counts.values())
