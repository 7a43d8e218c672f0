"""Verdicts are said as a person would."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sidelight_collector.statistics.required_sample_text import RequiredSample, format_minutes
from sidelight_collector.statistics.summary_text import (
    ChangedFunction,
    SummaryInput,
    summarize_difference,
)
from sidelight_model.change import Direction
from sidelight_model.counts import ProfileType

CPU = ProfileType.CPU
MORE = SummaryInput(0.41, 0.4438, 0.0824, 0.052, 0.113, 0.03, Direction.INCREASED, 9000)


def test_more_and_less_are_said_with_their_interval() -> None:
    assert summarize_difference(MORE, CPU) == (
        "B takes 8.2 % more CPU time than A (95 % interval +5.2 % to +11.3 %; 410 → 444 m/pod)."
    )
    less = replace(
        MORE, relative=-0.0824, low=-0.113, high=-0.052, direction=Direction.DECREASED, level=0.975
    )
    assert summarize_difference(less, ProfileType.WALL).startswith(
        "B takes 8.2 % less thread time than A (97.5 % interval −11.3 % to −5.2 %; "  # noqa: RUF001
    )


def test_no_detectable_change_says_what_would_have_shown() -> None:
    same = replace(MORE, low=-0.011, high=0.014, detectable=0.021, direction=Direction.UNCHANGED)
    assert summarize_difference(same, ProfileType.GIL) == (
        "No detectable change in GIL time (95 % interval −1.1 % to +1.4 %; "  # noqa: RUF001
        "410 → 444 m/pod): a change of 2.1 % would have shown."
    )


@pytest.mark.parametrize(
    ("lack", "end"),
    [
        (None, "m/pod)."),
        (
            RequiredSample(0.05, minutes=44.2),
            ": about 45 minutes more of both sides would show a change of 5 %.",
        ),
        (
            RequiredSample(0.05, minutes=200, is_transient=True),
            ": about 4 hours more of both sides would show a change of 5 %. Most of what blurs it comes and "
            "goes: if that is load, both at the same time, or per request, need less.",
        ),
        (
            RequiredSample(0.05, minutes=5 * 1440, pods=7),
            ": about 5 days more of both sides, or 7 pods of each, would show a change of 5 %.",
        ),
        (
            RequiredSample(0.05, minutes=30 * 1440),
            ": about 30 days more of both sides would show a change of 5 %.",
        ),
        (
            RequiredSample(0.05, minutes=30 * 1440 + 1),
            ": it takes over 30 days more of both sides to show a change of 5 %. With these one of 35 % "
            "would show.",
        ),
        (
            RequiredSample(0.05, minutes=1e6, pods=7),
            ": it takes over 30 days more of both sides, or 7 pods of each, to show a change of 5 %.",
        ),
        (
            RequiredSample(0.05, minutes=3, is_too_brief=True),
            ": both sides are too short to distinguish a change from chance. Take at least 3 minutes more of "
            "both sides.",
        ),
        (
            RequiredSample(0.05, pods=6, pod_variation=0.031),
            ": pods of one side differ by about 3.1 %, however long they run, so it takes 6 of each side to "
            "show a change of 5 %.",
        ),
        (
            RequiredSample(0.025, pod_variation=0.62),
            ": pods of one side differ by about 62 %, however long they run, so not even 1,000 of each side "
            "would show a change of 2.5 %. With these one of 35 % would show.",
        ),
    ],
)
def test_not_enough_data_says_what_is_lacking(lack: RequiredSample | None, end: str) -> None:
    unclear = replace(MORE, low=-0.12, high=0.3, detectable=0.35, direction=Direction.INCONCLUSIVE)
    said = summarize_difference(unclear, CPU, required=lack)
    assert said.startswith("Not enough data to say whether CPU time changed (95 % interval ")
    assert said.endswith(end)


def test_what_helps_is_said_only_where_it_is_not_so_already() -> None:
    unclear = replace(MORE, direction=Direction.INCONCLUSIVE, detectable=math.inf)
    load = summarize_difference(
        replace(unclear, unit="request"), CPU, required=RequiredSample(0.05, minutes=200, is_transient=True)
    )
    assert load.endswith("if that is load, both at the same time need less.")
    assert summarize_difference(unclear, CPU, required=RequiredSample(0.05, pod_variation=0.9)).endswith(
        "would show a change of 5 %."
    )


def test_a_little_of_what_a_took_none_of_may_be_chance() -> None:
    new = replace(MORE, a=0, low=math.nan, high=math.nan, direction=Direction.INCONCLUSIVE)
    assert summarize_difference(new, CPU) == (
        "B took so little CPU time that it may be chance that A took none (0 → 444 m/pod)."
    )


def test_what_is_new_or_gone_has_no_percentage() -> None:
    new = replace(MORE, a=0, relative=math.nan, low=math.nan, high=math.nan, direction=Direction.NEW)
    assert summarize_difference(new, CPU) == "B takes CPU time, and A took none (0 → 444 m/pod)."
    gone = replace(MORE, b=0, relative=-1, direction=Direction.REMOVED)
    assert summarize_difference(gone, CPU) == "B takes no CPU time, and A took some (410 → 0 m/pod)."


def test_intervals_without_an_end_are_said_as_such() -> None:
    unclear = replace(MORE, high=math.inf, direction=Direction.INCONCLUSIVE)
    assert "(95 % interval +5.2 % and up; " in summarize_difference(unclear, CPU)
    unknown = replace(MORE, low=math.nan, high=math.nan, direction=Direction.INCONCLUSIVE)
    assert "(no 95 % interval; " in summarize_difference(unknown, CPU)


def test_rates_are_per_request_where_they_are() -> None:
    assert "ms/request" in summarize_difference(replace(MORE, unit="request"), CPU)


def test_functions_of_a_comparison_of_shares_have_signs() -> None:
    changed = [
        ChangedFunction("parse", Direction.INCREASED, 0.94),
        ChangedFunction("render", Direction.DECREASED, -0.5),
        ChangedFunction("load", Direction.NEW, None),
        ChangedFunction("save", Direction.REMOVED, -1.0),
    ]
    assert summarize_difference(MORE, CPU, changed_functions=changed) == (
        "4 functions changed: parse (+94 %), render (−50 %), load (new) and 1 more. "  # noqa: RUF001
        "Total CPU time: +8.2 %, 410 → 444 m/pod; may be load."
    )


def test_what_cannot_be_compared_is_said_first() -> None:
    assert (
        summarize_difference(MORE, CPU, unobserved=["B"])
        == "B has no windows here, so there is nothing to compare."
    )
    assert summarize_difference(MORE, CPU, unobserved=["A", "B"]).startswith(
        "Neither A nor B has windows here"
    )
    assert (
        summarize_difference(MORE, ProfileType.WALL, blocking_reason="A recorded no idle samples.")
        == "Thread time cannot be compared: A recorded no idle samples."
    )
    assert summarize_difference(replace(MORE, a=0, b=0, samples=0), CPU) == "Neither side took any CPU time."


def test_time_that_the_clock_tells_and_no_sample_saw_is_time() -> None:
    assert summarize_difference(replace(MORE, samples=0), CPU) == summarize_difference(MORE, CPU)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (0.2, "a minute"),
        (1.01, "2 minutes"),
        (119, "119 minutes"),
        (150, "3 hours"),
        (2880, "2 days"),
        (1e7, "6,945 days"),
    ],
)
def test_durations_are_rounded_up_to_what_one_would_say(minutes: float, said: str) -> None:
    assert format_minutes(minutes) == said
