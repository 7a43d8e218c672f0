"""Captures from the page to the profile: a real collector, a real sidecar, a real process that is sampled."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from playwright.sync_api import Page, expect

from tests.processes import Collector, Running, collector, eventually, free_port, running, sidelight
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import HOSTILE_SERVICE
from tests.web.rules import assert_fits, clipboard_after, small_controls, violations_in_both_themes

TARGET = Path(__file__).parent.parent / "e2e" / "targets" / "shares.py"
QUICK = ("--capture-check-interval-seconds", "0.3")


@contextmanager
def watched(folder: Path, url: str, *options: str) -> Iterator[Running]:
    """A program, and a sidecar that watches it as the pod p-1 of the service shares."""
    with running(folder / "target.log", sys.executable, str(TARGET), "240") as target:
        eventually("the program runs", lambda: "ready" in target.said())
        argv = sidelight(
            *("sidecar", "--collector", url, "--pid", str(target.pid), "--service", "shares"),
            *("--version", "1", "--pod", "p-1", "--spool-dir", str(folder / "spool")),
            *("--listen", "127.0.0.1:0", "--window-seconds", "1", *options),
        )
        with running(folder / "sidecar.log", *argv) as sidecar:
            yield sidecar


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that looks after captures often, for services of the tests' own."""
    folder = tmp_path_factory.mktemp("quick")
    with collector(folder, str(folder / "store"), *QUICK, "--capture-wait-seconds", "600") as served:
        yield served


def asks(served: Collector, service: str = "shares") -> Callable[[], bool]:
    """Whether a sidecar of a service asks for captures and is ready."""

    def check() -> bool:
        found = served.get("/api/v1/agents")["agents"]
        return any(one["labels"]["service"] == service and one["ready"] for one in found)

    return check


def start(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Start").click()


def test_capture_from_its_form_to_its_flame_graph_and_time_order(
    quick: Collector, tmp_path: Path, open_page: Open
) -> None:
    with watched(tmp_path, quick.url):
        captured(quick, open_page)


def captured(served: Collector, open_page: Open) -> None:
    eventually("the sidecar asks", asks(served))
    page = open_page(f"{served.url}/captures?service=shares")
    expect(page.get_by_role("status").filter(has_text="can take a capture now")).to_contain_text(
        "✓ 1 sidecar"
    )
    expect(page.get_by_role("region", name="Table of sidecars")).to_contain_text("✓ ready")
    # Long enough for a page that stands still for a while to see it sampled.
    start(page, Seconds="15")
    expect(page).to_have_url(re.compile(r"/captures/c_\w{26}$"))
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".live")).to_contain_text("shares.py")  # while it samples
    expect(page.locator(".steps [aria-current]")).to_have_text("✓ ready", timeout=60_000)
    expect(page.get_by_role("region", name="Table of pods")).to_contain_text("p-1")
    expect(page.get_by_text("expires")).to_be_visible()

    order = page.get_by_role("link", name="Open time order in speedscope")
    with page.context.expect_page() as opened:
        order.click()
    expect(opened.value).to_have_title(re.compile("p-1, process"))
    opened.value.close()

    page.get_by_role("link", name="Open flame graph").click()
    expect(page).to_have_url(re.compile(r"/s/shares\?.*capture"))
    assert any("seventy" in str(box) for box in boxes(page))
    expect(page.get_by_role("slider")).to_be_visible()  # its own timeline
    page.go_back()
    expect(page.locator(".steps [aria-current]")).to_have_text("✓ ready")
    page.get_by_role("link", name="Compare with the same window yesterday").click()
    expect(page).to_have_url(re.compile(r"/s/shares/compare\?"))
    expect(page.get_by_role("heading", name="No wall samples of A")).to_be_visible()
    # Another one is started from the service, followed on other pages, stopped and kept.
    page.goto(f"{served.url}/s/shares")
    page.get_by_role("button", name="Capture", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="p-1").click()
    expect(dialog.get_by_label("Pods", exact=True)).to_have_value("chosen")
    dialog.get_by_label("Seconds").fill("300")
    dialog.get_by_role("button", name="Start").click()
    progress = page.get_by_role("region", name="Captures in progress")
    expect(progress.get_by_role("progressbar")).to_be_visible(timeout=60_000)
    page.locator(".brand").click()
    expect(progress).to_contain_text(re.compile(r"\d+/300 s · [1-9]"))
    page.reload()
    progress.get_by_role("button", name="Stop and keep").click()
    expect(progress.get_by_role("link", name="Compare with the hour before")).to_be_visible(timeout=60_000)
    progress.get_by_role("link", name="Open flame graph").click()
    assert boxes(page)
    expect(progress).to_be_hidden()


def test_a_capture_goes_on_when_the_collector_is_restarted_and_its_page_says_so(
    tmp_path: Path, open_page: Open
) -> None:
    store = str(tmp_path / "store")
    with ExitStack() as stack:
        listen = ("--listen", f"127.0.0.1:{free_port()}")
        served = stack.enter_context(collector(tmp_path, store, *listen, *QUICK))
        stack.enter_context(watched(tmp_path, served.url, "--send-backoff-max-seconds", "1"))
        eventually("the sidecar asks", asks(served))
        page = open_page(f"{served.url}/captures?service=shares", expected="Failed to load resource")
        start(page, Seconds="30")
        expect(page.locator(".live")).to_contain_text("shares.py", timeout=60_000)
        served.running.end()
        expect(page.get_by_role("alert")).to_contain_text("The collector does not answer.")
        expect(page.get_by_role("alert")).to_contain_text("Showing data from before")
        expect(page.locator(".live")).to_contain_text("shares.py")
        stack.enter_context(collector(tmp_path, store, *listen, *QUICK))
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(".steps [aria-current]")).to_have_text("✓ ready", timeout=90_000)
        page.close()


def test_delete_asks_first_and_leads_back_to_the_list_also_by_keyboard(
    quick: Collector, open_page: Open
) -> None:
    served = quick
    made = wish(served, service="nobody")
    page = open_page(f"{served.url}/captures/{made['id']}", expected="404")
    expect(page.locator(".steps [aria-current]")).to_have_text("queued")
    waiting = r"Waiting for a sidecar of nobody – none connected\. Gives up in \d+ s\."  # noqa: RUF001
    expect(page.get_by_text(re.compile(waiting))).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.get_by_role("button", name="Stop and keep")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    expect(page.locator(".steps [aria-current]")).to_have_text("queued")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{served.url}/captures?service=nobody")
    expect(page.get_by_text("No captures yet.")).to_be_visible()
    page.goto(f"{served.url}/captures/{made['id']}")
    expect(page.get_by_role("alert")).to_contain_text("There is no capture")
    page.get_by_role("link", name="All captures").click()
    expect(page.get_by_role("heading", name="Captures", exact=True, level=1)).to_be_visible()
    # The keyboard alone starts and deletes one.
    page = open_page(f"{served.url}/captures")
    page.get_by_label("Service", exact=True).focus()
    page.keyboard.type("keys")
    page.keyboard.press("Escape")  # the list of services
    page.keyboard.press("Enter")
    expect(page.locator(".steps [aria-current]")).to_have_text("queued")
    page.get_by_role("button", name="Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.url}/captures?service=keys")


def test_a_capture_that_nobody_takes_names_the_cause_and_the_next_step(serve: Serve, open_page: Open) -> None:
    served = serve(*QUICK, "--capture-wait-seconds", "1")
    page = open_page(f"{served.url}/captures")
    expect(page.get_by_text("No sidecar is connected.")).to_be_visible()
    start(page, Service="ghost")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("No sidecar took it within 1 s: no sidecar polls this collector")
    expect(alert).to_contain_text("--write-tokens-file")
    expect(page.locator(".steps")).to_have_text("✓ queued⚠ failed")
    alert.get_by_role("link", name="Start another").click()
    expect(page.get_by_label("Service", exact=True)).to_have_value("ghost")
    expect(page.get_by_role("region", name="Table of captures")).to_contain_text("⚠ failed")


def test_form_says_what_can_take_a_capture_and_is_the_same_as_its_commands(
    quick: Collector, open_page: Open, tmp_path: Path
) -> None:
    # A paused sidecar is named before a capture is started.
    poll(quick, "sleepy", [], paused=True)
    page = open_page(f"{quick.url}/captures?service=sleepy", expected="400")
    status = page.get_by_role("status").filter(has_text="⚠")
    expect(status).to_contain_text("No sidecar can take a capture now: the sidecar of")
    expect(status).to_contain_text("is paused.")
    poll(quick, "sleepy", [])
    expect(page.get_by_role("status").filter(has_text="✓ 1 sidecar")).to_be_visible()
    # A refusal is shown where Start was pressed.
    start(page, Service="shop", Pods="9")
    expect(page.get_by_role("alert")).to_contain_text("Pods must be from 1 to 5 (--capture-max-pods)")
    expect(page.get_by_label("Pods", exact=True)).to_have_value("9")
    # The form is the same as a command and a curl that work.
    page = open_page(f"{quick.url}/captures")
    expect(page.get_by_label(re.compile("^Time range"))).to_have_count(0)
    page.get_by_label("Service", exact=True).fill("it's $HOME")
    page.get_by_label("Seconds", exact=True).fill("7")
    page.get_by_label("Filter", exact=True).fill("version=\"2\", pod!='x'")
    for button in ("Copy CLI command", "Copy as curl"):
        command = clipboard_after(page, page.get_by_role("button", name=button).click)
        detached = command.replace("sidelight capture", f"{' '.join(sidelight('capture'))} --detach")
        with running(tmp_path / "shell.log", "sh", "-c", detached) as shell:
            assert shell.process.wait(120) == 0, shell.said()
        (newest, *_) = quick.get("/api/v1/captures")["captures"]
        assert (newest["service"], newest["seconds"]) == ("it's $HOME", 7)
        assert newest["query"] == "version=\"2\", pod!='x'"


def test_who_may_not_start_captures_is_told_what_to_use(
    serve: Serve, open_page: Open, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    page = open_page(f"{serve('--capture-tokens-file', str(tokens)).url}/captures", expected="401")
    start(page, Service="shop")
    expect(page.get_by_role("alert")).to_contain_text(
        "Only users with a token may start and end captures here."
    )
    expect(page.get_by_role("alert")).to_contain_text("--token-file, or a proxy that adds one")
    expect(page.get_by_text("No captures yet.")).to_be_visible()
    # Where nobody may, the page says what the browser needs.
    served = serve("--listen", "0.0.0.0:0", "--allow-anonymous-writes", "--allow-anonymous-reads")
    page = open_page(f"{served.url}/captures", expected="403")
    start(page, Service="shop")
    told = page.get_by_role("alert")
    expect(told).to_contain_text("Nobody may start captures or write notes here")
    expect(told).to_contain_text("A browser sends no token: for these pages it takes a proxy")


def test_pages_of_captures_are_accessible_and_fit_a_phone(
    quick: Collector, open_page: Open, axe: str
) -> None:
    served = quick
    made = wish(served, service=HOSTILE_SERVICE)
    poll(served, HOSTILE_SERVICE, [])
    eventually("it is taken", lambda: poll(served, HOSTILE_SERVICE, [])["capture_jobs"])
    top = [{"function": name, "self_samples": 3} for name in ("<img src=x onerror=alert(1)>", "x" * 400)]
    report = {
        "capture": made["id"],
        "state": "failed",
        "problem": "<b>ptrace</b>",
        "hint": "a " * 200,
        "top_functions": top,
    }
    report |= {"errors": {"read": 2}, "samples": 5}
    page = open_page("about:blank")
    for state in ("sampling", "failed"):
        poll(served, HOSTILE_SERVICE, [{**report, "state": state, "elapsed_seconds": 1.0, "seconds": 60.0}])
        page.goto(f"{served.url}/captures/{made['id']}")
        expect(page.locator(".steps [aria-current]")).to_contain_text(state)
        expect(page.locator(".live")).to_contain_text("<img src=x onerror=alert(1)>")
        assert violations_in_both_themes(page, axe) == {}
        fits(page)
        page.get_by_role("button", name="Delete").click()
        assert violations_in_both_themes(page, axe) == {}
    page.goto(f"{served.url}/captures")
    expect(page.get_by_role("region", name="Table of captures")).to_be_visible()
    expect(page.get_by_role("region", name="Table of sidecars")).to_be_visible()
    page.get_by_label("Service", exact=True).fill(HOSTILE_SERVICE)
    assert violations_in_both_themes(page, axe) == {}
    fits(page)


def fits(page: Page) -> None:
    """Fails when the page is wider than a phone, or something to press is too small to hit."""
    assert_fits(page, 360, 780)
    assert small_controls(page) == []
    page.set_viewport_size({"width": 1280, "height": 900})


def wish(served: Collector, **wished: object) -> dict[str, Any]:
    return post(served, "captures", {"seconds": 60, **wished})


def poll(served: Collector, service: str, reports: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """What a sidecar asks that samples nothing: for names and states that no real one has at will."""
    labels = {"service": service, "pod": "<i>pod</i>"}
    asked = {
        "v": 1,
        "agent": f"a{crc32(service.encode())}",
        "labels": labels,
        "ready": True,
        "timeout_seconds": 0,
        "reports": reports,
    }
    return post(served, "agents/poll", {**asked, **changes})


def post(served: Collector, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{served.url}/api/v1/{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return dict(json.load(answer))
