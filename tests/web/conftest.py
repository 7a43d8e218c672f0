"""A real collector with a small story in it, and a real Chromium that reports whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from sidelight.collector import ui
from tests.running import CHROMIUM, Collector, collector
from tests.web.profiles import AFTER, BEFORE, deep_stack, hostile_stacks, send, windows

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REPORT = """
addEventListener('securitypolicyviolation', event =>
  violated(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`))
"""
HOSTILE_SERVICE = "<b onclick=alert(3)>שלום/😀 & co"

Open = Callable[..., Page]
Serve = Callable[..., Collector]

expect.set_options(timeout=15_000)


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    assert ui.find(), "the web UI is not built: run `make ui`"


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector that has seen two versions of a shop, a lone service, and hostile names.

    One for each module: some tests are about how long ago that was.
    """
    folder = tmp_path_factory.mktemp("shop")
    with collector(folder, str(folder / "store")) as running:
        send(
            running.url,
            windows("shop", "v1", BEFORE, minutes_ago=30, node="n1"),
            windows("shop", "v2", AFTER, minutes_ago=5, node="n2"),
            windows("lone", "only", BEFORE),
            windows("unversioned", "", BEFORE, minutes_ago=40),
            windows(HOSTILE_SERVICE, "1;2", hostile_stacks()),
            windows("deep", "d1", deep_stack(3500), pods=1),
        )
        yield running.url


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts collectors of the test's own, with these options."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(collector(tmp_path, str(tmp_path / "store"), *options))


@pytest.fixture
def open_page(chromium: Browser, serve: Serve) -> Iterator[Open]:
    """Opens pages; the test fails if any of them logs an error, throws, or breaks its policy."""
    wrong: list[str] = []
    contexts = []

    def open_(url: str, *, expected: str = "", **options: object) -> Page:
        def logged(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not (expected and expected in message.text):
                wrong.append(f"{message.type}: {message.text}")

        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", logged)
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.expose_function("violated", lambda what: wrong.append(f"policy: {what}"))
        page.add_init_script(REPORT)
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, to be run inside a page."""
    root = Path(__file__).parent.parent.parent
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()
