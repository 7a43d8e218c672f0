"""Endpoints as filter, group, side and rows: always the sums of the stacks that have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sidelight_collector.arrow_ops import ListColumn
from sidelight_collector.query.engine.stack_endpoints import UNKNOWN, find_endpoints
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.endpoints.endpoint_search import find_endpoint
from sidelight_model.folded import parse_folded, split_stack
from sidelight_model.window import Window
from tests.collector.api_client import Client, get, refused, serving
from tests.collector.stored_windows import START_NS, stored, window
from tests.collector.test_resolutions import Collector
from tests.services.endpoints.shops import RECORDINGS

FLASK = "main (app.py:1);Flask.dispatch_request (flask/app.py:9)"
CART, PAY = f"{FLASK};cart (shop.py:3)", f"{FLASK};pay (shop.py:8)"
STACKS = f"{CART} 6 | {CART};render (html.py:2) 2 | {PAY} 3 | {PAY};[idle] 20 | main (app.py:1) 1"
CART_NAME, PAY_NAME, NONE = "cart (shop.py)", "pay (shop.py)", "(no endpoint)"
RANGE = {"from": str(START_NS // 10**9 - 3600), "until": str(START_NS // 10**9 + 7200), "type": "cpu"}

DAY = {"from": "2026-11-21T00:00:00Z", "until": "2026-11-22T00:00:00Z", "type": "cpu"}


def select(endpoint: str, op: str = "=") -> str:
    return f'{{service="shop",endpoint{op}"{endpoint}"}}'


def shop() -> ObjectStore:
    other = f"{FLASK};pay (shop.py:9) 5"
    return stored(
        [window(STACKS), window(other, at=60, version="2", pod="pod-2")],
        [window(f"{CART};load (db.py:4) 4", at=120)],
        [window("work (cron.py:1) 7", service="cron")],
    )


async def samples(client: Client, path: str, **given: str) -> int:
    answer: Any = await get(client, path, **{**RANGE, **given})
    return sum(side["samples"] for side in answer["sides"])


def test_endpoints_found_in_columns_are_those_of_single_stacks() -> None:
    stacks = [
        split_stack(stack)
        for path in sorted(Path(RECORDINGS).glob("*.folded"))
        for stack in parse_folded(path.read_text())
    ]
    column: ListColumn = pa.array(stacks, pa.list_(pa.dictionary(pa.int32(), pa.string())))
    numbers, endpoints = find_endpoints(column.slice(1))
    assert [endpoints[number] for number in numbers] == [find_endpoint(one) or UNKNOWN for one in stacks[1:]]


async def test_a_selector_on_endpoint_keeps_the_stacks_that_have_it() -> None:
    async with serving(shop()) as client:
        for path in ("flamegraph", "top", "depth", "stack-composition"):
            assert await samples(client, path, query=select(CART_NAME)) == 12
            assert await samples(client, path, query=select("pay.*", "=~")) == 8
            assert await samples(client, path, query=select(CART_NAME, "!=")) == 9
            assert await samples(client, path, query=select(NONE)) == 1
            assert await samples(client, path, query=select("")) == 1
            assert await samples(client, path, query=select("", "!=")) == 20
        flame = await get(client, "flamegraph", **RANGE, query=select(PAY_NAME))
        assert "cart (shop.py)" not in flame["names"]
        assert flame["sides"][0]["seconds"] == pytest.approx(0.08)
        assert flame["sides"][0]["selector"] == '{service="shop", endpoint="pay (shop.py)"}'
        async with client.get(
            "/api/v1/export", params={**RANGE, "query": select(PAY_NAME), "format": "folded"}
        ) as got:
            assert sorted((await got.text()).splitlines()) == [
                "main (app.py);Flask.dispatch_request (flask/app.py);pay (shop.py) 8"
            ]


async def test_stacks_grouped_by_endpoint_begin_with_it_and_keep_their_sums() -> None:
    async with serving(shop()) as client:
        query = {**RANGE, "query": '{service="shop"}'}
        flame = await get(client, "flamegraph", **query, group_by="endpoint")
        totals: dict[str, int] = {}
        root = ""
        for level, name, own in zip(
            flame["level"], flame["name"], flame["sides"][0]["self_samples"], strict=True
        ):
            root = flame["names"][name] if level == 1 else root
            if level:
                totals[root] = totals.get(root, 0) + own
        assert totals == {f"endpoint {CART_NAME}": 12, f"endpoint {PAY_NAME}": 8, NONE: 1}
        lines = await get(client, "flamegraph", **query, group_by="endpoint", lines="1")
        assert "cart (shop.py:3)" in lines["names"]
        focus = await get(client, "flamegraph", **query, group_by="endpoint", function=f"endpoint {PAY_NAME}")
        assert focus["sides"][0]["samples"] == 8
        async with client.get(
            "/api/v1/export", params={**query, "group_by": "endpoint", "format": "folded"}
        ) as got:
            assert (await got.text()).startswith("(no endpoint);main (app.py) 1\n")


async def test_an_endpoint_is_a_side_and_a_group_of_a_comparison() -> None:
    async with serving(shop()) as client:
        sides = {"baseline": f'endpoint="{CART_NAME}"', "comparison": f'endpoint="{PAY_NAME}"'}
        for path in ("compare", "verdict", "top"):
            answer = await get(client, path, **RANGE, query='{service="shop"}', **sides)
            assert [side["samples"] for side in answer["sides"]] == [12, 8]
        versions = await get(client, "compare", **RANGE, query=select(PAY_NAME))
        assert [side["samples"] for side in versions["sides"]] == [3, 5]
        grouped = await get(
            client, "verdict", **RANGE, query='{service="shop"}', group_by="endpoint",
            baseline='version="1"', comparison='version="2"',
        )  # fmt: skip
        names = zip(
            grouped["verdict"]["functions"]["function"], grouped["verdict"]["functions"]["file"], strict=True
        )
        assert {("endpoint cart", "shop.py"), ("endpoint pay", "shop.py")} <= set(names)
        async with client.get(
            "/api/v1/export/compare",
            params={**RANGE, "query": '{service="shop"}', **sides, "format": "folded"},
        ) as got:
            assert "pay (shop.py) 0 8\n" in await got.text()


async def test_timeline_and_heatmap_count_the_samples_of_an_endpoint() -> None:
    async with serving(shop()) as client:
        whole = await get(client, "timeline", **RANGE, step="60", query='{service="shop"}')
        cart = await get(client, "timeline", **RANGE, step="60", query=select(CART_NAME))
        at = whole["start"].index(START_NS / 1e9)
        assert cart["samples"][at : at + 4] == [8, 0, 4, 0]
        assert cart["seconds"][at] == pytest.approx(0.08)
        assert cart["pod_seconds"] == whole["pod_seconds"]
        rows = await get(client, "heatmap", **RANGE, rows="endpoint", step="60", query='{service="shop"}')
        own = dict(zip(rows["row"], rows["samples"], strict=True))
        assert own[CART_NAME][at : at + 4] == [8, None, 4, None]
        assert own[PAY_NAME][at : at + 4] == [3, 5, None, None]
        assert own[NONE][at] == 1
        shared = dict(zip(rows["row"], rows["pod_seconds"], strict=True))
        assert shared[CART_NAME][at] == shared[PAY_NAME][at] == whole["pod_seconds"][at]
        few = await get(
            client, "heatmap", **RANGE, rows="endpoint", step="60", limit="2", query='{service="shop"}'
        )
        assert few["row"] == [CART_NAME, NONE]
        assert few["others"]["rows"] == 1
        pods = await get(client, "heatmap", **RANGE, rows="pod", step="60", query=select(PAY_NAME))
        assert {
            name: sum(filter(None, one)) for name, one in zip(pods["row"], pods["samples"], strict=True)
        } == {
            "pod-1": 3,
            "pod-2": 5,
        }


async def test_endpoints_are_ranked_by_cost_in_each_service() -> None:
    async with serving(shop()) as client:
        answer = await get(client, "endpoints", **RANGE)
        rows = list(
            zip(answer["service"], answer["endpoint"], answer["framework"], answer["samples"], strict=True)
        )
        assert rows == [
            ("shop", CART_NAME, "flask", 12),
            ("shop", PAY_NAME, "flask", 8),
            ("shop", NONE, "", 1),
            ("cron", NONE, "", 7),
        ]
        assert answer["share"] == pytest.approx([12 / 21, 8 / 21, 1 / 21, 1])
        assert answer["endpoints_total"] == 2
        overview = await get(client, "overview", **RANGE)
        cores = dict(zip(overview["service"], overview["cores"], strict=True))
        assert sum(answer["cores"][:3]) == pytest.approx(cores["shop"], abs=1e-6)
        few = await get(client, "endpoints", **RANGE, limit="1", query='{service="shop"}')
        assert few["endpoint"] == [CART_NAME, "(other)", NONE]
        async with client.get(
            "/api/v1/endpoints", params={**RANGE, "format": "prometheus", "limit": "1"}
        ) as got:
            text = await got.text()
            assert got.content_type == "text/plain"
        labels = f'service="shop",endpoint="{CART_NAME}",framework="flask",type="cpu"'
        assert f"sidelight_endpoint_share{{{labels}}} 0.571" in text
        assert text.count("# TYPE") == 2


def list_day() -> list[Window]:
    """Two pods, each with a window every quarter of an hour of six hours."""
    return [
        window(f"{CART} {at + 1} | {PAY} 2 | main (app.py:1) 1", at=at * 900, pod=f"pod-{pod}")
        for at in range(24)
        for pod in range(2)
    ]


async def sum_rows(client: Client, step: str) -> dict[str, list[int | None]]:
    rows = await get(client, "heatmap", **DAY, rows="endpoint", step=step, query='{service="shop"}')
    return dict(zip(rows["row"], rows["samples"], strict=True))


async def test_hours_and_days_have_the_endpoints_of_their_windows() -> None:
    collector = Collector(stored(list_day()))
    by_resolution = []
    for days in (1, 3, 5):
        collector.look(days)
        async with serving(collector.store, clock_ns=lambda: START_NS + 10 * 86_400 * 10**9) as client:
            by_resolution.append(
                (
                    await sum_rows(client, "86400"),
                    await samples(client, "flamegraph", **DAY, query=select(CART_NAME)),
                    sum((await get(client, "timeline", **DAY, query=select(CART_NAME)))["samples"]),
                )
            )
            pods = {**DAY, "rows": "pod", "query": select(CART_NAME)}
            if days == 1:
                hourly = await sum_rows(client, "3600")
                # The windows begin at 09:30.
                in_hours = [
                    sum(2 * (at + 1) for at in range(24) if (at + 2) // 4 == hour) for hour in range(7)
                ]
                assert [count for count in hourly[CART_NAME] if count] == in_hours
                assert sum(filter(None, (await get(client, "heatmap", **pods))["samples"][0])) == 300
            else:  # an hour is stored summed over both pods
                assert (await refused(client, "heatmap", **pods))[0] == 400
            if days == 3:
                assert await sum_rows(client, "3600") == hourly
            if days == 5:
                answer = await get(client, "timeline", **DAY, query=select(CART_NAME))
                assert answer["step_seconds"] == 86_400
    assert by_resolution == [({CART_NAME: [600], PAY_NAME: [96], NONE: [48]}, 600, 600)] * 3


async def test_the_values_of_the_label_endpoint_are_the_endpoints_of_the_stacks() -> None:
    async with serving(shop()) as client:
        found = await get(client, "labels/endpoint/values")
        assert found["values"] == [NONE, CART_NAME, PAY_NAME]


async def test_answers_without_stacks_refuse_a_selector_on_endpoint() -> None:
    async with serving(shop()) as client:
        for path in ("services", "overview", "labels", "labels/pod/values"):
            status, body = await refused(client, path, query=select(CART_NAME))
            assert (status, body["error"]) == (400, "bad_parameter")
        assert (await refused(client, "flamegraph", group_by="pod"))[0] == 400


async def test_a_store_without_windows_has_no_endpoints() -> None:
    async with serving(MemoryStore()) as client:
        assert (await get(client, "endpoints", **RANGE))["endpoint"] == []
        assert (await get(client, "heatmap", **RANGE, rows="endpoint"))["row"] == []
        assert sum((await get(client, "timeline", **RANGE, query=select(CART_NAME)))["samples"]) == 0
