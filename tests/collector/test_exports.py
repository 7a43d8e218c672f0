"""Exports over HTTP: every format has the same profile, says what it stands on, and is bounded."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)

from sidelight_collector.http.api.exports import build_filename
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.folded import parse_folded
from tests.collector.api_client import Client, refused, serving
from tests.collector.stored_windows import stored, window

RANGE = {"from": "2026-11-21T09:00:00Z", "until": "2026-11-21T10:30:00Z"}
STACKS = (
    "main (a.py:1);wait (a.py:5);[idle] 9 | main (a.py:1);work (b.py:7) 6 | "
    "main (a.py:1);work (b.py:9);[gil] 4"
)
LATER = "main (a.py:1);work (b.py:7) 12 | main (a.py:1);=cmd (c.py:1) 3"
PAGE = (
    '<head><meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    "<title><!--sidelight-title--></title></head><!--sidelight-notes-->"
    '<script type="application/gzip" id="profile"><!--sidelight-profile--></script>'
)
SIDES = {"baseline": 'version="1"', "comparison": 'version="2"'}


def shop() -> ObjectStore:
    return stored([window(STACKS), window(LATER, version="2", pod="pod-2"), window("x 1", service="cart")])


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with serving(shop(), page=PAGE) as client:
        yield client


async def fetched(client: Client, path: str = "export", **given: str) -> tuple[ClientResponse, bytes]:
    given = {"query": '{service="shop"}', "type": "cpu", **RANGE, **given}
    async with client.get(f"/api/v1/{path}", params=given) as response:
        body = await response.read()
        assert response.status == 200, body
        return response, body


def carried(page: bytes) -> Any:
    """The profile that a page holds."""
    found = re.search(rb'id="profile">([A-Za-z0-9+/=]+)</script>', page)
    assert found
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


FORMATS = ("folded", "speedscope", "pprof", "otlp", "csv", "svg", "html")
TYPES = {
    "folded": "text/plain",
    "speedscope": "application/json",
    "pprof": "application/vnd.google.protobuf+gzip",
    "otlp": "application/x-protobuf",
    "csv": "text/csv",
    "svg": "image/svg+xml",
    "html": "text/html",
}


@pytest.mark.parametrize("wanted", FORMATS)
async def test_every_export_says_what_it_stands_on_in_its_headers(client: Client, wanted: str) -> None:
    response, _ = await fetched(client, format=wanted, query='{service="shop", pod!="ü\\n\\"x"}')
    headers = response.headers
    assert response.content_type == TYPES[wanted]
    assert headers["Sidelight-Query"] == '{service="shop", pod!="%C3%BC\\n\\"x"}'
    assert (headers["Sidelight-From"], headers["Sidelight-Until"]) == (RANGE["from"], RANGE["until"])
    assert (headers["Sidelight-Type"], headers["Sidelight-Samples"]) == ("cpu", "25")
    assert (headers["Sidelight-Pods"], headers["Sidelight-Windows"]) == ("2", "2")
    assert re.fullmatch(r'inline; filename="service-shop-[\w.-]+"', headers["Content-Disposition"])


@pytest.mark.parametrize("wanted", FORMATS)
async def test_every_export_says_what_it_stands_on_inside(
    client: Client, wanted: str, tmp_path: Path
) -> None:
    _, body = await fetched(client, format=wanted, about="1")
    if wanted == "pprof":
        (tmp_path / "p.pb.gz").write_bytes(body)
        argv = ["go", "tool", "pprof", "-raw", str(tmp_path / "p.pb.gz")]
        text = subprocess.run(argv, capture_output=True, check=True, timeout=240).stdout.decode()
    elif wanted == "otlp":
        text = MessageToJson(ExportProfilesServiceRequest.FromString(body), ensure_ascii=False)
    else:
        text = json.dumps(carried(body)) if wanted == "html" else body.decode()
    text = text.replace("&quot;", '"').replace('\\"', '"').replace('""', '"')
    for part in ('{service="shop"} cpu', RANGE["from"], RANGE["until"], "25", "pods"):
        assert part in text, part


async def test_folded_text_and_csv_say_nothing_unless_they_are_asked_to(client: Client) -> None:
    for wanted in ("folded", "csv"):
        _, body = await fetched(client, format=wanted)
        assert not body.startswith(b"#")
        assert b"sidelight" not in body


async def test_folded_text_that_says_what_it_is_is_still_read_by_tools(client: Client) -> None:
    _, said = await fetched(client, about="1", states="0")
    header, _, body = said.decode().partition("\n")
    assert json.loads(header.removeprefix("# "))["sides"][0]["samples"] == 25
    # What flamegraph.pl and speedscope take for a stack ends in a number.
    assert not re.search(r"\s\d+$", header)
    assert sum(counts.wall for counts in parse_folded(body).values()) == 25


async def test_pprof_has_the_states_functions_and_lines_of_the_profile(
    client: Client, tmp_path: Path
) -> None:
    _, body = await fetched(client, format="pprof", type="wall", query='{service="shop", version="1"}')
    (tmp_path / "p.pb.gz").write_bytes(body)

    def told(*options: str) -> str:
        argv = ["go", "tool", "pprof", *options, str(tmp_path / "p.pb.gz")]
        return subprocess.run(argv, capture_output=True, check=True, timeout=240).stdout.decode()

    assert "Duration: 10s, Total samples = 190ms" in told("-top")
    lines = told("-top", "-lines", "-unit=ms")
    assert re.search(r"60ms .* work b\.py:7", lines)
    assert re.search(r"40ms .* work b\.py:9", lines)
    assert re.search(r"90ms \([^)]*\): idle", told("-tags", "-unit=ms"))
    assert "Period: 10000000" in told("-raw")
    assert "samples/count wall/nanoseconds[dflt]" in told("-raw")


@pytest.mark.parametrize("wanted", FORMATS)
async def test_only_the_stacks_that_are_asked_for_are_taken_away(
    client: Client, wanted: str, tmp_path: Path
) -> None:
    stacks = {"function": "=cmd (c.py)", "min_depth": "2"}
    _, body = await fetched(client, format=wanted, about="1", **stacks)
    if wanted == "pprof":
        (tmp_path / "p.pb.gz").write_bytes(body)
        argv = ["go", "tool", "pprof", "-raw", str(tmp_path / "p.pb.gz")]
        text = subprocess.run(argv, capture_output=True, check=True, timeout=240).stdout.decode()
    elif wanted == "otlp":
        text = MessageToJson(ExportProfilesServiceRequest.FromString(body), ensure_ascii=False)
    else:
        text = json.dumps(carried(body)) if wanted == "html" else body.decode()
    assert "=cmd" in text
    assert "b.py" not in text
    assert "at least 2 frames deep, with =cmd (c.py)" in text
    assert "3 samples" in text or '"samples": 3' in text or '"samples":3' in text


async def test_csv_has_the_functions_of_one_side(client: Client) -> None:
    _, body = await fetched(client, format="csv", query='{service="shop", version="1"}')
    rows = list(csv.reader(io.StringIO(body.decode(), newline="")))
    assert rows[1:] == [["work", "b.py", "10", "10", "0.1", "0.1"], ["main", "a.py", "0", "10", "0", "0.1"]]


async def test_csv_has_both_sides_of_a_comparison_and_no_formula(client: Client) -> None:
    response, body = await fetched(client, "export/compare", format="csv", **SIDES)
    heading, *rows = list(csv.reader(io.StringIO(body.decode(), newline="")))
    told = {row[0]: dict(zip(heading, row, strict=True)) for row in rows}
    assert set(told) == {"main", "work", "'=cmd"}
    assert (told["work"]["a_self_samples"], told["work"]["b_self_samples"]) == ("10", "12")
    assert (told["'=cmd"]["a_self_rate"], told["'=cmd"]["b_self_rate"]) == ("0", "0.003")
    assert response.headers["Sidelight-A-Query"] == '{service="shop", version="1"}'
    assert response.headers["Sidelight-B-Query"] == '{service="shop", version="2"}'
    assert response.headers["Sidelight-Samples"] == "25"


async def test_folded_text_of_two_sides_has_two_counts_a_line(client: Client) -> None:
    _, body = await fetched(client, "export/compare", format="folded", states="0", **SIDES)
    assert body.decode().splitlines() == [
        "main (a.py);=cmd (c.py) 0 3",
        "main (a.py);work (b.py) 10 12",
    ]


async def test_a_page_holds_the_answer_of_the_flame_graph(client: Client) -> None:
    response, body = await fetched(client, format="html")
    async with client.get(
        "/api/v1/flamegraph", params={"query": '{service="shop"}', "type": "cpu", **RANGE}
    ) as asked:
        assert carried(body)["flame"] == await asked.json()
    assert "<title>{service=&quot;shop&quot;} cpu</title>" in body.decode()
    assert "sandbox" in response.headers["Content-Security-Policy"]
    _, body = await fetched(client, "export/compare", format="html", **SIDES)
    assert len(carried(body)["flame"]["sides"]) == 2


async def test_no_name_leaves_the_element_that_holds_the_profile() -> None:
    hostile = "</script><script>alert(1)</script><!-- (a.py) 5 | <!--sidelight-notes--> 1"
    store = stored([window(hostile, service="</title><script>", pod="<!--sidelight-profile-->")])
    async with serving(store, page=PAGE) as client:
        _, body = await fetched(client, format="html", query='{pod="<!--sidelight-profile-->"}')
    text = body.decode()
    assert text.count("<script") == 1
    assert "<!--" not in text
    assert any("alert(1)" in name for name in carried(body)["flame"]["names"])


async def test_without_the_built_page_html_is_refused_with_what_to_do() -> None:
    async with serving(shop()) as client:
        status, said = await refused(client, "export", format="html")
        assert (status, said["error"]) == (404, "ui_missing")
        assert "make ui" in said["hint"]


async def test_speedscope_can_have_the_heaviest_call_paths_alone(client: Client) -> None:
    _, whole = await fetched(client, format="speedscope")
    _, pruned = await fetched(client, format="speedscope", nodes="3")
    weights = [sum(json.loads(text)["profiles"][0]["weights"]) for text in (whole, pruned)]
    assert weights == [250_000_000, 250_000_000]
    told = json.loads(pruned)
    assert "(other)" in [frame["name"] for frame in told["shared"]["frames"]]
    assert "small call paths in (other)" in told["profiles"][0]["name"]
    assert "(other)" not in json.loads(whole)["profiles"][0]["name"]
    _, same = await fetched(client, "export/shop.speedscope.json", nodes="all")
    assert json.loads(same)["profiles"][0]["weights"] == json.loads(whole)["profiles"][0]["weights"]


@pytest.mark.parametrize("wanted", ["folded", "speedscope", "pprof"])
async def test_an_export_may_have_as_many_frames_as_the_setting_says(wanted: str) -> None:
    frames = 3 * 2
    for most, status in ((frames, 200), (frames - 1, 413)):
        limits = QueryLimits(max_export_frames=most)
        async with serving(stored([window(STACKS)]), limits) as client:
            given = {"format": wanted, "type": "wall", "lines": "1", **RANGE}
            async with client.get("/api/v1/export", params=given) as response:
                assert response.status == status, await response.text()
                if status == 413:
                    said = await response.json()
                    assert said["error"] == "too_large"
                    assert "--max-export-frames" in said["hint"]


async def test_a_table_may_have_as_many_rows_as_the_setting_says() -> None:
    for most, status in ((3, 200), (2, 413)):
        async with serving(stored([window(STACKS)]), QueryLimits(max_rows=most)) as client:
            given = {"format": "csv", "type": "wall", **RANGE}
            async with client.get("/api/v1/export", params=given) as response:
                assert response.status == status
                if status == 413:
                    assert "--max-rows" in (await response.json())["hint"]


@pytest.mark.parametrize("wanted", FORMATS)
async def test_an_export_of_nothing_is_an_empty_document(client: Client, wanted: str) -> None:
    response, body = await fetched(client, format=wanted, query='{service="nobody"}')
    assert response.headers["Sidelight-Samples"] == "0"
    assert body or wanted == "folded"


def test_a_file_name_is_one_on_every_system() -> None:
    assert build_filename('{service="../../etc/passwd"} cpu', "pprof") == "service-..-..-etc-passwd-cpu.pb.gz"
    assert build_filename("שלל", "html") == "profile.html"
    assert len(build_filename("x" * 500, "csv")) == 84
