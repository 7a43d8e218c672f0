"""What the pages ship in the place of Preact draws what Preact draws: `web/check` has both side by side."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.conftest import Open

WEB = Path(__file__).parent.parent.parent / "web"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page that can draw by either."""
    out = tmp_path_factory.mktemp("check")
    vite = [str(WEB / "node_modules" / ".bin" / "vite"), "build", "--config", "vite.check.config.ts"]
    subprocess.run(
        [*vite, "--outDir", str(out), "--emptyOutDir"], cwd=WEB, check=True, capture_output=True, timeout=120
    )
    handler = functools.partial(Quiet, directory=str(out))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.mark.parametrize("seeds", [8, pytest.param(200, marks=pytest.mark.long)])
def test_changing_trees_are_drawn_as_preact_draws_them(both: str, open_page: Open, seeds: int) -> None:
    page = open_page(both)
    page.wait_for_function("() => 'check' in window")
    differences = {seed: page.evaluate("seed => check(seed, 20)", seed) for seed in range(1, seeds + 1)}
    assert {seed: found[0] for seed, found in differences.items() if found} == {}
