"""Sides at different times are judged by how ranges before them differed."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from sidelight.collector.query.before import PARTS, Before, _parts, before
from sidelight.collector.query.cells import choose_apart, cut
from sidelight.collector.query.picking import ALL, Pick
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.sides import Wanted
from sidelight.collector.query.told import Verdict
from sidelight.collector.query.verdict import verdict
from sidelight.collector.store.objects import ObjectStore
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.window import Window
from sidelight.verdicts.conditions import parse
from tests.collector.comparison_data import functions, shop
from tests.collector.storing import START_NS, asked, question, stored
from tests.collector.test_query_blocks import compacted

CPU, WALL = ProfileType.CPU, ProfileType.WALL
MINUTE = 60
RANGE = 16 * MINUTE
"""The sides' length; the first window of the store is at 0."""


def running(
    ranges: int,
    *,
    taken: float = 12.0,
    differ: float = 0.01,
    last: float = 1.0,
    crowded: Collection[int] = (),
    risen: int | None = None,
    **how: Any,
) -> Iterator[Window]:
    """A service of three pods in so many ranges, whose load differs from range to range by so much; in the
    last it takes `last` times as much. In `crowded` ones it waits for a CPU half of the time. From the
    range `risen` on load is 40 % more."""
    luck = random.Random(repr((ranges, differ)))
    for number in range(ranges):
        load = luck.gauss(1, differ) * (last if number == ranges - 1 else 1.0)
        load *= 1.4 if risen is not None and number >= risen else 1.0
        busy = load * (2 if number in crowded else 1)
        made = shop("1", luck, pods=3, at=number * RANGE, minutes=16, busy=busy, **how)
        for one in made:
            ns = round(taken * load * luck.gauss(1, 0.005) * 1e9)
            yield replace(one, quality=replace(one.quality, target_cpu_ns=ns))


def judged(
    store: ObjectStore,
    *sides: tuple[str, int, int],
    kind: ProfileType = CPU,
    pick: Pick = ALL,
    **wanted: Any,
) -> Verdict:
    """The verdict on two sides: what is selected, from which second on and until which."""
    asks = [question(text, start=start, end=end) for text, start, end in sides]
    ask = Wanted(**wanted)
    found = asked(store, lambda reading: verdict(reading, asks, kind, pick=pick, wanted=ask, most=50_000))
    return found["verdict"]


def said(store: ObjectStore, ranges: int, kind: ProfileType = CPU, **how: Any) -> Verdict:
    """The verdict on the last range against the one before it."""
    return between(store, ("", ranges - 2), ("", ranges - 1), kind=kind, **how)


def between(store: ObjectStore, *sides: tuple[str, int], seconds: int = RANGE, **how: Any) -> Verdict:
    """The verdict on two ranges, so many `seconds` long."""
    return judged(store, *((text, at * seconds, (at + 1) * seconds) for text, at in sides), **how)


def of_hours(store: ObjectStore, *sides: tuple[int, int], **how: Any) -> Verdict:
    return judged(store, *(("", start * 3600, end * 3600) for start, end in sides), **how)


@pytest.fixture(scope="module")
def steady() -> ObjectStore:
    """A day's quarter whose ranges hardly differ, but for the last, which takes 15 % more."""
    return stored(running(24, last=1.15))


def test_a_change_between_ranges_that_never_differed_so_is_found(steady: ObjectStore) -> None:
    known, untold = said(steady, 24), said(steady, 24, most_ranges=0)
    assert (known["method"]["earlier"], untold["method"]["earlier"]) == (22, 0)
    assert (known["method"]["load"], untold["method"]["load"]) == ("foretold", "unknown")
    told, doubted = ({one["name"]: one for one in each["checks"]}["before"] for each in (known, untold))
    assert told["severity"] == "ok"
    assert told["text"].startswith("22 ranges before tell")
    assert (doubted["severity"], doubted["reason"]) == ("warn", "before_unknown")
    assert known["direction"] == "more"
    assert known["rate"]["relative"] == pytest.approx(0.15, abs=0.03)
    assert functions(known)["render"] == "more"


def test_ranges_before_in_which_processes_waited_for_a_cpu_are_left_out_of_what_samples_tell(
    steady: ObjectStore,
) -> None:
    found, calm = said(stored(running(24, last=1.15, crowded=(3, 4, 11))), 24), said(steady, 24)
    assert (found["method"]["earlier"], calm["method"]["earlier"]) == (19, 22)
    assert functions(found)["render"] == functions(calm)["render"] == "more"
    assert found["idle"]["detectable"] == pytest.approx(calm["idle"]["detectable"], rel=0.5)


def test_what_is_crowded_is_judged_by_the_ranges_that_are_used_alone() -> None:
    """In a side of twenty ranges processes waited, and in three of 19 before it: those are unusual."""
    at = np.arange(39)
    used, minutes = at >= 20, np.full(39, 60.0)
    known = Before(
        seconds=60.0,
        sides=(np.arange(-20.0, 0.0), np.zeros(1)),
        watched=minutes,
        sampled={CPU: np.where(at < 23, 24.0, 12.0) + at / 100},
        alive=minutes,
        clock=np.full(39, 12.0),
        waited={},
        used=used,
    )
    assert len(known.of(CPU).rates) == 16


def test_of_few_ranges_before_none_is_left_out() -> None:
    """Eight are needed: what is crowded among them is better than nothing."""
    found = said(stored(running(10, crowded=(3,))), 10)
    assert (found["method"]["earlier"], found["method"]["load"]) == (8, "foretold")
    assert said(stored(running(11, crowded=(3,))), 11)["method"]["earlier"] == 8


def test_where_nothing_is_known_of_before_no_change_is_told_however_large() -> None:
    found = said(stored(running(2, last=3.0, thread="main")), 2, conditions=(parse("cpu>+5%"),))
    rate = found["rate"]
    assert (found["direction"], rate["direction"]) == ("unclear", "unclear")
    assert rate["relative"] == pytest.approx(2, rel=0.1)
    assert rate["relative_low"] is rate["relative_high"] is rate["low"] is rate["high"] is None
    assert rate["detectable"] is None
    assert set(functions(found).values()) == {"unclear"}
    assert found["idle"]["direction"] == found["roles"][0]["idle"]["direction"] == "unclear"
    assert found["explanation"]["paths"] == []
    assert [one["state"] for one in found["conditions"]] == ["unclear"]
    assert found["more"] is None
    assert found["sentence"].endswith(
        "they ran at different times, and nothing tells yet how far load alone makes such times differ."
    )
    assert found["depth"]["mean"]["low"] is not None, "depth has a course of its own"


def test_who_says_that_load_was_alike_is_told_what_changed() -> None:
    store = stored(running(2, differ=0.0, last=1.15))
    found = said(store, 2, load_alike=True)
    assert (found["direction"], found["method"]["load"], found["method"]["earlier"]) == ("more", "alike", 0)
    assert found["rate"]["relative_low"] < 0.15 < found["rate"]["relative_high"]
    assert functions(found)["render"] == "more"
    checks = {one["name"]: one for one in found["checks"]}
    assert (checks["before"]["severity"], checks["time"]["severity"]) == ("ok", "ok")


def test_what_came_before_is_not_read_where_load_is_said_to_be_alike(
    steady: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sidelight.collector.query.verdict.before", lambda *_, **__: pytest.fail("it is read")
    )
    assert said(steady, 24, load_alike=True)["direction"] == "more"


def test_a_version_that_has_not_run_for_long_has_the_past_of_those_before_it() -> None:
    """Versions of four ranges each, of which the last two are compared."""
    windows = list(running(24, last=1.15))
    first = min(one.start_ns for one in windows)

    def version(of: Window) -> Window:
        name = str((of.start_ns - first) // 10**9 // RANGE // 4)
        return replace(of, labels=type(of.labels)({**of.labels, "version": name}))

    store = stored(map(version, windows))
    found = between(store, ('version="4"', 19), ('version="5"', 23))
    assert found["method"]["earlier"] == 19
    assert found["direction"] == "more"


def versioned(windows: Iterable[Window], second: float) -> Iterator[Window]:
    """The same of version 1, and from so many seconds on of version 2."""
    for one in windows:
        version = "1" if one.start_ns < START_NS + second * SECOND_NS else "2"
        yield replace(one, labels=type(one.labels)({**one.labels, "version": version}))


@cache
def of_versions(ranges: int, **how: Any) -> ObjectStore:
    """A service of which the last range is of another version than all before."""
    return stored(versioned(running(ranges, **how), (ranges - 1) * RANGE))


def test_ranges_between_two_versions_are_the_earlier_ones_and_tell_as_well() -> None:
    store = of_versions(28, last=1.15)
    # 17 before the first side, and nine between both
    found = between(store, ('version="1"', 17), ('version="2"', 27))
    of_one = between(store, ("", 17), ("", 27))
    assert (found["method"]["earlier"], of_one["method"]["earlier"]) == (26, 17)
    assert found["direction"] == of_one["direction"] == "more"
    assert found["rate"]["detectable"] < of_one["rate"]["detectable"]
    turned = between(store, ('version="2"', 27), ('version="1"', 17))
    assert turned["method"]["earlier"] == 26
    assert turned["direction"] == "less"
    assert turned["method"]["expected"] == pytest.approx(1 / found["method"]["expected"])


def test_what_load_did_while_the_earlier_version_ran_is_no_change_of_the_later_one() -> None:
    """It rose by 40 % after the first side, in version 1 still: of all versions that is a change."""
    store = of_versions(32, risen=22)
    found = between(store, ('version="1"', 17), ('version="2"', 31))
    of_one = between(store, ("", 17), ("", 31))
    assert found["method"]["expected"] == pytest.approx(1.4, rel=0.1)
    assert found["direction"] in ("same", "unclear")
    assert of_one["method"]["expected"] == pytest.approx(1, abs=0.05)
    assert of_one["direction"] == "more"


@pytest.mark.parametrize(("most", "earlier"), [(21, 20), (20, 17)])
def test_ranges_between_are_read_where_as_much_before_both_still_is(most: int, earlier: int) -> None:
    """Of sides that lie ten ranges apart 21 are read: ten before both, and A is one of them."""
    sides = ('version="1"', 17), ('version="2"', 27)
    assert between(of_versions(28), *sides, most_ranges=most)["method"]["earlier"] == earlier


@pytest.mark.parametrize("other", ['version!="1"', 'version=~"2|3"', ""])
def test_only_versions_that_are_named_are_known_to_be_others(other: str) -> None:
    found = between(of_versions(28), ('version="1"', 17), (other, 27))
    assert found["method"]["earlier"] == 17


def test_hours_of_different_weeks_are_known_by_hours_that_reach_as_far_back() -> None:
    weeks, day = 21, 24
    luck = random.Random(6)
    windows = [
        one
        for hour in range(weeks * day + 1)
        for one in shop("1", luck, pods=2, at=hour * 3600, minutes=3, step=1770, busy=luck.gauss(1, 0.02))
    ]
    last = weeks * day
    found = of_hours(stored(windows), (last - 7 * day, last - 7 * day + 1), (last, last + 1))
    # of the 336 hours before, one of five
    assert (found["method"]["earlier"], found["method"]["load"]) == (68, "foretold")
    assert found["direction"] in ("same", "unclear")
    store = stored(versioned(windows, last * 3600))
    found = between(store, ('version="1"', last - 7 * day), ('version="2"', last), seconds=3600)
    # of the 360 hours before the later one, one of five, 39 of them before both
    assert (found["method"]["earlier"], found["method"]["load"]) == (72, "foretold")
    assert found["direction"] in ("same", "unclear")


def test_the_same_change_where_ranges_differ_as_much_is_not_although_within_them_nothing_shows_it() -> None:
    store = stored(running(24, differ=0.15, last=1.15))
    known, alike = said(store, 24), said(store, 24, load_alike=True)
    assert known["method"]["earlier"] == 22
    assert known["direction"] == "unclear"
    assert alike["direction"] in ("more", "less")


def test_samples_and_other_types_know_their_own_past(steady: ObjectStore) -> None:
    conditions = tuple(parse(text) for text in ("wall>+3%", "cpu>+3%"))
    found = said(steady, 24, WALL, conditions=conditions)
    assert found["method"]["earlier"] == 22
    assert [one["state"] for one in found["conditions"]] == ["fine", "regressed"]


def test_of_requests_that_were_given_no_past_is_read(
    steady: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sidelight.collector.query.verdict.before", lambda *_, **__: pytest.fail("it is read")
    )
    assert said(steady, 24, requests=(1000.0, 1000.0))["method"]["earlier"] == 0


@pytest.mark.parametrize(("ranges", "earlier"), [(9, 0), (10, 8)])
def test_too_few_ranges_before_say_nothing(ranges: int, earlier: int) -> None:
    assert said(stored(running(ranges)), ranges)["method"]["earlier"] == earlier


def test_only_as_many_ranges_are_looked_at_as_may_be(steady: ObjectStore) -> None:
    assert said(steady, 24, most_ranges=12)["method"]["earlier"] == 12
    assert said(steady, 24, most_ranges=7)["method"]["earlier"] == 0


def test_sides_of_the_same_time_have_no_past() -> None:
    windows = list(running(12))
    other = [replace(one, labels=type(one.labels)({**one.labels, "version": "2"})) for one in windows]
    store = stored(windows, [replace(one, id=f"x{one.id[1:]}") for one in other])
    start, end = 11 * RANGE, 12 * RANGE
    sides = [question(f'{{version="{name}"}}', start=start, end=end) for name in "12"]
    found = asked(store, lambda reading: verdict(reading, sides, CPU, pick=ALL, wanted=Wanted(), most=50_000))
    assert found["verdict"]["method"]["paired"] == "time"
    assert found["verdict"]["method"]["earlier"] == 0


def test_whole_hours_are_read_where_windows_were_added_up() -> None:
    """Ranges of an hour have hours for their past, also where windows are not kept one by one any longer."""
    luck = random.Random(5)
    hours = 12
    windows = [
        one
        for hour in range(hours)
        for one in shop("1", luck, pods=2, at=1800 + hour * 3600, minutes=60, busy=luck.gauss(1, 0.02))
    ]
    store = stored(windows)
    sides = [
        question('{service="shop"}', start=1800 + at * 3600, end=1800 + (at + 1) * 3600)
        for at in (hours - 2, hours - 1)
    ]

    def found(of: ObjectStore) -> Verdict:
        ask = asked(of, lambda reading: verdict(reading, sides, CPU, pick=ALL, wanted=Wanted(), most=50_000))
        return ask["verdict"]

    one_by_one, by_hour = found(store), found(compacted(store))
    assert one_by_one["method"]["earlier"] == by_hour["method"]["earlier"] == hours - 2
    assert by_hour["rate"]["detectable"] == pytest.approx(one_by_one["rate"]["detectable"], rel=1e-6)


def days(hours: int, *, last: float = 1.0) -> Iterator[Window]:
    """A service of three pods whose load follows the day, by hours; in the last it takes `last` times as
    much."""
    luck = random.Random(8)
    for hour in range(hours):
        load = math.exp(0.4 * math.sin(2 * math.pi * hour / 24)) * luck.gauss(1, 0.01)
        load *= last if hour == hours - 1 else 1.0
        for one in shop("1", luck, pods=3, at=hour * 3600, minutes=11, step=354, busy=load):
            ns = round(15.0 * load * luck.gauss(1, 0.005) * 1e9)
            yield replace(one, quality=replace(one.quality, target_cpu_ns=ns))


@cache
def by_day(hours: int, *, last: float = 1.0) -> ObjectStore:
    return stored(days(hours, last=last))


@pytest.mark.parametrize(
    ("kind", "last", "way"),
    [(CPU, 1.0, ("same", "unclear")), (CPU, 1.6, ("more",)), (WALL, 1.0, ("same", "unclear"))],
)
def test_an_hour_that_the_day_makes_busier_is_judged_by_what_is_beyond_that(
    kind: ProfileType, last: float, way: tuple[str, ...]
) -> None:
    """The fourth hour of the third day against the first of it."""
    store = by_day(52, last=last)
    found = of_hours(store, (48, 49), (51, 52), kind=kind)
    method, rate = found["method"], found["rate"]
    assert method["earlier"] == 48
    if kind is WALL:
        # threads wait all the time, so that their time hardly follows the day
        assert method["expected"] == method["expected_sampled"] == pytest.approx(1, abs=0.2)
        return
    rises = math.exp(0.4 * math.sin(math.pi / 4))
    assert (method["measured"], method["expected"]) == ("clock", pytest.approx(rises, rel=0.04))
    assert method["expected_sampled"] == pytest.approx(rises, rel=0.06)
    assert found["direction"] in way
    assert rate["relative"] == pytest.approx(last - 1, abs=0.06)
    assert rate["relative_low"] < last - 1 < rate["relative_high"]
    assert rate["delta"] == pytest.approx(rate["b"] - rate["a"])
    assert rate["a"] / method["expected"] == pytest.approx(15 / 60, rel=0.04), "what A took"
    assert "more by itself" in found["sentence"]
    words = set(found["functions"]["self"]["direction"])
    assert ("more" in words) is (last > 1)
    assert not words & {"less", "gone"}
    paths = found["explanation"]["paths"]
    whole = sum(path["delta"] for path in paths)
    assert whole == pytest.approx((found["sampled"]["delta"] if last > 1 else 0), rel=0.25, abs=1e-9)


def test_how_long_threads_wait_is_known_from_before_as_well() -> None:
    """Ranges whose load differs have threads that wait longer in the one than in the other: no change."""
    wild = stored(running(24, differ=0.15, last=1.3, thread="main"))
    known, alike = said(wild, 24), said(wild, 24, load_alike=True)
    assert alike["idle"]["direction"] == "less"
    assert known["idle"]["direction"] in ("same", "unclear")
    assert (known["idle"]["a"], known["idle"]["b"]) == (alike["idle"]["a"], alike["idle"]["b"])
    (main,) = known["roles"]
    assert (main["thread"], main["idle"]["direction"]) == ("main", known["idle"]["direction"])
    steady = said(stored(running(24, last=1.3, thread="main")), 24)
    assert steady["idle"]["direction"] == steady["roles"][0]["idle"]["direction"] == "less"


def test_of_what_cannot_tell_waiting_nothing_is_known_before() -> None:
    blind = [replace(one, quality=replace(one.quality, missing_states=("idle",))) for one in running(24)]
    assert said(stored(blind), 24)["idle"] is None


@pytest.mark.parametrize(
    ("long", "parts"), [(900, [0.5]), (2000, [0.5, 11 / 18 + 1]), (900 * 24, list(np.arange(24) + 0.5))]
)
def test_a_longer_side_is_so_many_ranges_as_long_as_the_other(long: int, parts: list[float]) -> None:
    assert _parts(450, long, 900) == pytest.approx(parts, abs=0.2)


def test_of_a_much_longer_side_no_more_ranges_are_looked_at_than_may_be() -> None:
    found = _parts(0, 900 * 1000, 900)
    assert len(found) == PARTS
    assert (found[0], found[-1]) == (0, 999)


def test_a_part_of_the_stacks_is_judged_as_it_is_among_all(steady: ObjectStore) -> None:
    """What came before is known of all stacks: what one function takes is as sure alone as in the list."""
    listed = said(steady, 24)["functions"]
    at = listed["function"].index("render")
    among = {name: column[at] for name, column in listed["total"].items()}
    alone = said(steady, 24, pick=Pick(function="render"))
    assert alone["method"]["earlier"] == 22
    assert alone["method"]["measured"] == "samples"
    assert alone["rate"]["delta"] == pytest.approx(among["delta"])
    assert alone["direction"] == among["direction"] == "more"
    # alone its interval has the room of what is tested for itself, and no other functions to learn from
    assert alone["rate"]["high"] == pytest.approx(among["high"], rel=0.2)
    untold = said(steady, 24, most_ranges=0, pick=Pick(function="render"))
    assert (untold["rate"]["direction"], untold["rate"]["low"]) == ("unclear", None)


def test_sides_the_other_way_round_are_expected_to_differ_the_other_way() -> None:
    store = by_day(52)
    rise, fall = (of_hours(store, *sides) for sides in (((48, 49), (51, 52)), ((51, 52), (48, 49))))
    assert fall["method"]["expected"] == pytest.approx(1 / rise["method"]["expected"])
    assert "less by itself" in fall["sentence"]


def test_a_day_against_an_hour_is_judged_as_a_day_and_an_hour() -> None:
    """An hour at the top of the day lies above the mean of the day before by what the day swings."""
    store = by_day(55)
    found = of_hours(store, (24, 48), (54, 55))
    assert found["method"]["earlier"] == 24
    assert found["method"]["expected"] == pytest.approx(math.exp(0.4), rel=0.08)
    assert found["direction"] in ("same", "unclear")
    assert abs(found["rate"]["relative"]) < 0.1


def test_windows_are_read_one_by_one_no_farther_back_than_that_is_bounded() -> None:
    store = compacted(stored(running(24)))
    ends = [(at * RANGE, (at + 1) * RANGE) for at in (22, 23)]
    sides = [question(start=start, end=end) for start, end in ends]

    def ranges(reading: Reading, most_rows: int) -> int:
        cuts = cut(sides, choose_apart(reading, sides, 10**9))
        found = before(reading, sides, cuts, most=22, most_rows=most_rows)
        return len(found.watched) if found else 0

    def rows(reading: Reading, back: int) -> int:
        start = sides[0].from_ns
        return sum(ref.rows for ref in reading.segments(start - back * RANGE * 10**9, start))

    every, half = (asked(store, lambda reading, back=back: rows(reading, back)) for back in (22, 11))
    assert every >= half > 0
    assert asked(store, lambda reading: ranges(reading, every)) == 22
    assert asked(store, lambda reading: ranges(reading, half - 1)) == 0
