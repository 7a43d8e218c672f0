"""Clients of Pyroscope in Go, Node and Python against a collector: totals equal what each client counted."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.http.pyroscope.message_codec import parse_json_message, to_json
from sidelight_collector.http.pyroscope.querier_routes import METHODS
from sidelight_collector.http.pyroscope.selector_mapping import TYPE_IDS
from sidelight_model.counts import ProfileType
from sidelight_model.import_formats.pprof_profile import NS_PER_TIME_UNIT, PprofProfile
from tests.collector.api_client import get, serving
from tests.collector.processes import SECONDS, Process, metric
from tests.collector.test_grafana_queries import (
    API_RANGE,
    CPU,
    RANGE,
    call,
    read_tree,
    select,
    shop,
)
from tests.collector.test_pyroscope_clients import TOKEN, Recorder, record, total_ns
from tests.processes import CHROMIUM

pytestmark = pytest.mark.long
__all__ = ["record"]

CLIENTS = Path(__file__).parents[2] / ".tools" / "pyroscope-clients"
PROGRAMS = Path(__file__).parent / "pyroscope_clients"
GZIP_MAGIC = b"\x1f\x8b"
SITE = {"callSite": [{"name": "main (a.py)"}, {"name": "work (b.py)"}]}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ProfileTypes", RANGE),
    ("LabelNames", {**RANGE, "matchers": ["{}"]}),
    ("LabelValues", {**RANGE, "name": "service_name", "matchers": ['{version=~"1|2"}']}),
    ("Series", {**RANGE, "labelNames": ["service_name", "__profile_type__"]}),
    *(("SelectSeries", select(one, step=30, groupBy=["pod", "version"])) for one in TYPE_IDS.values()),
    *(("SelectMergeStacktraces", select(one)) for one in TYPE_IDS.values()),
    ("SelectMergeStacktraces", select(CPU, format="PROFILE_FORMAT_PPROF")),
    ("SelectMergeProfile", select(CPU, stackTraceSelector=SITE)),
    ("Diff", {"left": select(selector='{version="1"}'), "right": select(selector='{version="2"}')}),
    ("GetProfileStats", {}),
)
REFUSED = (
    ("SelectHeatmap", {}, "unimplemented"),
    ("SelectMergeSpanProfile", {}, "unimplemented"),
    ("AnalyzeQuery", {}, "unimplemented"),
    ("SelectSeries", select(selector='{pod=~"("}'), "invalid_argument"),
    ("SelectMergeProfile", select("memory:alloc:bytes:space:bytes"), "invalid_argument"),
)


@pytest.fixture(autouse=True)
def programs() -> None:
    if not CLIENTS.exists():
        pytest.fail(f"{CLIENTS} is missing: make .tools/pyroscope-clients")


async def run(*command: str | Path) -> Any:
    """Run a program; return the JSON that it prints."""
    process = await asyncio.create_subprocess_exec(*map(str, command), stdout=subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0
    return json.loads(output)


def drop_defaults(value: Any) -> Any:
    """Leave out the values that Go's JSON leaves out."""
    if isinstance(value, dict):
        kept = {name: drop_defaults(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in (None, "", "0", 0, False, [])}
    return [drop_defaults(one) for one in value] if isinstance(value, list) else value


async def test_connect_go_reads_the_same_answers_in_both_forms() -> None:
    asked = [*CALLS, *((method, message) for method, message, _ in REFUSED)]
    async with serving(shop(), tokens=BearerTokens(read=(TOKEN,))) as guarded:
        address = f"http://127.0.0.1:{guarded.server.port}"
        calls = [f"{method}={json.dumps(message)}" for method, message in asked]
        answers = await run(CLIENTS / "pyroscope-clients", "query", address, TOKEN, *calls)
        denied = await run(CLIENTS / "pyroscope-clients", "query", address, "wrong", *calls)
    assert {one["code"] for row in denied for one in row} == {"unauthenticated"}
    async with serving(shop()) as client:
        for row in answers:
            for (method, message), answer in zip(CALLS, row, strict=False):
                assert answer["code"] == "", (method, answer)
                schema = METHODS[method].response
                given = to_json(schema, parse_json_message(schema, answer["answer"]))
                own = parse_json_message(schema, await call(client, method, message))
                assert drop_defaults(given) == drop_defaults(to_json(schema, own)), method
            for (_, _, code), answer in zip(REFUSED, row[len(CALLS) :], strict=True):
                assert answer["code"] == code, answer


async def test_the_plugin_of_perses_draws_the_flame_graph_of_the_query_api() -> None:
    async with serving(shop(), tokens=BearerTokens(read=(TOKEN,))) as guarded:
        address = f"http://127.0.0.1:{guarded.server.port}"
        times = map(str, RANGE.values())
        answer = await run("node", CLIENTS / "node" / "perses.cjs", address, TOKEN, "shop", CPU, *times)
    assert answer["types"] == list(TYPE_IDS.values())
    assert answer["services"] == ["cart", "shop"]
    assert answer["values"] == ["1", "2"]
    assert {"service_name", "version", "pod"} <= set(answer["labels"])
    async with serving(shop()) as client:
        own = await get(client, "flamegraph", query='service="shop"', type="cpu", **API_RANGE)
    profile, paths = answer["profile"], {}
    waiting = [("", profile["profile"]["stackTrace"])]
    while waiting:
        parent, bar = waiting.pop()
        path = f"{parent};{bar['name']}".removeprefix(";")
        paths[path] = bar["total"]
        waiting += [(path, child) for child in bar["children"]]
    assert paths == read_tree(own)
    assert profile["numTicks"] == sum(profile["timeline"]["samples"]) == paths["total"]


@pytest.fixture
def collector(start: Callable[..., Process], tmp_path: Path) -> int:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    return start(str(tmp_path / "store"), "--write-tokens-file", str(tokens)).port()


def service_ns(port: int, service: str, kind: ProfileType = ProfileType.CPU) -> int:
    return total_ns(port, query=f'service="{service}"', type=kind.value)


def iter_uploads(recorder: Recorder) -> Iterator[PprofProfile]:
    """Yield the profiles that clients of `/ingest` uploaded."""
    for _, headers, body in recorder.requests:
        content = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        kind = headers.get("content-type", "")
        if kind.startswith("multipart/"):
            parts = content.split(b"--" + kind.partition("boundary=")[2].encode())
            part = next(part for part in parts if b'name="profile"' in part)
            content = part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        content = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
        yield PprofProfile(content)


def sum_ns(profiles: Iterable[PprofProfile], *names: str) -> tuple[int, int]:
    """Sum the time of the first named type that each profile has, and the periods of the profiles."""
    total = periods = 0
    for profile in profiles:
        types = {one.name: at for at, one in enumerate(profile.header.value_types)}
        for at in [types[name] for name in names if name in types][:1]:
            unit = profile.header.value_types[at].unit
            factor = NS_PER_TIME_UNIT.get(unit) or profile.header.period
            total += factor * sum(sample.values[at] for sample in profile.iter_samples())
            periods += profile.header.period
    return total, periods


def sum_longer_ns(profiles: Iterable[PprofProfile], *names: str) -> int:
    """Sum the longest of the named times of each sample."""
    total = 0
    for profile in profiles:
        types = {one.name: at for at, one in enumerate(profile.header.value_types)}
        if all(name in types for name in names):
            total += sum(
                max(sample.values[types[name]] for name in names) for sample in profile.iter_samples()
            )
    return total


def test_connect_go_pushes_a_profile_that_counts_once(collector: int) -> None:
    address = f"http://127.0.0.1:{collector}"
    sent = asyncio.run(run(CLIENTS / "pyroscope-clients", "push", address, TOKEN))
    assert sent["ns"] > 0
    assert service_ns(collector, "alloy.scraped") == sent["ns"]
    assert metric(collector, "sidelight_windows_duplicate_total") == 2 * metric(
        collector, "sidelight_windows_accepted_total"
    )


@pytest.mark.parametrize(
    ("service", "command"),
    [
        ("shop.go", [CLIENTS / "pyroscope-clients", "sdk"]),
        ("shop.old", [sys.executable, PROGRAMS / "program_first_api.py"]),
    ],
)
def test_cpu_time_that_older_clients_upload_is_counted_once(
    collector: int, record: Callable[[int], tuple[Recorder, int]], service: str, command: list[str | Path]
) -> None:
    recorder, port = record(collector)
    run_client([*command, f"http://127.0.0.1:{port}", TOKEN], "first_api")
    assert set(recorder.statuses) == {200}
    sent, _ = sum_ns(iter_uploads(recorder), "cpu", "samples")
    stored = service_ns(collector, service)
    assert sent > 0
    assert abs(stored - sent) <= sent // 10**5
    assert set(recorder.repeat()) == {200}
    assert service_ns(collector, service) == stored
    print(f"{service}: {len(recorder.requests)} requests, sent {sent}, stored {stored}")


def test_cpu_and_wall_time_of_node_are_counted_once(
    collector: int, record: Callable[[int], tuple[Recorder, int]]
) -> None:
    recorder, port = record(collector)
    run_client(["node", CLIENTS / "node" / "sdk.cjs", f"http://127.0.0.1:{port}", TOKEN], "first_api")
    assert set(recorder.statuses) == {200}
    whole = sum_longer_ns(iter_uploads(recorder), "cpu", "wall")
    stored = {kind: service_ns(collector, "shop.node", kind) for kind in ProfileType}
    assert whole > 0
    assert abs(stored[ProfileType.WALL] - whole) <= whole // 10**5
    # CPU time is a part of wall time in the same samples, and right to one of them in each profile.
    cpu, periods = sum_ns(iter_uploads(recorder), "cpu")
    assert cpu > 0
    assert abs(stored[ProfileType.CPU] - cpu) <= periods
    assert set(recorder.repeat()) == {200}
    assert {kind: service_ns(collector, "shop.node", kind) for kind in ProfileType} == stored
    assert metric(collector, 'sidelight_pyroscope_profiles_not_stored_total{type="memory"}') > 0
    print(f"shop.node: {len(recorder.requests)} requests, sent {cpu} and {whole}, stored {stored}")


def test_what_pyroscope_otel_pushes_is_counted_once_without_its_spans(
    collector: int, record: Callable[[int], tuple[Recorder, int]]
) -> None:
    recorder, port = record(collector)
    run_client([sys.executable, PROGRAMS / "program_otel.py", f"http://127.0.0.1:{port}", TOKEN], "otel")
    assert set(recorder.statuses) == {200}
    sent, stored = recorder.sum_ns(), service_ns(collector, "shop.otel")
    assert sent > 0
    assert abs(stored - sent) <= sent // 10**5
    assert metric(collector, 'sidelight_pyroscope_labels_dropped_total{label="span_id"}') > 0
    assert set(recorder.repeat()) == {200}
    assert service_ns(collector, "shop.otel") == stored
    print(f"shop.otel: {len(recorder.requests)} requests, sent {sent}, stored {stored}")


def run_client(command: list[str | Path], packages: str) -> None:
    """Run a client with the Python packages of a folder before those of this environment."""
    environment = {**os.environ, "PYTHONPATH": str(CLIENTS / packages)}
    subprocess.run(list(map(str, command)), check=True, timeout=SECONDS, env=environment)


class QuietFiles(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        pass


async def test_the_component_of_grafana_draws_the_frames() -> None:
    async with serving(shop()) as client:
        answer = await call(client, "SelectMergeStacktraces", select(CPU))
    shown = await asyncio.to_thread(draw_in_browser, CLIENTS / "flamegraph", answer["flamegraph"])
    for row in (
        ("total", "0 ns", "300 ms"),
        ("main (a.py)", "80 ms", "300 ms"),
        ("work (b.py)", "120 ms", "120 ms"),
        ("other (c.py)", "100 ms", "100 ms"),
    ):
        assert "\n".join(row) in shown, shown


def draw_in_browser(folder: Path, graph: Mapping[str, Any]) -> str:
    """Draw a flame graph with Grafana's component; return the text of its page."""
    handler = partial(QuietFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/index.html")
        page.wait_for_function("() => window.draw")
        bars = page.evaluate("graph => draw(graph)", graph)
        # The bar of the root, near the top left, has a colour of its own.
        page.wait_for_function(
            """() => {
              const canvas = document.querySelector("canvas[data-testid=flameGraph]");
              const pixel = canvas?.getContext("2d")?.getImageData(40, 10, 1, 1).data ?? [0, 0, 0, 0];
              return pixel[3] === 255 && pixel[0] + pixel[1] + pixel[2] > 0;
            }"""
        )
        shown = page.locator("#host").inner_text()
        browser.close()
        server.shutdown()
    assert bars == sum(len(level["values"]) for level in graph["levels"]) // 4
    return shown
