"""A comparison without times or versions gets those that tell most, and says which and why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.auth.authorizer import Authorizer
from sidelight_collector.auth.read_rules import ReadPolicy, ReadRule
from sidelight_collector.comparison.sides.range_choice import (
    MAX_SPAN_NS,
    MINUTE_NS,
    TimeSpan,
    find_range_options,
)
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.observed_time import intersect_intervals, merge_pauses
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import format_rfc3339
from sidelight_model.window import Window
from tests.collector.api_client import NOW_NS, Client, get, refused, serving
from tests.collector.stored_windows import SECOND_NS, START_NS, copied, stored, window
from tests.collector.test_query_blocks import compacted

HOUR, DAY = 60, 1440
"""Minutes. The collector's clock stands at 2026-11-21 10:30 UTC."""
SHOP = {"query": '{service="shop"}'}
VERSIONS = {"baseline": 'version="1"', "comparison": 'version="2"'}


def runs(version: str, start: float, end: float, *, step: float = 1, **labels: str) -> Iterator[Window]:
    """Windows of a version from `start` to `end` (minutes from now), each `step` minutes long."""
    for at in np.arange(start, end, step):
        yield window(
            "main;work 3",
            version=version,
            at=float(at + HOUR) * 60,
            seconds=step * 60,
            period_ns=10**9,
            **labels,
        )


def times(answer: Any) -> list[tuple[str, str]]:
    """From when until when each side is compared, without the date of today."""
    return [(show(side["from"]), show(side["until"])) for side in answer["sides"]]


def show(seconds: float) -> str:
    return format_rfc3339(round(seconds * SECOND_NS)).removeprefix("2026-11-21T").removesuffix(":00Z")


def both(start: str, end: str) -> list[tuple[str, str]]:
    return [(start, end)] * 2


@pytest.fixture(params=["segments", "blocks"])
def keep(request: pytest.FixtureRequest) -> Any:
    """Stores windows as sidecars sent them, or compacted with hourly rows."""

    def store(*segments: Iterator[Window]) -> ObjectStore:
        written = stored(*segments)
        return compacted(written) if request.param == "blocks" else written

    return store


async def ask(store: ObjectStore, path: str = "compare", **given: str) -> Any:
    async with serving(store) as client:
        return await get(client, path, **{**SHOP, **given})


async def test_a_rolling_deploy_is_compared_while_both_versions_ran(keep: Any) -> None:
    answer = await ask(keep(runs("1", -5 * HOUR, -HOUR), runs("2", -90, 0)), **VERSIONS)
    assert times(answer) == both("09:00", "09:30")
    assert answer["ranges"] == {
        "reason": "overlap",
        "text": "Both sides ran 2026-11-21 09:00–09:30 UTC.",  # noqa: RUF001
        "alternatives": [
            {
                "label": "1 h before and after the rollout",
                "parameters": {
                    "baseline_from": "2026-11-21T08:00:00Z",
                    "baseline_until": "2026-11-21T09:00:00Z",
                    "comparison_from": "2026-11-21T09:30:00Z",
                    "comparison_until": "2026-11-21T10:30:00Z",
                },
            },
            {
                "label": "Whole time of each side",
                "parameters": {
                    "baseline_from": "2026-11-21T05:30:00Z",
                    "baseline_until": "2026-11-21T09:30:00Z",
                    "comparison_from": "2026-11-21T09:00:00Z",
                    "comparison_until": "2026-11-21T10:30:00Z",
                },
            },
        ],
    }


async def test_a_canary_is_compared_with_the_stable_version_beside_it(keep: Any) -> None:
    store = keep(runs("1", -10 * HOUR, 0, pod="a"), runs("2", -HOUR, 0, pod="b"))
    answer = await ask(store, "verdict")
    assert times(answer) == both("09:30", "10:30")
    assert answer["ranges"]["text"] == (
        'Version "2" is compared with the one before it, "1": both sides ran 2026-11-21 09:30–10:30 UTC.'  # noqa: RUF001
    )
    [whole] = answer["ranges"]["alternatives"]
    assert whole["parameters"] | {"type": "wall"} == {
        "baseline": '{version="1"}',
        "baseline_from": "2026-11-21T00:30:00Z",
        "baseline_until": "2026-11-21T10:30:00Z",
        "comparison": '{version="2"}',
        "comparison_from": "2026-11-21T09:30:00Z",
        "comparison_until": "2026-11-21T10:30:00Z",
        "type": "wall",
    }


async def test_sides_that_ran_together_for_days_are_compared_over_the_last_day(keep: Any) -> None:
    answer = await ask(keep(runs("1", -3 * DAY, 0, step=30), runs("2", -2 * DAY, 0, step=30)), **VERSIONS)
    assert times(answer) == both("2026-11-20T10:30", "10:30")
    assert answer["ranges"]["text"].endswith(" UTC, of which the last 24 h are compared.")


async def test_versions_back_to_back_are_compared_over_equal_spans_around_the_rollout(keep: Any) -> None:
    answer = await ask(keep(runs("1", -5 * HOUR, -2 * HOUR), runs("2", -2 * HOUR, 0)), **VERSIONS)
    assert times(answer) == [("06:30", "08:30"), ("08:30", "10:30")]
    assert answer["ranges"]["reason"] == "rollout"
    assert answer["ranges"]["text"] == (
        "The comparison replaced the baseline at 2026-11-21 08:30 UTC, and the 2 h before and after are "
        "compared."
    )
    assert [one["label"] for one in answer["ranges"]["alternatives"]] == ["Whole time of each side"]


async def test_versions_with_a_gap_are_compared_before_and_after_it(keep: Any) -> None:
    answer = await ask(keep(runs("1", -8 * HOUR, -3 * HOUR), runs("2", -80, 0)), **VERSIONS)
    assert times(answer) == [("06:10", "07:30"), ("09:10", "10:30")]
    assert answer["ranges"]["text"] == (
        "The 1 h 20 min of the baseline until 2026-11-21 07:30 UTC and of the comparison from 2026-11-21 "
        "09:10 UTC are compared."
    )


async def test_the_minutes_in_which_a_quick_rollout_mixes_versions_are_left_out(keep: Any) -> None:
    answer = await ask(keep(runs("1", -6 * HOUR, -3 * HOUR), runs("2", -185, 0)), **VERSIONS)
    assert times(answer) == [("04:30", "07:25"), ("07:30", "10:25")]
    assert answer["ranges"]["reason"] == "rollout"


async def test_a_tenth_of_the_shorter_time_together_suffices(keep: Any) -> None:
    answer = await ask(keep(runs("1", -HOUR, -20), runs("2", -24, 0)), **VERSIONS)
    assert times(answer) == both("10:06", "10:10")
    assert (await ask(keep(runs("1", -HOUR, -20), runs("2", -21, 0)), **VERSIONS))["ranges"][
        "reason"
    ] == "rollout"


async def test_a_previous_version_of_three_days_ago_is_found_and_compared_by_its_latest_time(
    keep: Any,
) -> None:
    answer = await ask(keep(runs("1", -4 * DAY, -3 * DAY, step=30), runs("2", -90, 0)))
    assert times(answer) == [("2026-11-18T09:00", "2026-11-18T10:30"), ("09:00", "10:30")]
    assert answer["ranges"]["reason"] == "latest"
    assert answer["ranges"]["text"] == (
        'Version "2" is compared with the one before it, "1": the sides did not run together, so the latest '
        "1 h 30 min of each, until 2026-11-18 10:30 and 2026-11-21 10:30 UTC, are compared."
    )


async def test_sides_in_the_other_order_are_compared_by_their_latest_equal_times(keep: Any) -> None:
    store = keep(runs("1", -5 * HOUR, -2 * HOUR), runs("2", -2 * HOUR, 0))
    answer = await ask(store, baseline='version="2"', comparison='version="1"')
    assert times(answer) == [("08:30", "10:30"), ("06:30", "08:30")]
    assert answer["ranges"]["reason"] == "latest"


async def test_a_version_rolled_back_is_compared_with_the_time_before_it(keep: Any) -> None:
    store = keep(runs("1", -9 * HOUR, -5 * HOUR), runs("2", -5 * HOUR, -4 * HOUR), runs("1", -4 * HOUR, 0))
    answer = await ask(store)
    assert times(answer) == [("04:30", "05:30"), ("05:30", "06:30")]
    assert answer["ranges"]["reason"] == "rollout"


async def test_jobs_that_pause_are_compared_over_their_runs_around_the_rollout(keep: Any) -> None:
    jobs = (
        runs(version, hour * HOUR, hour * HOUR + 5)
        for hour, version in [*[(h, "1") for h in (-9, -7, -5)], *[(h, "2") for h in (-3, -1)]]
    )
    answer = await ask(keep(*jobs), **VERSIONS)
    assert times(answer) == [("03:30", "05:35"), ("07:30", "09:35")]


async def test_one_version_is_refused_with_what_to_give(keep: Any) -> None:
    async with serving(keep(runs("1", -HOUR, 0))) as client:
        for given in ({}, {"comparison": 'version="1"'}):
            status, body = await refused(client, "verdict", **SHOP, **given)
            assert (status, body["error"]) == (400, "no_previous_version")
            assert body["message"] == (
                'no version ran before "1" in {service="shop"} 2026-11-14 11:00 – '  # noqa: RUF001
                "2026-11-21 10:30 UTC"
            )
            assert "baseline_from" in body["hint"]


async def test_windows_without_a_version_need_sides_and_can_be_the_version_before() -> None:
    async with serving(stored(runs("", -HOUR, 0))) as client:
        status, body = await refused(client, "verdict", **SHOP)
        assert (status, body["error"]) == (400, "no_version_label")
        assert "have no label version" in body["message"]
    answer = await ask(stored(runs("", -3 * HOUR, -HOUR), runs("2", -HOUR, 0)))
    assert answer["ranges"]["text"].startswith(
        'Version "2" is compared with the one before it, (no version): the comparison replaced'
    )
    assert answer["sides"][0]["selector"] == '{service="shop", version=""}'


async def test_without_windows_the_last_hour_is_compared_and_the_answer_says_so() -> None:
    answer = await ask(MemoryStore())
    assert times(answer) == both("09:30", "10:30")
    assert answer["ranges"] == {
        "reason": "latest",
        "text": 'There are no windows of {service="shop"} since 2026-11-14 11:00 UTC, so both sides are the '
        "last 1 h, 2026-11-21 09:30–10:30 UTC.",  # noqa: RUF001
        "alternatives": [],
    }
    answer = await ask(stored(runs("1", -HOUR, 0)), **VERSIONS)
    assert (answer["sides"][0]["windows"], answer["sides"][1]["windows"]) == (60, 0)
    assert 'no windows of {service="shop", version="2"} since' in answer["ranges"]["text"]


async def test_a_version_is_compared_with_the_one_before_it_and_not_with_a_later_one(keep: Any) -> None:
    store = keep(*(runs(str(n), -HOUR * (5 - n), -HOUR * (4 - n)) for n in range(1, 5)))
    for sides, baseline, comparison in (
        ({}, 'version="3"', 'version="4"'),
        ({"comparison": 'version="3"'}, 'version="2"', 'version="3"'),
        ({"comparison": 'version=~"1|2"'}, 'version="1"', 'version=~"1|2"'),
        ({"baseline": 'version="1"'}, 'version="1"', 'version="4"'),
        ({"baseline": " ", "comparison": ""}, 'version="3"', 'version="4"'),
    ):
        answer = await ask(store, **sides)
        selectors = [side["selector"] for side in answer["sides"]]
        assert selectors == [f'{{service="shop", {side}}}' for side in (baseline, comparison)]
    async with serving(store) as client:
        _, body = await refused(client, "compare", **SHOP, baseline='version="4"')
    assert body["message"] == 'comparison is not given, and the baseline is the newest version, "4"'


async def test_services_that_differ_in_their_versions_need_a_query_for_one() -> None:
    store = stored(
        runs("1", -90, 0), runs("2", -HOUR, 0), runs("7", -HOUR, 0, service="cart", namespace="prod")
    )
    async with serving(store) as client:
        _, body = await refused(client, "compare")
        assert body["message"].endswith('differ in their versions: shop ("2"), cart in prod ("7")')
        assert (await get(client, "compare", comparison='version="2"'))["ranges"]["reason"] == "overlap"
        assert (await get(client, "compare", query='service="shop"'))["ranges"]["reason"] == "overlap"


async def test_times_of_the_request_are_compared_as_they_are(keep: Any) -> None:
    store = keep(runs("1", -5 * HOUR, -HOUR), runs("2", -90, 0))
    cut = await ask(store, **VERSIONS, **{"from": "-3h"})
    assert cut["ranges"]["alternatives"] == [], "only the time in which both ran is compared already"
    counted = await ask(
        store, **VERSIONS, **{"from": "-3h"}, baseline_requests="10", comparison_requests="20"
    )
    assert counted["verdict"]["basis"] == "per_request"
    assert counted["ranges"]["alternatives"] == [], "the counts given are of these times"
    answer = await ask(store, **VERSIONS, **{"from": "-3h"}, basis="composition")
    assert times(answer) == both("07:30", "10:30")
    assert answer["ranges"] == {
        "reason": "given",
        "text": "The request gives 2026-11-21 07:30–10:30 UTC for both sides.",  # noqa: RUF001
        "alternatives": [
            {
                "label": "09:00–09:30, while both ran",  # noqa: RUF001
                "parameters": {
                    "baseline_from": "2026-11-21T09:00:00Z",
                    "baseline_until": "2026-11-21T09:30:00Z",
                    "comparison_from": "2026-11-21T09:00:00Z",
                    "comparison_until": "2026-11-21T09:30:00Z",
                },
            }
        ],
    }
    overlap = answer["ranges"]["alternatives"][0]["parameters"]
    followed = await ask(store, **{**VERSIONS, "from": "-3h", **overlap})
    assert times(followed) == both("09:00", "09:30")
    assert followed["ranges"]["alternatives"] == []


async def test_unequal_times_of_the_request_can_be_made_equal(keep: Any) -> None:
    store = keep(runs("1", -5 * HOUR, -2 * HOUR), runs("1", -HOUR, 0))
    given = {"baseline_from": "-5h", "baseline_until": "-2h", "comparison_from": "-1h"}
    answer = await ask(store, **given)
    assert answer["ranges"]["text"] == (
        "The request gives 2026-11-21 05:30–08:30 UTC for the baseline and "  # noqa: RUF001
        "2026-11-21 09:30–10:30 UTC for the comparison."  # noqa: RUF001
    )
    [equal] = answer["ranges"]["alternatives"]
    assert equal["label"] == "Equal ranges: the last 1 h of each"
    assert times(await ask(store, **equal["parameters"])) == [("07:30", "08:30"), ("09:30", "10:30")]


async def test_versions_are_chosen_within_the_times_of_the_request(keep: Any) -> None:
    store = keep(runs("1", -5 * HOUR, -4 * HOUR), runs("2", -4 * HOUR, -3 * HOUR), runs("3", -2 * HOUR, 0))
    answer = await ask(store, until="-3h", **{"from": "-5h"})
    assert [side["selector"] for side in answer["sides"]] == [
        '{service="shop", version="1"}',
        '{service="shop", version="2"}',
    ]
    assert answer["ranges"]["text"].startswith(
        'Version "2" is compared with the one before it, "1": the request'
    )


@pytest.mark.parametrize("limits", [QueryLimits(comparison_lookback_days=1), QueryLimits(max_range_days=1)])
async def test_windows_before_the_lookback_do_not_count(limits: QueryLimits, keep: Any) -> None:
    # The first whole hour within a day before 10:30 begins at 11:00.
    edge = 30 - DAY
    for last, reached in ((edge, False), (edge + 1, True)):
        store = keep(runs("1", last - HOUR, last), runs("2", -HOUR, 0))
        async with serving(store, limits) as client:
            answer = await get(client, "compare", **SHOP, **VERSIONS)
        assert (times(answer)[0] != times(answer)[1]) is reached
        assert ("no windows of" in answer["ranges"]["text"]) is not reached


async def test_a_reader_is_compared_nothing_of_other_namespaces(keep: Any) -> None:
    store = keep(
        runs("1", -5 * HOUR, -4 * HOUR, namespace="alpha"),
        runs("2", -3 * HOUR, -2 * HOUR, namespace="beta"),
        runs("3", -HOUR, 0, namespace="alpha"),
    )
    rules = (ReadRule("anyone", "", ("alpha",)),)
    async with serving(store, tokens=Authorizer(read_policy=ReadPolicy(rules=rules))) as client:
        answer = await get(client, "compare", **SHOP)
        assert answer["ranges"]["text"].startswith('Version "3" is compared with the one before it, "1": ')
        hidden = await get(client, "compare", **SHOP, baseline='version="1"', comparison='version="2"')
        assert "no windows of" in hidden["ranges"]["text"]
        assert hidden["sides"][1]["windows"] == 0
    async with serving(
        store, tokens=Authorizer(read_policy=ReadPolicy(rules=(ReadRule("anyone", "", ("*",)),)))
    ) as client:
        status, body = await refused(client, "compare", **SHOP)
        assert (status, "differ in their versions" in body["message"]) == (400, True)


async def test_exports_and_answers_with_two_sides_are_over_the_chosen_times(keep: Any) -> None:
    store = keep(runs("1", -5 * HOUR, -HOUR), runs("2", -90, 0))
    exact = {"from": "2026-11-21T09:00:00Z", "until": "2026-11-21T09:30:00Z"}
    async with serving(store) as client:
        for path in ("depth", "top", "stack-composition", "lines"):
            answer = await get(
                client, path, **SHOP, **VERSIONS, **({"function": "work"} if path == "lines" else {})
            )
            assert times(answer) == both("09:00", "09:30")
            assert answer["ranges"]["reason"] == "overlap"
            assert "ranges" not in await get(client, path, **SHOP)
        assert await folded(client) == await folded(client, **exact)
        assert await folded(client) != await folded(client, **{"from": "-2h"})


async def folded(client: Client, **given: str) -> str:
    parameters = {**SHOP, **VERSIONS, "format": "folded", **given}
    async with client.get("/api/v1/export/compare", params=parameters) as response:
        assert response.status == 200
        return await response.text()


async def test_a_chosen_time_is_cached_within_a_minute_and_follows_the_clock_and_new_windows() -> None:
    store, now, origins = stored(runs("1", -2 * HOUR, 5), runs("2", -HOUR, 5)), [NOW_NS], list[str]()
    async with serving(store, told=origins.append, clock_ns=lambda: now[0]) as client:

        async def ask_at(seconds: float) -> list[tuple[str, str]]:
            now[0] = NOW_NS + round(seconds * SECOND_NS)
            return times(await get(client, "verdict", **SHOP, **VERSIONS))

        assert await ask_at(1) == await ask_at(59.9) == both("09:30", "10:31")
        assert origins == ["miss", "hit"]
        assert await ask_at(61) == both("09:30", "10:32")
        assert origins == ["miss", "hit", "miss"]
        assert await ask_at(600) == both("09:30", "10:35")
        stored(runs("1", 5, 8), runs("2", 5, 8), store=store)
        assert await ask_at(601) == both("09:30", "10:38")
        assert await ask_at(602) == await ask_at(601)


async def test_an_unreadable_segment_is_left_out_of_the_choice_and_nothing_is_cached() -> None:
    store = copied(stored(runs("1", -5 * HOUR, -HOUR), runs("2", -90, 0)))
    for key in [entry.key for entry in store.list("v1/l0/") if "profiles" in entry.key][-1:]:
        store.put(key, b"damaged")
    origins: list[str] = []
    async with serving(store, told=origins.append) as client:
        for _ in range(2):
            answer = await get(client, "compare", **SHOP, **VERSIONS)
            assert answer["basis"]["unreadable_segments"] == 1
            assert answer["ranges"]["reason"] == "latest"
    assert origins == ["miss", "miss"]


minutes = st.integers(0, 5 * DAY)
spans = st.lists(st.tuples(minutes, st.integers(1, 300)), min_size=1, max_size=8)


def build_intervals(rows: list[tuple[int, int]]) -> Any:
    """Rows of start and end in ns, not on whole minutes."""
    starts = [START_NS + start * MINUTE_NS + 7 * SECOND_NS for start, _ in rows]
    return merge_pauses(
        np.array(
            [(start, start + length * MINUTE_NS) for start, (_, length) in zip(starts, rows, strict=True)]
        )
    )


@given(spans, spans)
def test_chosen_times_are_equal_whole_minutes_of_a_day_at_most_and_hold_both_sides(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    sides = build_intervals(first), build_intervals(second)
    options = find_range_options(*sides)
    _, chosen = options.choose()
    pairs = [chosen, options.latest, *([options.rollout] if options.rollout else [])]
    for pair in pairs:
        assert 0 < pair.baseline.length_ns == pair.comparison.length_ns <= MAX_SPAN_NS
        for span, intervals in zip((pair.baseline, pair.comparison), sides, strict=True):
            assert span.from_ns % MINUTE_NS == span.until_ns % MINUTE_NS == 0
            assert len(intersect_intervals(intervals, np.array([[span.from_ns, span.until_ns]])))
    if options.rollout:
        assert options.rollout.baseline.until_ns <= options.rollout.comparison.from_ns


@given(spans, spans)
def test_intersections_are_the_minutes_in_both(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    sides = build_intervals(first), build_intervals(second)
    common = intersect_intervals(*sides)
    assert all(end <= start for (_, end), (start, _) in pairwise(common.tolist()))

    def list_minutes(intervals: Any) -> set[int]:
        return {at for start, end in intervals.tolist() for at in range(start, end, MINUTE_NS)}

    assert list_minutes(common) == list_minutes(sides[0]) & list_minutes(sides[1])
    assert merge_pauses(common, 10**18).shape == (min(len(common), 1), 2)


def test_a_span_knows_its_length() -> None:
    assert TimeSpan(2, 5).length_ns == 3
