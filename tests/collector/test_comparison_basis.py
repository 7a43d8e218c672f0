"""The basis of a comparison: concurrent sides, costs of requests, and shares of the profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.window import Window
from tests.collector.comparison_data import judged, said
from tests.collector.stored_windows import stored, window

HOUR = 3600.0
FUNCTIONS = 30


def service(
    version: str, rng: np.random.Generator, *, at: float, load: float = 1.0, doubled: int | None = None,
    pods: int = 3, minutes: int = 60, functions: int = FUNCTIONS, each: float = 123.0,
) -> Iterator[Window]:  # fmt: skip
    """Functions of equal cost below a handler; one of them may take twice its time."""
    for pod in range(pods):
        for minute in range(minutes):
            busy = load * rng.normal(1, 0.05)
            counts = [rng.poisson(each * busy * (2 if name == doubled else 1)) for name in range(FUNCTIONS)]
            lines = [f"main (app.py:1);handle (app.py:5);step_{name} (steps.py:{name}) {count}"
                     for name, count in enumerate(counts)]  # fmt: skip
            yield window(
                " | ".join(lines),
                version=version,
                pod=f"shop-{version}-{pod}",
                at=at + minute * 60,
                seconds=60,
            )


def changed_functions(found: Any, part: str = "self") -> dict[str, str]:
    of = found["functions"]
    words = dict(zip(of["function"], of[part]["direction"], strict=True))
    return {name: word for name, word in words.items() if word not in ("unchanged", "inconclusive", "minor")}


@pytest.fixture(scope="module")
def sequential() -> ObjectStore:
    """Version 1 for an hour, then version 2 for an hour at twice the load, one function doubled."""
    rng = np.random.default_rng(1)
    return stored([*service("1", rng, at=-HOUR), *service("2", rng, at=0, load=2.0, doubled=7)])


def test_versions_one_after_the_other_are_compared_by_shares(sequential: ObjectStore) -> None:
    found = said(sequential)
    assert (found["basis"], found["direction"], found["method"]["unit"]) == (
        "composition",
        "not_judged",
        "share",
    )
    assert "different times" in found["basis_reason"]
    assert found["available_bases"] == ["composition", "equal_load"]
    assert changed_functions(found) == {"step_7": "increased"}
    of = found["functions"]
    assert of["function"][0] == "step_7"
    own = of["self"]
    assert own["q"][0] < 0.01
    assert own["relative_low"][0] < 1.0 < own["relative_high"][0] < 1.3
    assert own["baseline"][0] == pytest.approx(1 / 30, rel=0.05)
    assert own["comparison"][0] == pytest.approx(2 / 31, rel=0.05)
    assert found["summary"].startswith("1 function changed: step_7 (+9")
    assert found["summary"].endswith("may be load.")


def test_versions_that_are_alike_have_no_changed_function() -> None:
    rng = np.random.default_rng(2)
    found = said(stored([*service("1", rng, at=-HOUR), *service("2", rng, at=0, load=0.4)]))
    assert found["basis"] == "composition"
    assert changed_functions(found) == changed_functions(found, "total") == {}
    assert found["summary"].startswith("No function takes a different share of the profile. Total CPU time: ")


def test_of_few_functions_only_the_one_that_doubled_is_found() -> None:
    """The shares of the other three shrink by a fifth."""
    rng = np.random.default_rng(6)
    few = {"functions": 4, "each": 900.0}
    store = stored(
        [*service("1", rng, at=-HOUR, **few), *service("2", rng, at=0, load=1.5, doubled=2, **few)]
    )
    assert changed_functions(said(store)) == {"step_2": "increased"}


def test_a_canary_is_compared_over_the_time_that_both_ran() -> None:
    rng = np.random.default_rng(3)
    stable = service("1", rng, at=-HOUR, minutes=120)
    canary = service("2", rng, at=0, minutes=60, pods=1, doubled=7)
    found = said(stored([*stable, *canary]))
    assert found["basis"] == "concurrent"
    assert found["basis_reason"].endswith("10:30 UTC, and only this time is compared.")
    assert found["direction"] == "increased"
    assert found["rate"]["relative"] == pytest.approx(1 / 30, abs=0.02)
    assert changed_functions(found) == {"step_7": "increased"}


def test_sides_that_overlap_too_little_to_be_concurrent_lose_no_windows() -> None:
    """Both began at second 20 and ran for 30 and 60 seconds: 4 of 6 windows lie in the minute of both."""
    lines = "main (app.py:1);work (steps.py:1) 90"
    stable = [window(lines, version="1", pod="a", at=20 + turn * 10, seconds=10) for turn in range(3)]
    canary = [window(lines, version="2", pod="b", at=20 + turn * 10, seconds=10) for turn in range(6)]
    found = judged(stored([*stable, *canary]))
    assert found["verdict"]["basis"] == "composition"
    assert "ran together for too short a time" in found["verdict"]["basis_reason"]
    assert [side["windows"] for side in found["sides"]] == [3, 6]


def test_a_side_without_windows_is_the_reason() -> None:
    found = said(stored([window(version="1")]))
    assert found["basis_reason"].startswith("Side B has no windows, and request counts are unknown")


def test_composition_of_sides_that_overlap_is_over_all_of_both() -> None:
    rng = np.random.default_rng(3)
    store = stored([*service("1", rng, at=-HOUR, minutes=120), *service("2", rng, at=0, pods=1)])
    found = judged(store, basis=Basis.COMPOSITION)
    assert [side["windows"] for side in found["sides"]] == [360, 60]
    assert found["verdict"]["available_bases"] == ["concurrent", "composition"]
    assert found["verdict"]["basis_reason"] == "Shares of the profile were requested."


@pytest.mark.parametrize(
    "options",
    [
        {"basis": Basis.EQUAL_LOAD},
        {"basis": Basis.PER_REQUEST},
        {"basis": Basis.CONCURRENT},
        {"basis": Basis.CONCURRENT, "request_counts": (2000.0, 1000.0)},
    ],
    ids=["equal_load", "per_request", "concurrent", "concurrent with counts"],
)
def test_every_concurrent_comparison_uses_only_the_time_both_ran(options: Any) -> None:
    rng = np.random.default_rng(3)
    store = stored([*service("1", rng, at=-HOUR, minutes=120), *service("2", rng, at=0, pods=1)])
    found = judged(store, **options)
    assert found["verdict"]["basis"] == "concurrent"
    assert found["verdict"]["basis_reason"].endswith("UTC, and only this time is compared.")
    assert [side["windows"] for side in found["sides"]] == [180, 60]


def test_given_request_counts_are_divided_by_all_of_both_sides() -> None:
    rng = np.random.default_rng(3)
    store = stored([*service("1", rng, at=-HOUR, minutes=120), *service("2", rng, at=0, pods=1)])
    found = judged(store, request_counts=(2000.0, 1000.0))
    assert found["verdict"]["basis"] == "per_request"
    assert [side["windows"] for side in found["sides"]] == [360, 60]


def test_composition_can_be_asked_of_concurrent_sides() -> None:
    rng = np.random.default_rng(4)
    store = stored([*service("1", rng, at=0), *service("2", rng, at=0, doubled=7)])
    assert said(store)["basis"] == "concurrent"
    found = said(store, basis=Basis.COMPOSITION)
    assert (found["basis"], found["available_bases"]) == ("composition", ["concurrent", "composition"])
    assert changed_functions(found) == {"step_7": "increased"}


def test_request_counts_compare_the_cost_per_request(sequential: ObjectStore) -> None:
    found = said(sequential, request_counts=(1e6, 2e6))
    assert (found["basis"], found["method"]["unit"]) == ("per_request", "request")
    assert found["rate"]["relative"] == pytest.approx(1 / 30, abs=0.02)
    assert changed_functions(found) == {"step_7": "increased"}


def test_a_basis_that_is_not_possible_falls_back_and_says_why(sequential: ObjectStore) -> None:
    for basis, reason in (
        (Basis.PER_REQUEST, "Cost per request cannot be compared"),
        (Basis.CONCURRENT, "The sides are not concurrent"),
    ):
        found = said(sequential, basis=basis)
        assert found["basis"] == "composition"
        assert reason in found["basis_reason"]


def test_a_change_below_the_smallest_relevant_size_is_minor(sequential: ObjectStore) -> None:
    found = said(sequential, min_relevant_share=0.05)
    of = found["functions"]
    assert of["self"]["direction"][of["function"].index("step_7")] == "minor"
    assert changed_functions(found) == {}


def test_event_loops_of_different_times_are_not_judged() -> None:
    """A busier loop is blocked for longer."""
    loop = "run_forever (asyncio/base_events.py:1);_run_once (asyncio/base_events.py:2)"

    def looping(version: str, at: float, busy: int) -> Iterator[Window]:
        for pod in range(3):
            for minute in range(20):
                text = (
                    f"{loop};_run (asyncio/events.py:3);serve (app.py:1) {busy} | "
                    f"{loop};select (selectors.py:4);[idle] {6000 - busy}"
                )
                name = f"shop-{version}-{pod}"
                yield window(text, version=version, pod=name, at=at + minute * 60, seconds=60)

    found = said(stored([*looping("1", -HOUR, 1000), *looping("2", 0, 3000)]))
    assert found["loop"] is not None
    assert found["loop"]["busy"]["comparison"] == pytest.approx(0.5)
    assert found["loop"]["busy"]["direction"] == "not_judged"
    assert found["loop"]["blockers"][0]["effect"]["direction"] == "not_judged"
