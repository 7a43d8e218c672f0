"""Each sentence of the story follows from the numbers and from nothing else: with other numbers it flips."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from sidelight_cli.demo.collector_answers import TaskStatistics
from sidelight_cli.demo.command import format_progress
from sidelight_cli.demo.demo_table import render_table
from sidelight_cli.demo.measurement import MeasuredVersion, VersionProgress, find_problems
from sidelight_cli.demo.published_story import (
    ClaimVerdict,
    StoryFinding,
    combine_verdicts,
    compute_share_error,
    evaluate_story,
    is_significant,
)
from sidelight_cli.demo.settings import DemoSettings
from sidelight_cli.demo.versions import VERSIONS
from tests.cli.demo.measurements import measured

AGREES, PARTLY, DIFFERS, UNCLEAR = (
    ClaimVerdict.AGREES,
    ClaimVerdict.PARTLY_AGREES,
    ClaimVerdict.DIFFERS,
    ClaimVerdict.INCONCLUSIVE,
)

PUBLISHED: dict[str, dict[str, Any]] = {
    "tornado-coroutines": {"depth": 30.0, "idle": 0.7, "cpu": 0.3},
    "tornado-async": {"depth": 30.0, "idle": 0.7, "cpu": 0.3},
    "aiohttp": {"depth": 15.0, "idle": 0.85, "cpu": 0.15},
    "aiohttp-uvloop": {"depth": 12.0, "idle": 0.88, "cpu": 0.12},
}


def run(**changes: dict[str, Any]) -> list[MeasuredVersion]:
    """A run that came out as published, with some versions (`_` for `-`) changed."""
    changed = {name.replace("_", "-"): change for name, change in changes.items()}
    return [measured(name, **{**numbers, **changed.get(name, {})}) for name, numbers in PUBLISHED.items()]


def tornado(**change: Any) -> list[MeasuredVersion]:
    """A run as published but for both Tornado versions."""
    return run(tornado_coroutines=change, tornado_async=change)


def finding(subject: str, versions: Sequence[MeasuredVersion]) -> StoryFinding:
    return next(one for one in evaluate_story(versions) if one.subject == subject)


def test_a_run_that_came_out_as_published_agrees_in_every_claim() -> None:
    found = evaluate_story(run())
    assert [one.subject for one in found if one.verdict] == ["Depth", "Frames", "Waiting", "Idle", "CPU"]
    assert {one.verdict for one in found if one.verdict} == {AGREES}


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        (
            TaskStatistics(14.2, 0.1, 0.002),
            "14.2 asyncio tasks on average and takes 15.0 % of a core: nearly all",
        ),
        (TaskStatistics(20, 6, 0.31), "6.0 of them are ready and wait for their event loop, up to 310 ms."),
    ],
)
def test_tasks_that_wait_are_told_from_those_that_want_to_run(tasks: TaskStatistics, says: str) -> None:
    assert says in finding("Tasks", run(aiohttp={"tasks": tasks})).text


@pytest.mark.parametrize(
    ("depth", "verdict", "says"),
    [
        (30.0, AGREES, "about twice as deep, as published"),
        (20.0, PARTLY, "smaller than published"),
        (15.1, UNCLEAR, "too close to distinguish"),
        (9.0, DIFFERS, "not deeper"),
        (None, UNCLEAR, "no busy sample"),
    ],
)
def test_depth_is_compared_by_ratio_and_only_where_it_is_apart(
    depth: float | None, verdict: ClaimVerdict, says: str
) -> None:
    found = finding("Depth", tornado(depth=depth))
    assert found.verdict is verdict
    assert says in found.text


def test_depth_names_the_numbers_it_stands_on() -> None:
    text = finding("Depth", run(tornado_async={"depth": 24.0})).text
    assert "aiohttp are 15.0 frames deep on average, tornado-coroutines 30.0 (2.00 times)" in text
    assert "tornado-async 24.0 (1.60 times)" in text


def test_the_two_tornado_styles_may_disagree() -> None:
    assert finding("Depth", run(tornado_async={"depth": 15.0})).verdict is PARTLY
    assert finding("Idle", run(tornado_async={"idle": 0.85})).verdict is PARTLY
    assert finding("CPU", run(tornado_async={"cpu": 0.2})).verdict is PARTLY


@pytest.mark.parametrize(
    ("aiohttp", "tornado_depth", "verdict", "says"),
    [
        (15.0, 30.0, AGREES, "near the published ones"),
        (8.0, 12.0, DIFFERS, "stack fewer frames, 40 % to 53 %"),
        (15.0, 12.0, DIFFERS, "40 % to 100 %"),
        (30.0, 60.0, DIFFERS, "200 % to 200 %"),
    ],
)
def test_the_frames_themselves_are_compared_with_the_published_ones(
    aiohttp: float, tornado_depth: float, verdict: ClaimVerdict, says: str
) -> None:
    change = {"depth": tornado_depth}
    found = finding(
        "Frames", run(tornado_coroutines=change, tornado_async=change, aiohttp={"depth": aiohttp})
    )
    assert found.verdict is verdict
    assert says in found.text


@pytest.mark.parametrize(
    ("idle", "verdict", "says"),
    [
        (0.93, AGREES, "mostly idle, as published: 93.0 %"),
        (0.4, DIFFERS, "idle only 40.0 %"),
        (None, UNCLEAR, "could not see"),
    ],
)
def test_aiohttp_is_mostly_idle_or_not(idle: float | None, verdict: ClaimVerdict, says: str) -> None:
    found = finding("Waiting", run(aiohttp={"idle": idle}))
    assert found.verdict is verdict
    assert says in found.text


@pytest.mark.parametrize(
    ("idle", "verdict", "says"),
    [
        (0.7, AGREES, "Tornado idles less, as published"),
        (0.85, UNCLEAR, "too close"),
        (0.95, DIFFERS, "does not idle less"),
        (None, UNCLEAR, "could not see"),
    ],
)
def test_tornado_idles_less_or_not(idle: float | None, verdict: ClaimVerdict, says: str) -> None:
    found = finding("Idle", tornado(idle=idle))
    assert found.verdict is verdict
    assert says in found.text


@pytest.mark.parametrize(
    ("cpu", "verdict", "says"),
    [
        (0.3, AGREES, "about halves it"),
        (0.2, PARTLY, "but not half of it"),
        (0.15, DIFFERS, "saves nothing"),
        (0.1, DIFFERS, "saves nothing"),
        (0.0, UNCLEAR, "not known"),
    ],
)
def test_moving_halves_the_cpu_or_not(cpu: float, verdict: ClaimVerdict, says: str) -> None:
    found = finding("CPU", tornado(cpu=cpu))
    assert found.verdict is verdict
    assert says in found.text


def test_what_uvloop_and_async_change_is_said_in_both_directions() -> None:
    less = finding("Uvloop", run()).text
    more = finding("Uvloop", run(aiohttp_uvloop={"cpu": 0.3, "depth": 20.0})).text
    same = finding("Uvloop", run(aiohttp_uvloop={"cpu": 0.15, "depth": 15.0})).text
    assert "CPU falls by 20 %; stacks are 3.0 frames shallower" in less
    assert "CPU rises by 100 %; stacks are 5.0 frames deeper" in more
    assert "CPU stays within a tenth; the depth does not change detectably" in same
    assert "from tornado-coroutines to tornado-async" in finding("Async and await", run()).text


def test_latency_tells_nothing_until_it_does() -> None:
    assert "shows none" in finding("Latency", run()).text
    apart_ = finding("Latency", run(tornado_async={"p99_ms": 80.0})).text
    assert "from 53.0 ms" in apart_
    assert "to 80.0 ms (tornado-async)" in apart_


def test_sides_that_were_not_measured_alike_are_named_first() -> None:
    unequal = evaluate_story(run(aiohttp={"rate": 120.0}))[0]
    mixed = evaluate_story(run(aiohttp={"mode": "command"}))[0]
    assert unequal.subject == mixed.subject == "Different"
    assert "120.0 and 150.0" in unequal.text
    assert "blocking, command" in mixed.text


def test_services_without_the_same_load_are_not_compared_by_what_load_decides() -> None:
    unequal = run(tornado_async={"rate": 120.0})
    for subject in ("Idle", "CPU"):
        assert finding(subject, unequal).verdict is UNCLEAR
        assert "did not have the same load" in finding(subject, unequal).text
    assert finding("CPU", run(tornado_async={"rate": 148.0})).verdict is AGREES


def test_a_crowded_machine_is_named_because_it_makes_depths_shallower() -> None:
    assert "Crowded machine" not in [one.subject for one in evaluate_story(run())]
    found = finding("Crowded machine", run(aiohttp={"idle": 0.75}))
    assert "10.0 % of the samples" in found.text


def test_a_story_without_aiohttp_or_tornado_makes_no_claim() -> None:
    only = [one for one in run() if one.version.name == "tornado-async"]
    assert evaluate_story(only) == []


def test_a_finding_reads_as_a_sentence_with_its_verdict() -> None:
    assert str(StoryFinding("CPU", AGREES, "it halves.")) == "CPU (agrees): it halves."
    assert str(StoryFinding("Uvloop", None, "it is quick.")) == "Uvloop: it is quick."


@pytest.mark.parametrize(
    ("verdicts", "one"),
    [
        ([AGREES, AGREES], AGREES),
        ([AGREES, UNCLEAR], PARTLY),
        ([PARTLY, DIFFERS], PARTLY),
        ([DIFFERS, UNCLEAR], DIFFERS),
        ([UNCLEAR, UNCLEAR], UNCLEAR),
    ],
)
def test_verdicts_on_two_versions_become_one(verdicts: list[ClaimVerdict], one: ClaimVerdict) -> None:
    assert combine_verdicts(verdicts) is one


def test_means_are_apart_beyond_1_96_standard_errors_of_their_difference() -> None:
    assert is_significant(1.97, 1.0)
    assert not is_significant(1.95, 1.0)
    assert not is_significant(1.97, 1.0, 1.0)
    assert compute_share_error(0.5, 100) == pytest.approx(0.05)
    assert not is_significant(100.0, compute_share_error(0.5, 0))


def test_a_run_proves_nothing_without_samples_or_answers() -> None:
    assert find_problems(run()) == []
    assert find_problems(run(aiohttp={"samples": 0, "busy": 0})) == [
        "aiohttp: the collector has no samples of it"
    ]
    nobody = find_problems(run(aiohttp={"answered": 0, "errors": {"timeout": 3000}}))
    assert nobody == ["aiohttp: no request was answered (timeout: 3000)"]
    many = find_problems(run(aiohttp={"answered": 2900, "errors": {"status_500": 100}}))
    assert many == ["aiohttp: 100 requests failed (status_500: 100): try a lower --rate"]
    assert find_problems(run(aiohttp={"answered": 2999, "errors": {"timeout": 1}})) == []


def test_the_table_has_a_line_per_version_and_a_dash_for_an_unknown_figure() -> None:
    rows = [
        measured("aiohttp", depth=9.04, idle=0.902, cpu=0.063),
        measured("tornado-async", depth=None, idle=None),
    ]
    assert render_table(rows).splitlines() == [
        "                sent  /50 ms  /50 ms  /125 ms  /125 ms  CPU of    idle  depth  depth",
        "version        per s     p50     p99      p50      p99  a core   share   mean    p95",
        "─────────────  ─────  ──────  ──────  ───────  ───────  ──────  ──────  ─────  ─────",
        "aiohttp        150.0    52.0    53.0     52.0     53.0   6.3 %  90.2 %    9.0     14",
        "tornado-async  150.0    52.0    53.0     52.0     53.0  10.0 %       -      -      -".replace(
            " -", " \N{EN DASH}"
        ),
    ]


def test_the_table_fits_into_eighty_columns() -> None:
    rows = run()
    wide, narrow = render_table(rows, 100).splitlines(), render_table(rows, 80).splitlines()
    assert wide == render_table(rows).splitlines()
    assert max(map(len, narrow)) <= 80 < max(map(len, wide))
    assert [line.split() for line in narrow[3:]] == [line.split() for line in wide[3:]]


def test_progress_shows_figures_as_they_arrive() -> None:
    settings = DemoSettings(seconds=20.0)
    aiohttp = measured("aiohttp")
    load = dataclasses.replace(aiohttp.load, until=aiohttp.load.start + 7.2, complete=False)
    rows = [VersionProgress(version) for version in VERSIONS]
    empty = format_progress(rows, settings, None)
    assert "The table fills when the services have load." in empty
    assert empty.count("\N{EN DASH}") == 9 * len(VERSIONS)
    rows[2] = VersionProgress(rows[2].version, load)
    loaded = format_progress(rows, settings, None)
    assert loaded.splitlines()[1] == "7 of 20 s:"
    assert "aiohttp             150.0    52.0    53.0     52.0     53.0" in loaded
    assert loaded.count("\N{EN DASH}") == 9 * 3 + 4
    rows[2] = VersionProgress(rows[2].version, load, aiohttp.profile)
    assert format_progress(rows, settings, None).count("\N{EN DASH}") == 9 * 3
