"""Each path of the read API, in a sentence."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.query.engine import query_engine
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import Counts
from sidelight_model.window import Quality
from tests.collector.api_client import Client, get, serving
from tests.collector.stored_windows import PERIOD_NS, SECOND_NS, START_NS, stored, window
from tests.model.test_svg import drawn

START = START_NS // SECOND_NS

STACKS = (
    "main (a.py:1);wait (a.py:5);[idle] 900 | main (a.py:1);work (b.py:7) 60 | "
    "main (a.py:1);work (b.py:9);[gil] 40"
)


def shop() -> ObjectStore:
    quality = Quality(
        attempts=1001,
        samples=1000,
        errors={"moved": 1},
        mode="gil",
        sampler="sidelight 0.1.0",
        reader="own",
        python="3.11.7",
        target_cpu_ns=10**9,
        stops=60,
        stopped_ns=4_000_000,
        longest_stop_ns=300_000,
        reduced=("cpu",),
    )
    return stored(
        [window(STACKS, at=0, quality=quality), window(STACKS, at=0, pod="pod-2", quality=quality)],
        [
            window(STACKS, at=10, version="2", quality=quality),
            window("main (a.py:1) 7", at=20, service="cart"),
        ],
    )


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(shop()) as client:
        yield client


@pytest.fixture
async def nothing() -> AsyncIterator[Client]:
    async with serving(MemoryStore()) as client:
        yield client


async def test_services_lists_each_service_with_its_versions_in_the_order_they_appeared(
    client: Client,
) -> None:
    answer = await get(client, "services")
    assert [one["service"] for one in answer["services"]] == ["cart", "shop"]
    of_shop = answer["services"][1]
    assert [one["version"] for one in of_shop["versions"]] == ["1", "2"]
    assert (of_shop["windows"], of_shop["samples"], of_shop["pods"]) == (3, 3000, 2)
    assert (of_shop["first_seen"], of_shop["last_seen"]) == (START, START + 20)
    assert of_shop["cpu_cores"] == pytest.approx(0.1)
    assert (answer["from"], answer["until"]) == (START, START + 3600)
    assert (
        answer["basis"].items()
        >= {"windows": 4, "pods": 2, "samples": 3007, "unreadable_segments": 0}.items()
    )


async def test_labels_and_their_values_are_those_of_the_windows_asked_about(client: Client) -> None:
    assert (await get(client, "labels"))["labels"] == ["pod", "service", "version"]
    answer = await get(client, "labels/version/values", query='service="shop"')
    assert answer["values"] == ["1", "2"]
    assert answer["basis"]["windows"] == 3


async def test_the_timeline_counts_a_window_in_the_step_in_which_it_began(client: Client) -> None:
    answer = await get(
        client, "timeline", query='service="shop"', type="cpu", step="10", until=str(START + 30)
    )
    assert answer["start"] == [START, START + 10, START + 20]
    assert answer["windows"] == [2, 1, 0]
    assert answer["pods"] == [2, 1, 0]
    assert answer["samples"] == [200, 100, 0]
    assert answer["seconds"] == [2.0, 1.0, 0.0]
    assert answer["pod_seconds"] == pytest.approx([20, 10, 0])
    assert answer["coverage"] == [1.0, 1.0, None]
    assert answer["stopped_share"] == [pytest.approx(0.0004), pytest.approx(0.0004), None]
    assert answer["modes"] == ["gil"]
    assert answer["quality"]["stops"] == 180
    assert answer["versions"] == [
        {"version": "1", "first_seen": START, "last_seen": START + 10, "rollouts": []},
        {"version": "2", "first_seen": START + 10, "last_seen": START + 20, "rollouts": []},
    ]


async def test_a_timeline_without_a_step_has_a_readable_number_of_them(client: Client) -> None:
    answer = await get(client, "timeline")
    assert answer["step_seconds"] == 15
    assert len(answer["start"]) == 240
    assert sum(answer["windows"]) == 4


async def test_the_flame_graph_stands_on_numbers_that_it_says(client: Client) -> None:
    answer = await get(client, "flamegraph", query='{service="shop", version="1"}', type="cpu")
    assert answer["names"] == ["total", "main (a.py)", "work (b.py)"]
    assert answer["level"] == [0, 1, 2]
    side = answer["sides"][0]
    assert side["self_samples"] == [0, 0, 200]
    assert side["self_us"] == [0, 0, 2_000_000]
    del side["self_samples"], side["self_us"]
    assert side == {
        "selector": '{service="shop", version="1"}',
        "from": START,
        "until": START + 3600,
        "windows": 2,
        "pods": 2,
        "samples": 200,
        "seconds": 2.0,
        "pod_seconds": 20.0,
        "states": Counts(idle=1800, running=120, gil=80)._asdict(),
        "idle_share": 0.9,
        "target_cpu_seconds": 2.0,
        "truncated_samples": 0,
        "modes": ["gil"],
        "samplers": ["sidelight 0.1.0"],
        "python_versions": ["3.11.7"],
        "missing_states": [],
        "gil_contention": None,
        "sampling_periods_us": [10_000.0],
        "quality": {
            "readers": ["own"],
            "coverage": 1.0,
            "failed_share": pytest.approx(1 / 1001),
            "errors": {"moved": 2},
            "stops": 120,
            "stopped_seconds": pytest.approx(0.008),
            "stopped_share": pytest.approx(0.0004),
            "longest_stop_seconds": 0.0003,
            "other_samples": 0,
            "preempted_seconds": 0.0,
            "reduced": ["cpu"],
        },
    }


async def test_lines_are_told_apart_on_demand(client: Client) -> None:
    answer = await get(client, "flamegraph", query='version="2"', type="cpu", lines="1")
    assert answer["names"] == ["total", "main (a.py:1)", "work (b.py:7)", "work (b.py:9)"]
    assert answer["lines"] is True


async def test_a_comparison_has_a_baseline_and_a_comparison_each_anded_with_the_query(client: Client) -> None:
    answer = await get(
        client, "compare", query='{service="shop"}', baseline='version="1"', comparison='{version="2"}'
    )
    assert [side["selector"] for side in answer["sides"]] == [
        '{service="shop", version="1"}',
        '{service="shop", version="2"}',
    ]
    assert [side["samples"] for side in answer["sides"]] == [2000, 1000]
    assert answer["basis"]["windows"] == 3


async def test_a_comparison_can_be_of_two_ranges(client: Client) -> None:
    at = str(START + 10)
    answer = await get(client, "compare", query='service="shop"', baseline_until=at, comparison_from=at)
    assert [side["windows"] for side in answer["sides"]] == [2, 1]
    assert [side["until"] for side in answer["sides"]] == [START + 10, START + 3600]


async def test_depth_has_one_side_or_two(client: Client) -> None:
    one = await get(client, "depth", query='service="cart"')
    assert one["sides"][0]["depth"] == [1]
    assert one["largest_gap"] is None
    two = await get(client, "depth", baseline='service="cart"', comparison='service="shop"')
    assert two["largest_gap"] == {"depth": 1, "gap": 1.0}
    assert [side["mean"] for side in two["sides"]] == [1.0, 2.0]


async def test_top_counts_a_function_by_itself_and_with_what_it_calls(client: Client) -> None:
    answer = await get(client, "top", query='version="2"', by="total")
    assert answer["rows"] == {"function": ["main", "wait", "work"], "file": ["a.py", "a.py", "b.py"]}
    side = answer["sides"][0]
    assert side["total_samples"] == [1000, 900, 100]
    assert side["self_samples"] == [0, 900, 100]
    two = await get(client, "top", baseline='version="1"', comparison='version="2"', limit="1")
    assert two["rows"]["function"] == ["wait"]
    assert [side["self_us"] for side in two["sides"]] == [[18_000_000], [9_000_000]]
    assert two["functions_total"] == 3


async def test_export_gives_folded_text_with_states_or_without(client: Client) -> None:
    async with client.get("/api/v1/export", params={"query": 'version="2"', "lines": "1"}) as response:
        assert await response.text() == (
            "main (a.py:1);wait (a.py:5);[idle] 900\n"
            "main (a.py:1);work (b.py:7) 60\n"
            "main (a.py:1);work (b.py:9);[gil] 40\n"
        )
        assert response.content_type == "text/plain"
        assert response.headers["Sidelight-Windows"] == "1"
        assert response.headers["Sidelight-Samples"] == "1000"
    async with client.get("/api/v1/export", params={"query": 'version="2"', "states": "0"}) as response:
        assert await response.text() == "main (a.py);wait (a.py) 900\nmain (a.py);work (b.py) 100\n"


async def test_export_for_speedscope_is_at_a_path_that_its_loader_takes(client: Client) -> None:
    answer = await get(client, "export/shop v2.speedscope.json", query='version="2"', type="cpu")
    assert answer["name"] == "shop v2"
    assert answer["profiles"][0]["unit"] == "nanoseconds"
    assert answer["profiles"][0]["weights"] == [100 * PERIOD_NS]
    frames = [answer["shared"]["frames"][at]["name"] for at in answer["profiles"][0]["samples"][0]]
    assert frames == ["main", "work"]
    same = await get(client, "export", query='version="2"', type="cpu", format="speedscope")
    assert same["profiles"][0]["samples"] == answer["profiles"][0]["samples"]


async def test_export_gives_a_flame_graph_that_may_run_its_own_script_only(client: Client) -> None:
    query = {"query": 'version="2"', "type": "cpu", "format": "svg"}
    async with client.get("/api/v1/export", params=query) as response:
        boxes = drawn(await response.read())
        assert response.content_type == "image/svg+xml"
        policy = response.headers["Content-Security-Policy"]
    assert [box.name for box in boxes] == ["total", "main (a.py)", "work (b.py)"]
    assert boxes[0].total == 100 * PERIOD_NS
    assert "default-src 'none'" in policy
    assert "sandbox allow-scripts" in policy


async def test_status_says_what_came_in_and_whether_the_store_answers() -> None:
    activity = IngestStats()
    activity.record_acknowledged([("pod-1", "shop")], START_NS)
    async with serving(shop(), activity=activity) as client:
        answer = await get(client, "status")
    assert answer["store"] == {"kind": "memory", "ok": True}
    assert answer["windows_acknowledged"] == 1
    assert answer["last_ingest"] == "2026-11-21T09:30:00Z"
    assert answer["sidecars"] == [{"pod": "pod-1", "service": "shop", "last_seen": "2026-11-21T09:30:00Z"}]


@pytest.mark.parametrize("query", ["", 'service="nobody"'])
async def test_an_empty_store_and_an_unknown_service_have_empty_answers(nothing: Client, query: str) -> None:
    for path in ("services", "labels", "labels/version/values", "timeline", "flamegraph", "depth", "top"):
        answer = await get(nothing, path, query=query)
        assert (
            answer["basis"].items()
            >= {"windows": 0, "pods": 0, "samples": 0, "unreadable_segments": 0}.items()
        )
    flame = await get(nothing, "compare", baseline=query)
    assert flame["names"] == ["total"]
    assert [side["pod_seconds"] for side in flame["sides"]] == [0.0, 0.0]
    assert [side["idle_share"] for side in flame["sides"]] == [None, None]
    async with nothing.get("/api/v1/export") as response:
        assert (response.status, await response.text()) == (200, "")
        assert response.headers["Sidelight-Windows"] == "0"
    assert (await get(nothing, "status"))["last_ingest"] is None


async def test_every_kind_of_store_gives_the_same_answers(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_engine, "STORE_CHECK_SECONDS", 60.0)
    stored([window(STACKS)], [window("main (a.py:1) 7", at=20, service="cart")], store=store)
    async with serving(store) as client:
        flame = await get(client, "flamegraph")
        assert flame["names"] == ["total", "main (a.py)", "wait (a.py)", "work (b.py)"]
        assert flame["sides"][0]["self_samples"] == [0, 7, 900, 100]
        assert (
            flame["basis"].items()
            >= {"windows": 2, "pods": 1, "samples": 1007, "unreadable_segments": 0}.items()
        )
        assert (await get(client, "status"))["store"] == {"kind": store.kind, "ok": True}


async def test_the_range_that_an_answer_names_can_be_asked_for_again(client: Client) -> None:
    side = (await get(client, "depth", **{"from": "-3601s", "until": "-3590s"}))["sides"][0]
    again = await get(client, "depth", **{"from": str(side["from"]), "until": str(side["until"])})
    assert again["sides"][0] == side
    assert side["windows"] == 2


async def test_answers_are_compressed_for_readers_that_take_it(client: Client) -> None:
    url = "/api/v1/timeline?step=1"
    async with client.get(url, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        compressed = await response.json()
    for refusing in ("identity", "gzip;q=0"):
        async with client.get(url, headers={"Accept-Encoding": refusing}) as response:
            assert "Content-Encoding" not in response.headers
            assert await response.json() == compressed


async def test_text_in_answers_is_unicode_as_it_was_sent() -> None:
    async with serving(stored([window("名前 (ü.py:1) 3", service="größe")])) as client:
        async with client.get("/api/v1/flamegraph") as response:
            text = await response.text()
        assert "名前 (ü.py)" in text
        assert json.loads(text)["sides"][0]["samples"] == 3
