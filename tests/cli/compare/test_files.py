"""`sidelight compare old.folded new.folded`: two recordings, without a collector."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from sidelight_model.change import RelevantSizes
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.folded import Stack, parse_folded
from sidelight_model.recordings.local_comparison import compare_recordings as compare_counts
from sidelight_model.recordings.recording_pair import RecordingPair
from sidelight_model.recordings.sample_counts import SampleCounts
from sidelight_model.recordings.sample_counts import count_samples as counted
from sidelight_model.recordings.sampling_noise import SignificanceLevel
from tests.cli.compare.compare_runner import compare

OLD = """\
# a note, as exports have
main (a.py:1);work (b.py:7) 1001
main (a.py:1);loads (json/decoder.py:3);loads (json/decoder.py:9) 500
main (a.py:1);rest (c.py:1) 499
main (a.py:1);wait (d.py:1);[idle] 3000
"""
NEW = """\
main (a.py:1);work (b.py:17) 1001
main (a.py:1);loads (json/decoder.py:3);loads (json/decoder.py:9) 800
main (a.py:1);rest (c.py:1) 499
main (a.py:1);wait (d.py:1);[idle] 2700
"""
SECONDS = ("--baseline-seconds", "45", "--comparison-seconds", "45")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    old, new = tmp_path / "old.folded", tmp_path / "new.folded.gz"
    old.write_text(OLD)
    new.write_bytes(gzip.compress(NEW.encode()))
    return str(old), str(new)


def told(*argv: str) -> Any:
    done = compare(*argv, "--json", "-")
    assert done.returncode < 64, done.stderr
    return json.loads(done.stdout)


def states(answer: Any) -> dict[str, str]:
    return {one["condition"]: one["state"] for one in answer["verdict"]["conditions"]}


def test_without_their_lengths_shares_of_samples_are_compared(files: tuple[str, str]) -> None:
    done = compare(*files, "--fail-on", "function:loads>+10%", "--fail-on", "function:work>+10%")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "3 functions take another share of CPU samples in B; most of all loads "
        "(json/decoder.py): 25.0 % → 34.8 % (self)."
    )
    assert lines[1:6] == [
        "basis: composition (shares of the profile). Files do not say how long they were recorded.",
        "",
        f"A  {files[0]}  2,000 samples",
        f"B  {files[1]}  2,300 samples",
        "shares of the profile, 95 % intervals, counting noise alone",
    ]
    assert "warning (few_pods): One recording a side: runs of one program may differ" in done.stdout
    assert "regressed  function:loads>+10%  share of loads: +39.1 %" in done.stdout
    assert "pass       function:work>+10%   share of work: \u221213.0 %" in done.stdout
    assert "% of the profile, largest difference of self first" in done.stdout
    assert "▲ larger share in B (+39.1 %)" in done.stdout


def test_with_their_lengths_rates_are_compared(files: tuple[str, str]) -> None:
    found = told(*files, *SECONDS, "--fail-on=cpu>+10%", "--fail-on=self:work>+20%", "--fail-on=rate>+50%")
    assert found["exit_code"] == 1
    assert states(found) == {"cpu>+10%": "regressed", "self:work>+20%": "pass", "rate>+50%": "pass"}
    assert found["verdict"]["direction"] == "increased"
    assert found["verdict"]["summary"].startswith("B takes 15.0 % more CPU time than A (44.4 → 51.1 samples")
    work = next(row for row in found["rows"] if row["function"] == "work")
    assert work["self"]["direction"] in ("unchanged", "inconclusive")
    assert work["self"]["baseline"] == pytest.approx(1001 / 45)


def test_a_function_counts_once_per_stack_and_lines_are_folded_away(files: tuple[str, str]) -> None:
    found = told(*files)
    rows = {(row["function"], row["file"]): row for row in found["rows"]}
    assert set(rows) == {("main", "a.py"), ("work", "b.py"), ("rest", "c.py"), ("loads", "json/decoder.py")}
    assert rows["loads", "json/decoder.py"]["total"]["baseline"] == pytest.approx(500 / 2000)
    assert rows["main", "a.py"]["total"]["comparison"] == 1


def test_several_functions_of_one_stack_count_once_together(tmp_path: Path) -> None:
    for name, count in (("a", 300), ("b", 600)):
        (tmp_path / name).write_text(
            f"main (m.py:1);json_a (j.py:1);json_b (j.py:2) {count}\nmain (m.py:1) 700\n"
        )
    files = (str(tmp_path / "a"), str(tmp_path / "b"))
    found = told(*files, "--fail-on", "function:json_.*>+500%", "--fail-on", "self:json_.*>+500%")
    for one in found["verdict"]["conditions"]:
        assert one["effect"]["baseline"] == pytest.approx(0.3)
        assert one["effect"]["comparison"] == pytest.approx(600 / 1300)


def test_depth_idle_and_points_are_judged(files: tuple[str, str], tmp_path: Path) -> None:
    deep = tmp_path / "deep.folded"
    deep.write_text(
        "".join(f"{';'.join(f'f{at} (x.py:1)' for at in range(depth))} {97 + depth}\n" for depth in (4, 6, 9))
    )
    shallow = tmp_path / "shallow.folded"
    shallow.write_text(
        "".join(f"{';'.join(f'f{at} (x.py:1)' for at in range(depth))} {97 + depth}\n" for depth in (2, 3, 4))
    )
    asked = ["depth.mean>+2", "depth.p50>+2", "depth.p95>+4", "depth.p99>+5", "depth.max>+4", "depth.mean<-1"]
    found = told(str(shallow), str(deep), *(word for one in asked for word in ("--fail-on", one)))
    assert states(found) == {
        "depth.mean>+2": "regressed",
        "depth.p50>+2": "regressed",
        "depth.p95>+4": "regressed",
        "depth.p99>+5": "pass",
        "depth.max>+4": "regressed",
        "depth.mean<-1": "pass",
    }
    found = told(*files, "--fail-on", "idle<-5pp", "--fail-on=idle<-10pp", "--fail-on=function:loads>+50pp")
    assert states(found) == {"idle<-5pp": "regressed", "idle<-10pp": "pass", "function:loads>+50pp": "pass"}


def test_too_few_samples_are_not_enough_data(tmp_path: Path) -> None:
    for name, count in (("a", 10), ("b", 12)):
        (tmp_path / name).write_text(f"main (m.py:1);f (m.py:2) {count}\nmain (m.py:1) 20\n")
    argv = (str(tmp_path / "a"), str(tmp_path / "b"), "--baseline-seconds=1", "--comparison-seconds=1")
    found = told(*argv, "--fail-on", "cpu>+3%", "--fail-on", "function:f>+3%")
    assert found["exit_code"] == 2
    assert set(states(found).values()) == {"inconclusive"}
    assert found["verdict"]["required"]["minutes"] > 0
    assert found["verdict"]["summary"].startswith("Not enough data to say whether CPU time changed")


def test_waiting_that_one_file_lacks_is_not_compared(files: tuple[str, str], tmp_path: Path) -> None:
    busy = tmp_path / "busy.folded"
    busy.write_text("main (a.py:1);work (b.py:7) 1000\n")
    found = told(files[0], str(busy), "--type=wall", "--fail-on", "function:work>+10%")
    assert found["exit_code"] == 3
    assert states(found) == {"function:work>+10%": "not_comparable"}
    (check,) = [one for one in found["verdict"]["checks"] if one["name"] == "states"]
    assert (check["severity"], check["text"]) == ("blocking", "A has waiting samples, B has none.")
    assert told(files[0], str(busy), "--fail-on", "function:work>+150%")["exit_code"] == 0


RECORDED = Path(__file__).with_name("recordings") / "shop.folded"
"""A recording of ten seconds of a small program by `sidelight record`."""


def split_recording(seed: int, doubled: str = "") -> tuple[SampleCounts, SampleCounts]:
    """Assign each recorded sample to one of two sides; samples with `doubled` count twice in B."""
    generator = random.Random(seed)
    sides: tuple[dict[Stack, Counts], dict[Stack, Counts]] = ({}, {})
    for stack, counts in parse_folded(RECORDED.read_text()).items():
        in_a = sum(generator.random() < 0.5 for _ in range(counts.wall))
        factor = 2 if doubled and f"{doubled} (" in stack else 1
        for side, count in zip(sides, (in_a, (counts.wall - in_a) * factor), strict=True):
            if count:
                side[stack] = Counts(0, count, 0)
    a, b = (counted("file", side, ProfileType.CPU) for side in sides)
    return a, b


def list_changes(sides: tuple[SampleCounts, SampleCounts], min_share: float) -> dict[str, str]:
    """Return the direction of each function whose self time or total changed."""
    level, sizes = SignificanceLevel(0.05, 0, 0.05), RelevantSizes(min_share)
    pair = RecordingPair(*sides, ProfileType.CPU, None, level, sizes)
    functions = compare_counts(pair, [])["verdict"]["functions"]
    return {
        name: direction
        for of in ("self", "total")
        for name, direction in zip(functions["function"], functions[of]["direction"], strict=True)
        if direction not in ("unchanged", "inconclusive")
    }


def test_two_halves_of_one_recording_have_no_change() -> None:
    """At a false-discovery rate of 5 % for self and total each, one of ten splits would report one."""
    found = [list_changes(split_recording(seed), 0.0) for seed in range(20)]
    assert sum(map(bool, found)) <= 4


def test_a_doubled_function_is_the_only_change() -> None:
    for seed in range(5):
        found = list_changes(split_recording(seed, "stock"), 0.01)
        assert found == {"stock": "increased"}


def test_a_change_below_the_smallest_relevant_share_is_minor(tmp_path: Path) -> None:
    for name, count in (("a", 3001), ("b", 6002)):
        lines = [f"main (m.py:1);f{at} (m.py:1) {98_000 + 37 * at}\n" for at in range(8)]
        (tmp_path / name).write_text("".join([*lines, f"main (m.py:1);small (m.py:1) {count}\n"]))
    argv = [str(tmp_path / "a"), str(tmp_path / "b"), "--fail-on", "share:small>+0.2pp"]
    argv += ["--fail-on", "share:small>+1pp", "--fail-on", "function:small>+20%"]
    for share, direction in (("0.01", "minor"), ("0.001", "increased"), ("0", "increased")):
        answer = told(*argv, "--min-relevant-share", share)
        small = next(row for row in answer["rows"] if row["function"] == "small")
        assert small["self"]["direction"] == small["total"]["direction"] == direction
        assert answer["verdict"]["min_relevant_share"] == float(share)
        assert states(answer) == {
            "share:small>+0.2pp": "regressed",
            "share:small>+1pp": "pass",
            "function:small>+20%": "regressed",
        }
    done = compare(*argv)
    assert re.search(r"minor \(\+99\.. %\) +small \(m\.py\)", done.stdout)
    assert "smaller share of CPU samples in B, except for minor changes." in done.stdout


def test_files_are_compared_by_composition_and_with_lengths_by_rates(files: tuple[str, str]) -> None:
    verdict = told(*files, "--fail-on", "share:loads>+5pp")["verdict"]
    assert (verdict["basis"], verdict["direction"], verdict["rate"]) == ("composition", "not_judged", None)
    assert verdict["available_bases"] == ["composition"]
    assert verdict["method"]["unit"] == "share"
    assert verdict["conditions"][0]["state"] == "regressed"
    answer = told(*files, *SECONDS, "--fail-on", "share:loads>+5pp", "--fail-on", "function:loads>+5pp")
    assert (answer["verdict"]["basis"], answer["verdict"]["method"]["unit"]) == ("equal_load", "second")
    share, function = (condition["effect"] for condition in answer["verdict"]["conditions"])
    assert share["comparison"] == pytest.approx(800 / 2300)
    assert function["comparison"] == pytest.approx(800 / 45)


@pytest.mark.parametrize(("most", "listed"), [(3, 3), (4, 4), (5, 4)])
def test_the_heaviest_functions_are_judged_one_by_one(
    most: int, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidelight_model.recordings.local_comparison.MAX_FUNCTIONS", most)
    stacks = (parse_folded(text.partition("\n")[2]) for text in (OLD, NEW))
    sides = (counted("file", one, ProfileType.CPU) for one in stacks)
    verdict = compare_counts(
        RecordingPair(*sides, ProfileType.CPU, None, SignificanceLevel(0.05, 1, 0.05)), []
    )["verdict"]
    assert verdict["functions_total"] == 4
    assert len(verdict["functions"]["function"]) == listed
    assert "rest" not in verdict["functions"]["function"] or most > 3


def test_all_formats_are_written(files: tuple[str, str], tmp_path: Path) -> None:
    argv = (
        "--junit",
        str(tmp_path / "j.xml"),
        "--markdown",
        str(tmp_path / "m.md"),
        "--fail-on=depth.max>+1",
    )
    assert compare(*files, *argv).returncode == 0
    assert len(list(Xml.parse(tmp_path / "j.xml").getroot().iter("testcase"))) == 2
    assert "✅" in (tmp_path / "m.md").read_text()


def test_a_side_without_samples_of_the_type_is_compared_with_nothing(
    files: tuple[str, str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.folded"
    empty.write_text("main (a.py:1);[idle] 3\n")
    done = compare(files[0], str(empty))
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "B has no CPU samples, so there is nothing to compare.",
    )
    done = compare(files[0], str(empty), "--fail-on", "depth.p95>+5", "--fail-on", "function:work>+1%")
    assert done.returncode == 66
    assert "error: B matched nothing" in done.stderr


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 66, "cannot read"),
        (b"", 65, "has no samples"),
        (b"main;work 0\n", 65, "has no samples"),
        (b"# note\nmain 3 4\n", 65, "line 2: each line has two counts"),
        (b"main;work 3 4\nmain 0 1\n", 65, "line 1: each line has two counts"),
        (b"main;work many\n", 65, "line 1: the count 'many' is not a whole number"),
        (b"main;\xff 3\n", 65, "line 1: not UTF-8"),
        (
            b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
            65,
            "starts like JSON, but is not a speedscope profile: a field is missing",
        ),
        (gzip.compress(b"main 3\n" * 99, mtime=0)[:-12], 65, "cannot be unpacked"),
    ],
    ids=["gone", "empty", "zero", "two counts below a note", "two counts", "count", "letters", "json", "cut"],
)
def test_what_is_no_recording_is_said(
    files: tuple[str, str], tmp_path: Path, content: bytes | None, code: int, said: str
) -> None:
    other = tmp_path / "other"
    if content is not None:
        other.write_bytes(content)
    done = compare(files[0], str(other), "--fail-on", "depth.max>+1")
    assert (done.returncode, done.stdout) == (code, "")
    assert f"{other}" in done.stderr
    assert said in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--fail-on", "cpu>+3%"), "files do not say how long they were recorded"),
        (("--fail-on", "function:f>+3ms"), "files hold samples, not time"),
        (("--baseline-seconds", "3"), "belong together"),
        (("--baseline", "version:1"), "--baseline is for a collector's windows, not for two files"),
        (("--basis", "composition"), "--basis is for a collector's windows, not for two files"),
        (("--basis", "samples"), "'samples' is not one of auto, concurrent, per_request, composition"),
        (("--min-relevant-share", "1.1"), "above 1"),
        (("--min-relevant-share", "-0.1"), "below zero"),
        (("--sample-weight", "0"), "not above zero"),
        (("--fail-on", "share:f>+3ms"), "% or pp was expected"),
        (("--wait", "3"), "--wait is for a collector's windows"),
        (("--fail-on", "function:(>+3%"), "the regular expression cannot be read"),
        (("--fail-on", "function:(?=a)>+3%"), "in RE2's syntax: invalid perl operator: (?="),
    ],
)
def test_what_files_cannot_tell_is_64(files: tuple[str, str], argv: tuple[str, ...], said: str) -> None:
    done = compare(*files, *argv)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


def test_the_base_install_is_enough(files: tuple[str, str]) -> None:
    """Every package of an extra is hidden: an import of one fails."""
    hidden = ("numpy", "pyarrow", "aiohttp", "zstandard", "prometheus_client", "xxhash", "orjson", "boto3")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r}))\n"
        "from sidelight.main import run; sys.exit(run(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", program, "compare", *files, "--fail-on", "function:loads>+10%"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "regressed" in done.stdout
