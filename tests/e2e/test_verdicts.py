"""Verdicts about real processes: what was planted in a version is found, and nothing else is.

A service runs in five versions at the same time, as pods with a sidecar each, and the sides of each
comparison are asked of the command, as a pipeline would. What is true is known from the work that was
planted, and the kernel's own clock of the processes says so too. The load goes on until the command says that
there is enough data for each, or for so long. An interval misses the truth by design once in twenty times, so
what it holds, and that nothing changed, is asked at a level of 0.1 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.e2e.planted_changes import Run, compare, document, planted, ran, row
from tests.processes import Collector, collector, eventually

PODS = {"base": 8, "equal": 8, "more": 4, "deeper": 3, "renamed": 3}
RATE = 500
WAIT_SECONDS = 120
THRESHOLD = "cpu>+3%"
MORE = "function:tax>+20%"
DEEPER = "depth.p50>+5"
RENAMED = "function:quote>+25%"
ASKED = {
    "double": (THRESHOLD,),
    "equal": (THRESHOLD,),
    "more": (THRESHOLD, MORE),
    "deeper": (DEEPER,),
    "renamed": (RENAMED,),
}
"""What a pipeline would not allow of each version."""
UNCHANGED = ("unchanged", "inconclusive")
"""At so strict a level a change of 5 % may not be ruled out."""


@dataclass(frozen=True, slots=True)
class Planted:
    """What ran, and where to ask about it."""

    collector: Collector
    run: Run

    def compared(self, version: str, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the JSON of a comparison with base, over all the time."""
        told = document(asked(self.collector, version, self.run.start, f"{self.run.until}", *options))
        return told["exit_code"], told

    def strictly(self, version: str) -> dict[str, Any]:
        """The JSON of a comparison with base that errs once in a thousand times."""
        return self.compared(version, "--alpha", "0.001")[1]


def asked(
    collector: Collector, version: str, start: float, until: str, *options: str, seconds: float = 60
) -> CompletedProcess[str]:
    conditions = [word for condition in ASKED[version] for word in ("--fail-on", condition)]
    return compare(collector, version, start, until, *conditions, *options, seconds=seconds)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    """All versions ran until there was enough data about each of them."""
    folder = tmp_path_factory.mktemp("planted")

    def enough(start: float) -> None:
        for version in PODS.keys() & ASKED.keys():
            waiting = ("--wait", f"{WAIT_SECONDS}", "--wait-every", "5")
            asked(served, version, start, "now", *waiting, seconds=WAIT_SECONDS + 60)
        # among all functions it has to be more than luck finds in so many, which takes longer
        eventually("tax is found", lambda: found(document(asked(served, "more", start, "now"))), WAIT_SECONDS)

    longest = (len(ASKED) + 1) * WAIT_SECONDS + 240
    with (
        collector(folder, str(folder / "store")) as served,
        planted(folder / "pods", served, PODS, seconds=longest, rate=RATE) as pods,
    ):
        yield Planted(served, ran(served, pods, enough))


def test_twice_the_cpu_fails_a_pipeline_and_names_the_function(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    def enough(start: float) -> None:
        def regressed() -> bool:
            told.update(document(asked(served, "double", start, "now")))
            return bool(told["exit_code"] == 1)

        eventually("the verdict is that it regressed", regressed, WAIT_SECONDS)

    pods = {"base": 2, "double": 2}
    with (
        collector(tmp_path, str(tmp_path / "store")) as served,
        planted(tmp_path / "pods", served, pods, seconds=WAIT_SECONDS + 240, rate=200) as started,
    ):
        run = ran(served, started, enough)
    assert run.truth("double") > 0.4
    assert (told["exit_code"], told["outcome"]) == (1, "regressed")
    assert (told["verdict"]["direction"], told["verdict"]["method"]["rate_source"]) == ("increased", "clock")
    tax = row(told, "tax")["self"]
    # eleven times as many turns
    assert tax["comparison"] > 4 * tax["baseline"] > 0


@pytest.mark.long
def test_eight_percent_more_is_found_with_its_function_and_fails_a_pipeline(ended: Planted) -> None:
    truth = ended.run.truth("more")
    assert 0.04 < truth < 0.12
    code, told = ended.compared("more")
    assert (code, told["outcome"]) == (1, "regressed")
    assert [one["state"] for one in told["verdict"]["conditions"]] == ["regressed", "regressed"]
    assert (told["verdict"]["direction"], told["verdict"]["method"]["rate_source"]) == ("increased", "clock")
    assert holds(ended.strictly("more"), truth)
    assert found(told)
    # 23 turns instead of 12 are 0.92 more, less what waits for a CPU in both
    assert row(told, "tax")["self"]["relative"] > 0.4
    assert changed(ended.strictly("more")) in (["tax"], [])


@pytest.mark.long
def test_no_more_cpu_is_told_as_no_change_and_passes(ended: Planted) -> None:
    truth = ended.run.truth("equal")
    assert abs(truth) < 0.04
    code, told = ended.compared("equal")
    assert (code, told["outcome"]) == (0, "pass")
    assert told["verdict"]["rate"]["min_detectable_effect"] < 0.05
    strictly = ended.strictly("equal")
    assert strictly["verdict"]["direction"] in UNCHANGED
    assert holds(strictly, truth)
    assert not changed(strictly)


@pytest.mark.long
def test_more_frames_are_found_and_cpu_is_unchanged(ended: Planted) -> None:
    code, told = ended.compared("deeper")
    assert (code, told["outcome"]) == (1, "regressed")
    depth = told["verdict"]["depth"]["p50"]
    assert (depth["direction"], depth["delta"]) == ("increased", 10)
    assert depth["low"] <= 10 <= depth["high"]
    strictly = ended.strictly("deeper")
    assert strictly["verdict"]["direction"] in UNCHANGED
    assert holds(strictly, ended.run.truth("deeper"))


@pytest.mark.long
def test_a_renamed_and_moved_function_is_no_regression(ended: Planted) -> None:
    code, told = ended.compared("renamed")
    assert (code, told["outcome"]) == (0, "pass")
    quote = row(told, "quote")
    assert quote["renamed_from"].startswith("price")
    assert not [one for one in told["rows"] if one["function"] == "price"]
    strictly = ended.strictly("renamed")
    assert strictly["verdict"]["direction"] in UNCHANGED
    assert holds(strictly, ended.run.truth("renamed"))
    assert "quote" not in changed(strictly)


def found(told: Mapping[str, Any]) -> bool:
    """Whether `tax` takes more, by itself and with what it calls."""
    tax = row(told, "tax")
    return bool(tax["self"]["direction"] == tax["total"]["direction"] == "increased")


def changed(told: Mapping[str, Any]) -> list[str]:
    """The functions that changed in themselves."""
    return [
        one["function"]
        for one in told["rows"]
        if one["self"]["direction"] in ("increased", "decreased", "new", "removed")
    ]


def holds(told: Mapping[str, Any], truth: float) -> bool:
    """Whether the interval of the relative change of the whole holds it."""
    rate = told["verdict"]["rate"]
    return bool(rate["relative_low"] <= truth <= rate["relative_high"])
