"""The heatmap has what windows have: held against counting them one by one, and against the timeline."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from itertools import permutations
from math import fsum
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.heatmap import Heatmap, HeatmapLimits, query_heatmap
from sidelight_collector.answers.timeline import Timeline, query_timeline
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.packages import classify_frame
from sidelight_model.window import Quality, Window
from tests.collector.api_client import get, refused, serving
from tests.collector.stored_windows import (
    PERIOD_NS,
    SECOND_NS,
    START_NS,
    asked,
    few_examples,
    question,
    stored,
    window,
)
from tests.collector.test_query_blocks import compacted

ROOMY = HeatmapLimits(max_columns=5000, max_rows=1000, max_cells=100_000)
HOUR, DAY = 3600, 86_400


def asked_for(
    store: ObjectStore,
    rows: str,
    *,
    selector: str = "",
    kind: ProfileType = ProfileType.CPU,
    start: float = -3600,
    end: float = 3600,
    step: int | None = 600,
    zone: str = "UTC",
    bounds: HeatmapLimits = ROOMY,
) -> Heatmap:
    one = question(selector, start=start, end=end)
    step_ns = None if step is None or rows == "hour" else step * SECOND_NS
    return asked(
        store,
        lambda reading: query_heatmap(
            reading, one, kind, rows=rows, step_ns=step_ns, zone=zone, limits=bounds
        ),
    )


def fleet(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Window]:
    """A few windows of any pods, versions, nodes and times; of one pod they may overlap."""
    made = []
    for _ in range(draw(st.integers(0, 12))):
        busy, idle = draw(st.integers(0, 9)), draw(st.integers(0, 9))
        labels = {
            "node": draw(st.sampled_from(["n1", "n2", ""])),
            "namespace": draw(st.sampled_from(["", "a"])),
        }
        made.append(
            window(
                f"main;f {busy + 1} | main;g;[gil] {busy} | main;w;[idle] {idle}".replace(
                    "[gil] 0 |", "[gil] 1 |"
                )
                if busy
                else f"main;w;[idle] {idle + 1}",
                at=draw(st.integers(-9000, 9000)),
                seconds=draw(st.sampled_from([10, 60, 900])),
                pod=draw(st.sampled_from(["p1", "p2", "p3"])),
                version=draw(st.sampled_from(["1", "2"])),
                period_ns=draw(st.sampled_from([PERIOD_NS, 2 * PERIOD_NS])),
                **{name: value for name, value in labels.items() if value},
            )
        )
    return made


def busy(one: Window) -> int:
    return sum(each.running + each.gil for each in one.counts.values())


def spent(windows: Sequence[Window]) -> float:
    return sum(busy(one) * one.period_ns for one in windows) / SECOND_NS


def watched(windows: Sequence[Window]) -> float:
    """Seconds that pods were watched: what at least one window of a pod covers, times its coverage."""
    pods: dict[object, list[Window]] = defaultdict(list)
    for one in windows:
        pods[(one.labels.get("namespace", ""), one.labels["pod"])].append(one)
    seconds = []
    for members in pods.values():
        covered, until = 0, 0
        for one in sorted(members, key=lambda one: one.start_ns):
            end = one.start_ns + one.duration_ns
            covered += max(end - max(one.start_ns, until), 0)
            until = max(until, end)
        duration = sum(one.duration_ns for one in members)
        ticks = sum(one.quality.attempts * one.period_ns for one in members)
        seconds.append(covered * ticks / duration / SECOND_NS)
    return fsum(seconds)


def rows_of(answer: Heatmap) -> Mapping[tuple[str, str], int]:
    return {key: at for at, key in enumerate(zip(answer["namespace"], answer["row"], strict=True))}


@pytest.mark.parametrize("order", list(permutations(("a", "b", "c"))))
@pytest.mark.parametrize("rows", ["version", "thread"])
def test_the_order_of_pods_does_not_change_the_last_digit(rows: str, order: tuple[str, ...]) -> None:
    windows = [
        replace(window(pod=pod, quality=Quality()), duration_ns=SECOND_NS * tenths // 10)
        for tenths, pod in enumerate(order, 1)
    ]
    assert 0.1 + 0.2 + 0.3 != 0.6
    for store in (stored(windows), compacted(stored(windows))):
        assert asked_for(store, rows, start=0, end=600)["pod_seconds"] == [[0.6]]
        assert of_timeline(store, ProfileType.CPU, 0, 600, 600)["pod_seconds"] == [0.6]


@few_examples
@given(st.data(), st.sampled_from(["pod", "node", "version", "team"]), st.booleans())
def test_a_cell_has_what_its_windows_have_and_null_where_there_are_none(
    data: st.DataObject, rows: str, blocks: bool
) -> None:
    windows = fleet(data.draw)
    store = stored(windows[::2], windows[1::2], windows[:1])
    answer = asked_for(compacted(store) if blocks and windows else store, rows, start=-9600, end=9600)
    cells: dict[tuple[tuple[str, str], int], list[Window]] = defaultdict(list)
    for one in windows:
        if -9600 * SECOND_NS <= one.start_ns - START_NS < 9600 * SECOND_NS:
            key = (one.labels.get("namespace", "") if rows == "pod" else "", one.labels.get(rows, ""))
            cells[key, one.start_ns // (600 * SECOND_NS)].append(one)
    at = rows_of(answer)
    assert set(at) == {key for key, _ in cells}
    first = round(answer["start"][0]) // 600
    for key, row in at.items():
        for column in range(len(answer["start"])):
            members = cells.get((key, first + column))
            seen = [answer[name][row][column] for name in ("seconds", "pod_seconds", "samples")]
            if members is None:
                assert seen == [None, None, None]
            else:
                assert seen[0] == pytest.approx(spent(members), abs=1e-9)
                assert seen[1] == pytest.approx(watched(members))
                assert seen[2] == sum(map(busy, members))


def of_timeline(store: ObjectStore, kind: ProfileType, start: float, end: float, step: int) -> Timeline:
    one = question("", start=start, end=end)
    return asked(
        store, lambda reading: query_timeline(reading, one, kind, step_ns=step * SECOND_NS, max_steps=5000)
    )


@few_examples
@given(
    st.data(), st.sampled_from(ProfileType), st.integers(1, 4), st.sampled_from(["pod", "node", "version"])
)
def test_all_rows_and_the_others_add_up_to_the_timeline(
    data: st.DataObject, kind: ProfileType, most: int, rows: str
) -> None:
    store = stored(fleet(data.draw))
    whole = of_timeline(store, kind, -9600, 9600, 600)
    answer = asked_for(store, rows, kind=kind, start=-9600, end=9600, bounds=replace(ROOMY, max_rows=most))
    assert answer["start"] == whole["start"]
    assert len(answer["row"]) <= most
    names = ("seconds", "samples", "pod_seconds") if rows == "pod" else ("seconds", "samples")
    for name in names:
        for column, expected in enumerate(whole[name]):  # type: ignore[literal-required]
            cells = [of[column] or 0 for of in answer[name]]  # type: ignore[literal-required]
            assert sum(cells) + (answer["others"][name][column] or 0) == pytest.approx(expected)  # type: ignore[literal-required]
    assert {name: n for name, n in answer["basis"].items() if name != "resolutions"} == {
        name: n for name, n in whole["basis"].items() if name != "resolutions"
    }


@few_examples
@given(st.data())
def test_hours_of_the_day_in_utc_add_up_to_a_timeline_of_hours(data: st.DataObject) -> None:
    store = stored(fleet(data.draw))
    whole = of_timeline(store, ProfileType.CPU, -9600, 9600, HOUR)
    answer = asked_for(store, "hour", start=-9600, end=9600)
    assert answer["row"] == [f"{hour:02d}" for hour in range(24)]
    for at, start in enumerate(whole["start"]):
        moment = datetime.fromtimestamp(start, UTC)
        column = answer["start"].index(start // DAY * DAY)
        for name in ("seconds", "samples", "pod_seconds"):
            cell = answer[name][moment.hour][column]  # type: ignore[literal-required]
            assert (cell or 0) == pytest.approx(whole[name][at])  # type: ignore[literal-required]


ZONES: Mapping[str, tzinfo] = {
    "Europe/Berlin": ZoneInfo("Europe/Berlin"),
    "Asia/Kathmandu": ZoneInfo("Asia/Kathmandu"),
    "Australia/Lord_Howe": ZoneInfo("Australia/Lord_Howe"),
    "America/St_Johns": ZoneInfo("America/St_Johns"),
    "-09:30": datetime.strptime("-0930", "%z").tzinfo or UTC,
}


@pytest.mark.parametrize("zone", ZONES)
@few_examples
@given(moments=st.lists(st.integers(0, 300 * 24 * 12), min_size=1, max_size=8, unique=True))
def test_a_window_is_in_the_hour_and_day_that_clocks_showed_when_it_began(
    zone: str, moments: list[int]
) -> None:
    windows = [window("f 3", at=300 * at, seconds=60) for at in moments]
    answer = asked_for(stored(windows), "hour", zone=zone, start=-HOUR, end=301 * DAY)
    expected: dict[tuple[int, float], float] = defaultdict(float)
    for one in windows:
        shown = datetime.fromtimestamp(one.start_ns / SECOND_NS, ZONES[zone])
        expected[shown.hour, shown.replace(hour=0, minute=0, second=0).timestamp()] += 0.03
    cells = {
        (hour, answer["start"][day]): cell
        for hour, of in enumerate(answer["seconds"])
        for day, cell in enumerate(of)
        if cell is not None
    }
    assert cells == pytest.approx(expected)


def test_an_hour_that_clocks_show_twice_has_both_and_a_skipped_one_has_none() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    twice = datetime(2027, 10, 31, 2, 10, tzinfo=berlin)
    skipped = datetime(2027, 3, 28, 1, 10, tzinfo=berlin)
    windows = [
        window("f 1", at=moment.timestamp() - START_NS / SECOND_NS)
        for moment in (twice, twice.replace(fold=1), skipped)
    ]
    windows.append(window("f 1", at=skipped.timestamp() + HOUR - START_NS / SECOND_NS))
    answer = asked_for(stored(windows), "hour", zone="Europe/Berlin", start=0, end=380 * DAY)
    day = answer["start"].index(datetime(2027, 10, 31, tzinfo=berlin).timestamp())
    assert answer["samples"][2][day] == 2
    spring = answer["start"].index(datetime(2027, 3, 28, tzinfo=berlin).timestamp())
    assert [answer["samples"][hour][spring] for hour in (1, 2, 3)] == [1, None, 1]
    assert answer["start"][spring + 1] - answer["start"][spring] == 23 * HOUR


def test_a_pod_says_when_its_version_changed_and_pods_of_one_name_are_apart_by_namespace() -> None:
    store = stored(
        [
            window("f 9", at=0, pod="web-0", version="1", namespace="a"),
            window("f 9", at=700, pod="web-0", version="2", namespace="a"),
            window("w;[idle] 9", at=700, pod="web-0", version="2", namespace="b"),
        ]
    )
    answer = asked_for(store, "pod", start=0, end=1200)
    assert list(rows_of(answer)) == [("a", "web-0"), ("b", "web-0")]
    assert [[one["version"] for one in of] for of in answer["versions"]] == [["1", "2"], ["2"]]
    assert answer["seconds"] == [[0.09, 0.09], [None, 0.0]]


def test_kinds_of_threads_are_both_watched_while_their_process_is() -> None:
    quality = window().quality
    store = stored(
        [
            window("f 9", thread="main", quality=quality),
            window("g 3", thread="other", quality=quality),
        ]
    )
    answer = asked_for(store, "thread", start=0, end=600)
    assert answer["row"] == ["main", "other"]
    assert answer["pod_seconds"][0] == answer["pod_seconds"][1] == [pytest.approx(10.0)]


def test_windows_of_which_only_hours_are_kept_still_tell_pods_apart() -> None:
    windows = [window("f 9", at=20 * at, pod=f"p{at % 2}") for at in range(60)]
    store = compacted(stored(windows))
    for entry in list(store.list("v1/")):
        if entry.key.endswith(("/profiles.parquet", "/samples.parquet")):
            store.delete(entry.key)
    answer = asked_for(store, "pod", start=-HOUR, end=2 * HOUR, step=HOUR)
    assert rows_of(answer).keys() == {("", "p0"), ("", "p1")}
    assert sum(cell or 0 for of in answer["samples"] for cell in of) == 9 * 60


async def test_rows_and_columns_are_bounded_and_what_is_beyond_is_summed_or_refused() -> None:
    store = stored([window("f 9", at=at, pod=f"p{at}") for at in range(5)])
    limits = QueryLimits(max_points=12, max_rows=4, max_cells=24)
    async with serving(store, limits) as client:
        ask = {"from": "-1h", "until": "now", "type": "cpu"}
        answer = await get(client, "heatmap", **ask, step="6m", limit="100")
        assert len(answer["start"]) == 10
        assert (len(answer["row"]), answer["others"]["rows"]) == (2, 3)
        assert answer["row"] == ["p0", "p1"]
        assert answer["others"]["samples"][0] == 27
        status, body = await refused(client, "heatmap", **ask, step="4m")
        assert (status, body["error"]) == (400, "bad_parameter")
        assert "16 columns are more than the 12" in body["message"]
        status, body = await refused(client, "heatmap", **ask, rows="hour", zone="+05:30", step="1d")
        assert (status, body["error"]) == (400, "bad_parameter")
        assert (await get(client, "heatmap", **ask, rows="hour"))["start"] == [1_795_219_200]
        status, body = await refused(client, "heatmap", rows="hour", type="cpu", **{"from": "-1d"})
        assert "2 days are more than the 1" in body["message"]


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "+25:00", "+01:07", "utc\x00", "+1"]
)
async def test_a_zone_that_nobody_knows_is_refused(zone: str) -> None:
    async with serving(stored([window()])) as client:
        status, body = await refused(client, "heatmap", rows="hour", zone=zone)
        assert (status, body["error"]) == (400, "bad_parameter")
        assert "Europe/Berlin" in body["hint"]


@pytest.mark.parametrize("rows", ["", "no such", "a" * 200, "pod;drop"])
async def test_rows_that_cannot_be_a_label_are_refused(rows: str) -> None:
    async with serving(stored([window()])) as client:
        status, body = await refused(client, "heatmap", rows=rows)
        assert (status, body["error"]) == (400, "bad_parameter")


def test_a_label_that_no_window_has_is_one_row_without_a_name() -> None:
    answer = asked_for(stored([window("f 9")]), "team", start=0, end=600)
    assert answer["row"] == [""]


PACKAGES = "main (app.py:1);work (shop/a.py:2) 6 | main (app.py:1);work (shop/a.py:2);dump (json/enc.py:9) 2"


async def test_rows_of_packages_have_the_time_that_ended_in_them() -> None:
    store = stored(
        [
            window(f"{PACKAGES} | main (app.py:1);poll 3"),
            window("load (json/dec.py:1) 5", at=60, version="2"),
        ],
        [window("work (shop%3Bx/b.py:4) 4", at=60)],
        [window("work (cron.py:1) 7", service="cron")],
    )
    start = str(START_NS // SECOND_NS)
    shop = {"from": start, "until": str(int(start) + 120), "type": "cpu", "query": '{service="shop"}'}
    async with serving(store) as client:
        rows = await get(client, "heatmap", **shop, rows="package", step="60")
        assert dict(zip(rows["row"], rows["samples"], strict=True)) == {
            "json": [2, 5], "shop": [6, None], "shop;x": [None, 4], "": [3, None],
        }  # fmt: skip
        whole = await get(client, "timeline", **shop, step="60")
        assert rows["pod_seconds"][0] == whole["pod_seconds"]
        flame = await get(client, "flamegraph", **shop)
        costs = Counter[str]()
        for name, own in zip(flame["name"], flame["sides"][0]["self_samples"], strict=True):
            costs[classify_frame(flame["names"][name]).name] += own
        assert +costs == {"json": 7, "shop": 6, "shop;x": 4, "": 3}
        few = await get(client, "heatmap", **shop, rows="package", step="60", limit="1")
        assert (few["row"], few["others"]["rows"], few["others"]["samples"]) == (["json"], 3, [9, 4])


@pytest.mark.parametrize(("rows", "name"), [("package", "json"), ("endpoint", "pay (shop.py)")])
async def test_rows_are_only_what_occurs_in_the_selected_windows(rows: str, name: str) -> None:
    flask = "main (app.py:1);Flask.dispatch_request (flask/app.py:9)"
    store = stored(
        [
            window(f"{flask};cart (shop.py:3) 4", namespace="a"),
            window(f"{flask};pay (shop.py:8);dump (json/enc.py:1) 5 | idle 9", namespace="b", pod="pod-2"),
        ]
    )
    start = str(START_NS // SECOND_NS)
    range_ = {"from": start, "until": str(int(start) + 60), "type": "cpu", "rows": rows}
    async with serving(store) as client:
        query = '{namespace="b", endpoint!="(no endpoint)"}'
        answer = await get(client, "heatmap", **range_, query=query)
        assert (answer["row"], answer["others"]["rows"]) == ([name], 0)
        nothing = await get(client, "heatmap", **range_, query='{endpoint="nobody"}')
        assert (nothing["row"], nothing["others"]["rows"]) == ([], 0)
