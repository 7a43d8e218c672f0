"""A real collector with a small story in it, and a real Chromium that reports whatever goes wrong.

The collector and the browser context are shared by all tests of a worker: a test that sends windows takes a
service name of its own, and one that needs other settings starts its own (`serve`, options of `open_page`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from sidelight_collector.http import ui
from tests.processes import CHROMIUM, Collector, collector
from tests.web.profiles import AFTER, BEFORE, send, story, windows

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
VIEWPORT = {"width": 1280, "height": 900}
REPORT = """
addEventListener('securitypolicyviolation', event =>
  violated(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`))
"""
FRESH_SECONDS = 120
"""Windows of the shared collector are at most this much older than `story` says when a test begins."""
PATIENCE_MS = 60_000
"""How long a page may take for anything: on a crowded machine it may stand still for seconds."""
ON_A_PAGE = {"viewport", "color_scheme", "reduced_motion"}
"""Options of `open_page` that a page of the shared context can have by itself."""

KEEP_PREFETCHED = """
const later = setTimeout
setTimeout = (run, ms, ...rest) => ms === 5000 ? 0 : later(run, ms, ...rest)
"""
"""For pages that stand still: what was asked for ahead is dropped after five seconds (`prefetchCache.ts`)."""

Open = Callable[..., Page]
Serve = Callable[..., Collector]

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    assert ui.find_build(), "the web UI is not built: run `make ui`"


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=list(FLAGS), timeout=4 * PATIENCE_MS
        )
        yield browser
        browser.close()


class Watched:
    """A browser context whose pages write down each breach of their content security policy."""

    def __init__(self, browser: Browser, **options: object) -> None:
        options = {
            "viewport": VIEWPORT,
            "permissions": ["clipboard-read", "clipboard-write"],
            **options,
        }
        self.violations: list[str] = []
        self.context: BrowserContext = browser.new_context(**options)  # type: ignore[arg-type]
        self.context.expose_function("violated", lambda what: self.violations.append(what))
        self.context.add_init_script(REPORT)
        self.context.set_default_timeout(PATIENCE_MS)


@pytest.fixture(scope="package")
def shared(chromium: Browser) -> Iterator[Watched]:
    """The context of all pages that need no options of their own: it has their scripts compiled."""
    watched = Watched(chromium)
    yield watched
    watched.context.close()


class Shops:
    """The shared collector; another one once its windows are too old."""

    def __init__(self, tmp_path_factory: pytest.TempPathFactory, stack: ExitStack) -> None:
        self.tmp_path_factory = tmp_path_factory
        self.stack = stack
        self.url = ""
        self.began = 0.0

    def fresh(self) -> str:
        if not self.url or time.monotonic() - self.began > FRESH_SECONDS:
            self.stack.close()
            folder = self.tmp_path_factory.mktemp("shop")
            # Its own looks for new versions would change what pages say of the same data.
            options = ("--deploy-check-interval-seconds", "86400")
            running = self.stack.enter_context(collector(folder, str(folder / "store"), *options))
            self.began = time.monotonic()
            send(running.url, *story())
            self.url = running.url
        return self.url


@pytest.fixture(scope="package")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    with ExitStack() as stack:
        yield Shops(tmp_path_factory, stack)


@pytest.fixture
def shop(shops: Shops) -> str:
    """The URL of a collector that holds `profiles.story`, of which the newest windows are minutes old."""
    return shops.fresh()


@pytest.fixture(scope="package")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector with a shop, where links, captures, deploys and exports are off.

    It knows where source code is.
    """
    folder = tmp_path_factory.mktemp("limited")
    options = ["--no-links", "--no-captures", "--no-deploys", "--max-export-frames", "3"]
    options += ["--retention-raw-days", "9", "--retention-hour-days", "20", "--retention-day-days", "21"]
    options += ["--source-url", "https://git.example/acme/{service}/blob/{version}/src/{file}#L{line}"]
    with collector(folder, str(folder / "store"), *options) as running:
        send(running.url, windows("shop", "v1", BEFORE), windows("shop", "v2", AFTER))
        yield running.url


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts collectors of the test's own, with these options."""
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(collector(tmp_path, str(tmp_path / "store"), *options))


@pytest.fixture
def open_page(chromium: Browser, shared: Watched, serve: Serve) -> Iterator[Open]:
    """Opens pages; the test fails if any of them logs an error, throws, or breaks its policy.

    `own_context` and options of a context give the page one of its own: another clock or no network needs it.
    Pages are closed before the test's collectors end.
    """
    wrong: list[str] = []
    own: list[Watched] = []
    pages: list[Page] = []
    shared.violations.clear()

    def open_(url: str, *, expected: str = "", own_context: bool = False, **options: object) -> Page:
        def logged(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not (expected and expected in message.text):
                wrong.append(f"{message.type}: {message.text}")

        if options.keys() <= ON_A_PAGE and not own_context:
            page = shared.context.new_page()
            if viewport := options.pop("viewport", None):
                page.set_viewport_size(viewport)  # type: ignore[arg-type]
            if options:
                page.emulate_media(**options)  # type: ignore[arg-type]
        else:
            own.append(Watched(chromium, **options))
            page = own[-1].context.new_page()
        pages.append(page)
        page.on("console", logged)
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.goto(url)
        return page

    yield open_
    for page in pages:
        page.close()
    for watched in own:
        watched.context.close()
    assert wrong == []
    assert [what for watched in (shared, *own) for what in watched.violations] == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, to be run inside a page."""
    root = Path(__file__).parent.parent.parent
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()
