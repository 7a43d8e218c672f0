"""Functions of a service tell of each other how they scatter, so that few pods are enough to find one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sidelight.collector.query.told import Verdict
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.window import Window
from sidelight.verdicts.conditions import parse
from tests.collector.storing import stored, window
from tests.collector.test_verdict import WELL, drawn, functions, said

MANY, FEW = 40, 4


def service(version: str, count: int, grown: float = 1.0, pods: int = 3) -> Iterator[Window]:
    """A service of so many functions, each of which differs from pod to pod by a way of its own; one grew."""
    for pod in range(pods):
        ways = [random.Random(f"{version} {pod} {at}").gauss(1, 0.05) for at in range(count)]
        ways[0] *= grown
        luck = random.Random(f"{version} {pod}")
        for minute in range(24):
            taken = [max(round(luck.gauss(50 * way, 7)), 0) for way in ways]
            parts = [f"main (a.py:1);f{at} (f.py:{9 * at}) {samples}" for at, samples in enumerate(taken)]
            text = " | ".join([*parts, f"main (a.py:1);poll (p.py:1);[idle] {6000 - sum(taken)}"])
            pod_name = f"shop-{version}-{pod}"
            yield window(text, version=version, pod=pod_name, at=60 * minute, seconds=60, quality=WELL)


def two(count: int, grown: float) -> ObjectStore:
    return stored([*service("1", count), *service("2", count, grown)])


def changed(found: Verdict) -> set[str]:
    return {name for name, way in functions(found).items() if way in ("more", "less")}


def test_a_function_among_many_is_found_with_three_pods_a_side() -> None:
    assert changed(said(two(FEW, 1.3))) == set()
    store = two(MANY, 1.3)
    assert changed(said(store)) == {"f0"}
    tree = drawn(store)
    marked = [tree["names"][name] for name, of in zip(tree["name"], tree["changed"], strict=True) if of]
    assert marked == ["f0 (f.py)"]


def test_many_that_did_not_change_are_not_found() -> None:
    assert changed(said(two(MANY, 1.0))) == set()


@pytest.mark.parametrize("subject", ["function", "self"])
def test_a_condition_knows_of_a_function_what_the_table_does(subject: str) -> None:
    found = said(two(MANY, 1.3), conditions=(parse(f"{subject}:f0>+5%"),))
    told = found["conditions"][0]
    assert told["state"] == "regressed"
    of = found["functions"]
    column = of["self" if subject == "self" else "total"]
    at = of["function"].index("f0")
    assert told["effect"] is not None
    for name in ("delta", "low", "high", "relative_low", "relative_high"):
        assert told["effect"][name] == pytest.approx(column[name][at])  # type: ignore[literal-required]
