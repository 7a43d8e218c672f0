"""What makes sides comparable or not: each with a reason word, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.statistics.comparability import (
    Check,
    Severity,
    State,
    Taken,
    Terms,
    checks,
    refusals,
)
from sidelight_model.counts import ProfileType

NOON = 1_795_262_400.0  # 2026-11-21T12:00:00Z
WELL = Taken(
    windows=60,
    pods=3,
    pod_seconds=3600,
    modes=["gil"],
    periods_us=[10_000.0],
    samplers=["sidelight 0.1.0"],
    readers=["own"],
    pythons=["3.11.7"],
    missing_states=[],
    kinds=["main", "other"],
    truncated=0.0,
    coverage=0.999,
    cpu=0.4,
    sampled=0.5,
    requests=None,
    first=NOON,
    last=NOON + 1200,
)
TERMS = Terms(ProfileType.WALL, "time", pods_told=True)


def found(b: dict[str, Any] | None = None, a: dict[str, Any] | None = None, **terms: Any) -> dict[str, Check]:
    both = checks(replace(WELL, **(a or {})), replace(WELL, **(b or {})), replace(TERMS, **terms))
    return {one.name: one for one in both}


def test_sides_that_were_taken_alike_have_nothing_to_say() -> None:
    assert {(one.state, one.severity, one.reason) for one in found().values()} == {
        (State.ALIKE, Severity.OK, "")
    }
    assert list(found()) == [
        *("mode", "states", "sampler", "reader", "normalisation", "python"),
        *("truncation", "coverage", "pods", "rate", "load", "contention", "time"),
    ]


CASES: list[tuple[str, dict[str, Any], dict[str, Any], Severity, str]] = [
    ("mode", {"modes": ["blocking"]}, {}, Severity.WARN, "mode_differs"),
    ("mode", {"modes": ["command"]}, {}, Severity.REFUSE, "mode_differs"),
    ("mode", {"modes": ["nonblocking"]}, {}, Severity.REFUSE, "mode_differs"),
    ("mode", {"modes": ["command", "gil"]}, {}, Severity.WARN, "mode_differs"),
    ("mode", {"modes": []}, {}, Severity.OK, "mode_unknown"),
    ("states", {"missing_states": ["idle"]}, {}, Severity.REFUSE, "states_missing"),
    ("states", {"missing_states": ["idle"]}, {"kind": ProfileType.CPU}, Severity.WARN, "states_differs"),
    ("states", {"missing_states": ["gil"]}, {"kind": ProfileType.GIL}, Severity.REFUSE, "states_missing"),
    ("states", {"windows": 0}, {}, Severity.OK, "states_unknown"),
    ("sampler", {"samplers": ["sidelight 0.2.0"]}, {}, Severity.WARN, "sampler_differs"),
    ("reader", {"readers": ["py-spy"]}, {}, Severity.WARN, "reader_differs"),
    ("normalisation", {"kinds": []}, {}, Severity.WARN, "normalisation_differs"),
    ("normalisation", {}, {"lines": True}, Severity.WARN, "lines_separate"),
    ("python", {"pythons": ["3.12.1"]}, {}, Severity.WARN, "python_differs"),
    ("python", {"pythons": ["3.11.9"]}, {}, Severity.OK, "python_differs"),
    ("truncation", {"truncated": 0.0051}, {}, Severity.WARN, "truncation_differs"),
    ("truncation", {"truncated": 0.005}, {}, Severity.OK, ""),
    ("coverage", {"coverage": 0.89}, {}, Severity.WARN, "low_coverage"),
    ("coverage", {"coverage": 0.89}, {"least_coverage": 0.5}, Severity.WARN, "coverage_differs"),
    ("coverage", {"coverage": 0.91}, {}, Severity.OK, ""),
    ("coverage", {"coverage": None}, {}, Severity.OK, "coverage_unknown"),
    ("pods", {"pods": 1}, {}, Severity.WARN, "few_pods"),
    ("pods", {"pods": 4}, {}, Severity.OK, "pods_differs"),
    ("pods", {"pods": 0}, {}, Severity.OK, "pods_unknown"),
    ("pods", {}, {"pods_told": False}, Severity.WARN, "pods_merged"),
    ("rate", {"periods_us": [20_000.0]}, {}, Severity.OK, "rate_differs"),
    ("rate", {"periods_us": []}, {}, Severity.OK, "rate_unknown"),
    ("load", {"cpu": 0.48}, {}, Severity.OK, ""),
    ("load", {"cpu": 0.49}, {}, Severity.WARN, "load_differs"),
    ("load", {"cpu": None}, {}, Severity.OK, "load_unknown"),
    ("load", {}, {"trouble": "Prometheus does not answer"}, Severity.WARN, "load_unknown"),
    ("contention", {"sampled": 0.571}, {}, Severity.OK, ""),
    ("contention", {"sampled": 0.572}, {}, Severity.WARN, "contention_differs"),
    ("contention", {"sampled": None}, {}, Severity.OK, "contention_unknown"),
    ("contention", {"cpu": None}, {}, Severity.OK, "contention_unknown"),
    ("time", {"first": NOON + 7200, "last": NOON + 9000}, {"paired": ""}, Severity.WARN, "time_differs"),
    (
        "time",
        {"first": NOON + 86400 + 60, "last": NOON + 86400 + 99},
        {"paired": "hours"},
        Severity.WARN,
        "time_differs",
    ),
    ("time", {"first": NOON + 2 * 86400, "last": NOON + 3 * 86400}, {}, Severity.OK, ""),
    ("time", {"windows": 0}, {}, Severity.OK, "time_unknown"),
    (
        "time",
        {"first": NOON + 7200, "last": NOON + 9000},
        {"paired": "", "assume_equal_load": True},
        Severity.OK,
        "",
    ),
]


@pytest.mark.parametrize(("name", "side", "terms", "severity", "reason"), CASES)
def test_what_differs_is_told_with_a_reason_and_what_to_do(
    name: str, side: dict[str, Any], terms: dict[str, Any], severity: Severity, reason: str
) -> None:
    for of in ({"b": side}, {"a": side}):
        one = found(**of, **terms)[name]
        assert (one.severity, one.reason) == (severity, reason)
        assert bool(reason) is (one.state is not State.ALIKE)
        assert one.text
        assert one.hint or severity is Severity.OK


def test_the_side_that_nobody_told_of_is_named() -> None:
    assert found(a={"pythons": []})["python"].text == "not told by A"
    assert found({"pythons": []})["python"].text == "not told by B"
    assert found({"pythons": []}, {"pythons": []})["python"].text == "not told by either side"


def test_texts_have_the_numbers_of_both_sides() -> None:
    texts = {
        name: one.text
        for name, one in found(
            {
                "modes": ["blocking"],
                "pods": 1,
                "periods_us": [5000.0, 20_000.0],
                "cpu": 0.8,
                "truncated": 0.25,
            }
        ).items()
    }
    assert texts["mode"].startswith("A gil, B blocking: ")
    assert texts["pods"].startswith("one pod on B: ")
    assert texts["rate"].startswith("A 100 Hz, B 50–200 Hz: ")  # noqa: RUF001
    assert texts["load"].startswith("A's processes used 0.400 CPU seconds per pod-second, B's 0.800: ")
    assert texts["truncation"].startswith("0 % of A's stacks and 25.0 % of B's lost their middle: ")
    later = found({"first": NOON + 7200, "last": NOON + 93_600}, paired="")["time"].text
    assert later.startswith("A was watched 2026-11-21 12:00–12:20, B 2026-11-21 14:00–2026-11-22 14:00")  # noqa: RUF001


def test_requests_tell_the_load_where_they_are_known() -> None:
    one = found({"requests": 11.0}, {"requests": 10.0}, per_request=True)["load"]
    assert (one.state, one.text) == (
        State.ALIKE,
        "A 10.0, B 11.0 requests per pod-second; times are per request",
    )
    other = found({"requests": 13.0}, {"requests": 10.0}, per_request=True)["load"]
    assert (other.state, other.severity) == (State.DIFFERS, Severity.WARN)


def test_only_what_refuses_makes_sides_incomparable() -> None:
    all_of_them = found(
        {"modes": ["command"], "missing_states": ["idle"], "pods": 1, "coverage": 0.5}
    ).values()
    assert [one.name for one in refusals(all_of_them)] == ["mode", "states"]
