"""What is photographed, and how."""

from __future__ import annotations

import json
import re
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.processes import CHROMIUM, collector, eventually, running, sidelight

THEMES = ("light", "dark")
SERVICE = "/s/shop"
VERSIONS = ("2026.11.20-a41c", "2026.11.21-9f02")
SIDES = f"baseline=version:{VERSIONS[0]}&comparison=version:{VERSIONS[1]}"
PODS = 3
RATE = 250
"""Requests a second of each pod: enough for a verdict, and six pods are not all of the machine."""
START_SECONDS = 120.0
WINDOW_SECONDS = 2
GRAPH = ".panel"
UNDERWAY = ".waiting, .trouble, [aria-busy=true], .flame canvas:not([data-drawn])"
"""What is on a page whose answers have not all come, or are not drawn yet."""


def _nothing(_: Page) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: a page of the demo's collector, or a part of it, after `steps`."""

    name: str
    path: str
    part: str = ""
    steps: Callable[[Page], None] = _nothing
    empty: bool = False
    """Of a collector that has no profiles yet."""
    width: int = 1280
    height: int = 860


def _busiest(page: Page) -> None:
    """Walk from the root to the widest callee of the widest callee."""
    page.locator("canvas").first.focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")


def _has_trends(page: Page) -> None:
    """Wait for the column that comes last."""
    cells = page.locator("td.trend")
    eventually("trends are there", lambda: cells.count() and "…" not in cells.all_inner_texts())


def _started(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Start")).click()
    page.wait_for_url("**/captures/c_*")
    page.get_by_role("progressbar", name="Sampled so far").wait_for()
    eventually(
        "it samples", lambda: page.evaluate("(document.querySelector('main progress')?.value ?? 0) > 5")
    )


SHOTS = (
    Shot("zero", "/", empty=True),
    Shot("services", "/services", steps=_has_trends),
    Shot("service", SERVICE, height=1180),
    Shot("table", f"{SERVICE}?view=table", part=GRAPH),
    Shot("sandwich", f"{SERVICE}?view=sandwich&fn=Pricing.price+%28shop%2Fpricing.py%29", part=GRAPH),
    Shot("inverted", f"{SERVICE}?invert=1", part=GRAPH),
    Shot("flame", f"{SERVICE}?type=wall", part=GRAPH, steps=_busiest),
    Shot("state", f"{SERVICE}?type=wall&colour=state", part=GRAPH),
    Shot("compare", f"{SERVICE}/compare?{SIDES}", height=780),
    Shot("sides", f"{SERVICE}/compare?{SIDES}&view=sides", part=GRAPH),
    Shot("changes", f"{SERVICE}/compare?{SIDES}&view=table", part=GRAPH),
    Shot("depth", f"{SERVICE}/depth?{SIDES}", height=1180),
    Shot("heatmap", f"{SERVICE}/heatmap"),
    Shot("captures", "/captures?service=shop"),
    Shot("capture", "/captures?service=shop", steps=_started),
    Shot("settings", "/settings"),
    Shot("phone", SERVICE, width=360, height=740),
)


def take(shots: Sequence[Shot], into: Path, seconds: float, folder: Path) -> Iterator[Path]:
    """Take the pictures in both themes, of services that were profiled for so many seconds."""
    with (
        _profiles(folder, seconds) as live,
        collector(folder / "empty", str(folder / "empty" / "store")) as empty,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for theme in THEMES:
            for shot in shots:
                url = (empty.url if shot.empty else live) + shot.path
                if SERVICE in url:
                    url += f"{'&' if '?' in url else '?'}from=-5m"
                path = into / f"{shot.name}{'' if theme == 'light' else '-dark'}.png"
                _photograph(browser, shot, url, theme, path)
                yield path
        browser.close()


def _photograph(browser: Browser, shot: Shot, url: str, theme: str, path: Path) -> None:
    scheme: Literal["light", "dark"] = "dark" if theme == "dark" else "light"
    size: ViewportSize = {"width": shot.width, "height": shot.height}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(url)
    _settled(page)
    shot.steps(page)
    _settled(page)
    if shot.part:
        page.locator(shot.part).first.screenshot(path=path)
    else:
        page.screenshot(path=path)
    context.close()


def _settled(page: Page) -> None:
    """Until what was asked for is there, nothing is under way and what was drawn has been painted."""
    page.wait_for_load_state("networkidle")
    page.locator("main h1").first.wait_for()
    page.locator("main .answer").first.wait_for()
    eventually("all is there", lambda: page.evaluate(f"!document.querySelector('{UNDERWAY}')"))
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@contextmanager
def _profiles(folder: Path, seconds: float) -> Iterator[str]:
    """The URL of the collector of a live demo, and of a shop in two releases at once."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = sidelight("demo", "--no-browser", "--listen", "127.0.0.1:0", "--rate", "60")
    with running(folder / "demo.log", *argv) as demo, ExitStack() as pods:

        def address() -> str | None:
            assert demo.alive(), demo.said()
            found = re.search(r"http://127\.0\.0\.1:\d+", demo.said())
            return found.group() if found else None

        url = eventually("the demo says where it is", address, START_SECONDS)
        # Its files are named from the folder it runs in, as in any container.
        shutil.copytree(Path(__file__).parent / "shop", folder / "shop")
        for release, version in enumerate(VERSIONS, start=1):
            for number in range(PODS):
                pods.enter_context(_pod(folder, url, release, f"shop-{version[-4:]}-{number}"))
        for version in VERSIONS:
            enough = partial(_profiled, url, version, PODS * seconds / WINDOW_SECONDS)
            eventually(f"{version} is profiled", enough, START_SECONDS + 4 * seconds)
        yield url


@contextmanager
def _pod(folder: Path, url: str, release: int, pod: str) -> Iterator[None]:
    """A process of the shop and the sidecar beside it."""
    serve = [sys.executable, "-m", "shop", "--release", str(release), "--rate", str(RATE)]
    with running(folder / f"{pod}.log", *serve, cwd=folder) as shop:
        options = {
            "--collector": url,
            "--pid": str(shop.pid),
            "--service": "shop",
            "--version": VERSIONS[release - 1],
            "--pod": pod,
            "--window-seconds": str(WINDOW_SECONDS),
            "--spool-dir": str(folder / f"{pod}-spool"),
            "--listen": "127.0.0.1:0",
        }
        argv = sidelight("sidecar", *(text for option in options.items() for text in option))
        with running(folder / f"{pod}-sidecar.log", *argv) as sidecar:
            yield
            assert sidecar.alive(), sidecar.said()
            sidecar.end()


def _profiled(url: str, version: str, windows: float) -> bool:
    with urllib.request.urlopen(f"{url}/api/v1/services", timeout=30) as answer:
        services = json.load(answer)["services"]
    versions = [one for row in services if row["service"] == "shop" for one in row["versions"]]
    return any(one["version"] == version and one["windows"] >= windows for one in versions)
