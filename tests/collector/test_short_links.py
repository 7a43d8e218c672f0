"""Short links, asked for and followed over HTTP, in front of stores that work and stores that do not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.http.app import Readiness, build_app
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.http.short_links import ROOT, LinkPolicy, LinkStore, is_page, link_id, routes
from sidelight_collector.ingest.memory_budget import MemoryBudget
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectStore, StoreRefused

VIEW = "/s/shop?from=2026-11-21T09%3A00%3A00Z&until=2026-11-21T10%3A00%3A00Z&query=pod%3D%22x%22"
DAY = 86_400
RULES = LinkPolicy()
Client = TestClient[Request, Application]


@dataclass
class Clock:
    now: float = 1_795_300_000.0

    def __call__(self) -> float:
        return self.now


class ReadOnly(MemoryStore):
    """A store that takes nothing."""

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        raise StoreRefused("this store is read-only")


@asynccontextmanager
async def serving(
    store: ObjectStore,
    rules: LinkPolicy = RULES,
    *,
    prefix: str = "",
    tokens: BearerTokens | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Client]:
    links = LinkStore(store, rules, clock or Clock())
    body_reader = BodyReader(MemoryBudget(1 << 20, lambda _: None), 60.0)
    app = build_app(
        routes(links, rules, body_reader, prefix),
        Metrics(),
        tokens or BearerTokens(),
        Readiness(),
        path_prefix=prefix,
    )
    async with TestClient(TestServer(app)) as client:
        yield client


async def keep(client: Client, path: object, prefix: str = "", **headers: str) -> tuple[int, dict[str, Any]]:
    async with client.post(f"{prefix}/api/v1/links", json={"path": path}, headers=headers) as response:
        return response.status, await response.json()


async def follow(client: Client, path: str, **headers: str) -> tuple[int, str]:
    async with client.get(path, allow_redirects=False, headers=headers) as response:
        return response.status, response.headers.get("Location", "")


@pytest.mark.parametrize("prefix", ["", "/tools/profiles"])
async def test_a_link_leads_back_to_the_view_below_any_prefix(prefix: str) -> None:
    async with serving(MemoryStore(), prefix=prefix) as client:
        status, kept = await keep(client, VIEW, prefix)
        assert (status, set(kept)) == (200, {"id", "path"})
        assert kept["path"] == f"/l/{kept['id']}"
        assert await follow(client, prefix + kept["path"]) == (303, prefix + VIEW)


async def test_the_same_view_has_the_same_link_from_every_collector_of_a_store() -> None:
    store = MemoryStore()
    async with serving(store) as one, serving(store) as other:
        assert await keep(one, VIEW) == await keep(other, VIEW)
        assert [entry.key for entry in store.list(ROOT)] == [f"{ROOT}{link_id(VIEW)}.json"]
        assert (await keep(other, f"{VIEW}&type=wall"))[1]["id"] != link_id(VIEW)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/services?q=x",
        "/s/a%2Fb",
        "/s/%3Cb%3E/compare?baseline=version%3A1",
        "/captures/c_1",
        "/settings",
    ],
)
async def test_every_page_can_be_linked_to(path: str) -> None:
    async with serving(MemoryStore()) as client:
        _, kept = await keep(client, path)
        assert await follow(client, kept["path"]) == (303, path)


ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/s/shop",
    "/\\evil.example",
    "/s/\\..\\x",
    "\\\\evil.example",
    "/s/shop\r\nSet-Cookie: a=b",
    "/s/shop ",
    "/s/shöp",
    "/s/shop#@evil.example",
    "/s/../../other",
    "/s/%2e%2e/compare",
    "/s/.%2E/x",
    "/s/./x",
    "/s/shop/..",
    "/api/v1/services",
    "/l/aaaaaaaaaaaaaaaa",
    "/speedscope/#profileURL=https://evil.example",
    "/s//evil.example",
    "javascript:alert(1)",
    "s/shop",
    "",
    "/s/shop/compare/more",
]


@pytest.mark.parametrize("path", [*ELSEWHERE, None, 7, ["/s/shop"]])
async def test_nothing_but_pages_of_this_collector_can_be_linked_to(path: object) -> None:
    store = MemoryStore()
    async with serving(store) as client:
        status, said = await keep(client, path)
        assert (status, said["error"]) == (400, "bad_request")
        assert said["hint"]
    assert not list(store.list(ROOT))


@pytest.mark.parametrize("path", ELSEWHERE)
async def test_a_link_that_somebody_put_into_the_store_leads_nowhere_else(path: str) -> None:
    store = MemoryStore()
    content = {"format": 1, "made": Clock().now, "path": path}
    store.put(f"{ROOT}{link_id(path)}.json", json.dumps(content).encode())
    async with serving(store) as client:
        assert await follow(client, f"/l/{link_id(path)}") == (404, "")


@given(st.text(max_size=40))
def test_no_page_has_another_host(text: str) -> None:
    for path in (text, f"/{text}", f"/s/{text}", f"/s/x?{text}"):
        if is_page(path):
            assert path.startswith("/")
            assert path[1:2] not in ("/", "\\")
            assert not {".", ".."} & set(path.partition("?")[0].split("/"))
            assert path.isascii()
            assert path.isprintable()


@pytest.mark.parametrize("name", ["aaaaaaaaaaaaaaaa", "x", "..%2F..%2Fconfig", "AAAAAAAAAAAAAAAA", "a" * 400])
async def test_a_link_that_is_not_there_is_404_with_what_to_do(name: str) -> None:
    async with serving(MemoryStore()) as client, client.get(f"/l/{name}") as response:
        assert response.status == 404
        said = await response.json()
        assert said["error"] == "not_found"
        assert "Links are kept 400 days" in said["hint"]


async def test_a_link_that_cannot_be_read_is_404() -> None:
    store = MemoryStore()
    store.put(f"{ROOT}{link_id(VIEW)}.json", b"\xff{")
    async with serving(store) as client:
        assert (await follow(client, f"/l/{link_id(VIEW)}"))[0] == 404
        assert (await keep(client, VIEW))[0] == 200
        assert (await follow(client, f"/l/{link_id(VIEW)}"))[0] == 303


async def test_an_address_may_be_as_long_as_the_setting_says_and_no_longer() -> None:
    async with serving(MemoryStore(), LinkPolicy(max_bytes=100)) as client:
        fits = "/s/shop?q=" + "x" * 90
        assert (await keep(client, fits))[0] == 200
        status, said = await keep(client, fits + "x")
        assert (status, said["error"]) == (413, "too_large")
        assert "--max-link-bytes" in said["hint"]
        status, said = await keep(client, "/s/shop?q=" + "x" * 100_000)
        assert (status, said["error"]) == (413, "too_large")


async def test_a_link_is_kept_so_many_days_after_it_was_last_made() -> None:
    store, clock = MemoryStore(), Clock()
    async with serving(store, LinkPolicy(retention_days=10), clock=clock) as client:
        _, kept = await keep(client, VIEW)
        clock.now += 10 * DAY
        assert (await follow(client, kept["path"]))[0] == 303
        await keep(client, VIEW)
        clock.now += 10 * DAY
        assert (await follow(client, kept["path"]))[0] == 303
        clock.now += 1
        assert (await follow(client, kept["path"]))[0] == 404
    async with serving(store, LinkPolicy(retention_days=0), clock=clock) as client:
        assert (await follow(client, kept["path"]))[0] == 303


def test_links_whose_time_is_over_are_deleted_and_nothing_else_is() -> None:
    store, clock = MemoryStore(), Clock()
    links = LinkStore(store, LinkPolicy(retention_days=10), clock)
    links.create(VIEW)
    store.put(f"{ROOT}notes.txt", b"not ours")
    clock.now = max(entry.modified for entry in store.list("")) + 10 * DAY - 1
    assert links.delete_expired() == 0
    clock.now += 2
    assert links.delete_expired() == 1
    assert [entry.key for entry in store.list("")] == [f"{ROOT}notes.txt"]
    assert LinkStore(store, replace(RULES, retention_days=0), clock).delete_expired() == 0


async def test_readers_may_keep_and_follow_links_and_nobody_else() -> None:
    tokens = BearerTokens(write=("writer",), read=("reader",))
    async with serving(MemoryStore(), tokens=tokens) as client:
        assert (await keep(client, VIEW))[0] == 401
        status, kept = await keep(client, VIEW, Authorization="Bearer reader")
        assert status == 200
        assert (await follow(client, kept["path"])) == (401, "")
        assert (await follow(client, kept["path"], Authorization="Bearer reader")) == (303, VIEW)


async def test_links_can_be_switched_off() -> None:
    store = MemoryStore()
    LinkStore(store, RULES).create(VIEW)
    async with serving(store, LinkPolicy(is_enabled=False)) as client:
        status, said = await keep(client, VIEW)
        assert (status, said["error"]) == (403, "forbidden")
        assert (await follow(client, f"/l/{link_id(VIEW)}"))[0] == 404


async def test_a_store_that_takes_nothing_is_said_so() -> None:
    async with serving(ReadOnly()) as client:
        status, said = await keep(client, VIEW)
        assert (status, said["error"]) == (503, "store_unavailable")


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b"{}", "application/json", "bad_request"),
        (b"[1", "application/json", "bad_json"),
        (b'{"path": "/s/x"}', "text/plain", "bad_request"),
    ],
)
async def test_only_json_that_names_a_path_is_a_request(body: bytes, kind: str, reason: str) -> None:
    headers = {"Content-Type": kind}
    async with (
        serving(MemoryStore()) as client,
        client.post("/api/v1/links", data=body, headers=headers) as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"] == reason
