"""What a page says while it waits, when the collector is busy, away or another one, and what is missing."""

from __future__ import annotations

import re
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from sidelight_collector.http import ui
from tests.processes import ROOT, Collector, collector, eventually, free_port
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes, outline
from tests.web.profiles import AFTER, BEFORE, deep_stack, send, windows
from tests.web.rules import small_controls, violations, violations_in_both_themes


def first(tmp_path: Path) -> AbstractContextManager[Collector]:
    """A collector at a port that nobody else gets before it is there again."""
    port = free_port()
    return collector(tmp_path, str(tmp_path / "store"), "--listen", f"127.0.0.1:{port}")


def again(tmp_path: Path, running: Collector, **settings: str) -> AbstractContextManager[Collector]:
    """The collector once more, where it was before."""
    port = running.url.rsplit(":", 1)[1]
    return collector(tmp_path, str(tmp_path / "store"), "--listen", f"127.0.0.1:{port}", env=settings)


def test_slow_answers_and_a_missing_network_are_explained_over_the_old_picture(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop")
    before = outline(page)
    held: list[Route] = []
    page.route("**/api/v1/flamegraph?**", lambda route: held.append(route))
    page.get_by_label("Profile type").select_option("wall")
    profile = page.locator(".waiting").filter(has_text="Loading the profile…")
    expect(profile).to_contain_text("The collector is reading and merging stored windows.")
    assert outline(page) == before, "the old picture stays"
    expect(page.locator(".answer.stale").last).to_be_visible()
    profile.get_by_role("button", name="Stop waiting").click()
    expect(page.get_by_role("alert")).to_contain_text("You stopped waiting.")
    page.unroute("**/api/v1/flamegraph?**")
    page.get_by_role("button", name="Try again").click()
    eventually("the answer is drawn", lambda: "2 select (selectors.py)" in outline(page))
    # A browser without a network goes on with it.
    page = open_page(f"{shop}/s/shop", expected="net::ERR_", own_context=True)
    before = outline(page)
    page.context.set_offline(True)
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".band")).to_contain_text("This browser is offline.")
    assert outline(page) == before
    page.context.set_offline(False)
    expect(page.locator(".band")).to_have_count(0)
    expect(page.locator(".stale")).to_have_count(0)


def test_restarting_collector_is_waited_for_with_the_old_picture(tmp_path: Path, open_page: Open) -> None:
    with first(tmp_path) as running:
        send(running.url, windows("back", "v1", BEFORE))
        page = open_page(f"{running.url}/s/back", expected="net::ERR_")
        before = outline(page)
        other = open_page(f"{running.url}/services", expected="net::ERR_")
        link = other.get_by_role("link", name="back", exact=True)
        expect(link).to_be_visible()
        send(running.url, windows("back", "v2", AFTER, minutes_ago=2))
        running.running.end()
    page.get_by_role("button", name="Refresh").click()
    band = page.locator(".band")
    expect(band).to_contain_text("The collector does not answer. It may be restarting")
    expect(band).to_contain_text("Showing data from before")
    expect(page.locator(".answer.stale")).to_have_count(2)
    assert outline(page) == before
    page.get_by_label("Profile type").select_option("wall")
    expect(page.locator(".waiting").last).to_contain_text("Showing the previous result.")
    page.go_back()
    # A page that is opened meanwhile waits as well.
    link.click()
    expect(other.locator(".waiting").last).to_contain_text("Waiting for the collector to load the profile.")
    with again(tmp_path, running):
        # Each page asks by itself as well, and then the button is gone.
        page.get_by_role("button", name="Try again").evaluate_all("all => all.forEach(one => one.click())")
        expect(band).to_have_count(0)
        expect(page.locator(".quality .basis")).to_contain_text("1,620 samples")
        expect(page.locator(".stale")).to_have_count(0)
        other.locator("canvas[data-drawn]").wait_for()
        assert boxes(other)
        page.close()
        other.close()


@contextmanager
def crowded(url: str) -> Iterator[None]:
    """Others who ask one question after the other, each a new one, so that no place is ever free for long."""
    enough = threading.Event()

    def ask(who: int) -> None:
        turn = 0
        while not enough.is_set():
            turn += 1
            at = time.time() - 3600 - turn - who / 10
            try:
                with urllib.request.urlopen(f"{url}/api/v1/flamegraph?from={at:.1f}", timeout=120) as answer:
                    answer.read()
            except urllib.error.HTTPError as refused:
                refused.close()

    threads = [threading.Thread(target=ask, args=(who,)) for who in range(6)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        enough.set()
        for one in threads:
            one.join()


def test_a_busy_collector_is_asked_again_when_it_said(serve: Serve, open_page: Open) -> None:
    running = serve("--max-queries", "1", "--max-waiting-queries", "0")
    send(running.url, windows("busy", "v1", deep_stack(3000), count=20))
    page = open_page(f"{running.url}/settings", expected="429")
    with crowded(running.url):
        # A place may be free for a moment: those who come again will find none.
        for _ in range(50):
            page.goto(f"{running.url}/s/busy")
            page.locator("canvas[data-drawn], .trouble").first.wait_for()
            if page.locator(".trouble").count():
                break
        trouble = page.locator(".trouble").first
        expect(trouble).to_contain_text("overloaded")
        expect(trouble).to_contain_text("Retrying in")
    page.locator("canvas[data-drawn]").wait_for()
    expect(page.locator(".trouble")).to_have_count(0)


def test_a_proxy_that_brings_the_token_is_the_way_in(
    tmp_path: Path, serve: Serve, open_page: Open, axe: str
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    running = serve("--read-tokens-file", str(tokens))
    send(running.url, windows("kept", "v1", BEFORE))
    page = open_page(f"{running.url}/s/kept", extra_http_headers={"Authorization": "Bearer secret"})
    assert boxes(page)
    page = open_page("about:blank", expected="401", reduced_motion="reduce")
    for path in ("/services", "/s/kept", "/s/kept/compare"):
        page.goto(running.url + path)
        alert = page.get_by_role("alert").first
        expect(alert).to_contain_text("only to readers with a token")
        expect(alert).to_contain_text("a proxy that adds one or signs you in")
        page.wait_for_load_state("networkidle")
        assert violations_in_both_themes(page, axe) == {}


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """A folder with a later release: another version, other pages, and answers that say more."""
    folder = tmp_path / "newer"
    for path in ("core/sidelight", "collector/sidelight_collector"):
        shutil.copytree(ROOT / path, folder / Path(path).name, ignore=shutil.ignore_patterns("__pycache__"))
    package = folder / "sidelight_collector"
    built = ui.find_build()
    assert built
    place = next(each for each in ui.BUILD_DIRECTORIES if (each / "index.html").is_file())
    shutil.copytree(place, package / "ui", dirs_exist_ok=True)
    replaced(package / "ui" / "index.html", "<title>", "<title>Later ")
    replaced(folder / "sidelight" / "__init__.py", '__version__ = "', '__version__ = "9.')
    replaced(
        package / "http" / "api" / "responses.py",
        "orjson.dumps(answer)",
        'orjson.dumps({**answer, "unheard_of": {"by": ["older", "pages"]}})',
    )
    return str(folder)


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def open_settings(page: Page) -> None:
    page.get_by_label("More", exact=True).click()
    page.get_by_role("link", name="Settings and help").click()


def test_pages_older_than_the_collector_go_on_and_offer_to_load_the_new_ones(
    tmp_path: Path, newer: str, open_page: Open
) -> None:
    with first(tmp_path) as running:
        send(running.url, windows("shop", "v1", BEFORE))
        page = open_page(f"{running.url}/s/shop", expected="net::ERR_")
        before = outline(page)
        expect(page.locator(".band")).to_have_count(0)
        other = open_page(f"{running.url}/settings", expected="net::ERR_")
        own = other.locator("meta[name=sidelight-build]").get_attribute("content")
        running.running.end()
    with again(tmp_path, running, PYTHONPATH=newer, PYTHONSAFEPATH="1") as later:
        assert later.get("/api/v1/status")["version"].startswith("9.")
        page.get_by_role("button", name="Refresh").click()
        band = page.locator(".band").filter(has_text="The collector was updated")
        expect(band).to_contain_text("the collector is build 9.")
        assert outline(page) == before, "fields that older pages do not know change nothing"
        band.get_by_role("button", name="Not now").click()
        page.get_by_role("button", name="Refresh").click()
        expect(page.locator(".stale")).to_have_count(0)
        expect(band).to_have_count(0)
        open_settings(page)
        expect(page.locator(".facts").first).to_contain_text("UI build")
        page.go_back()
        page.reload()
        assert outline(page) == before
        expect(page.locator(".band")).to_have_count(0)
        open_settings(page)
        expect(page.locator(".facts").first).to_contain_text("9.")
        # The offer loads the new pages.
        other.get_by_role("link", name="Services").click()
        other.get_by_role("button", name="Reload").click()
        expect(other.locator(".band")).to_have_count(0)
        expect(other.get_by_role("link", name="shop", exact=True)).to_be_visible()
        assert other.locator("meta[name=sidelight-build]").get_attribute("content") != own
        page.close()
        other.close()


def test_silent_services_and_truncated_stacks_are_called_so_with_what_to_check(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/unversioned")
    page.locator(".drop.quality > summary").click()
    said = page.locator(".notices").filter(has_text="Last seen")
    expect(said).to_contain_text("nothing newer has arrived")
    expect(said).to_contain_text("/readyz")
    page.goto(f"{shop}/s/shop")
    boxes(page)
    expect(page.locator(".notices").filter(has_text="Last seen")).to_have_count(0)
    # An empty page knows when the service was seen last.
    page.goto(f"{shop}/s/unversioned?from=-5m")
    expect(page.locator(".zero")).to_contain_text(re.compile(r"Last seen \d+ (min|h) ago"))
    page.get_by_role("button", name="Jump to last data").click()
    assert boxes(page)
    page.goto(f"{shop}/s/nobody")
    expect(page.locator(".zero")).to_contain_text("No data for nobody in 30 days")
    # Truncated stacks are counted in the line.
    page.goto(f"{shop}/s/api?query=version%3D%222%22")
    line = page.locator(".quality .basis")
    page.locator(".drop.quality > summary").click()
    expect(line).to_contain_text("50.0 % truncated stacks")
    line.get_by_text("why?").click()
    expect(line).to_contain_text("--max-depth")


def test_settings_say_what_this_collector_is(limited: str, open_page: Open, axe: str) -> None:
    page = open_page(limited)
    open_settings(page)
    expect(page.get_by_role("heading", name="Settings and help")).to_be_visible()
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("directory: answers")
    expect(facts).to_contain_text("9 days in full, 20 days hourly, 21 days daily")
    expect(page.get_by_text("previous and next sibling")).to_have_count(1)
    expect(page.get_by_text("One observation of one thread: its stack")).to_be_visible()
    page.get_by_role("radio", name="Dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert violations(page, axe) == []
    page.get_by_role("radio", name="Light", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert violations(page, axe) == []
    page.get_by_role("link", name="Services").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("previous and next sibling")).to_be_visible()
    page.get_by_role("dialog").get_by_role("link", name="Settings, and how to read the numbers").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator(".settings").get_by_label("Single-key shortcuts on").uncheck()
    page.get_by_role("link", name="Services").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "keys=0" in page.url
    assert "theme=light" in page.url
    with urllib.request.urlopen(f"{limited}/assets/licences.txt", timeout=60) as licences:
        assert b"speedscope" in licences.read()


def test_a_collector_without_captures_is_asked_for_sidecars_once(serve: Serve, open_page: Open) -> None:
    running = serve("--no-captures")
    page = open_page("about:blank", expected="404", own_context=True)
    page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.goto(running.url)
    expect(page.locator(".checks")).to_contain_text("no sidecar seen yet")

    def is_asked_again() -> bool:
        page.clock.fast_forward(3000)
        return asked.count("status") > 2

    eventually("the page has looked again", is_asked_again)
    assert asked.count("agents") == 1


def test_the_parts_that_open_break_no_rule_and_fit_a_phone(shop: str, open_page: Open, axe: str) -> None:
    page = open_page(f"{shop}/s/shop?query=version%3D%22v2%22&baseline=version%3Av1")
    page.set_viewport_size({"width": 360, "height": 800})
    boxes(page)
    page.get_by_role("button", name="+ filter").click()
    page.get_by_label("Label", exact=True).select_option("pod")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    assert violations_in_both_themes(page, axe) == {}
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Unfold the timeline").click()
    page.get_by_role("slider", name="CPU per pod").focus()
    page.keyboard.press("End")
    page.keyboard.press("Shift+ArrowLeft")
    expect(page.get_by_role("group", name="Selected range")).to_be_visible()
    page.locator(".flag").first.focus()
    assert violations_in_both_themes(page, axe) == {}
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert small_controls(page) == []
