"""Waiting until there is enough data: by the variance alone, once, and no longer than one wants."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidelight_cli.collector_errors import CollectorUnreachable, RequestRefused
from sidelight_cli.compare.comparison_model import ComparisonVerdict, parse_verdict
from sidelight_cli.compare.polling import (
    INGEST_DELAY_SECONDS,
    Clock,
    VerdictProgressLine,
    explain_insufficient_data,
    has_range_ended,
    wait_for_verdict,
)
from sidelight_cli.compare.settings import parse_compare_settings
from sidelight_model.errors import Reason
from sidelight_model.gates import parse_condition
from tests.cli.compare.compare_runner import SIDES, compare
from tests.cli.compare.verdict_server import answer, answering, check, effect
from tests.processes import eventually, running, sidelight

CPU = "cpu>+3%"
MORE = {"minutes": 12.0, "pods": None}
EARLY = effect(b=1.5, half=0.4, direction="increased", detectable=0.5)
ENOUGH = effect(b=1.01, half=0.01, direction="unchanged", detectable=0.015)


def of(effect: Any, **told: Any) -> ComparisonVerdict:
    return parse_verdict(answer((CPU, effect), **told))


class Time:
    """A clock that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []
        self.clock = Clock(lambda: self.at, lambda: 1_800_000_000.0 + self.at, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


def looking(answers: Sequence[ComparisonVerdict | Exception]) -> Callable[[], ComparisonVerdict]:
    left: Iterator[ComparisonVerdict | Exception] = iter(answers)

    def look() -> ComparisonVerdict:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        return found

    return look


def waited(
    answers: Sequence[ComparisonVerdict | Exception], seconds: float = 100.0, every: float = 10.0
) -> tuple[ComparisonVerdict, Time, str]:
    """What came of it, how the time passed, and what was said."""
    time, said = Time(), io.StringIO()
    progress = VerdictProgressLine(said, lambda: time.at)
    found = wait_for_verdict(looking(answers), (parse_condition(CPU),), seconds, every, progress, time.clock)
    return found, time, said.getvalue()


def test_a_change_that_looks_bad_early_is_not_judged_early() -> None:
    early = of(EARLY, more=MORE)
    assert early.conditions[0].state == "regressed"
    found, time, _ = waited([early, early, of(ENOUGH)])
    assert found.conditions[0].state == "pass"
    assert time.slept == [10.0, 10.0]


def test_what_is_judged_after_the_time_is_the_last_look() -> None:
    found, time, _ = waited([of(EARLY, more=MORE)] * 11, seconds=100)
    assert found.conditions[0].state == "regressed"
    assert sum(time.slept) == 100


def test_without_waiting_one_looks_once() -> None:
    found, time, said = waited([of(EARLY, more=MORE)], seconds=0)
    assert (found.conditions[0].state, time.slept, said) == ("regressed", [], "")


def test_a_side_without_windows_is_waited_for() -> None:
    nothing = of({"direction": "no_data"}, windows=(6, 0), direction="no_data")
    _, time, said = waited([nothing, nothing, of(ENOUGH)])
    assert len(time.slept) == 2
    assert said == "B has no windows yet (waited 0 s, at most 1 min 40 s more)\n"


def test_sides_of_different_times_are_waited_for_until_they_are_concurrent() -> None:
    """As a version that was rolled out runs beside the one before for a while."""
    unknown = of(effect(b=1.5, direction="inconclusive", detectable=None), basis="composition")
    found, time, said = waited([unknown, unknown, of(ENOUGH)])
    assert found.conditions[0].state == "pass"
    assert time.slept == [10.0, 10.0]
    assert said.startswith("A and B ran at different times, and their load may differ (waited 0 s")
    depth = ("depth.p95>+5", effect(a=20.0, b=20.0, half=1.0, detectable=0.1))
    deep = parse_verdict(answer(depth, basis="composition"))
    assert explain_insufficient_data(deep, (parse_condition(depth[0]),)) == "", (
        "depth has a course of its own"
    )
    assert explain_insufficient_data(replace(deep, conditions=()), ()) == "", "shares are an answer"
    share = ("share:f>+2pp", effect(a=0.1, b=0.1, half=0.01, detectable=0.1))
    for points, reason in ((2, ""), (0.5, "not enough data yet for share:f>+0.5pp (1.00 points would show")):
        condition = parse_condition(f"share:f>+{points}pp")
        verdict = parse_verdict(answer(share, basis="composition"))
        assert explain_insufficient_data(verdict, (condition,)).startswith(reason)
        assert bool(explain_insufficient_data(verdict, (condition,))) is bool(reason)


def test_sides_that_cannot_be_compared_are_not_waited_for() -> None:
    refused = of({"direction": "not_comparable"}, direction="not_comparable", checks=[check("blocking")])
    assert waited([refused])[1].slept == []


def test_what_has_no_detectable_effect_of_its_own_is_waited_for_with_the_whole() -> None:
    for found in (None, {"baseline": 40, "comparison": 41}, effect(a=0, b=0.1, direction="inconclusive")):
        condition = parse_condition(
            "depth.max>+5" if found and "direction" not in found else "function:f>+1%"
        )
        verdict = answer((str(condition), found), more=MORE)
        assert (
            explain_insufficient_data(parse_verdict(verdict), (condition,))
            == f"not enough data yet for {condition}"
        )
        verdict["verdict"]["required"] = None
        assert explain_insufficient_data(parse_verdict(verdict), (condition,)) == ""


def test_a_range_that_has_ended_brings_no_more() -> None:
    old = of(EARLY, more=MORE, until=1_800_000_000.0 - INGEST_DELAY_SECONDS - 1)
    found, time, said = waited([old])
    assert (found.conditions[0].state, time.slept) == ("regressed", [])
    assert "the range has ended, so there will not be more" in said
    recent = of(EARLY, more=MORE, until=1_800_000_000.0 - INGEST_DELAY_SECONDS + 1)
    assert not has_range_ended(recent, 1_800_000_000.0)


def test_times_that_the_collector_chose_follow_new_windows_and_do_not_end() -> None:
    old = answer(("cpu>+3%", EARLY), more=MORE, until=1_800_000_000.0 - 3600)
    old["ranges"] = {"reason": "overlap", "text": "Both sides ran.", "alternatives": []}
    assert not has_range_ended(parse_verdict(old), 1_800_000_000.0)
    old["ranges"]["reason"] = "given"
    assert has_range_ended(parse_verdict(old), 1_800_000_000.0)


def test_an_open_ended_range_is_waited_for_though_the_time_both_sides_ran_is_over() -> None:
    cut, time = of(EARLY, more=MORE, until=1_790_000_000.0), Time()
    progress, answers = VerdictProgressLine(io.StringIO(), lambda: time.at), looking([cut, cut, of(ENOUGH)])
    conditions = (parse_condition(CPU),)
    found = wait_for_verdict(answers, conditions, 100, 10, progress, time.clock, is_open_ended=True)
    assert (found.conditions[0].state, time.slept) == ("pass", [10, 10])


@pytest.mark.parametrize(
    ("argv", "is_open_ended"),
    [
        ((), True),
        (("--until", "-5m"), False),
        (("--until", "-5m", "--comparison-until", "now"), True),
        (("--baseline-until=-1h",), True),
        (("--baseline-until=-1h", "--comparison-until=-5m"), False),
    ],
)
def test_a_range_until_now_is_open_ended(argv: tuple[str, ...], is_open_ended: bool) -> None:
    settings = parse_compare_settings(["--collector", "http://x", *SIDES, *argv], {})
    assert settings.is_open_ended is is_open_ended


def test_a_collector_that_is_away_for_a_while_is_asked_again() -> None:
    away = CollectorUnreachable("no answer from it")
    busy = RequestRefused(503, Reason.OVERLOADED, "too much to do", "")
    found, time, said = waited([of(EARLY, more=MORE), away, busy, of(ENOUGH)])
    assert found.conditions[0].state == "pass"
    assert len(time.slept) == 3
    assert "no answer from it; asking again\n" in said


def test_the_first_failure_a_refusal_and_one_at_the_end_are_raised() -> None:
    away = CollectorUnreachable("no answer from it")
    with pytest.raises(CollectorUnreachable):
        waited([away])
    with pytest.raises(RequestRefused):
        waited([of(EARLY, more=MORE), RequestRefused(400, Reason.BAD_PARAMETER, "no", "")])
    with pytest.raises(CollectorUnreachable):
        waited([of(EARLY, more=MORE), *[away] * 10])


def test_progress_says_what_is_lacking_and_how_long_it_may_take() -> None:
    _, _, said = waited([of(EARLY, more=MORE)] * 9 + [of(ENOUGH)])
    lacks = "not enough data yet for cpu>+3% (50.0 % would show by now); about 12 minutes more"
    assert said.splitlines() == [
        f"{lacks} (waited 0 s, at most 1 min 40 s more)",
        f"{lacks} (waited 30.0 s, at most 1 min 10 s more)",
        f"{lacks} (waited 1 min, at most 40.0 s more)",
    ]
    _, _, said = waited([of(EARLY, more={"minutes": None, "pods": 4}), of(ENOUGH)])
    assert "; 4 pods of each side would do (" in said


def test_the_command_waits_and_says_so() -> None:
    early, enough = answer((CPU, EARLY), more=MORE), answer((CPU, ENOUGH))
    with answering(
        early, (503, {"error": "overloaded", "message": "busy", "hint": "later"}), enough
    ) as served:
        argv = ("--fail-on", CPU, "--wait", "60", "--wait-every", "0.05")
        done = compare(*SIDES, *argv, url=served.url)
    assert done.returncode == 0
    assert len(served.asked) == 3
    assert "not enough data yet for cpu>+3% (50.0 % would show by now); about 12 minutes more" in done.stderr
    assert "busy; asking again" in done.stderr
    assert not [one for one in served.asked if "analysis_index" in one]


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted: there is no verdict"),
        (signal.SIGTERM, 143, "terminated: there is no verdict"),
    ],
)
@pytest.mark.parametrize(
    "answers", [(answer((CPU, EARLY), more=MORE),), ((200, None),)], ids=["pause", "answer"]
)
def test_a_signal_ends_the_waiting_at_once(
    tmp_path: Path, sent: signal.Signals, code: int, said: str, answers: tuple[Any, ...]
) -> None:
    with answering(*answers) as served:
        argv = ("--fail-on", CPU, "--wait", "3000", "--wait-every", "1000", "--timeout-seconds", "1000")
        command = sidelight("compare", "--collector", served.url, *SIDES, *argv)
        with running(tmp_path / "log", *command) as process:
            eventually("it was asked", lambda: served.asked)
            if answers[0] != (200, None):
                eventually("it waits", lambda: "not enough data" in process.said())
            assert process.end(sent) == code
            assert process.said().rstrip().endswith(said)


def test_on_a_terminal_one_line_is_written_over() -> None:
    leader, follower = pty.openpty()
    with answering(*[answer((CPU, EARLY), more=MORE)] * 3, answer((CPU, ENOUGH))) as served:
        argv = ("--collector", served.url, *SIDES, "--fail-on", CPU, "--wait=60", "--wait-every=0.01")
        with subprocess.Popen(
            sidelight("compare", *argv), stderr=follower, stdout=subprocess.DEVNULL
        ) as command:
            os.close(follower)
            said = b""
            while True:
                try:
                    said += os.read(leader, 4096)
                except OSError:  # the terminal's other side is closed
                    break
        os.close(leader)
    assert command.returncode == 0
    lines = said.decode().split("\r\x1b[K")
    assert sum(line.startswith("not enough data yet for cpu>+3%") for line in lines) == 3
    assert "\n" not in said.decode()


def test_one_pod_in_one_stretch_of_time_is_waited_for_whatever_its_numbers_show() -> None:
    def stretch(*rows: int) -> ComparisonVerdict:
        told = answer((CPU, ENOUGH), more={"minutes": 1.0, "pods": None})
        told["verdict"]["method"] = {**told["verdict"]["method"], "frequencies": 0, "pod_groups": list(rows)}
        return parse_verdict(told)

    _, time, said = waited([stretch(1, 3), of(ENOUGH)])
    assert len(time.slept) == 1
    assert "not enough data yet for cpu>+3%: one pod in one stretch of time; about 1 minute more" in said
    assert waited([stretch(2, 3)])[1].slept == []
