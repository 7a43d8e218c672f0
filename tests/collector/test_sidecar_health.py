"""Sidecars of each service, against windows with known numbers."""

from __future__ import annotations

from typing import Any

from sidelight_collector.answers.sidecar_health import query_sidecar_health
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.window import Quality
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import START_NS, asked, question, stored, window


def ask(store: ObjectStore, selector: str = "{}", max_rows: int = 100) -> dict[str, Any]:
    return dict(
        asked(store, lambda context: query_sidecar_health(context, question(selector), max_rows=max_rows))
    )


def watched(failed: int = 0, stopped_ns: int = 0, sampler: str = "sidelight 0.1.0") -> Quality:
    return Quality(
        attempts=1000,
        mode="gil",
        sampler=sampler,
        errors={"moved": failed} if failed else {},
        stops=100,
        stopped_ns=stopped_ns,
        longest_stop_ns=stopped_ns // 2,
    )


def fleet() -> ObjectStore:
    return stored(
        [
            window(service="shop", pod="a", cluster="eu", namespace="prod", quality=watched(100, 10_000_000)),
            window(service="shop", pod="b", cluster="eu", namespace="prod", at=10, quality=watched()),
            window(
                service="shop",
                pod="c",
                cluster="eu",
                namespace="prod",
                quality=watched(sampler="sidelight 0.2.0"),
            ),
            window(service="cart", namespace="lab", quality=watched()),
        ]
    )


def test_sidecars_are_grouped_by_service_and_version_with_their_overhead() -> None:
    answer = ask(fleet())
    assert answer["service"] == ["cart", "shop", "shop"]
    assert answer["cluster"] == ["", "eu", "eu"]
    assert answer["sampler"] == ["sidelight 0.1.0", "sidelight 0.1.0", "sidelight 0.2.0"]
    assert answer["pods"] == [1, 2, 1]
    assert answer["failed_share"] == [0, 0.05, 0]
    assert answer["coverage"][1] == 0.95
    # Of two times ten seconds, 10 ms.
    assert answer["stopped_share"][1] == 0.0005
    assert answer["longest_stop_seconds"][1] == 0.005
    assert answer["last_seen"][1] == START_NS / 1e9 + 20


def test_rows_beyond_the_limit_are_counted_and_queries_select_windows() -> None:
    answer = ask(fleet(), max_rows=1)
    assert (answer["service"], answer["omitted"]) == (["cart"], 2)
    assert ask(fleet(), '{namespace="lab"}')["service"] == ["cart"]
    assert ask(fleet(), '{namespace="none"}')["pods"] == []


async def test_sidecars_are_served_for_one_namespace() -> None:
    async with serving(fleet()) as client:
        answer = await get(client, "sidecars", query='namespace="prod"', limit="5")
    assert answer["service"] == ["shop", "shop"]
    assert answer["basis"]["windows"] == 3
