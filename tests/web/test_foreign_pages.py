"""Pages of other sites that reach a collector on this machine through a person's browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from tests.web.conftest import CHROMIUM, FLAGS, PATIENCE_MS, Serve
from tests.web.profiles import AFTER, send, windows

REBOUND = "evil.example"
"""A name that resolves to this machine, as after DNS rebinding."""
ATTEMPTS = """async ([collector, bodies]) => {
    const read = await fetch(`${collector}/api/v1/services`).then(answer => answer.text(), () => 'refused')
    const sent = { method: 'POST', mode: 'no-cors', credentials: 'include' }
    for (const [path, body] of bodies) await fetch(collector + path, { ...sent, body }).catch(() => 0)
    return read
}"""
SEEN = "([url]) => fetch(url).then(async answer => [answer.status, await answer.text()])"


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    flags = [*FLAGS, f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]
    browser = chromium.browser_type.launch(executable_path=CHROMIUM, args=flags, timeout=4 * PATIENCE_MS)
    yield browser
    browser.close()


@contextmanager
def foreign_site() -> Iterator[str]:
    """A server with one empty page; yields its URL."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_pages_of_other_origins_and_names_read_and_change_nothing(serve: Serve, browser: Browser) -> None:
    url = serve().url
    send(url, windows("shop", "1", AFTER))
    bodies = [
        ("/api/v1/windows", "x"),
        ("/api/v1/captures", json.dumps({"service": "shop"})),
        ("/api/v1/links", json.dumps({"path": "/s/shop"})),
        ("/api/v1/captures/c_1/stop", ""),
        ("/api/v1/deploys/d_1/resolve", ""),
        ("/api/v1/agents/poll", "{}"),
    ]
    with foreign_site() as site:
        page = browser.new_page()
        page.goto(site)
        statuses: dict[str, int] = {}
        page.on("response", lambda answer: statuses.update({urlsplit(answer.url).path: answer.status}))
        assert page.evaluate(ATTEMPTS, [url, bodies]) == "refused"
        own = browser.new_page()
        own.goto(f"{url}/captures")
        assert own.evaluate(SEEN, [f"{url}/api/v1/captures"])[0] == 200
        assert '"captures":[]' in own.evaluate(SEEN, [f"{url}/api/v1/captures"])[1].replace(" ", "")
        assert {path: statuses[path] for path, _ in bodies} == {path: 403 for path, _ in bodies}
    # A name that resolves to this machine is not answered.
    rebound = f"http://{REBOUND}:{urlsplit(url).port}"
    page = browser.new_page()
    answer = page.goto(f"{rebound}/services")
    assert answer is not None
    assert answer.status == 403
    status, text = page.evaluate(SEEN, [f"{rebound}/api/v1/services"])
    assert (status, "shop" in text) == (403, False)
    assert "--allowed-hosts" in text


def test_the_host_of_a_proxy_can_be_allowed(serve: Serve, browser: Browser) -> None:
    url = serve("--allowed-hosts", REBOUND).url
    send(url, windows("shop", "1", AFTER))
    page = browser.new_page()
    page.goto(f"http://{REBOUND}:{urlsplit(url).port}/services")
    page.get_by_role("link", name="shop").first.wait_for()
