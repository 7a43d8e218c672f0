"""Batches follow each other without a gap, and nothing is lost between them."""

import threading
import time
from itertools import pairwise

import pytest
from sidelight_native import PY_SPY_VERSION, Engine

from tests.native.conftest import not_python, sampling_threads


def test_batches_tile_and_every_tick_is_in_exactly_one(start):
    target = start("shares", 30)
    session = Engine().attach(target.pid, rate_hz=500)
    batches = [session.take() for _ in range(2000)]
    while sum(batch.attempts for batch in batches) < 300:
        batches.append(session.take())
    batches.append(session.stop())
    for before, after in pairwise(batches):
        assert after.start_ns == before.start_ns + before.duration_ns
    assert all(batch.samples == sum(sum(row[2:]) for row in batch.counts) for batch in batches)
    # One thread: every tick that did not fail is one sample.
    ticks = sum(batch.attempts - sum(batch.errors.values()) for batch in batches)
    assert sum(batch.samples for batch in batches) == ticks


def test_a_batch_carries_the_wall_clock(start, collect):
    target = start("shares", 30)
    before = time.time_ns()
    taken = collect(Engine().attach(target.pid, rate_hz=200), 50)
    first, last = taken.batches[0], taken.batches[-1]
    assert before - 1e9 < first.start_ns
    assert last.start_ns + last.duration_ns < time.time_ns() + 1e9


def test_the_rate_is_kept_on_average_and_jittered(start, collect):
    target = start("shares", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=100), 200)
    seconds = sum(batch.duration_ns for batch in taken.batches) / 1e9
    given_up = sum(batch.late_ns for batch in taken.batches) / 1e9
    assert taken.attempts / (seconds - given_up) == pytest.approx(100, rel=0.15)


def test_stopping_twice_gives_an_empty_batch(start, collect):
    target = start("shares", 30)
    session = Engine().attach(target.pid, rate_hz=200)
    taken = collect(session, 20)
    again = session.stop()
    assert (again.samples, again.attempts, again.duration_ns, again.counts) == (0, 0, 0, [])
    assert again.start_ns == taken.batches[-1].start_ns + taken.batches[-1].duration_ns
    assert session.ended is None


def test_an_engine_ends_its_thread_when_it_and_its_sessions_are_dropped(start, wait_until):
    target = start("shares", 30)
    others = sampling_threads()
    session = Engine().attach(target.pid, rate_hz=200)
    assert len(sampling_threads() - others) == 1
    del session
    wait_until(lambda: not sampling_threads() - others)


def test_other_threads_run_while_a_session_attaches_samples_and_stops(start, wait_until):
    target = start("workers", 30)
    beats = 0
    done = False

    def beat():
        nonlocal beats
        while not done:
            beats += 1

    counter = threading.Thread(target=beat)
    counter.start()
    try:
        with not_python() as pid:
            before = beats
            with pytest.raises(ValueError, match="no Python"):
                # Takes about ten tries of 20 ms; with the GIL held the counter would stand still.
                Engine().attach(pid, rate_hz=100)
            during_attach = beats - before
        session = Engine().attach(target.pid, rate_hz=1000)
        before = beats
        wait_until(lambda: beats > before)
        session.stop()
        during_sampling = beats - before
    finally:
        done = True
        counter.join()
    assert during_attach > 10_000
    assert during_sampling > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rate_hz": -1}, "rate_hz"),
        ({"rate_hz": float("nan")}, "rate_hz"),
        ({"rate_hz": 100, "max_depth": 0}, "max_depth"),
        ({"rate_hz": 100, "mode": "gentle"}, "mode"),
        ({"rate_hz": 100, "reader": "nobody"}, "reader"),
    ],
)
def test_a_bad_argument_is_refused_by_name(start, arguments, message):
    target = start("shares", 10)
    with pytest.raises(ValueError, match=message):
        Engine().attach(target.pid, **arguments)


def test_nonblocking_is_there_for_who_asks_for_it(start, collect):
    target = start("shares", 30)
    taken = collect(Engine().attach(target.pid, rate_hz=200, mode="nonblocking"), 100)
    assert sum(taken.of("spin")) > 0


def test_the_sampler_names_its_version():
    assert PY_SPY_VERSION == "0.4.3"
