"""Austin's files: as many samples as there were, not as many as there were microseconds.

`recordings/*.austin` are the first 200 samples that austin 3.7.0 (sleepless, every 10 ms) took of a
small program: `old` and `new` of the same program, `slow` of one whose `price` does three times the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sidelight_cli.compare.files import read_recording_file
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.folded import Stack
from sidelight_model.recordings.inputs.sample_weights import UnknownSampleWeight
from tests.cli.compare.compare_runner import compare

RECORDINGS = Path(__file__).with_name("recordings")
OLD, NEW, SLOW = (str(RECORDINGS / f"{name}.austin") for name in ("old", "new", "slow"))
CPU, WALL = ProfileType.CPU, ProfileType.WALL
CHANGED = ("increased", "decreased", "new", "removed", "minor")
HEAD = "# austin: 3.7.0\n# interval: 10000\n# mode: wall\n\n"


def compare_as_json(*argv: str) -> Any:
    done = compare(*argv, "--json", "-", "--limit", "100")
    assert done.returncode < 64, done.stderr
    return json.loads(done.stdout)


def read(
    tmp_path: Path, text: str, kind: ProfileType = WALL, weight: float | None = None
) -> Mapping[Stack, Counts]:
    file = tmp_path / "x.austin"
    file.write_text(text)
    return read_recording_file(file, kind, weight).stacks


def test_two_recordings_of_one_program_have_no_change() -> None:
    """As counts, their 2.6 million microseconds would make 16 functions differ with q below 0.001."""
    answer = compare_as_json(OLD, NEW, "--fail-on", "share:price>+10pp")
    assert [side["samples"] for side in answer["sides"]] == [200, 200]
    for row in answer["rows"]:
        for of in ("self", "total"):
            assert row[of]["direction"] not in CHANGED
            assert row[of]["q"] is None or row[of]["q"] > 0.05
    assert answer["exit_code"] == 0


def test_three_times_the_work_of_a_function_is_a_larger_share() -> None:
    answer = compare_as_json(OLD, SLOW, "--fail-on", "share:price>+5pp", "--fail-on", "function:price>+20%")
    assert [condition["state"] for condition in answer["verdict"]["conditions"]] == ["regressed"] * 2
    price = next(row for row in answer["rows"] if row["function"] == "price")
    assert price["total"]["direction"] == "increased"
    assert price["total"]["baseline"] == pytest.approx(29 / 200)
    assert price["total"]["comparison"] == pytest.approx(81 / 200)
    assert price["file"] == "/srv/shop.py"


def test_processes_and_threads_are_added_up_and_frames_are_those_of_folded_text(tmp_path: Path) -> None:
    text = HEAD + (
        "P42;T0:7;/a b.py:main:3;C:\\x.py:Work.run.<locals>.f:9 10096\n"
        "P43;T0:8;/a b.py:main:3;C:\\x.py:Work.run.<locals>.f:9 90096\n"
        "P42;T0:7;/a b.py:main:3;:GC: 10000\n"
        "P42;T0:7;:INVALID: 10000\n"
        "P42;T0:7;/a b.py:main:3;:GC: 10000\n"
        "P42;T0:7 10001\n"
        "P42;T0:7;/a b.py:main:4 0\n"
        "\n# duration: 140000\n"
    )
    assert read(tmp_path, text) == {
        "main (/a b.py:3);Work.run.<locals>.f (C:\\x.py:9)": Counts(0, 2, 0),
        "main (/a b.py:3);(garbage collection)": Counts(0, 2, 0),
        "(invalid)": Counts(0, 1, 0),
    }


def test_aggregated_time_is_divided_by_the_interval(tmp_path: Path) -> None:
    text = HEAD + "P1;T0:1;a.py:f:1 120400\nP1;T0:1;a.py:g:1 9800\nP1;T0:2;a.py:f:1 30100\n"
    assert read(tmp_path, text) == {"f (a.py:1)": Counts(0, 15, 0), "g (a.py:1)": Counts(0, 1, 0)}


def test_aggregated_counts_are_counts(tmp_path: Path) -> None:
    text = HEAD + "P1;T0:1;a.py:f:1 12040\nP1;T0:1;a.py:g:1 98\nP1;T0:2;a.py:f:1 301\n"
    assert read(tmp_path, text) == {"f (a.py:1)": Counts(0, 12341, 0), "g (a.py:1)": Counts(0, 98, 0)}


def test_aggregated_time_without_an_interval_needs_the_weight_of_a_sample(tmp_path: Path) -> None:
    text = "P1;T0:1;a.py:f:1 120400\nP1;T0:1;a.py:g:1 9800\n"
    with pytest.raises(UnknownSampleWeight, match="without an interval") as error:
        read(tmp_path, text)
    assert "--sample-weight" in error.value.hint
    assert read(tmp_path, text, weight=20000) == {
        "f (a.py:1)": Counts(0, 6, 0),
        "g (a.py:1)": Counts(0, 1, 0),
    }


def test_repeated_stacks_without_headers_are_one_sample_a_line(tmp_path: Path) -> None:
    text = "P1;T0:1;a.py:f:1 10400\nP1;T0:1;a.py:f:1 39800\n"
    assert read(tmp_path, text) == {"f (a.py:1)": Counts(0, 2, 0)}


def test_the_full_mode_has_idle_samples(tmp_path: Path) -> None:
    text = HEAD.replace("wall", "full") + (
        "P1;T0:1;a.py:f:1 10400,0,4096\nP1;T0:1;a.py:f:1 10400,1,0\nP1;T0:1;a.py:f:1 10400,1,-4096\n"
    )
    assert read(tmp_path, text) == read(tmp_path, text, CPU) == {"f (a.py:1)": Counts(2, 1, 0)}


@pytest.mark.parametrize(
    ("content", "code", "message", "hint"),
    [
        (
            HEAD.replace("wall", "memory") + "P1;T0:1;a.py:f:1 4096\n",
            65,
            "holds bytes, not time",
            "memory option",
        ),
        (HEAD + "P1;T0:1;a.py:f:1 4096,1\n", 65, "line 5: P<process>;T<thread>;frames", "mojo2austin"),
        (HEAD + "a.py:f:1 4096\n", 65, "line 5: P<process>;T<thread>;frames", "mojo2austin"),
        (HEAD + "P1;T0:1;a.py:f:1 -4096\n", 65, "line 5:", "mojo2austin"),
        (HEAD + "P1;T0:1;a.py:f:1 4096\n", 64, "holds wall samples", "--type wall"),
        ("MOJ\x03\x01", 65, "is damaged: a text has no end at byte 5", "Record it again"),
    ],
)
def test_other_files_of_austin_are_refused_with_what_to_do(
    tmp_path: Path, content: str, code: int, message: str, hint: str
) -> None:
    file = tmp_path / "x.austin"
    file.write_text(content)
    done = compare(OLD, str(file))
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]


def test_an_austin_file_without_samples_is_an_empty_side(tmp_path: Path) -> None:
    file = tmp_path / "x.austin"
    file.write_text(HEAD.replace("wall", "cpu"))
    done = compare(OLD, str(file))
    assert "B has no CPU samples" in done.stdout


def test_a_cut_line_at_the_end_is_left_out_and_reported(tmp_path: Path) -> None:
    cut = tmp_path / "cut.austin"
    cut.write_text(Path(OLD).read_text() + "P1;T0:1;a.py:f")
    assert "B: 1 damaged event left out." in compare(OLD, str(cut)).stdout
    with pytest.raises(SidelightError, match="line 2: P<process>"):
        read(tmp_path, "P1;T0:1;a.py:f:1 10400\nP1;T0:1;a.py:f\nP1;T0:1;a.py:f:1 39800\n")


def test_damaged_bytes_are_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "x.austin"
    file.write_bytes(HEAD.encode() + b"P1;T0:1;a.py:\xff:1 10000\n")
    with pytest.raises(SidelightError, match="line 5: not UTF-8"):
        read_recording_file(file, WALL)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "P1;T0:1;a.py:f:1 " + "9" * 400 + "\n",
        HEAD + "P1;T0:1;a.py:f:1 " + "9" * 5000 + "\n",
        "# austin: 3.7.0\n# interval: 1\n\nP1;T0:1;a.py:f:1 " + "9" * 18 + "\n",
    ],
)
def test_times_beyond_all_numbers_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.austin"
    file.write_text(text)
    with pytest.raises(SidelightError) as refused:
        read_recording_file(file, ProfileType.WALL)
    assert refused.value.reason == "bad_folded"


@pytest.mark.parametrize("line", ["²", "9" * 5000])
def test_a_frame_with_a_line_that_is_no_number_is_kept(tmp_path: Path, line: str) -> None:
    file = tmp_path / "x.austin"
    file.write_text(f"{HEAD}P1;T0:1;a.py:f:{line} 10000\n")
    (stack,) = read_recording_file(file, ProfileType.WALL).stacks
    assert "f" in stack
