"""How long event loops of a capture were held at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sidelight.collector.captures.holds import Holds, holds
from sidelight.collector.captures.offsets import Kept, Recordings
from sidelight.collector.captures.recordings import Recording, Thread
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.times import rfc3339
from sidelight.stacks.labels import Labels
from tests.collector.capturing import Sidecar, started
from tests.collector.conftest import Serve
from tests.collector.test_captures_api import QUICK, held_to

START = 1_795_253_400
PERIOD_US = 10_000
LOOP = (
    "main (a.py:1)",
    "run_forever (asyncio/base_events.py:600)",
    "_run_once (asyncio/base_events.py:1900)",
)
CALLBACK = (*LOOP, "_run (asyncio/events.py:80)")
STACKS = {
    "w": (*LOOP, "select (selectors.py:450)"),
    "f": (*CALLBACK, "f (a.py:3)"),
    "F": (*CALLBACK, "f (a.py:4)", "deep (b.py:1)"),
    "g": (*CALLBACK, "g (a.py:9)"),
    "-": ("_bootstrap (threading.py:9)", "work (a.py:20)"),
}
ORDER = list(STACKS)
FRAMES = sorted({frame for stack in STACKS.values() for frame in stack})


def recorded(*threads: str, pid: int = 7, start_us: int = 0, jitter: Sequence[int] = ()) -> Kept:
    """A recording with a sample in each period: a letter for its stack, a space where there is none."""
    rows = []
    for at, text in enumerate(threads):
        seen = [(tick, one) for tick, one in enumerate(text) if one != " "]
        times = [tick * PERIOD_US + (jitter[tick] if jitter else 0) for tick, _ in seen]
        rows.append(Thread(f"t{at}", times, [ORDER.index(one) for _, one in seen], [2] * len(seen)))
    stacks = [[FRAMES.index(frame) for frame in stack] for stack in STACKS.values()]
    start_ns = START * 10**9 + start_us * 1000
    recording = Recording(
        "c_1", "a", Labels({"service": "shop"}), pid, start_ns, PERIOD_US, 0, FRAMES, stacks, rows
    )
    return Kept(f"a-{pid}", {"start": rfc3339(start_ns)}, lambda: recording)


def told(*kept: Kept, limit: int = 20) -> Holds:
    return holds(Recordings.of("c_1", kept), limit)


def stretches(found: Holds) -> list[tuple[str, int, int]]:
    return [(one["function"], one["from_us"] // 1000, one["until_us"] // 1000) for one in found["stretches"]]


def test_the_longest_stretches_are_told_with_whose_they_were() -> None:
    found = told(recorded("wfFfwwggw", "---------"))
    assert stretches(found) == [("f", 10, 40), ("g", 60, 80)]
    (thread,) = found["threads"]
    assert thread == {
        "recording": "a-7",
        "thread": "t0",
        "us": 90_000,
        "busy_us": 50_000,
        "longest_us": 30_000,
    }


def test_callbacks_in_a_row_are_each_their_own_and_one_time_without_waiting() -> None:
    found = told(recorded("wffggw"))
    assert stretches(found) == [("f", 10, 30), ("g", 30, 50)]
    assert found["threads"][0]["longest_us"] == 40_000


def test_a_stretch_is_over_where_samples_are_missing() -> None:
    assert stretches(told(recorded("wff   fffw"))) == [("f", 60, 90), ("f", 10, 30)]


def test_times_count_from_the_start_that_all_recordings_have() -> None:
    found = told(recorded("wfw"), recorded("wggw", pid=12, start_us=500_000))
    assert stretches(found) == [("g", 510, 530), ("f", 10, 20)]
    assert [one["recording"] for one in found["threads"]] == ["a-12", "a-7"]


def test_no_more_stretches_are_listed_than_asked_for() -> None:
    assert stretches(told(recorded("wfwggwfffw"), limit=2)) == [("f", 60, 90), ("g", 30, 50)]


def test_a_process_without_a_loop_has_none() -> None:
    found = told(recorded("-----"))
    assert (found["threads"], found["stretches"]) == ([], [])
    assert len(found["recordings"]) == 1


@given(st.text("wfFg ", min_size=1, max_size=30).filter(str.strip))
def test_stretches_add_up_to_the_time_that_the_loop_was_held(text: str) -> None:
    found = told(recorded(text), limit=1000)
    (thread,) = found["threads"]
    held = sum(one["until_us"] - one["from_us"] for one in found["stretches"])
    assert thread["busy_us"] == held <= thread["us"]
    # One sample is a period; one that is missing between two is counted with that before it.
    assert held >= sum(one in "fFg" for one in text) * PERIOD_US
    runs = "".join(one.lower() for one in text).replace("f", "x").replace("g", "x").split("w")
    longest = max((len(part) for run in runs for part in run.split()), default=0)
    assert thread["longest_us"] >= longest * PERIOD_US


async def test_loops_of_a_capture_are_answered_as_documented(serving: Serve) -> None:
    async with serving(MemoryStore(), **QUICK) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        path = f"captures/{made['id']}/loops"
        assert (await collector.get(path, {})).status == 404
        assert (await sidecar.record(made["id"], 7, {"frames": FRAMES, **_parts("wfFfwg")})).status == 201
        found = await collector.get(path, {"limit": "1", "recording": f"{sidecar.agent}-7"})
        held_to("/api/v1/captures/{id}/loops", "get", 200, found.json)
        assert [one["function"] for one in found.json["stretches"]] == ["f"]
        assert found.json["threads"][0]["longest_us"] == 30_000
        for given_, status in (({"limit": "0"}, 400), ({"recording": "x"}, 404), ({"type": "cpu"}, 400)):
            assert (await collector.get(path, given_)).status == status, given_


def _parts(text: str) -> dict[str, object]:
    recording = recorded(text).read()
    (thread,) = recording.threads
    sent = {"name": thread.name, "at_us": thread.at_us, "stack": thread.stack, "state": thread.state}
    return {"stacks": recording.stacks, "threads": [sent]}
