"""Profile files on a page: chosen, dropped on Home, compared, swapped and refused."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.cli.import_files.test_import import RECORDED
from tests.web.conftest import Open, Serve
from tests.web.rules import assert_fits, violations_in_both_themes

DROP = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
FOLDED = "main (a.py:1);fast (a.py:2) 900\nmain (a.py:1);slow (b.py:7) 100\n"


def test_files_are_drawn_compared_swapped_and_refused(
    serve: Serve, open_page: Open, axe: str, tmp_path: Path
) -> None:
    page = open_page(f"{serve().url}/files", expected="400")
    page.locator("input[type=file]").set_input_files(RECORDED / "python-3.13.perf")
    expect(page.locator(".flame canvas").first).to_be_visible()
    page.get_by_role("radio", name="Table", exact=True).click()
    expect(page.locator("table")).to_contain_text("Py_BytesMain")
    assert violations_in_both_themes(page, axe) == {}
    page.get_by_role("button", name="Close the files").click()
    slower = tmp_path / "after.folded"
    slower.write_text(FOLDED.replace("900", "500").replace(" 100", " 500"))
    page.evaluate(DROP, ["before.folded", FOLDED])
    page.locator("input[type=file]").set_input_files(slower)
    expect(page.locator(".verdict")).to_contain_text("fast (a.py): 90.0 % → 50.0 %")
    expect(page.locator(".culprits")).to_contain_text("slow")
    expect(page.locator(".comparebar")).to_contain_text("A before.folded")
    page.get_by_role("radio", name="Graph", exact=True).click()
    assert violations_in_both_themes(page, axe) == {}
    assert_fits(page)
    page.keyboard.press("x")
    expect(page.locator(".comparebar")).to_contain_text("A after.folded")
    page.get_by_role("button", name="Close the files").click()
    page.locator("input[type=file]").set_input_files(RECORDED / "cpython.binary")
    expect(page.get_by_role("alert")).to_contain_text("python3.15 -m profiling.sampling replay --gecko")


def test_a_file_dropped_on_home_opens_on_the_page_for_files(serve: Serve, open_page: Open) -> None:
    page = open_page(serve().url)
    expect(page.get_by_role("heading", name="No profiles yet")).to_be_visible()
    page.evaluate(DROP, ["shop.folded", FOLDED])
    expect(page.locator(".flame canvas").first).to_be_visible()
    assert page.url.split("?")[0].endswith("/files")
