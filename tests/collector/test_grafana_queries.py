"""Queries of Grafana's Pyroscope datasource: each method answers what the query API answers."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.auth.authorizer import HTTP_STATUS, BearerTokens
from sidelight_collector.http.api.parameters import QueryScope
from sidelight_collector.http.pyroscope.message_codec import (
    Field,
    Kind,
    Schema,
    decode_message,
    encode,
    parse_json_message,
    to_json,
)
from sidelight_collector.http.pyroscope.messages import PROFILE
from sidelight_collector.http.pyroscope.querier_routes import METHODS, Method
from sidelight_collector.http.pyroscope.render_routes import PARAMETERS
from sidelight_collector.http.pyroscope.selector_mapping import TYPE_IDS
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.import_formats.pprof_profile import PprofProfile
from sidelight_model.selectors import Selector
from tests.collector.api_client import Client, document, get, serving
from tests.collector.stored_windows import START_NS, stored, window

START_MS = START_NS // 10**6
RANGE = {"start": START_MS, "end": START_MS + 600_000}
API_RANGE = {"from": str(START_MS), "until": str(START_MS + 600_000)}
CPU, WALL, GIL, GIL_WAIT, OFF_CPU, TASKS = (
    TYPE_IDS[kind]
    for kind in (
        ProfileType.CPU,
        ProfileType.WALL,
        ProfileType.GIL,
        ProfileType.GIL_WAIT,
        ProfileType.OFF_CPU,
        ProfileType.TASKS,
    )
)
SHOP = '{service_name="shop"}'
STACKS = (
    "main (a.py:1);cart (shop.py:5);[idle] 9 | main (a.py:1);work (b.py:7) 6 | main (a.py:1);[gil] 4 | "
    "main (a.py:1);lock (shop.py:9);[gil_wait] 3 | main (a.py:1);pool (db.py:3);[task_waiting] 8"
)


def shop() -> ObjectStore:
    return stored(
        [
            window(STACKS, team="web"),
            window(STACKS, at=60, version="2", pod="pod-2", team="web"),
            window("main (a.py:1);other (c.py:2) 5", at=90, pod="pod-3", period_ns=20_000_000),
            window("run (cart.py:1);wait (cart.py:2);[idle] 7", service="cart"),
        ]
    )


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(shop()) as serves:
        yield serves


async def call(client: Client, method: str, message: Mapping[str, Any], form: str = "json") -> Any:
    """The response of a method as JSON has it; the test fails when it is refused."""
    schemas = METHODS[method]
    headers = {"Connect-Protocol-Version": "1", "Content-Type": f"application/{form}"}
    body = json.dumps(message).encode()
    if form == "proto":
        body = gzip.compress(encode(schemas.request, parse_json_message(schemas.request, message)))
        headers["Content-Encoding"] = "gzip"
    path = f"/querier.v1.QuerierService/{method}"
    async with client.post(path, data=body, headers=headers) as response:
        content = await response.read()
        assert response.status == 200, content
        assert response.content_type == f"application/{form}"
        if form == "json":
            return json.loads(content)
        return to_json(schemas.response, decode_message(schemas.response, memoryview(content)))


async def refused(client: Client, method: str, message: Mapping[str, Any]) -> tuple[int, str, str]:
    async with client.post(f"/querier.v1.QuerierService/{method}", json=message) as response:
        error = await response.json()
        return response.status, error["code"], error["message"]


def select(type_id: str = CPU, selector: str = SHOP, **more: Any) -> dict[str, Any]:
    return {"profileTypeID": type_id, "labelSelector": selector, **RANGE, **more}


def list_values(answer: Mapping[str, Any]) -> list[str]:
    """The first label of each series."""
    return [one["labels"][0]["value"] for one in answer["series"]]


def read_bars(levels: list[list[int]], names: list[str], side: int = 0, sides: int = 1) -> dict[str, int]:
    """The total of each call path, checking that each bar lies inside its parent."""
    width = 3 * sides + 1
    paths: dict[str, int] = {}
    parents: list[tuple[int, int, str]] = [(0, sum(levels[0][1 : 3 * sides : 3]), "")]
    for level in levels:
        end, row = 0, []
        for at in range(0, len(level), width):
            gap, total = level[at + 3 * side], level[at + 3 * side + 1]
            start, end = end + gap, end + gap + total
            parent = next(path for first, last, path in parents if first <= start and end <= last)
            path = f"{parent};{names[level[at + width - 1]]}".removeprefix(";")
            if total:  # a bar of the other side has a place here and no width
                paths[path] = paths.get(path, 0) + total
            row.append((start, end, path))
        parents = row
    return paths


def read_tree(graph: Mapping[str, Any], side: int = 0) -> dict[str, int]:
    """The total (ns) of each call path of the query API's flame graph."""
    own = graph["sides"][side]["self_us"]
    path: list[str] = []
    paths: dict[str, int] = {}
    for level, name, us in zip(graph["level"], graph["name"], own, strict=True):
        del path[level:]
        path.append(graph["names"][name])
        for depth in range(1, len(path) + 1):
            key = ";".join(path[:depth])
            paths[key] = paths.get(key, 0) + us * 1000
    return {key: total for key, total in paths.items() if total}


def read_levels(graph: Mapping[str, Any]) -> list[list[int]]:
    return [[int(value) for value in level["values"]] for level in graph["levels"]]


@pytest.mark.parametrize("form", ["json", "proto"])
@pytest.mark.parametrize("kind", ProfileType)
async def test_flame_graphs_are_those_of_the_query_api(client: Client, form: str, kind: ProfileType) -> None:
    answer = await call(client, "SelectMergeStacktraces", select(TYPE_IDS[kind]), form)
    graph = answer["flamegraph"]
    own = await get(client, "flamegraph", query='service="shop"', type=kind.value, **API_RANGE)
    assert read_bars(read_levels(graph), graph["names"]) == read_tree(own)
    assert int(graph["total"]) == round(own["sides"][0]["seconds"] * 1e9)
    assert int(graph["maxSelf"]) == max(own["sides"][0]["self_us"]) * 1000


@pytest.mark.parametrize("form", ["json", "proto"])
async def test_types_labels_values_and_series_are_listed(client: Client, form: str) -> None:
    types = await call(client, "ProfileTypes", RANGE, form)
    assert [one["ID"] for one in types["profileTypes"]] == [CPU, WALL, GIL, GIL_WAIT, OFF_CPU, TASKS]
    assert types["profileTypes"][0]["sampleType"] == "cpu"
    names = (await call(client, "LabelNames", {**RANGE, "matchers": [SHOP]}, form))["names"]
    own = (await get(client, "labels", query='service="shop"', **API_RANGE))["labels"]
    shown = {name for name in names if not name.startswith("__")}
    assert shown == {"endpoint", "service_name", *own} - {"service"}
    assert "__profile_type__" in names
    for name, matchers, values in (
        ("service_name", [], ["cart", "shop"]),
        ("service_name", [f'{{__profile_type__="{GIL}"}}'], ["shop"]),
        ("version", ["{service_name='shop', version=~\"2|3\"}"], ["2"]),
        ("team", ["{}"], ["web"]),
        ("pod", [SHOP, '{version!="2"}'], ["pod-1", "pod-3"]),
        ("__profile_type__", ['{service_name="cart"}'], [OFF_CPU, WALL]),
        (
            "__name__",
            [SHOP, '{endpoint="GET /cart"}'],
            ["gil", "gil_wait", "off_cpu", "process_cpu", "tasks", "wall"],
        ),
        ("missing", [], []),
    ):
        listed = await call(client, "LabelValues", {**RANGE, "name": name, "matchers": matchers}, form)
        assert listed["names"] == values, (name, matchers)
    series = await call(client, "Series", {**RANGE, "labelNames": ["service_name", "__profile_type__"]}, form)
    found = {tuple(pair["value"] for pair in one["labels"]) for one in series["labelsSet"]}
    assert found == {(CPU, "shop"), (WALL, "shop"), (GIL, "shop"), (GIL_WAIT, "shop"), (WALL, "cart")} | {
        (OFF_CPU, "shop"),
        (TASKS, "shop"),
        (OFF_CPU, "cart"),
    }
    every = await call(client, "Series", {**RANGE, "matchers": ['{pod="pod-3"}']}, form)
    assert {pair["name"]: pair["value"] for pair in every["labelsSet"][0]["labels"]}["version"] == "1"
    types_alone = await call(client, "Series", {**RANGE, "label_names": ["__type__"]}, form)
    names = [one["labels"][0]["value"] for one in types_alone["labelsSet"]]
    assert names == ["cpu", "gil", "gil_wait", "off_cpu", "tasks", "wall"]


@pytest.mark.parametrize("form", ["json", "proto"])
@pytest.mark.parametrize("kind", ProfileType)
async def test_time_series_are_those_of_the_query_api(client: Client, form: str, kind: ProfileType) -> None:
    whole = await call(client, "SelectSeries", select(TYPE_IDS[kind], step=30), form)
    own = await get(client, "timeline", query='service="shop"', type=kind.value, step="30s", **API_RANGE)
    (one,) = whole["series"]
    points = {int(point["timestamp"]): point.get("value", 0) for point in one["points"]}
    assert points == {
        int(start * 1000): seconds * 1e9
        for start, seconds, windows in zip(own["start"], own["seconds"], own["windows"], strict=True)
        if windows
    }
    by_pod = await call(client, "SelectSeries", select(TYPE_IDS[kind], step=30, groupBy=["pod"]), form)
    rows = await get(
        client, "heatmap", query='service="shop"', type=kind.value, rows="pod", step="30s", **API_RANGE
    )
    totals = {
        one["labels"][0]["value"]: sum(point.get("value", 0) for point in one["points"])
        for one in by_pod["series"]
    }
    assert totals == {
        row: pytest.approx(sum(filter(None, seconds)) * 1e9)
        for row, seconds in zip(rows["row"], rows["seconds"], strict=True)
    }
    several = select(TYPE_IDS[kind], "{}", groupBy=["service_name", "version", "__type__"], limit="2")
    answer = await call(client, "SelectSeries", several, form)
    assert len(answer["series"]) == 2
    if kind is ProfileType.WALL:
        assert answer["series"][0]["labels"] == [
            {"name": "__type__", "value": "wall"},
            {"name": "service_name", "value": "shop"},
            {"name": "version", "value": "1"},
        ]


async def test_series_by_endpoint_and_beyond_the_limit_lose_nothing() -> None:
    web = "app (a.py:1);dispatch_request (flask/app.py:2);{} (shop.py:3) {}"
    windows = [window(web.format(f"view_{at}", at + 1), pod=f"pod-{at}", at=at) for at in range(6)]
    async with serving(stored(windows), QueryLimits(max_rows=2)) as client:
        for group_by in ("pod", "endpoint"):
            answer = await call(client, "SelectSeries", select(groupBy=[group_by], step=600))
            values = [sum(point["value"] for point in one["points"]) for one in answer["series"]]
            assert sum(values) == 21 * 10_000_000
            if group_by == "pod":
                assert [one["labels"][0]["value"] for one in answer["series"]] == [
                    "pod-5",
                    "pod-4",
                    "(other)",
                ]
        top = await call(client, "SelectSeries", select(groupBy=["pod"], step=600, limit=1))
        assert list_values(top) == ["pod-5"]


@pytest.mark.parametrize("form", ["json", "proto"])
async def test_pprof_profiles_have_the_totals_of_the_flame_graph(client: Client, form: str) -> None:
    own = await get(client, "flamegraph", query='service="shop"', type="cpu", **API_RANGE)
    total = round(own["sides"][0]["seconds"] * 1e9)
    profile = await call(client, "SelectMergeProfile", select(), form)
    nested = await call(client, "SelectMergeStacktraces", select(format="PROFILE_FORMAT_PPROF"), form)
    assert nested["pprof"]["profile"] == profile
    strings = profile["stringTable"]
    assert [strings[int(one["type"])] for one in profile["sampleType"]] == ["cpu"]
    assert sum(int(sample["value"][0]) for sample in profile["sample"]) == total
    names = {strings[int(one["name"])] for one in profile["function"]}
    assert names == {"main", "work", "other"}
    read = PprofProfile(encode(PROFILE, parse_json_message(PROFILE, profile)))
    assert sum(sample.values[0] for sample in read.iter_samples()) == total


async def test_a_call_site_selects_the_stacks_below_it(client: Client) -> None:
    site = {"callSite": [{"name": "main (a.py)"}, {"name": "work (b.py)"}]}
    for names in (site["callSite"], [{"name": "total"}, *site["callSite"]]):
        given = select(stackTraceSelector={"call_site": names})
        profile = await call(client, "SelectMergeProfile", given)
        # Grafana looks up the function by its name in the flame graph.
        functions = {profile["stringTable"][int(one["name"])] for one in profile["function"]}
        assert functions == {"main (a.py)", "work (b.py)"}
        assert sum(int(sample["value"][0]) for sample in profile["sample"]) == 12 * 10_000_000
        graph = (await call(client, "SelectMergeStacktraces", given))["flamegraph"]
        assert int(graph["total"]) == 12 * 10_000_000
    nowhere = select(stackTraceSelector={"callSite": [{"name": "work (b.py)"}]})
    assert await call(client, "SelectMergeStacktraces", nowhere) == {}
    status, code, message = await refused(client, "SelectSeries", select(stackTraceSelector=site))
    assert (status, code) == (400, "invalid_argument")
    assert "stack_trace_selector" in message


@pytest.mark.parametrize("form", ["json", "proto"])
async def test_differences_are_those_of_the_query_api(client: Client, form: str) -> None:
    left, right = (select(WALL, f'{{service_name="shop",version="{version}"}}') for version in "12")
    graph = (await call(client, "Diff", {"left": left, "right": right}, form))["flamegraph"]
    own = await get(
        client, "compare", query='service="shop"', type="wall", baseline='version="1"', verdict="0",
        comparison='version="2"', **API_RANGE,
    )  # fmt: skip
    for side, ticks in enumerate(("leftTicks", "rightTicks")):
        expected = read_tree(own, side)
        assert read_bars(read_levels(graph), graph["names"], side, 2) == expected
        assert int(graph[ticks]) == expected["total"]
    assert int(graph["total"]) == int(graph["leftTicks"]) + int(graph["rightTicks"])
    other = {"left": left, "right": select(CPU)}
    assert (await refused(client, "Diff", other))[:2] == (400, "invalid_argument")


async def test_profile_stats_tell_whether_there_is_data(client: Client) -> None:
    stats = await call(client, "GetProfileStats", {})
    assert stats["dataIngested"]
    assert int(stats["oldestProfileTime"]) == START_MS
    assert int(stats["newestProfileTime"]) == START_MS + 100_000
    async with serving(MemoryStore()) as empty:
        assert await call(empty, "GetProfileStats", {}) == {"dataIngested": False}
        assert await call(empty, "SelectMergeStacktraces", select()) == {}
        assert await call(empty, "SelectSeries", select(groupBy=["pod"])) == {"series": []}
        assert await call(empty, "LabelNames", RANGE) == {"names": []}


async def test_without_a_range_the_last_hour_is_asked(client: Client) -> None:
    # The client's clock stands an hour after the first windows: those of the last hour begin with them.
    listed = await call(client, "LabelValues", {"name": "service_name"})
    assert listed["names"] == ["cart", "shop"]


@pytest.mark.parametrize(
    ("method", "message", "status", "code", "words"),
    [
        (
            "SelectSeries",
            select(selector='{service_name=~"("}'),
            400,
            "invalid_argument",
            "regular expression",
        ),
        ("SelectSeries", select(selector="{service_name}"), 400, "invalid_argument", "position 13"),
        ("SelectSeries", select("memory:alloc:bytes:space:bytes"), 400, "invalid_argument", CPU),
        ("SelectSeries", select(step="NaN"), 400, "invalid_argument", "step"),
        ("SelectSeries", select(step=0.001), 400, "invalid_argument", "steps"),
        ("SelectSeries", select(aggregation=1), 400, "invalid_argument", "AVERAGE"),
        ("SelectSeries", select(limit=-1), 400, "invalid_argument", "limit"),
        ("SelectSeries", select(start="x"), 400, "invalid_argument", "start"),
        ("SelectSeries", select(end=START_MS), 400, "invalid_argument", "start is not before end"),
        ("SelectSeries", select(start=0, end=2**62), 400, "invalid_argument", "end"),
        ("ProfileTypes", {"start": 1, "end": START_MS}, 400, "invalid_argument", "longer than"),
        ("SelectMergeStacktraces", select(format="PROFILE_FORMAT_FUNCTIONS"), 501, "unimplemented", "format"),
        ("SelectMergeStacktraces", select(format=3), 501, "unimplemented", "PROFILE_FORMAT_DOT"),
        ("SelectMergeStacktraces", select(spanSelector=["9a51"]), 400, "invalid_argument", "span"),
        ("SelectMergeProfile", select(stackTraceSelector={"goPgo": {}}), 400, "invalid_argument", "go_pgo"),
        (
            "SelectSeries",
            select(groupBy=[f"l{at}" for at in range(65)]),
            400,
            "invalid_argument",
            "65 labels",
        ),
        (
            "LabelNames",
            {**RANGE, "matchers": [f'{{pod="{"x" * 2000}"}}'] * 3},
            400,
            "invalid_argument",
            "long",
        ),
        ("LabelValues", RANGE, 400, "invalid_argument", "name"),
        ("SelectMergeSpanProfile", {}, 501, "unimplemented", "SelectMergeSpanProfile"),
        ("SelectHeatmap", {}, 501, "unimplemented", "SelectMergeStacktraces"),
    ],
)
async def test_refusals_have_the_code_of_connect_and_a_message(
    client: Client, method: str, message: dict[str, Any], status: int, code: str, words: str
) -> None:
    answer = await refused(client, method, message)
    assert answer[:2] == (status, code), answer
    assert words in answer[2]


async def test_the_protocol_is_checked(client: Client) -> None:
    path = "/querier.v1.QuerierService/ProfileTypes"
    proto = {"Content-Type": "application/proto"}
    for headers, body, status, code in (
        ({"Content-Type": "text/plain"}, b"", 415, "invalid_argument"),
        ({**proto, "Connect-Protocol-Version": "2"}, b"", 400, "invalid_argument"),
        ({**proto, "Content-Encoding": "br"}, b"x", 415, "invalid_argument"),
        ({**proto, "Connect-Timeout-Ms": "soon"}, b"", 400, "invalid_argument"),
        (proto, b"\x08", 400, "invalid_argument"),
        (proto, bytes(2 << 20), 413, "invalid_argument"),
        ({"Content-Type": "application/json"}, b"[]", 400, "invalid_argument"),
    ):
        async with client.post(path, data=body, headers=headers) as response:
            error = await response.json()
            assert (response.status, error["code"]) == (status, code), error
    async with client.post("/vcs.v1.VCSService/GetFile", data=b"{}", headers=proto) as response:
        assert (response.status, (await response.json())["code"]) == (501, "unimplemented")
    headers = {"Content-Type": "application/json; charset=utf-8", "Connect-Timeout-Ms": "60000"}
    async with client.post(path, data=b"", headers=headers) as response:
        assert response.status == 200


async def test_who_has_no_token_reads_nothing_and_basic_authentication_works() -> None:
    async with serving(shop(), tokens=BearerTokens(read=("s3cret",))) as client:
        path = "/querier.v1.QuerierService/ProfileTypes"
        render = f"/pyroscope/render?query={CPU}"
        for post in (True, False):
            for authorization, status in (("", 401), ("Basic dTpzM2NyZXQ=", 200), ("Bearer s3cret", 200)):
                headers = {"Authorization": authorization} if authorization else {}
                asked = client.post(path, json={}, headers=headers) if post else client.get(
                    render, headers=headers
                )  # fmt: skip
                async with asked as response:
                    assert response.status == status
        async with client.post("/vcs.v1.VCSService/GetFile", json={}) as response:
            assert (response.status, (await response.json())["code"]) == (401, "unauthenticated")


async def test_render_answers_a_flamebearer_with_its_timeline(client: Client) -> None:
    query = {"query": f"{CPU}{SHOP}", "from": str(START_MS), "until": str(START_MS + 600_000)}
    async with client.get("/pyroscope/render", params={**query, "groupBy": "pod"}) as response:
        assert response.status == 200, await response.text()
        answer = await response.json()
    own = await get(client, "flamegraph", query='service="shop"', type="cpu", **API_RANGE)
    bars, expected = answer["flamebearer"], read_tree(own)
    assert read_bars(bars["levels"], bars["names"]) == expected
    assert bars["numTicks"] == expected["total"]
    assert answer["metadata"]["format"] == "single"
    timeline = answer["timeline"]
    assert sum(timeline["samples"]) == expected["total"]
    assert timeline["startTime"] == START_NS // 10**9
    assert set(answer["groups"]) == {"pod-1", "pod-2", "pod-3"}
    assert sum(sum(one["samples"]) for one in answer["groups"].values()) == expected["total"]
    async with client.get("/pyroscope/render", params={**query, "max-nodes": "2"}) as response:
        small = (await response.json())["flamebearer"]
        assert small["numTicks"] == expected["total"]
        assert "(other)" in small["names"]


async def test_render_diff_compares_two_sides(client: Client) -> None:
    times = {
        f"{side}{edge}": text
        for side in ("left", "right")
        for edge, text in (("From", API_RANGE["from"]), ("Until", API_RANGE["until"]))
    }
    sides = {f"{side}Query": f'{WALL}{{version="{at}"}}' for side, at in (("left", 1), ("right", 2))}
    async with client.get("/pyroscope/render-diff", params={**times, **sides}) as response:
        assert response.status == 200, await response.text()
        answer = await response.json()
    own = await get(
        client,
        "compare",
        type="wall",
        baseline='version="1"',
        comparison='version="2"',
        verdict="0",
        **API_RANGE,
    )
    bars = answer["flamebearer"]
    for side, ticks in enumerate(("leftTicks", "rightTicks")):
        assert read_bars(bars["levels"], bars["names"], side, 2) == read_tree(own, side)
        assert answer[ticks] == read_tree(own, side)["total"]


async def test_label_values_and_wrong_parameters_of_the_older_api(client: Client) -> None:
    span = dict(API_RANGE)
    for label, values in (
        ("__name__", [GIL, GIL_WAIT, CPU, OFF_CPU, TASKS, WALL]),
        ("service_name", ["cart", "shop"]),
    ):
        async with client.get("/pyroscope/label-values", params={"label": label, **span}) as response:
            assert sorted(await response.json()) == sorted(values)
    for path, parameters, status, reason in (
        ("label-values", {}, 400, "bad_parameter"),
        ("render", {"query": "cpu{}"}, 400, "bad_parameter"),
        ("render", {"query": CPU, "format": "dot"}, 501, "not_implemented"),
        ("render", {"query": CPU, "maxNodes": "1", "max-nodes": "1"}, 400, "bad_parameter"),
        ("render", {"query": CPU, "typo": "1"}, 400, "bad_parameter"),
        ("render", {"query": f"{CPU}{{", **span}, 400, "bad_selector"),
        ("render", {"query": CPU, "from": "yesterday"}, 400, "bad_time"),
        ("render-diff", {"leftQuery": CPU, "rightQuery": WALL}, 400, "bad_parameter"),
    ):
        async with client.get(f"/pyroscope/{path}", params=parameters) as response:
            assert (response.status, (await response.json())["error"]) == (status, reason), parameters


def test_numbers_of_all_sizes_survive_both_encodings() -> None:
    schema: Schema = METHODS["SelectSeries"].response
    for value in (0.0, 1.5, -2.0, 1e300):
        for time in (0, 1, -1, 2**63 - 1, -(2**63)):
            message = {"series": [{"labels": [], "points": [{"value": value, "timestamp": time}]}]}
            binary = to_json(schema, decode_message(schema, memoryview(encode(schema, message))))
            text = to_json(schema, parse_json_message(schema, to_json(schema, message)))
            point = text["series"][0]["points"][0]
            assert (point["value"], int(point["timestamp"])) == (value, time)
            assert {"value": 0, "timestamp": "0", **binary["series"][0]["points"][0]} == point
    assert struct.pack("<d", 1.5) in encode(schema, {"series": [{"points": [{"value": 1.5}]}]})


def test_the_document_has_all_methods_fields_and_parameters() -> None:
    paths = document()["paths"]
    for name, method in METHODS.items():
        body = paths[f"/querier.v1.QuerierService/{name}"]["post"]["requestBody"]["content"]
        fields = {field.json_name for field in method.request.values()}
        assert set(body["application/json"]["schema"].get("properties", {})) == fields, name
    for path, names in PARAMETERS.items():
        documented = [one["name"] for one in paths[path]["get"]["parameters"] if "name" in one]
        assert documented == list(names), path


CHART = Path(__file__).parents[2] / "deploy" / "helm" / "sidelight"
VARIABLES = {"$service": "shop", "$version": ".*", "$type": WALL}


def fill(text: str) -> str:
    """Put values in the place of a dashboard's variables, as Grafana does."""
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return text


async def test_each_query_of_the_dashboard_finds_data(client: Client) -> None:
    dashboard = json.loads((CHART / "profiles.json").read_text())
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert set(VARIABLES) == {f"${name}" for name in variables} - {"$datasource"}
    assert {one["value"] for one in variables["type"]["options"]} == set(TYPE_IDS.values())
    for variable in variables.values():
        if variable["type"] == "query":
            # The datasource selects the type by a matcher.
            matcher = f'{{__profile_type__="{variable["query"]["profileTypeId"]}"}}'
            request = {**RANGE, "name": variable["query"]["labelName"], "matchers": [matcher]}
            assert (await call(client, "LabelValues", request))["names"], variable["name"]
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            request = select(fill(target["profileTypeId"]), fill(target["labelSelector"]))
            if target["queryType"] == "profile":
                answer = await call(
                    client, "SelectMergeStacktraces", {**request, "maxNodes": target["maxNodes"]}
                )
                assert int(answer["flamegraph"]["total"]) > 0
            else:
                more = {"groupBy": target["groupBy"], "limit": target["limit"], "step": 15}
                answer = await call(client, "SelectSeries", {**request, **more})
                assert answer["series"], panel["title"]


def test_the_provisioned_datasource_is_grafanas_for_pyroscope() -> None:
    by_hand = yaml.safe_load((CHART.parents[1] / "grafana" / "datasource.yaml").read_text())
    rendered = yaml.safe_load_all((CHART.parent / "rendered" / "ha.yaml").read_text())
    maps = {one["metadata"]["name"]: one for one in rendered if one["kind"] == "ConfigMap"}
    assert maps["sidelight-datasource"]["metadata"]["labels"]["grafana_datasource"] == "1"
    (of_chart,) = yaml.safe_load(maps["sidelight-datasource"]["data"]["sidelight.yaml"])["datasources"]
    (alone,) = by_hand["datasources"]
    assert of_chart | {"url": ""} == alone | {"url": ""}
    assert of_chart["url"].startswith("http://sidelight-collector.profiling")
    assert "sidelight-profiles.json" in maps["sidelight-profiles"]["data"]


SCOPE = QueryScope(Selector(), QueryLimits(), START_NS + 3600 * 10**9)
TEXTS = st.sampled_from(
    ["", SHOP, '{pod=~"a|b"}', "{", '{endpoint="/"}', "shop", CPU, WALL, "pod", "\ud800", "ß"]
)
WHOLE = st.one_of(
    st.integers(-2, 5), st.integers(-(2**63), 2**63 - 1), st.integers(START_MS, START_MS + 10**6)
)


def messages_of(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    """Messages with any values of the right kinds."""

    def values(field: Field) -> st.SearchStrategy[Any]:
        one: st.SearchStrategy[Any] = {
            Kind.TEXT: TEXTS,
            Kind.INTEGER: WHOLE,
            Kind.ENUM: st.integers(-1, 6),
            Kind.DOUBLE: st.floats(),
            Kind.FLAG: st.booleans(),
            Kind.MESSAGE: messages_of(field.schema or {}),
        }[field.kind]
        return st.lists(one, max_size=3) if field.is_repeated else one

    return st.fixed_dictionaries({}, optional={field.name: values(field) for field in schema.values()})


@given(st.data())
def test_no_request_ends_in_another_error_than_a_refusal(data: st.DataObject) -> None:
    method = METHODS[data.draw(st.sampled_from(list(METHODS)))]
    message = data.draw(messages_of(method.request))
    content = encode(method.request, message)
    cut = content[: data.draw(st.integers(0, len(content)))]
    for binary in (content, cut, data.draw(st.binary(max_size=50))):
        assert answer_status(method, binary) in (200, 400, 501)


def answer_status(method: Method, content: bytes) -> int:
    """The status with which a method answers, before it computes anything."""
    try:
        plan = method.plan(decode_message(method.request, memoryview(content)), SCOPE)
        if not isinstance(plan, Mapping):
            plan()
    except SidelightError as error:
        return HTTP_STATUS.get(error.reason, 400)
    return 200
