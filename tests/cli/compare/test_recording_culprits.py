"""Where the change between two recordings starts: files with a known change, and a real recording."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sidelight_model.counts import Counts, ProfileType
from sidelight_model.folded import Stack, parse_folded
from sidelight_model.recordings.local_comparison import compare_recordings
from sidelight_model.recordings.recording_pair import RecordingPair
from sidelight_model.recordings.sample_counts import SampleCounts, count_samples
from sidelight_model.recordings.sampling_noise import SignificanceLevel
from tests.cli.compare.compare_runner import compare

RECORDED = Path(__file__).with_name("recordings") / "shop.folded"
HANDLE = "main (shop/app.py:1);run (uvicorn/main.py:2);handle (shop/views.py:4)"
COPY = "deepcopy (copy.py:119);_deepcopy_dict (copy.py:201)"
OTHERS = {f"query{at} (shop/db.py:{at + 5})": (400, 400) for at in range(12)}
SLOWER = {
    f"lookup_promotions (shop/cart.py:7);{COPY}": (1000, 2000),
    f"render (shop/pages.py:7);{COPY}": (500, 500),
    "audit (shop/audit.py:3);dumps (json/__init__.py:9)": (0, 300),
    **OTHERS,
}
SECONDS = ("--baseline-seconds", "100", "--comparison-seconds", "100")


def write_files(folder: Path, calls: Mapping[str, tuple[int, int]]) -> list[str]:
    """Write a file for each side, with counts that scatter as samples do."""
    luck = random.Random(8)
    for side, name in enumerate("ab"):
        counts = {stack: round(luck.gauss(both[side], both[side] ** 0.5)) for stack, both in calls.items()}
        lines = [f"{HANDLE};{stack} {count}\n" for stack, count in counts.items() if count > 0]
        (folder / name).write_text("".join(lines))
    return [str(folder / "a"), str(folder / "b"), "--sample-weight", "1"]


def find_culprits(*argv: str) -> Any:
    done = compare(*argv, "--json", "-")
    assert done.returncode < 64, done.stderr
    return json.loads(done.stdout)["verdict"]["culprits"]


def test_the_own_function_above_a_slower_library_is_named_in_every_report(tmp_path: Path) -> None:
    files = write_files(tmp_path, SLOWER)
    found = find_culprits(*files)
    lookup, audit = found["rows"]
    assert (lookup["function"], lookup["file"]) == ("lookup_promotions", "shop/cart.py")
    assert lookup["folded"] == ["deepcopy", "_deepcopy_dict"]
    assert lookup["names"] == [
        *("main (shop/app.py)", "run (uvicorn/main.py)", "handle (shop/views.py)"),
        "lookup_promotions (shop/cart.py)",
    ]
    assert (lookup["direction"], lookup["self_or_total"]) == ("increased", "total")
    # 1,000 of 6,300 samples, then 2,000 of 7,600.
    assert lookup["low"] < 2000 / 7600 - 1000 / 6300 < lookup["high"]
    assert lookup["q"] < 0.05
    assert (audit["function"], audit["direction"], audit["relative"]) == ("audit", "new", None)
    assert found["share"] == pytest.approx(lookup["share"] + audit["share"]) == 1
    shown = "lookup_promotions (shop/cart.py) › deepcopy › _deepcopy_dict"  # noqa: RUF001
    text = compare(*files).stdout
    assert "2 functions changed, 100 % of all changes, in % of the profile:\n" in text
    assert shown in text
    assert "<code>lookup&#95;promotions (shop/cart.py) › " in compare(*files, "--markdown", "-").stdout  # noqa: RUF001


def test_with_recording_times_the_share_is_that_of_the_total(tmp_path: Path) -> None:
    files = write_files(tmp_path, {**OTHERS, f"lookup (shop/cart.py:7);{COPY}": (1000, 2000)})
    found = find_culprits(*files, *SECONDS)
    row = found["rows"][0]
    assert row["function"] == "lookup"
    assert row["delta"] == pytest.approx(10, rel=0.1)
    assert row["relative"] == pytest.approx(1, rel=0.1)
    assert found["share"] == pytest.approx(1, abs=0.15)
    assert "The change starts in " in compare(*files, *SECONDS).stdout


def test_a_function_that_calls_unchanged_helpers_more_often_is_named(tmp_path: Path) -> None:
    helpers = {f"helper{at} (shop/lib.py:{at})": at for at in range(40)}
    calls = {f"often (shop/views.py:1);{name}": (50, 80) for name in helpers}
    calls |= {f"seldom (shop/views.py:2);{name}": (450, 420) for name in helpers}
    (often, *_) = find_culprits(*write_files(tmp_path, {**OTHERS, **calls}))["rows"]
    assert (often["function"], often["direction"]) == ("often", "increased")
    assert often["delta"] == pytest.approx(1200 / 24800, rel=0.1)


def test_sides_that_cannot_be_compared_have_no_culprits(tmp_path: Path) -> None:
    files = write_files(tmp_path, SLOWER)
    (tmp_path / "a").write_text(f"{(tmp_path / 'a').read_text()}wait (shop/app.py:2);[idle] 900\n")
    assert find_culprits(*files)["rows"]
    assert find_culprits(*files, "--type", "wall") == {"share": None, "rows": []}
    (tmp_path / "b").write_text("wait (shop/app.py:2);[idle] 900\n")
    assert find_culprits(*files) == {"share": None, "rows": []}


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
    a, b = (count_samples("file", side, ProfileType.CPU) for side in sides)
    return a, b


def name_culprits(sides: tuple[SampleCounts, SampleCounts]) -> list[str]:
    pair = RecordingPair(*sides, ProfileType.CPU, None, SignificanceLevel(0.05, 0, 0.05))
    return [row["function"] for row in compare_recordings(pair, [])["verdict"]["culprits"]["rows"]]


def test_a_doubled_function_of_a_real_recording_is_the_culprit_and_its_halves_have_none() -> None:
    for seed in range(5):
        assert name_culprits(split_recording(seed, "stock")) == ["stock"]
    # At a false-discovery rate of 5 % for self and total each, one of ten splits would report one.
    assert sum(bool(name_culprits(split_recording(seed))) for seed in range(20)) <= 4
