"""The files of the UI as the collector serves them: policy, caching, compression, build, and no UI at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from sidelight import __version__
from sidelight_collector.http import ui
from sidelight_collector.storage.backends.memory import MemoryStore
from tests.collector.conftest import Running, Serve


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    assert ui.find_build(), "the web UI is not built: run `make ui`"


async def get_page(collector: Running) -> str:
    return (await collector.ask("GET", "/")).body.decode()


async def test_every_page_is_sent_with_the_strict_policy_and_checked_for_changes(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        for path in ("/", "/services", "/s/shop", "/s/shop/compare?baseline=x", "/s/shop/depth", "/s/a%2Fb"):
            answer = await collector.ask("GET", path)
            assert answer.status == 200
            assert answer.headers["content-security-policy"] == (
                "default-src 'none'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
                "frame-src 'self'; "
                "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; "
                "script-src 'self'; style-src 'self'; "
                "require-trusted-types-for 'script'; trusted-types 'none'"
            ), path
            assert answer.headers["cache-control"] == "no-cache", path
            assert answer.headers["x-content-type-options"] == "nosniff", path


async def test_hashed_files_are_kept_for_ever_and_sent_compressed(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        script = re.search(r'src="([^"]+\.js)"', await get_page(collector))
        assert script
        plain = await collector.ask("GET", script[1], headers={"Accept-Encoding": "identity"})
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["content-type"].startswith("text/javascript")
        async with (
            ClientSession(auto_decompress=False) as session,
            session.get(collector.url(script[1]), headers={"Accept-Encoding": "br"}) as smaller,
        ):
            assert smaller.headers["Content-Encoding"] == "br"
            assert len(await smaller.read()) < len(plain.body) / 2


async def test_only_built_files_can_be_named(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector, ClientSession() as session:
        for path in (
            "/assets/../index.html",
            "/assets/%2e%2e%2findex.html",
            "/assets/nothing.js",
            "/speedscope/..%2findex.html",
        ):
            async with session.get(URL(collector.url(path), encoded=True)) as answer:
                assert answer.status == 404, path
                assert (await answer.json())["error"] == "not_found", path


async def test_every_answer_names_the_build_that_the_page_carries(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        page = await collector.ask("GET", "/")
        build = page.body.decode().split('name="sidelight-build" content="')[1].split('"')[0]
        assert "sidelight-build" not in page.headers
        assert build.startswith(f"{__version__}+")
        once = "/api/v1/services?from=1795000000&until=1795000100"
        answer = await collector.ask("GET", once)
        assert answer.headers["sidelight-build"] == build
        same = {"If-None-Match": answer.headers["etag"]}
        for path, status in ((once, 304), ("/api/v1/services?form=x", 400), ("/api/v1/nothing", 404)):
            other = await collector.ask("GET", path, headers=same)
            assert (other.status, other.headers["sidelight-build"]) == (status, build), path


async def test_without_a_built_ui_the_page_says_how_to_build_it() -> None:
    app = web.Application()
    app.add_routes(ui.routes())
    async with TestClient(TestServer(app)) as client:
        for path in ("/", "/services", "/s/shop", "/speedscope/"):
            answer = await client.get(path)
            assert answer.status == 404
            assert "make ui" in await answer.text()


def test_the_package_is_looked_in_before_the_source_tree(tmp_path: Path) -> None:
    for place in ("package", "source"):
        for folder in ("assets", "speedscope"):
            (tmp_path / place / folder).mkdir(parents=True)
        (tmp_path / place / "index.html").write_text(place)
        (tmp_path / place / "speedscope" / "index.html").write_text("<head></head>")
    assert ui.find_build((tmp_path / "nowhere", tmp_path / "package", tmp_path / "source")) is not None
    found = ui.find_build((tmp_path / "package", tmp_path / "source"))
    assert found is not None
    assert found.index_html == "package"
    assert ui.find_build((tmp_path / "nowhere",)) is None
