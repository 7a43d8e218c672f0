"""One thread samples many processes, each as it was asked to."""

import re
from pathlib import Path

import pytest
from sidelight_native import STATES, Engine

from sidelight_sidecar.samplers.native_sampler import NativeSession
from tests.native.conftest import PYTHONS, Taken, apart, sampling_threads

EACH_END = dict([next(iter(PYTHONS.items())), list(PYTHONS.items())[-1]])
CROWD = Path(__file__).parents[1] / "harm" / "targets" / "crowd.py"


def test_one_thread_samples_many_processes(start, wait_until):
    targets = [start("shares", 60) for _ in range(8)]
    before = sampling_threads()
    engine = Engine()
    sessions = [engine.attach(target.pid, rate_hz=50) for target in targets]
    assert len(sampling_threads() - before) == 1
    batches = []

    def sampled(session):
        batches.append(session.take())
        return batches[-1].samples > 0

    for session in sessions:
        wait_until(lambda session=session: sampled(session))
    assert [session.pid for session in sessions] == [target.pid for target in targets]
    batches += [session.stop() for session in sessions]
    assert sum(batch.sampler_cpu_ns for batch in batches) > 0
    assert engine.cpu_ns > 0
    engine.close()
    wait_until(lambda: not sampling_threads() - before)


def test_the_end_of_one_session_leaves_the_others_alone(start, wait_until):
    engine = Engine()
    short, long = start("contends", 1), start("shares", 60)
    ending, lasting = (engine.attach(target.pid, rate_hz=200) for target in (short, long))
    short.stdin.close()
    wait_until(lambda: ending.ended == "exited")
    lasting.take()
    wait_until(lambda: lasting.take().samples > 0)
    assert lasting.ended is None


def test_what_was_counted_can_be_taken_from_a_closed_engine(start, wait_until):
    engine = Engine()
    session = engine.attach(start("shares", 60).pid, rate_hz=200)
    wait_until(lambda: session.take().samples > 0)
    engine.close()
    wait_until(lambda: session.stop().duration_ns == 0)
    with pytest.raises(RuntimeError, match="closed"):
        engine.attach(session.pid, rate_hz=200)


def test_the_rate_can_be_changed_and_sampling_paused(start, wait_until):
    session = Engine().attach(start("shares", 60).pid, rate_hz=0)
    assert session.rate_hz == 0
    assert session.take().attempts == 0
    session.set_rate(500)
    assert session.rate_hz == 500
    wait_until(lambda: session.take().attempts > 0)
    session.set_rate(0)
    session.take()
    paused = session.take()
    assert (paused.attempts, paused.stops, paused.late_ns) == (0, 0, 0)
    session.set_rate(100)
    wait_until(lambda: session.take().attempts > 0)
    with pytest.raises(ValueError, match="rate_hz"):
        session.set_rate(float("inf"))


def test_an_exit_is_noticed_during_a_pause(start, wait_until):
    target = start("shares", 60)
    session = Engine().attach(target.pid, rate_hz=0)
    target.kill()
    wait_until(lambda: session.ended == "exited")


@pytest.mark.parametrize(("version", "python"), PYTHONS.items(), ids=PYTHONS)
def test_every_installed_python_is_sampled_and_its_main_thread_told_from_others(
    start, collect, version, python
):
    session = Engine().attach(start("workers", 60, python=str(python)).pid, rate_hz=200)
    assert (session.mode, session.reader) == ("gil", reader_for(session))
    taken = collect(session, 100)
    assert taken.batches[0].python == version
    kinds = rows(taken)
    assert {kind for kind, stack in kinds if "spinning" in stack} == {"other"}
    assert {kind for kind, stack in kinds if "<module>" in stack} == {"main"}
    assert kinds.keys() == {(kind, stack) for kind, stack in kinds if kind in ("main", "other")}


def test_threads_can_be_told_apart_by_their_names(start, wait_until):
    session = Engine().attach(start("workers", 60).pid, rate_hz=200, thread_names=True)
    names = {row[0] for row in session.take().counts}

    def named():
        names.update(row[0] for row in session.take().counts)
        return {"MainThread"} < names

    wait_until(named)


def reader_for(session):
    return "own" if int(session.python.split(".")[1]) >= 7 else "py-spy"


def rows(taken: Taken):
    return {(row[0], row[1]): row[2:] for batch in taken.batches for row in batch.counts}


def test_samples_with_their_times_follow_each_other(start, wait_until):
    session = Engine().attach(start("workers", 60).pid, rate_hz=500, timed=100)
    wait_until(lambda: session.timeline().dropped > 0)
    session.set_rate(0)
    timeline = session.timeline()
    assert len(timeline.samples) == 100
    offsets = [sample[0] for sample in timeline.samples]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert {sample[3] for sample in timeline.samples} <= set(range(len(STATES)))
    assert {timeline.threads[sample[1]] for sample in timeline.samples} == {"main", "other"}
    counted = {row[1] for row in session.take().counts}
    assert {timeline.stacks[sample[2]] for sample in timeline.samples} <= counted
    assert session.timeline(0).samples == []
    with pytest.raises(ValueError, match="seconds"):
        session.timeline(-1)


class SlowTake:
    """A session whose `take` returns after another tick."""

    def __init__(self, session, wait_until):
        self._session, self._wait_until = session, wait_until

    def __getattr__(self, name):
        return getattr(self._session, name)

    def take(self):
        taken, before = self._session.take(), len(self._session.timeline().samples)
        self._wait_until(lambda: len(self._session.timeline().samples) > before)
        return taken


def test_the_samples_with_times_are_those_of_the_batch(start, wait_until):
    session = Engine().attach(start("workers", 60).pid, rate_hz=200, timed=100_000)
    sampler = NativeSession(SlowTake(session, wait_until), "sidelight", has_timestamps=True)
    batches = [sampler.take() for _ in range(5)]
    session.set_rate(0)
    batches.append(sampler.stop())
    assert [batch.timed_samples.samples for batch in batches] == [batch.quality.samples for batch in batches]
    assert sum(batch.timed_samples.samples for batch in batches) == len(session.timeline().samples) > 0


def test_too_many_stacks_are_counted_as_other(start, wait_until):
    engine = Engine(max_stacks=5)
    session, taken = engine.attach(start("functions", 60).pid, rate_hz=500), Taken()

    def has_other() -> bool:
        """Without a CPU the process may stay in few functions for many samples."""
        taken.add(session.take())
        return any(batch.other for batch in taken.batches)

    wait_until(has_other)
    taken.add(session.stop())
    assert all(len(batch.counts) <= 6 for batch in taken.batches)
    assert sum(batch.other for batch in taken.batches) == sum(taken.of("(other)"))
    with pytest.raises(ValueError, match="max_stacks"):
        Engine(max_stacks=0)


@pytest.mark.parametrize("python", EACH_END.values(), ids=EACH_END)
def test_a_mode_that_was_asked_for_by_name_can_be_seen(start, python):
    session = Engine().attach(start("shares", 60, python=str(python)).pid, rate_hz=100, mode="blocking")
    assert (session.mode, session.reader) == ("blocking", reader_for(session))


@pytest.mark.parametrize("mode", ["gil", "blocking"])
def test_stops_are_counted(start, wait_until, mode):
    target = start("functions", 60)
    with apart(target.pid):
        session = Engine().attach(target.pid, rate_hz=1000, mode=mode)
    taken = Taken()

    def stopped():
        taken.add(session.take())
        return sum(batch.stops for batch in taken.batches) > 10

    wait_until(stopped)
    assert all((batch.stops == 0) == (batch.stopped_ns == 0) for batch in taken.batches)
    longest = max(batch.longest_stop_ns for batch in taken.batches)
    assert 0 < longest <= sum(batch.stopped_ns for batch in taken.batches)


def test_a_crowd_that_takes_longer_to_read_than_it_may_be_stopped_is_not_stopped(start, wait_until):
    target = start(CROWD, 60)
    engine, said = Engine(max_stop_us=100), ""
    try:
        with apart(target.pid):
            session = attached(engine, target.pid, wait_until)
        # It happened to stand still meanwhile.
        wait_until(lambda: session.take().errors.get("slow", 0) > 0)
    except RuntimeError as refusal:
        said = str(refusal)
    assert said == "" or re.search(rf"process {target.pid}: .* takes .* ms, .*max-stop-ms", said)
    patient = attached(Engine(max_stop_us=1_000_000), target.pid, wait_until)
    wait_until(lambda: patient.take().samples > 0)


def attached(engine, pid, wait_until):
    """On a crowded machine one of many threads may stop too late, each time it is tried."""
    sessions = []

    def tried():
        try:
            sessions.append(engine.attach(pid, rate_hz=100, reader="py-spy"))
        except ValueError as refusal:
            if "does not stop" not in str(refusal):
                raise
        return sessions

    wait_until(tried)
    return sessions[0]
