"""Tools for coding agents, asked by the protocol's own client."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from mcp import StdioServerParameters
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Running, Serve
from tests.collector.processes import Process, post
from tests.collector.two_namespaces import open_place
from tests.processes import sidelight

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MakeWindow = Callable[..., Window]


@asynccontextmanager
async def agent(collector: Running, prefix: str = "", **headers: str) -> AsyncIterator[Client]:
    """The protocol's client, connected over HTTP."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(headers=named, timeout=60) as http,
        Client(streamable_http_client(collector.url(f"{prefix}/mcp"), http_client=http)) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """The text of an answer; an error is marked."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    return ("ERROR " if result.is_error else "") + str(getattr(content, "text", content))


def versions(make_window: MakeWindow) -> list[Window]:
    """Two versions at the same time: `parse` takes three times as much in version 2."""
    start_ns = time.time_ns() - 10**9
    return [
        make_window(
            f"main (app.py:1);load (app.py:5) 40 | main (app.py:1);parse (json.py:7) {parse}",
            version=version,
            pod=f"shop-{version}-{pod}",
            start_ns=start_ns,
        )
        for version, parse in (("1", 20), ("2", 60))
        for pod in range(3)
    ]


async def test_an_agent_finds_where_the_time_goes(serving: Serve, make_window: MakeWindow) -> None:
    async with serving(MemoryStore()) as collector, agent(collector) as client:
        assert (await collector.post(encode_windows(versions(make_window)))).status == 200
        names = {tool.name for tool in (await client.list_tools()).tools}
        services = await call(client, "list_services")
        top = await call(client, "top_functions", service="shop", limit=2, version="2")
        fleet = await call(client, "find_function", search="json.parse")
        graph = await call(client, "flame_graph", service="shop", version="1")
        explained = await call(client, "explain_function", service="shop", function="parse")
        compared = await call(client, "compare_versions", service="shop")
    assert names == {
        *("list_services", "top_functions", "find_function", "flame_graph", "explain_function"),
        *("compare_versions", "list_deploys", "start_capture", "get_capture"),
    }
    assert services.splitlines()[-1].split()[-1] == "shop"
    assert "300 samples of 3 pods" in top
    assert [line.split()[:2] for line in top.splitlines()[-3:-1]] == [["60.0", "%"], ["40.0", "%"]]
    assert top.splitlines()[-3].endswith("parse (json.py)")
    assert top.endswith("1 more function.")
    assert "parse (json.py): 2.4 cores in 1 service, 50.0 % of the total" in fleet
    assert [line.split()[0] for line in graph.splitlines()[-3:]] == ["100.0", "66.7", "33.3"]
    # 240 of 480 samples, of 10 ms, in 6 seconds of pods
    assert "parse (json.py): 50.0 % of the service's CPU time (400 m/pod)" in explained
    assert explained.splitlines()[-1].split() == ["400", "400", "7"]
    assert 'version="1"' in compared
    assert 'version="2"' in compared
    assert f"Page: {collector.url('/s/shop/compare')}" in compared


async def test_an_agent_may_what_its_user_may(serving: Serve, tmp_path: Path) -> None:
    async with open_place(serving, tmp_path) as place:
        collector = place.collector
        async with agent(collector, X_User="alice") as alice, agent(collector, X_User="root") as root:
            seen = await call(alice, "list_services", start="now-1h")
            theirs = await call(alice, "top_functions", service=place.theirs.service)
            started = await call(alice, "start_capture", service=place.theirs.service)
            capture = await call(alice, "get_capture", capture=place.theirs.capture)
            everything = await call(root, "list_services", start="now-1h")
            own = await call(alice, "get_capture", capture=place.ours.capture)
        nobody = await collector.ask("POST", "/mcp", json.dumps(INITIALIZE).encode(), ACCEPT)
    assert place.ours.service in seen
    assert place.theirs.service not in seen
    assert theirs.startswith("No samples match.")
    assert place.theirs.service in everything
    assert capture.startswith("ERROR")
    assert own.startswith(f"Capture {place.ours.capture}")
    assert nobody.status == 401
    # A hidden service is like one that no pod runs: the capture waits for a pod of hers.
    assert ": queued, 0 of 60 s, 0 samples from 0 of 1 pods." in started


async def test_the_tools_leave_the_logging_of_the_program_alone(serving: Serve) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    async with serving(MemoryStore()) as collector, agent(collector) as client:
        await client.list_tools()
        assert (root.level, list(root.handlers)) == before


async def test_an_error_says_what_to_do(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector, agent(collector) as client:
        bad_time = await call(client, "top_functions", service="shop", start="yesterday")
        unknown = await call(client, "get_capture", capture="c_01M883XB1SK9Y8CVHV1VR54JHX")
        empty = await call(client, "list_services")
    assert bad_time.startswith("ERROR")
    assert "bad_time" in bad_time
    assert "RFC 3339" in bad_time
    assert unknown.startswith("ERROR")
    assert empty.startswith("No samples match.")


async def test_requests_are_limited_and_can_be_turned_off(serving: Serve) -> None:
    body = json.dumps(INITIALIZE).encode()
    async with serving(MemoryStore(), path_prefix="/p") as collector:
        fits = body[:-1] + b" " * ((64 << 10) - len(body)) + b"}"
        answers = [
            await collector.ask("POST", "/p/mcp", sent, ACCEPT)
            for sent in (fits, fits + b" ", b"[" * 17 + b"]" * 17, b"{")
        ]
        assert [answer.status for answer in answers] == [200, 413, 400, 400]
        foreign = {**ACCEPT, "Origin": "https://evil.example"}
        assert (await collector.ask("POST", "/p/mcp", body, foreign)).status == 403
        assert (await collector.ask("GET", "/p/mcp", headers=ACCEPT)).status == 405
    async with serving(MemoryStore(), mcp=False) as collector:
        answer = await collector.ask("POST", "/mcp", body, ACCEPT)
        assert (answer.status, answer.reason) == (403, "forbidden")


async def test_the_command_serves_the_same_tools(
    start: Callable[..., Process], tmp_path: Path, make_window: MakeWindow
) -> None:
    port = start(str(tmp_path / "store")).port()
    assert post(port, encode_windows(versions(make_window)))[0] == 200
    url = f"http://127.0.0.1:{port}"
    program, *arguments = sidelight("mcp", "--collector", url)
    command = StdioServerParameters(command=program, args=arguments)
    async with Client(command) as client:
        top = await call(client, "top_functions", service="shop")
        started = await call(client, "start_capture", service="shop", seconds=1)
    assert "480 samples of 6 pods" in top
    assert started.startswith("Capture c_")
    assert f"Page: {url}/captures/c_" in started
