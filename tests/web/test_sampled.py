"""The pages on what a sidecar really sampled: two versions of one program, the second one deeper."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.processes import ROOT, collector, eventually, running, sidelight
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, graph, outline

TARGET = ROOT / "tests" / "e2e" / "targets" / "shares.py"
DEEPER = 40


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector that holds at least 300 samples of each version."""
    folder = tmp_path_factory.mktemp("sampled")
    with ExitStack() as stack:
        served = stack.enter_context(collector(folder, str(folder / "store")))
        for version, depth in (("flat", "0"), ("deep", str(DEEPER))):
            target = stack.enter_context(
                running(folder / f"{version}.log", sys.executable, str(TARGET), "300", depth)
            )
            stack.enter_context(_sidecar(folder, served.url, target.pid, version))

        def enough() -> bool:
            services = served.get("/api/v1/services")["services"]
            versions = [version for service in services for version in service["versions"]]
            return len(versions) == 2 and all(version["samples"] >= 300 for version in versions)

        eventually("both versions are sampled", enough)
        yield served.url


def _sidecar(folder: Path, url: str, pid: int, version: str):  # type: ignore[no-untyped-def]
    argv = sidelight(
        "sidecar", "--collector", url, "--pid", str(pid), "--service", "shares", "--version", version,
        "--pod", version, "--window-seconds", "1", "--spool-dir", str(folder / f"spool-{version}"),
        "--listen", "127.0.0.1:0", "--budget-cpu-percent", "100", "--budget-stop-percent", "100",
    )  # fmt: skip
    return running(folder / f"sidecar-{version}.log", *argv)


def test_sampled_versions_are_read_compared_and_differ_in_depth(sampled: str, open_page: Open) -> None:
    page = open_page(sampled)
    page.get_by_role("link", name="shares", exact=True).click()
    assert box(page, "seventy (shares.py)")["level"] == 3
    click(page, "thirty (shares.py)")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("/")
    page.keyboard.type("spin")
    expect(page.locator(".matched")).to_contain_text(re.compile(r"\d+ frames?"))
    assert not any("seventy" in line for line in outline(page))
    page.reload()
    expect(page.locator("#search")).to_have_value("spin")
    assert not any("seventy" in line for line in outline(page))
    page.goto(f"{sampled}/s/shares/compare?baseline=version:flat&comparison=version:deep&raw=1")
    expect(page.locator(".verdict")).to_contain_text("CPU")
    drawn = boxes(page)
    assert next(one for one in drawn if one["name"].startswith("seventy"))["hatch"] in ("", None)
    recursion = [one for one in drawn if one["name"].startswith("thirty")]
    assert len(recursion) > 10
    assert recursion[-1]["hatch"] == "new"
    page.get_by_role("radio", name="Side by side").click()
    graph(page, 1).locator("canvas[data-drawn]").wait_for()
    page.goto(f"{sampled}/s/shares/depth?baseline=version:flat&comparison=version:deep")
    rows = page.locator("table").first.locator("tbody tr").filter(has_not_text="interval")
    expect(rows).to_have_count(2)
    flat, deep = ([cell.strip() for cell in row.locator("td, th").all_inner_texts()] for row in rows.all())
    assert int(deep[5]) - int(flat[5]) == DEEPER
