"""Names and labels come from anywhere: they are shown as text and never run."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import expect

from tests.web.conftest import Open
from tests.web.flame import boxes, click, hover, outline, turn
from tests.web.profiles import HOSTILE, HOSTILE_SERVICE

URL = f"/s/{quote(HOSTILE_SERVICE, safe='')}"


def test_hostile_names_are_drawn_listed_and_pointed_at_as_they_are(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    page.get_by_text(HOSTILE_SERVICE, exact=True).click()
    expect(page.get_by_role("heading", name=HOSTILE_SERVICE)).to_be_visible()
    drawn = {each["name"] for each in boxes(page)}
    assert drawn == {"total", "main (app.py)", *(name.replace("%3B", ";") for name in HOSTILE)}
    assert "<img src=x onerror=alert(1)>" in hover(page, "<img")
    assert "שלום" in hover(page, "\u202e")
    page.get_by_role("radio", name="Table").click()
    expect(page.get_by_role("button", name="<img src=x onerror=alert(1)>")).to_be_visible()
    assert page.locator("main img, main script, main b").count() == 0
    page.goto(f"{shop}{URL}")
    click(page, "xxxx")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.get_by_role("button", name="Highlight all").click()
    expect(page.locator(".matched")).to_contain_text("1 frame · 100.0 %")
    page.reload()
    assert len(outline(page)) == 3


def test_a_stack_of_3500_frames_is_drawn_scrolled_and_collapsed(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/deep")
    drawn = boxes(page)
    assert len(drawn) == 3501
    page.locator(".flame canvas").focus()
    page.keyboard.press("ArrowDown")
    page.locator(".flame-scroll").evaluate("host => { host.scrollTop = host.scrollHeight }")
    page.get_by_label("More options").click()
    page.get_by_role("button", name="Fold recursion").click()
    page.keyboard.press("Escape")
    names = ["total", "even (rec.py)", "odd (rec.py)"]
    assert [each["name"] for each in boxes(page)] == names, "the cycle of both functions is drawn once"
    page.locator(".transforms").get_by_role("button", name="fold recursion").click()
    turn(page, "Bottom-up")
    assert len(boxes(page)) == 3501
    page.get_by_role("radio", name="Table").click()
    expect(page.locator(".panel tbody tr")).to_have_count(2)
    expect(page.locator(".panel tbody tr").filter(has_text="even")).to_contain_text("100.00 %")
