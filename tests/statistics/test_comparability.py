"""What makes sides comparable or not: each with a reason word, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.comparability.check_result import CheckResult, CheckSeverity, CheckState
from sidelight_collector.statistics.comparability.checks import run_checks, select_blocking_checks
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext, SamplingSummary
from sidelight_collector.statistics.remedies import (
    ENTER_REQUESTS,
    MIN_OVERLAP_SECONDS,
    USE_COMPOSITION,
    RemedyAction,
)
from sidelight_model.counts import WAIT_REASONS, ProfileType

NOON = 1_795_262_400.0  # 2026-11-21T12:00:00Z
WELL = SamplingSummary(
    windows=60,
    pods=3,
    pod_seconds=3600,
    modes=["gil"],
    periods_us=[10_000.0],
    samplers=["sidelight 0.1.0"],
    readers=["own"],
    python_versions=["3.11.7"],
    missing_states=[],
    thread_kinds=["main", "other"],
    truncated_share=0.0,
    coverage=0.999,
    cpu_rate=0.4,
    sampled_cpu_rate=0.5,
    cpu_wait_share=None,
    request_rate=None,
    start_seconds=NOON,
    end_seconds=NOON + 1200,
)
TERMS = CheckContext(ProfileType.WALL, "time", True, Basis.CONCURRENT)


def found(
    b: dict[str, Any] | None = None, a: dict[str, Any] | None = None, **terms: Any
) -> dict[str, CheckResult]:
    both = run_checks(replace(WELL, **(a or {})), replace(WELL, **(b or {})), replace(TERMS, **terms))
    return {one.name: one for one in both}


def test_sides_that_were_taken_alike_have_nothing_to_say() -> None:
    assert {(one.state, one.severity, one.reason) for one in found().values()} == {
        (CheckState.MATCH, CheckSeverity.OK, "")
    }
    assert list(found()) == [
        *("mode", "states", "sampler", "reader", "normalisation", "python"),
        *("truncation", "coverage", "pods", "rate", "load", "contention", "time"),
    ]


CASES: list[tuple[str, dict[str, Any], dict[str, Any], CheckSeverity, str]] = [
    ("mode", {"modes": ["blocking"]}, {}, CheckSeverity.WARN, "mode_differs"),
    ("mode", {"modes": ["command"]}, {}, CheckSeverity.BLOCKING, "mode_differs"),
    ("mode", {"modes": ["nonblocking"]}, {}, CheckSeverity.BLOCKING, "mode_differs"),
    ("mode", {"modes": ["command", "gil"]}, {}, CheckSeverity.WARN, "mode_differs"),
    ("mode", {"modes": []}, {}, CheckSeverity.OK, "mode_unknown"),
    ("states", {"missing_states": ["idle"]}, {}, CheckSeverity.BLOCKING, "states_missing"),
    ("states", {"missing_states": ["idle"]}, {"kind": ProfileType.CPU}, CheckSeverity.WARN, "states_differs"),
    (
        "states",
        {"missing_states": ["gil"]},
        {"kind": ProfileType.GIL},
        CheckSeverity.BLOCKING,
        "states_missing",
    ),
    ("states", {"windows": 0}, {}, CheckSeverity.OK, "states_unknown"),
    ("sampler", {"samplers": ["sidelight 0.2.0"]}, {}, CheckSeverity.WARN, "sampler_differs"),
    ("reader", {"readers": ["py-spy"]}, {}, CheckSeverity.WARN, "reader_differs"),
    ("normalisation", {"thread_kinds": []}, {}, CheckSeverity.WARN, "normalisation_differs"),
    ("normalisation", {}, {"has_lines": True}, CheckSeverity.WARN, "lines_separate"),
    ("python", {"python_versions": ["3.12.1"]}, {}, CheckSeverity.WARN, "python_differs"),
    ("python", {"python_versions": ["3.11.9"]}, {}, CheckSeverity.OK, "python_differs"),
    ("truncation", {"truncated_share": 0.0051}, {}, CheckSeverity.WARN, "truncation_differs"),
    ("truncation", {"truncated_share": 0.005}, {}, CheckSeverity.OK, ""),
    ("coverage", {"coverage": 0.89}, {}, CheckSeverity.WARN, "low_coverage"),
    ("coverage", {"coverage": 0.89}, {"min_coverage": 0.5}, CheckSeverity.WARN, "coverage_differs"),
    ("coverage", {"coverage": 0.91}, {}, CheckSeverity.OK, ""),
    ("coverage", {"coverage": None}, {}, CheckSeverity.OK, "coverage_unknown"),
    ("pods", {"pods": 1}, {}, CheckSeverity.WARN, "few_pods"),
    ("pods", {"pods": 4}, {}, CheckSeverity.OK, "pods_differs"),
    ("pods", {"pods": 0}, {}, CheckSeverity.OK, "pods_unknown"),
    ("pods", {}, {"has_pod_rows": False}, CheckSeverity.WARN, "pods_merged"),
    ("rate", {"periods_us": [20_000.0]}, {}, CheckSeverity.OK, "rate_differs"),
    ("rate", {"periods_us": []}, {}, CheckSeverity.OK, "rate_unknown"),
    ("load", {"cpu_rate": 0.48}, {}, CheckSeverity.OK, ""),
    ("load", {"cpu_rate": 0.49}, {}, CheckSeverity.WARN, "load_differs"),
    ("load", {"cpu_rate": None}, {}, CheckSeverity.OK, "load_unknown"),
    (
        "load",
        {},
        {"missing_requests_reason": "Prometheus does not answer"},
        CheckSeverity.WARN,
        "load_unknown",
    ),
    ("contention", {"sampled_cpu_rate": 0.571}, {}, CheckSeverity.OK, ""),
    ("contention", {"sampled_cpu_rate": 0.572}, {}, CheckSeverity.WARN, "contention_differs"),
    ("contention", {"sampled_cpu_rate": None}, {}, CheckSeverity.OK, "contention_unknown"),
    ("contention", {"cpu_rate": None}, {}, CheckSeverity.OK, "contention_unknown"),
    ("contention", {"cpu_wait_share": 0.31}, {}, CheckSeverity.WARN, "contention_differs"),
    (
        "time",
        {"start_seconds": NOON + 7200, "end_seconds": NOON + 9000},
        {"pairing": ""},
        CheckSeverity.WARN,
        "time_differs",
    ),
    (
        "time",
        {"start_seconds": NOON + 86400 + 60, "end_seconds": NOON + 86400 + 99},
        {"pairing": "hours"},
        CheckSeverity.WARN,
        "time_differs",
    ),
    ("time", {"start_seconds": NOON + 2 * 86400, "end_seconds": NOON + 3 * 86400}, {}, CheckSeverity.OK, ""),
    ("time", {"windows": 0}, {}, CheckSeverity.OK, "time_unknown"),
    (
        "time",
        {"start_seconds": NOON + 7200, "end_seconds": NOON + 9000},
        {"pairing": "", "basis": Basis.EQUAL_LOAD},
        CheckSeverity.OK,
        "",
    ),
]


@pytest.mark.parametrize(("name", "side", "terms", "severity", "reason"), CASES)
def test_what_differs_is_told_with_a_reason_and_what_to_do(
    name: str, side: dict[str, Any], terms: dict[str, Any], severity: CheckSeverity, reason: str
) -> None:
    for of in ({"b": side}, {"a": side}):
        one = found(**of, **terms)[name]
        assert (one.severity, one.reason) == (severity, reason)
        assert bool(reason) is (one.state is not CheckState.MATCH)
        assert one.text
        assert one.hint or severity is CheckSeverity.OK
        assert one.remedy or severity is CheckSeverity.OK


def test_samples_that_wait_for_a_cpu_count_more_than_the_clocks() -> None:
    share = {"cpu_wait_share": 0.2, "sampled_cpu_rate": 4.0}
    assert found(share, share)["contention"].state is CheckState.MATCH
    one = found(share, {**share, "cpu_wait_share": 0.05})["contention"]
    assert (one.state, one.reason) == (CheckState.MISMATCH, "contention_differs")
    assert "5.0 % of A's samples and 20.0 % of B's: wall time counts that, CPU time does not" in one.text


def test_a_side_whose_samplers_do_not_know_the_wait_for_a_cpu_is_named() -> None:
    one = found({"missing_states": ["cpu_wait"]}, kind=ProfileType.CPU)["states"]
    assert (one.state, one.severity) == (CheckState.MISMATCH, CheckSeverity.WARN)
    assert one.text == "the CPU time of B includes threads that waited for a CPU"


@pytest.mark.parametrize("kind", [kind for kind in ProfileType if kind is not ProfileType.GIL_WAIT])
def test_reasons_of_waits_do_not_matter_but_waits_for_the_gil_do_where_waiting_is_compared(
    kind: ProfileType,
) -> None:
    assert found({"missing_states": list(WAIT_REASONS)}, kind=kind)["states"].state is CheckState.MATCH
    gil = found({"missing_states": ["gil_wait", *WAIT_REASONS]}, kind=kind)["states"]
    is_compared = kind in (ProfileType.WALL, ProfileType.OFF_CPU)
    assert gil.state is (CheckState.MISMATCH if is_compared else CheckState.MATCH)
    assert gil.text.startswith("the idle time of B includes threads that waited for the GIL")


def test_the_side_that_nobody_told_of_is_named() -> None:
    assert found(a={"python_versions": []})["python"].text == "not told by A"
    assert found({"python_versions": []})["python"].text == "not told by B"
    assert found({"python_versions": []}, {"python_versions": []})["python"].text == "not told by either side"


def test_texts_have_the_numbers_of_both_sides() -> None:
    texts = {
        name: one.text
        for name, one in found(
            {
                "modes": ["blocking"],
                "pods": 1,
                "periods_us": [5000.0, 20_000.0],
                "cpu_rate": 0.8,
                "truncated_share": 0.25,
            }
        ).items()
    }
    assert texts["mode"].startswith("A gil, B blocking: ")
    assert texts["pods"].startswith("one pod on B: ")
    assert texts["rate"].startswith("A 100 Hz, B 50–200 Hz: ")  # noqa: RUF001
    assert texts["load"].startswith("A's processes used 0.400 CPU seconds per pod-second, B's 0.800: ")
    assert texts["truncation"].startswith("0 % of A's stacks and 25.0 % of B's lost their middle: ")
    later = found({"start_seconds": NOON + 7200, "end_seconds": NOON + 93_600}, pairing="")["time"].text
    assert later.startswith("A was watched 2026-11-21 12:00–12:20, B 2026-11-21 14:00–2026-11-22 14:00")  # noqa: RUF001


def test_requests_tell_the_load_where_they_are_known() -> None:
    one = found({"request_rate": 11.0}, {"request_rate": 10.0}, basis=Basis.PER_REQUEST)["load"]
    assert (one.state, one.text) == (
        CheckState.MATCH,
        "A 10.0, B 11.0 requests per pod-second; times are per request",
    )
    other = found({"request_rate": 13.0}, {"request_rate": 10.0}, basis=Basis.PER_REQUEST)["load"]
    assert (other.state, other.severity) == (CheckState.MISMATCH, CheckSeverity.WARN)


def test_only_what_refuses_makes_sides_incomparable() -> None:
    all_of_them = found(
        {"modes": ["command"], "missing_states": ["idle"], "pods": 1, "coverage": 0.5}
    ).values()
    assert [one.name for one in select_blocking_checks(all_of_them)] == ["mode", "states"]


EARLY, LATE = {"start_seconds": NOON, "end_seconds": NOON + 3600}, NOON + 7200


@pytest.mark.parametrize(
    ("start", "end", "label", "parameters"),
    [
        (
            NOON + 1800.5,
            NOON + 90_000,
            "Compare 2026-11-21 12:30–13:00 UTC, while both ran",  # noqa: RUF001
            {
                "baseline_from": "2026-11-21T12:30:01Z",
                "baseline_until": "2026-11-21T13:00:00Z",
                "comparison_from": "2026-11-21T12:30:01Z",
                "comparison_until": "2026-11-21T13:00:00Z",
            },
        ),
        (
            NOON + 3600 - MIN_OVERLAP_SECONDS,
            NOON + 9000,
            "Compare 2026-11-21 12:55–13:00 UTC, while both ran",  # noqa: RUF001
            None,
        ),
        (
            LATE,
            LATE + 7201,
            "Compare 2026-11-21 15:00–16:00 UTC of B, as long as the other side",  # noqa: RUF001
            {"comparison_from": "2026-11-21T15:00:01Z", "comparison_until": "2026-11-21T16:00:01Z"},
        ),
        (
            LATE,
            LATE + 1799,
            "Compare 2026-11-21 12:30–13:00 UTC of A, as long as the other side",  # noqa: RUF001
            {"baseline_from": "2026-11-21T12:30:01Z", "baseline_until": "2026-11-21T13:00:00Z"},
        ),
    ],
)
def test_sides_at_different_times_have_a_remedy_that_fits_their_ranges(
    start: float, end: float, label: str, parameters: dict[str, str] | None
) -> None:
    other = {"start_seconds": start, "end_seconds": end}
    remedy = found(other, EARLY, pairing="")["time"].remedy
    assert remedy
    assert remedy.label == label
    assert parameters is None or remedy.parameters == parameters


@pytest.mark.parametrize(
    ("start", "end"), [(LATE, LATE + 7200), (NOON + 3601 - MIN_OVERLAP_SECONDS, NOON + 7200)]
)
def test_equally_long_ranges_that_hardly_overlap_need_request_counts(start: float, end: float) -> None:
    other = {"start_seconds": start, "end_seconds": end}
    assert found(other, EARLY, pairing="")["time"].remedy == ENTER_REQUESTS


def test_unknown_or_different_load_asks_for_the_requests_of_both_sides() -> None:
    for results in (found({"cpu_rate": None}), found({"cpu_rate": 0.8})):
        remedy = results["load"].remedy
        assert remedy
        assert remedy.parameters == {"baseline_requests": "", "comparison_requests": ""}
    rates = [{"request_rate": 13.0}, {"request_rate": 10.0}]
    assert found(*rates, basis=Basis.PER_REQUEST)["load"].remedy == USE_COMPOSITION


def test_what_matches_has_no_remedy() -> None:
    assert {one.remedy for one in found().values()} == {None}


@pytest.mark.parametrize(
    ("name", "side", "terms", "action"),
    [
        ("states", {"missing_states": ["idle"]}, {}, RemedyAction.USE_CPU_TIME),
        ("states", {"missing_states": ["gil"]}, {}, RemedyAction.USE_CPU_TIME),
        ("states", {"missing_states": ["idle"]}, {"kind": ProfileType.CPU}, RemedyAction.CHANGE_DEPLOYMENT),
        ("normalisation", {}, {"has_lines": True}, RemedyAction.FOLD_LINES),
        ("pods", {}, {"has_pod_rows": False}, RemedyAction.CHOOSE_RANGE),
        ("contention", {"sampled_cpu_rate": 0.9}, {}, RemedyAction.USE_COMPOSITION),
        (
            "contention",
            {"sampled_cpu_rate": 0.9},
            {"basis": Basis.COMPOSITION},
            RemedyAction.CHANGE_DEPLOYMENT,
        ),
    ],
)
def test_a_remedy_is_what_helps_this_comparison(
    name: str, side: dict[str, Any], terms: dict[str, Any], action: RemedyAction
) -> None:
    remedy = found(side, **terms)[name].remedy
    assert remedy
    assert remedy.action is action
