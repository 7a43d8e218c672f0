"""CPU time is taken from the kernel's clock of the processes, where that is of what was sampled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sidelight.collector.query.picking import ALL, Pick
from sidelight.collector.query.sides import Wanted
from sidelight.collector.query.told import Verdict
from sidelight.collector.query.verdict import verdict
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.window import Window
from sidelight.verdicts.conditions import parse
from tests.collector.storing import asked, question, stored
from tests.collector.test_query_blocks import compacted
from tests.collector.test_verdict import WELL, check, functions, shop

CPU, WALL = ProfileType.CPU, ProfileType.WALL
TAKEN = 12.0
"""CPU seconds of a minute of a pod; `shop` samples 14 of them, as its threads wait for a CPU meanwhile."""


def clocked(version: str, taken: float = TAKEN, **how: Any) -> Iterator[Window]:
    """Pods whose clock says that they took so much a minute, give or take half a per cent."""
    luck = random.Random(f"{version} {taken}")
    for one in shop(version, luck, **how):
        ns = round(taken * luck.gauss(1, 0.005) * 1e9)
        yield replace(one, quality=replace(one.quality, target_cpu_ns=ns))


def two(taken: float = TAKEN, **second: Any) -> ObjectStore:
    return stored([*clocked("1"), *clocked("2", taken, **second)])


def said(
    store: ObjectStore, kind: ProfileType = CPU, pick: Pick = ALL, more: str = "", **wanted: Any
) -> Verdict:
    sides = [question(f'{{version="{one}"{more}}}') for one in ("1", "2")]
    return asked(
        store,
        lambda reading: verdict(reading, sides, kind, pick=pick, wanted=Wanted(**wanted), most=50_000),
    )["verdict"]


def test_threads_that_wait_for_a_cpu_take_none_of_it() -> None:
    found = said(two(busy=1.4))
    assert found["method"]["measured"] == "clock"
    assert found["rate"]["a"] == pytest.approx(TAKEN / 60, rel=0.01)
    assert (found["direction"], found["sampled"]["direction"]) == ("same", "more")
    assert found["sentence"].startswith("No detectable change in CPU time")
    assert check(found, "contention") == ("differs", "warn", "contention_differs")
    assert found["explanation"]["share"] is None


def test_a_change_by_the_clock_is_found_where_samples_are_too_few_and_explained_by_them() -> None:
    found = said(two(1.03 * TAKEN, render=1.3))
    assert found["direction"] == "more"
    assert found["rate"]["relative_low"] < 0.03 < found["rate"]["relative_high"]  # type: ignore[operator]
    assert check(found, "contention")[0] == "alike"
    assert functions(found)["render"] == "more"
    assert [path["names"][-1].split()[0] for path in found["explanation"]["paths"]] == ["render"]
    assert found["explanation"]["share"] == pytest.approx(1, abs=0.3)  # of what was sampled


def test_what_is_only_a_part_of_the_process_is_taken_from_samples() -> None:
    main = [one for version in "12" for one in clocked(version, thread="main")]
    other = [one for version in "12" for one in clocked(version, thread="other")]
    store = stored(main, [replace(one, quality=replace(one.quality, target_cpu_ns=0)) for one in other])
    assert said(store)["method"]["measured"] == "clock"
    assert said(store, more=', thread=~".*"')["method"]["measured"] == "clock"
    for part in (
        said(store, more=', thread="main"'),
        said(store, more=', thread="other"'),
        said(store, pick=Pick(function="render")),
        said(store, WALL),
    ):
        assert part["method"]["measured"] == "samples"
        assert part["rate"] == part["sampled"]
    assert check(said(store, more=', thread="main"'), "contention")[0] == "unknown"


def test_without_a_clock_of_every_pod_there_is_none() -> None:
    silent = [
        replace(one, quality=replace(one.quality, target_cpu_ns=0))
        if one.labels["pod"] == "shop-2-3"
        else one
        for one in clocked("2")
    ]
    found = said(stored([*clocked("1"), *silent]))
    assert found["method"]["measured"] == "samples"
    assert found["rate"] == found["sampled"]
    assert check(found, "contention") == ("unknown", "ok", "contention_unknown")


def test_the_clock_goes_on_while_ticks_fail() -> None:
    half = replace(WELL, errors={"read": 3000})
    found = said(two(quality=half))
    assert found["rate"]["b"] == pytest.approx(found["rate"]["a"], rel=0.01)
    assert found["sampled"]["b"] == pytest.approx(2 * found["sampled"]["a"], rel=0.05)


def test_a_request_has_its_part_of_the_clock() -> None:
    found = said(two(2 * TAKEN), requests=(1e6, 2e6))
    assert (found["method"]["measured"], found["method"]["unit"]) == ("clock", "request")
    assert found["direction"] == "same"
    assert found["rate"]["a"] == pytest.approx(6 * 32 * TAKEN / 1e6, rel=0.01)


def test_a_condition_on_cpu_time_is_by_the_clock_whatever_type_is_asked_for() -> None:
    store, conditions = two(busy=1.4), (parse("cpu>+3%"), parse("function:render>+10%"))
    for kind in (CPU, WALL):
        told = said(store, kind, conditions=conditions)["conditions"]
        assert [one["state"] for one in told] == ["fine", "regressed"]


def test_compaction_keeps_the_clock() -> None:
    store = two(1.1 * TAKEN)
    before, after = said(store), said(compacted(store))
    assert after["rate"]["delta"] == pytest.approx(before["rate"]["delta"])
    assert after["method"] == before["method"]
