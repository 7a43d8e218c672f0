"""Recordings in speedscope's JSON: as many samples as there were, whoever wrote them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.compare.files import read_recording_file
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.export_formats.speedscope import (
    ThreadTimeline,
    write_speedscope,
    write_speedscope_timeline,
)
from sidelight_model.folded import Stack, parse_folded
from sidelight_model.frames import escape_frame
from sidelight_model.import_formats.speedscope_profile import iter_weighted_stacks
from sidelight_model.recordings.inputs.sample_weights import UnknownSampleWeight
from sidelight_model.recordings.inputs.speedscope_input import (
    BadSpeedscope,
    ProfileTypeMismatch,
    parse_speedscope,
)
from tests.cli.compare.compare_runner import compare
from tests.processes import ROOT, sidelight

CPU, WALL = ProfileType.CPU, ProfileType.WALL
STATES = ("[idle]", "[gil]")
BUSY = """
import json, time
def work(n):
    return sum(range(n))
def loads():
    return json.loads("[" + "1," * 5000 + "1]")
while time.process_time() < 1.2:  # CPU seconds, so that a busy machine changes no count
    work(20000)
    loads()
"""
FIRST: dict[str, Any] = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, {"name": "work"}, {"name": "[idle]"}]},
    "profiles": [
        {
            "type": "sampled",
            "name": "Thread 1",
            "unit": "seconds",
            "startValue": 0,
            "endValue": 0.05,
            "samples": [[0, 1], [0], [0, 1], [], [0, 1, 2]],
            "weights": [0.01, 0.01, 0.01, 0.01, 0.01],
        }
    ],
}


def document(**of_profile: Any) -> dict[str, Any]:
    """FIRST with other values in its only profile."""
    return {**FIRST, "profiles": [{**FIRST["profiles"][0], **of_profile}]}


def samples(told: Any, kind: ProfileType = CPU) -> dict[str, tuple[int, ...]]:
    found = parse_speedscope("a.json", json.dumps(told).encode(), kind).stacks
    return {str(stack): tuple(counts) for stack, counts in found.items()}


def test_samples_that_weigh_the_same_count_once_and_states_are_states() -> None:
    assert samples(FIRST) == {"main (a.py:3);work": Counts(1, 2, 0), "main (a.py:3)": Counts(0, 1, 0)}


def test_threads_are_added_up() -> None:
    profile = FIRST["profiles"][0]
    assert samples({**FIRST, "profiles": [profile, profile]})["main (a.py:3);work"] == Counts(2, 4, 0)


@pytest.mark.parametrize(
    ("unit", "weights", "counts"),
    [
        (
            "milliseconds",
            [30, 10, 50],
            {"main (a.py:3);work": Counts(0, 8, 0), "main (a.py:3)": Counts(0, 1, 0)},
        ),
        (
            "nanoseconds",
            [30.2e6, 10e6, 50e6],
            {"main (a.py:3);work": Counts(0, 3, 0), "main (a.py:3)": Counts(0, 1, 0)},
        ),
        ("none", [3, 1, 5], {"main (a.py:3);work": Counts(0, 8, 0), "main (a.py:3)": Counts(0, 1, 0)}),
        ("microseconds", [7, 0, 7], {"main (a.py:3);work": Counts(0, 2, 0)}),
    ],
    ids=["multiples", "each one", "counts", "nothing"],
)
def test_weights_are_told_apart_by_what_they_can_be(
    unit: str, weights: list[float], counts: dict[str, tuple[int, ...]]
) -> None:
    told = document(unit=unit, weights=weights, samples=[[0, 1], [0], [0, 1]])
    assert samples(told) == counts


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, *range(10_000, 12_793, 7)], 400),
        ([10_000 * (1 + at % 4) for at in range(400)], 1000),
    ],
    ids=["one microsecond", "a period"],
)
def test_whole_microseconds_are_no_multiples_of_a_small_weight(weights: list[int], expected: int) -> None:
    """Every weight is a multiple of 1 microsecond, which is no period."""
    told = document(unit="microseconds", weights=weights, samples=[[0, 1]] * 400)
    assert samples_of(parse_speedscope("x", json.dumps(told).encode(), CPU).stacks) == expected


def samples_of(stacks: Any) -> int:
    return sum(counts.wall for counts in stacks.values())


def test_the_weight_of_a_sample_can_be_stated() -> None:
    told = document(unit="milliseconds", weights=[30.5, 10.1, 50.2, 1, 1])
    assert samples_of(parse_speedscope("x", json.dumps(told).encode(), CPU, 10.0).stacks) == 8 + 1 + 1


def test_weights_without_a_unit_are_derived_or_refused_as_in_folded_text() -> None:
    frames = [{"name": f"f{at}"} for at in range(12)]
    jittered = [10_000 * (at + 1) + at for at in range(12)]
    for weights in ([10_000 * (at + 1) for at in range(12)], jittered):
        profile = {
            **FIRST["profiles"][0],
            "unit": "none",
            "weights": weights,
            "samples": [[at] for at in range(12)],
        }
        content = json.dumps({"shared": {"frames": frames}, "profiles": [profile]}).encode()
        if weights is jittered:
            with pytest.raises(UnknownSampleWeight):
                parse_speedscope("x", content, CPU)
            continue
        found = parse_speedscope("x", content, CPU)
        assert (found.derived_weight, samples_of(found.stacks)) == (10_000, 78)


folded = st.dictionaries(
    st.lists(
        # a function that is called as a state is cannot be told from it there
        st.text(min_size=1, max_size=6).filter(lambda name: name not in STATES).map(escape_frame),
        min_size=1,
        max_size=5,
    )
    .map(";".join)
    .map(Stack),
    st.integers(1, 10_000),
    min_size=1,
    max_size=8,
)


@given(folded, st.integers(1, 10**9))
def test_an_export_reads_as_what_it_was_written_from(counts: dict[Stack, int], period_ns: int) -> None:
    rows = [(stack.split(";"), number, number * period_ns) for stack, number in counts.items()]
    side = SideProvenance("{}", 0, 1, sum(counts.values()), 1, 1, 1.0, 1.0)
    about = Provenance("shop", "cpu", "sidelight", [side], "")
    written = write_speedscope(rows, "shop", "sidelight", about)  # type: ignore[arg-type]
    read = parse_speedscope("x", written, CPU).stacks
    assert {stack: found.wall for stack, found in read.items()} == counts


def test_a_lane_reads_as_many_samples_as_it_has_periods() -> None:
    moments = [(at * 10, Stack("main;work") if at % 3 else Stack("main")) for at in range(30)]
    written = write_speedscope_timeline(
        [ThreadTimeline("a", moments)], "x", "y", period_ns=10, length_ns=300, profile_type="cpu"
    )
    found = parse_speedscope("x", written, CPU).stacks
    assert found == {"main": Counts(0, 10, 0), "main;work": Counts(0, 20, 0)}


def test_a_type_that_is_told_is_the_only_one_there_is() -> None:
    written = write_speedscope_timeline(
        [ThreadTimeline("a", [(0, Stack("main"))])], "x", "y", period_ns=10, length_ns=20, profile_type="wall"
    )
    assert parse_speedscope("x", written, WALL)
    with pytest.raises(ProfileTypeMismatch, match="holds wall samples, out of which cpu cannot be told"):
        parse_speedscope("x", written, CPU)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (document(type="traced"), "a profile of type 'traced'"),
        (document(type="evented", events=[{"type": "C", "at": 1, "frame": 0}]), "open and close"),
        (document(unit="bytes"), "it is in bytes"),
        (document(weights=[1]), "5 samples and 1 weights"),
        (document(weights=[-1, 1, 1, 1, 1]), "weighs -1"),
        (document(weights=[float("nan")] * 5), "weighs nan"),
        (document(weights=[float("inf")] * 5), "weighs inf"),
        (document(weights=["x"] * 5), "could not convert"),
        (document(weights=[10**400] * 5), "too large"),
        (document(weights=[1e20] * 5, unit="none"), "samples"),
        (document(samples=[[3]] * 5), "a frame that is not there"),
        (document(samples=[[-1]] * 5), "a frame that is not there"),
        (document(samples=[[True]] * 5), "a frame that is not there"),
        (document(samples=7), "has the wrong type"),
        (
            {**FIRST, "profiles": [FIRST["profiles"][0], document(unit="none")["profiles"][0]]},
            "others do not",
        ),
        ({**FIRST, "shared": {"frames": [{"file": "a.py"}]}}, "'name'"),
        ({**FIRST, "shared": {"frames": [{"name": 3}] * 3}}, "no text"),
        ({**FIRST, "profiles": None}, "has the wrong type"),
        ({**FIRST, "sidelight": 3}, "has the wrong type"),
        ({**FIRST, "sidelight": {"sides": [3]}}, "has the wrong type"),
    ],
)
def test_what_is_no_profile_of_samples_says_why(told: Any, said: str) -> None:
    with pytest.raises(BadSpeedscope) as caught:
        samples(told)
    assert said in caught.value.message
    assert caught.value.hint


def test_the_stacks_of_events_have_the_time_until_the_next_event() -> None:
    opened = [("O", 0, 0), ("O", 3, 1), ("C", 5, 1), ("O", 5, 2), ("C", 9, 2), ("C", 9, 0)]
    events = [{"type": kind, "at": at, "frame": frame} for kind, at, frame in opened]
    read = list(iter_weighted_stacks(document(type="evented", events=events, unit="milliseconds")))
    assert [(entry.stack.count(";") + 1, entry.state, entry.weight) for entry in read] == [
        (1, "", 3e6),
        (2, "", 2e6),
        (1, "[idle]", 4e6),
    ]


@pytest.mark.parametrize(
    "content", [b"{", b'{"a": ' * 100_000, b'{"\xff": 1}', b"{}", json.dumps(FIRST).encode()[:-9]]
)
def test_what_is_broken_ends_with_65(tmp_path: Path, content: bytes) -> None:
    good, bad = tmp_path / "good.speedscope.json", tmp_path / "bad.speedscope.json"
    good.write_text(json.dumps(FIRST))
    bad.write_bytes(content)
    done = compare(str(good), str(bad))
    assert (done.returncode, done.stdout) == (65, "")
    assert f"error: {bad} starts like JSON, but is not a speedscope profile: " in done.stderr


def test_what_holds_another_type_ends_with_64_and_says_which_to_ask_for(tmp_path: Path) -> None:
    wall = tmp_path / "wall.json"
    lane = ThreadTimeline("a", [(0, Stack("main"))])
    wall.write_bytes(
        write_speedscope_timeline([lane], "x", "y", period_ns=10, length_ns=20, profile_type="wall")
    )
    done = compare(str(wall), str(wall))
    assert done.returncode == 64
    assert "hint: Compare with --type wall" in done.stderr
    assert compare(str(wall), str(wall), "--type", "wall").returncode == 0


def test_a_packed_one_and_folded_text_can_be_compared(tmp_path: Path) -> None:
    packed, text = tmp_path / "a.speedscope.json.gz", tmp_path / "b.folded"
    packed.write_bytes(gzip.compress(json.dumps(FIRST).encode()))
    text.write_text("main (a.py:3);work 2\nmain (a.py:3) 1\nmain (a.py:3);work;[idle] 1\n")
    assert read_recording_file(packed, CPU) == read_recording_file(text, CPU)
    done = compare(str(packed), str(text))
    assert "3 samples" in done.stdout


def test_real_recordings_of_sidelight_and_of_py_spy_are_read(tmp_path: Path) -> None:
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    own, other = str(tmp_path / "own.speedscope.json"), str(tmp_path / "py-spy.json")
    argv = sidelight("record", "-o", own, "--", sys.executable, str(program))
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    py_spy = Path(sys.executable).with_name("py-spy")
    argv = [str(py_spy), "record", "-r", "100", "-f", "speedscope", "-o", other]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [*argv, "--", sys.executable, str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=environment)
    profiles = json.loads(Path(other).read_text())["profiles"]
    # as a program starts py-spy may see a thread that has no frame yet
    entries = sum(bool(sample) for one in profiles for sample in one["samples"])
    found = read_recording_file(Path(other), CPU).stacks
    assert sum(counts.wall for counts in found.values()) == entries
    done = compare(own, other, "--fail-on", "self:work>+1000%", "--limit", "10000", "--json", "-")
    assert done.returncode in (0, 2), done.stderr
    told = json.loads(done.stdout)
    assert told["sides"][0]["samples"] > 0
    assert told["sides"][1]["samples"] == entries
    # each names the file in its own way
    mine = [row["total"] for row in told["rows"] if row["file"].endswith("busy.py")]
    assert max(total["baseline"] for total in mine) > 0.2
    assert max(total["comparison"] for total in mine) > 0.2


def test_parsing_agrees_with_folded_text() -> None:
    text = "main (a.py:3);work 2\nmain (a.py:3) 1\nmain (a.py:3);work;[idle] 1\n"
    assert parse_speedscope("x", json.dumps(FIRST).encode(), CPU).stacks == parse_folded(text)
