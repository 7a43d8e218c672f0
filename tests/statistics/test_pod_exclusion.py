"""Pods that were sampled unlike the rest of their side are offered to be left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.comparability.check_result import (
    CheckResult,
    CheckSeverity,
    make_match,
    make_mismatch,
)
from sidelight_collector.statistics.comparability.pod_exclusion import (
    MAX_EXCLUDED_PODS,
    PodExclusion,
    add_pod_exclusions,
    find_pod_exclusion,
)
from sidelight_collector.statistics.comparability.sampling_summary import CheckContext, PodSampling
from sidelight_collector.statistics.remedies import CHANGE_DEPLOYMENT, RemedyAction
from sidelight_model.counts import ProfileType
from sidelight_model.selectors import parse_selector

WELL = PodSampling(
    "",
    modes=["gil"],
    samplers=["sidelight 0.1.0"],
    readers=["own"],
    python_versions=["3.11.7"],
    missing_states=[],
    coverage=0.99,
    cpu_wait_share=0.01,
)
CONTEXT = CheckContext(ProfileType.CPU, "time", True, Basis.CONCURRENT)
SELECTORS = parse_selector('{service="shop", version="1"}'), parse_selector('{service="shop", version="2"}')


def side(count: int, *odd: int, letter: str = "a", **values: Any) -> list[PodSampling]:
    """Pods `a0`, `a1` and so on, of which those of the numbers `odd` have other values."""
    return [replace(WELL, pod=f"{letter}{at}", **(values if at in odd else {})) for at in range(count)]


CASES: list[tuple[str, dict[str, Any]]] = [
    ("mode", {"modes": ["command"]}),
    ("states", {"missing_states": ["idle"]}),
    ("sampler", {"samplers": ["sidelight 0.2.0"]}),
    ("reader", {"readers": ["py-spy"]}),
    ("python", {"python_versions": ["3.12.1"]}),
    ("coverage", {"coverage": 0.5}),
    ("contention", {"cpu_wait_share": 0.4}),
]


@pytest.mark.parametrize(("check", "values"), CASES)
def test_the_odd_pod_is_left_out(check: str, values: dict[str, Any]) -> None:
    odd = side(4, 2, **values)
    for sides in ((odd, side(4, letter="b")), (side(4, letter="b"), odd)):
        found = find_pod_exclusion(check, sides, CONTEXT)
        assert found == (PodExclusion(["a2"], []) if sides[0] is odd else PodExclusion([], ["a2"]))


@pytest.mark.parametrize(("check", "values"), CASES)
@pytest.mark.parametrize(
    ("count", "odd"),
    [(4, (0, 1, 2, 3)), (5, (0, 1, 2)), (2, (0,)), (60, tuple(range(MAX_EXCLUDED_PODS + 1))), (3, ())],
)
def test_no_pod_is_left_out_where_too_few_would_remain(
    check: str, values: dict[str, Any], count: int, odd: Sequence[int]
) -> None:
    assert find_pod_exclusion(check, (side(count, *odd, **values), side(4)), CONTEXT) is None


def test_half_of_a_side_and_the_most_pods_may_be_left_out() -> None:
    half = find_pod_exclusion("reader", (side(4, 0, 1, readers=["py-spy"]), side(4)), CONTEXT)
    assert half == PodExclusion(["a0", "a1"], [])
    most = side(60, *range(MAX_EXCLUDED_PODS), readers=["py-spy"])
    found = find_pod_exclusion("reader", (most, side(4)), CONTEXT)
    assert found
    assert len(found.baseline) == MAX_EXCLUDED_PODS


def test_fewest_pods_are_left_out_of_two_mixed_sides() -> None:
    old = {"samplers": ["sidelight 0.0.9"]}
    sides = side(6, 0, 1, **old), side(6, 0, letter="b", **old)
    assert find_pod_exclusion("sampler", sides, CONTEXT) == PodExclusion(["a0", "a1"], ["b0"])


def test_patch_releases_of_python_are_alike_and_unknown_values_are_not_chosen() -> None:
    patched = side(4, 1, python_versions=["3.11.9"])
    assert find_pod_exclusion("python", (patched, side(4)), CONTEXT) is None
    unknown = side(4, 0, 1, 2, readers=[]), side(4, 0, 1, 2, readers=[])
    assert find_pod_exclusion("reader", unknown, CONTEXT) is None


def test_a_failed_check_gets_selectors_without_the_pods_as_its_remedy() -> None:
    sides = side(6, 0, 1, readers=["py-spy"]), side(4, 3, letter="b", readers=["py-spy"])
    checks = [make_match("mode", ""), make_mismatch("reader", "", "")]
    mode, reader = add_pod_exclusions(checks, lambda: sides, SELECTORS, CONTEXT)
    assert mode.remedy is None
    assert reader.remedy
    assert reader.remedy.action is RemedyAction.EXCLUDE_PODS
    assert reader.remedy.label == "Leave out 2 pods of A and b3 of B"
    assert reader.remedy.parameters == {
        "baseline": '{service="shop", version="1", pod!="a0", pod!="a1"}',
        "comparison": '{service="shop", version="2", pod!="b3"}',
    }


@pytest.mark.parametrize(
    ("check", "context"),
    [
        (make_mismatch("reader", "", ""), replace(CONTEXT, has_pod_rows=False)),
        (make_mismatch("truncation", "", ""), CONTEXT),
        (replace(make_mismatch("reader", "", ""), severity=CheckSeverity.OK), CONTEXT),
    ],
)
def test_pods_are_not_looked_at_without_need(check: CheckResult, context: CheckContext) -> None:
    def load_pods() -> tuple[list[PodSampling], list[PodSampling]]:
        raise AssertionError("the pods were loaded")

    assert add_pod_exclusions([check], load_pods, SELECTORS, context) == [check]
    assert check.remedy is CHANGE_DEPLOYMENT
