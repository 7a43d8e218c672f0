"""Conditions on shares of the profile, and what cannot be judged by composition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sidelight_collector.statistics.basis import Basis
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.gates import COMPOSITION_REMEDY, parse_condition
from sidelight_model.window import Window
from tests.collector.comparison_data import said
from tests.collector.stored_windows import stored, window

HOUR = 3600.0
FUNCTIONS = 20


def service(
    version: str, generator: np.random.Generator, *, at: float, load: float = 1.0, doubled: str = ""
) -> Iterator[Window]:
    """Twenty functions of equal cost below a handler, in three pods for an hour."""
    for pod in range(3):
        for minute in range(60):
            busy = load * generator.normal(1, 0.05)
            counts = {f"step_{at}": generator.poisson(100 * busy) for at in range(FUNCTIONS)}
            if doubled:
                counts[doubled] = generator.poisson(200 * busy)
            lines = [
                f"main (app.py:1);handle (app.py:5);{name} (steps.py:1) {n}" for name, n in counts.items()
            ]
            yield window(
                " | ".join(lines),
                version=version,
                pod=f"shop-{version}-{pod}",
                at=at + minute * 60,
                seconds=60,
            )


def build(start_of_a: float, load: float) -> ObjectStore:
    generator = np.random.default_rng(5)
    a = service("1", generator, at=start_of_a)
    return stored([*a, *service("2", generator, at=0, load=load, doubled="step_7")])


@pytest.fixture(scope="module")
def sequential() -> ObjectStore:
    """Version 1 for an hour, then version 2 for an hour at half the load, with a doubled function."""
    return build(-HOUR, 0.5)


@pytest.fixture(scope="module")
def concurrent() -> ObjectStore:
    """Both versions in the same hour, version 2 at half the load, with a doubled function."""
    return build(0, 0.5)


def judge(store: ObjectStore, *texts: str, **options: Any) -> dict[str, Any]:
    found = said(store, conditions=tuple(map(parse_condition, texts)), **options)
    return {condition["condition"]: condition for condition in found["conditions"]}


SHARES = {
    "share:step_7>+1pp": "regressed",
    "share:step_7>+20%": "regressed",
    "share:step_7>+10pp": "pass",
    "share:step_[12]>+2pp": "pass",
    "share:step_7|step_8>+1pp": "regressed",
    "share:handle>+1pp": "pass",
    "share:absent>+1pp": "pass",
}


@pytest.mark.parametrize("basis", ["sequential", "concurrent", "equal_load", "per_request"])
def test_shares_are_judged_on_every_basis(basis: str, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue(basis if basis == "concurrent" else "sequential")
    options: dict[str, Any] = {"basis": Basis.EQUAL_LOAD} if basis == "equal_load" else {}
    if basis == "per_request":
        options["request_counts"] = (20_000.0, 10_000.0)
    conditions = judge(store, *SHARES, **options)
    assert {text: condition["state"] for text, condition in conditions.items()} == SHARES
    effect = conditions["share:step_7>+1pp"]["effect"]
    assert effect["baseline"] == pytest.approx(1 / 20, rel=0.05)
    assert effect["comparison"] == pytest.approx(2 / 21, rel=0.05)
    assert conditions["share:handle>+1pp"]["effect"]["comparison"] == 1
    both = conditions["share:step_7|step_8>+1pp"]["effect"]
    assert both["comparison"] == pytest.approx(3 / 21, rel=0.05)
    assert conditions["share:absent>+1pp"]["effect"] is None


def test_by_composition_functions_are_judged_and_time_is_not(sequential: ObjectStore) -> None:
    expected = {
        "function:step_7>+20%": "regressed",
        "self:step_7>+20%": "regressed",
        "function:step_7>+2pp": "regressed",
        "function:step_7>+20ms": "inconclusive",
        "cpu>+3%": "inconclusive",
        "rate<-3%": "inconclusive",
        "wall>+3%": "inconclusive",
        "depth.p95>+5": "pass",
    }
    conditions = judge(sequential, *expected)
    assert {text: condition["state"] for text, condition in conditions.items()} == expected
    for text in ("function:step_7>+20ms", "cpu>+3%", "rate<-3%"):
        summary = conditions[text]["summary"]
        assert "not judged. The sides ran at different times" in summary
        assert summary.endswith(COMPOSITION_REMEDY)
    assert conditions["function:step_7>+20%"]["summary"].startswith("share of step_7: +")


def test_concurrent_functions_are_judged_by_their_time(concurrent: ObjectStore) -> None:
    """At half the load, the doubled function takes as much time as before."""
    conditions = judge(concurrent, "function:step_7>+20%", "share:step_7>+20%", "cpu<-30%")
    assert conditions["function:step_7>+20%"]["state"] == "pass"
    assert conditions["share:step_7>+20%"]["state"] == "regressed"
    assert conditions["cpu<-30%"]["state"] == "regressed"


def test_a_minor_share_fails_only_a_smaller_threshold(sequential: ObjectStore) -> None:
    texts = ("share:step_7>+1pp", "share:step_7>+20%", "function:step_7>+20%", "share:step_7>+10pp")
    conditions = judge(sequential, *texts, min_relevant_share=0.2)
    assert [conditions[text]["effect"]["direction"] for text in texts] == ["minor"] * 4
    assert [conditions[text]["state"] for text in texts] == ["regressed", "regressed", "regressed", "pass"]
