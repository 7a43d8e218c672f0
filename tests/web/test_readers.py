"""The pages as people see them whom a proxy names: their namespaces, and plain words where there are none."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.processes import collector
from tests.web.conftest import Open
from tests.web.profiles import BEFORE, send, windows

RULES = "user:alice = alpha\nuser:root = *\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector with a service in each of two namespaces, whose readers a proxy names."""
    folder = tmp_path_factory.mktemp("readers")
    (folder / "rules").write_text(RULES)
    options = ["--read-proxy-header", "X-User", "--trusted-proxies", "127.0.0.1"]
    options += ["--read-rules-file", str(folder / "rules"), "--capture-wait-seconds", "1"]
    with collector(folder, str(folder / "store"), *options) as served:
        send(
            served.url,
            windows("shop", "v1", BEFORE, namespace="alpha"),
            windows("vault", "v1", BEFORE, namespace="beta"),
        )
        yield served.url


def test_people_see_the_services_of_their_namespaces_or_whom_to_ask(place: str, open_page: Open) -> None:
    url = place
    page = open_page(url, extra_http_headers={"X-User": "root"})
    expect(page.get_by_role("link", name="vault", exact=True)).to_be_visible()
    page = open_page(url, extra_http_headers={"X-User": "alice"})
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="vault", exact=True)).to_have_count(0)
    page.goto(f"{url}/s/vault")
    expect(page.get_by_text("No data for vault in 30 days")).to_be_visible()
    page.goto(f"{url}/s/shop")
    expect(page.locator("canvas[data-drawn]").first).to_be_visible()
    # A reader without namespaces sees why the page is empty.
    page = open_page(place, expected="403 (Forbidden)", extra_http_headers={"X-User": "mallory"})
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text("Mallory may read no namespace here")
    expect(alert).to_contain_text("--read-rules-file")


def test_a_capture_says_who_started_it(place: str, open_page: Open) -> None:
    url = place
    wish = json.dumps({"service": "shop", "seconds": 1}).encode()
    headers = {"Content-Type": "application/json", "X-User": "alice"}
    request = urllib.request.Request(f"{url}/api/v1/captures", data=wish, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        made = json.loads(answer.read())
    page = open_page(f"{url}/captures/{made['id']}", extra_http_headers={"X-User": "alice"})
    expect(page.get_by_text("by alice")).to_be_visible()
