"""The flame graph as a file: well-formed whatever the names, and as wide as the profile says."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.counts import Counts, ProfileType
from sidelight_model.export_formats.colours import choose_colour, to_css
from sidelight_model.export_formats.svg import WIDTH, format_duration, write_svg
from sidelight_model.export_formats.svg_script import SCRIPT, STYLE
from sidelight_model.frames import OTHER, Frame, unescape_frame
from sidelight_model.packages import find_package_name
from sidelight_model.profile import Profile
from sidelight_model.terminal_width import escape_unprintable
from sidelight_model.tree import compute_totals
from sidelight_model.window import Window
from tests.model.reference_profiles import build_profile_tree, merge_windows
from tests.model.strategies import FEWER, deep, profile, profiles, windows

SVG = "{http://www.w3.org/2000/svg}"
kinds = st.sampled_from(ProfileType)
ANYTHING = st.text(st.characters(), max_size=20)


@dataclass(frozen=True)
class Drawn:
    """A box as it was read back from the file."""

    name: str
    numbers: str
    level: int
    start: int
    total: int
    x: float
    width: float
    fill: str
    label: str


def drawn(svg: bytes) -> list[Drawn]:
    found = []
    for group in ElementTree.fromstring(svg).iterfind(f".//{SVG}g[@data-a]"):
        name, _, numbers = (group.findtext(f"{SVG}title") or "").rpartition("\n")
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        found.append(
            Drawn(
                name,
                numbers,
                *(int(group.attrib[key]) for key in ("data-l", "data-a", "data-n")),
                *(float(rect.attrib[key]) for key in ("x", "width")),
                rect.attrib["fill"],
                group.findtext(f"{SVG}text") or "",
            )
        )
    return found


def said(svg: bytes, what: str) -> str:
    return ElementTree.fromstring(svg).findtext(f"{SVG}{what}") or ""


@FEWER
@given(profiles, kinds)
def test_a_graph_holds_exactly_its_profile(one: Profile, kind: ProfileType) -> None:
    boxes = drawn(write_svg(one.rows(kind), "shop"))
    grown = build_profile_tree(one, kind=kind, lines=True)
    assert [(box.level, box.name, box.total) for box in boxes] == [
        (level, escape_unprintable(unescape_frame(grown.names[name])), total)
        for level, name, total in zip(
            grown.level, grown.name_index, compute_totals(grown, 0, "ns"), strict=True
        )
    ]
    assert boxes[0].total == one.total_ns().for_type(kind)


@FEWER
@given(profiles, kinds, st.integers(1, 12))
def test_boxes_lie_inside_the_box_that_called_them_and_beside_each_other(
    one: Profile, kind: ProfileType, nodes: int
) -> None:
    boxes = drawn(write_svg(one.rows(kind), "shop", max_nodes=nodes))
    path: list[Drawn] = []
    ends: dict[int, int] = {}
    for box in boxes:
        path[box.level :] = [box]
        if box.level:
            above = path[box.level - 1]
            assert above.start <= box.start
            assert box.start + box.total <= above.start + above.total
        assert box.start >= ends.get(box.level, 0)
        ends[box.level] = box.start + box.total
        assert -0.01 <= box.x <= box.x + box.width <= WIDTH + 0.01


@FEWER
@given(profiles, st.integers(1, 12))
def test_small_boxes_are_folded_counted_and_not_lost(one: Profile, nodes: int) -> None:
    whole = drawn(write_svg(one.rows(ProfileType.WALL), "shop"))
    svg = write_svg(one.rows(ProfileType.WALL), "shop", max_nodes=nodes)
    kept = [box for box in drawn(svg) if box.name != OTHER]
    assert len(kept) == min(nodes, len(whole))
    assert drawn(svg)[0].total == whole[0].total
    assert len(drawn(svg)) <= 2 * nodes
    folded = len(whole) - len(kept)
    assert (f"{folded:,} call paths that are too small" in said(svg, "desc")) == (folded > 0)


@given(st.lists(ANYTHING, min_size=1), ANYTHING, st.lists(ANYTHING, max_size=2))
def test_any_name_at_all_gives_a_file_that_reads_back(names: list[str], title: str, notes: list[str]) -> None:
    svg = write_svg([(names, 1, 10)], title, notes)
    assert [box.name for box in drawn(svg)] == [
        "total",
        *(escape_unprintable(unescape_frame(name)) for name in names),
    ]
    assert said(svg, "title") == escape_unprintable(title)
    assert svg.count(b"<script") == 1


@FEWER
@given(st.lists(windows, max_size=4))
def test_equal_profiles_give_equal_bytes(some: list[Window]) -> None:
    one, other = (
        write_svg(merge_windows(order).rows(ProfileType.CPU), "x") for order in (some, reversed(some))
    )
    assert one == other


def test_a_box_says_its_name_its_time_its_share_and_what_it_did_itself() -> None:
    one = profile("main (a.py:1) 1 | main (a.py:1);work (b.py:7) 3")
    boxes = drawn(write_svg(one.rows(ProfileType.CPU), "shop"))
    assert [(box.label, box.numbers) for box in boxes] == [
        ("total", "40.0 ms (4 samples), 100.0 %"),
        ("main (a.py:1)", "40.0 ms (4 samples), 100.0 %; itself 25.0 %"),
        ("work (b.py:7)", "30.0 ms (3 samples), 75.0 %"),
    ]


def test_a_label_that_does_not_fit_is_cut_and_none_is_drawn_where_nothing_fits() -> None:
    wide = "計" * 200
    boxes = drawn(write_svg([([wide], 1, 999), (["other long name"], 1, 1)], "shop"))
    labels = {box.name: box.label for box in boxes}
    assert labels[wide].startswith("計計")
    assert labels[wide].endswith("…")
    assert 2 * len(labels[wide]) * 6 < WIDTH
    assert labels["other long name"] == ""


def test_samples_are_drawn_where_no_time_is_known() -> None:
    boxes = drawn(write_svg([(["main"], 3, 0), (["main", "work"], 1, 0)], "shop"))
    assert [(box.total, box.numbers) for box in boxes] == [
        (4, "4 samples, 100.0 %"),
        (4, "4 samples, 100.0 %; itself 75.0 %"),
        (1, "1 sample, 25.0 %"),
    ]


def test_a_profile_without_samples_is_a_picture_that_says_so() -> None:
    svg = write_svg(Profile().rows(ProfileType.WALL), "shop")
    assert "There is nothing to draw" in svg.decode()
    assert [box.name for box in drawn(svg)] == ["total"]


def test_nothing_recurses_and_the_number_of_boxes_is_bounded() -> None:
    abyss = Profile({deep(20_000): Counts(running=1)}, {deep(20_000): Counts(running=10)})
    assert len(drawn(write_svg(abyss.rows(ProfileType.CPU), "abyss"))) == 5001
    whole = drawn(write_svg(abyss.rows(ProfileType.CPU), "abyss", max_nodes=30_000))
    assert max(box.level for box in whole) == 20_000


def test_the_script_stands_in_the_file_as_it_is_and_reaches_for_nothing() -> None:
    assert "]]>" not in SCRIPT
    assert "<" not in STYLE
    for word in ("fetch", "XMLHttpRequest", "import", "innerHTML", "eval", "src="):
        assert word not in SCRIPT
    svg = write_svg([(["main"], 1, 1)], "shop")
    assert SCRIPT in "".join(ElementTree.fromstring(svg).find(f"{SVG}script").itertext())  # type: ignore[union-attr]
    assert svg.count(b"http") == SCRIPT.count("http") + 1


@given(st.text(), st.text(), st.text())
def test_black_text_can_be_read_on_every_colour(function: str, folder: str, file: str) -> None:
    assert contrast_with_black(choose_colour(Frame(function, f"{folder}/{file}.py"))) > 4.5


@pytest.mark.parametrize(
    ("frame", "colour"),
    [
        ("total", "#b5b5ba"),
        ("main (app.py:1)", "#a27fdd"),
        ("handle (shop/views.py:7)", "#7ddcba"),
        ("EpollSelector.select (selectors.py:468)", "#a9b6c1"),
        ("größe (計算/é.py)", "#e08aaf"),
        ("import (<frozen importlib._bootstrap>)", "#bbc4ce"),
    ],
)
def test_a_frame_has_the_colour_it_has_on_the_pages(frame: str, colour: str) -> None:
    assert to_css(choose_colour(Frame.parse(frame))) == colour


def test_a_file_belongs_to_the_package_at_its_top() -> None:
    files = ["aiohttp/web.py", "app.py", "/srv/shop/views.py", "<frozen runpy>", "fast.pyx", "<string>"]
    assert [find_package_name(file) for file in files] == [
        "aiohttp",
        "app",
        "srv",
        "frozen runpy",
        "fast",
        "string",
    ]


@pytest.mark.parametrize(
    ("ns", "text"),
    [(1_234_560_000_000, "1,234.56 s"), (31_000_000, "31.0 ms"), (12_000, "12 µs"), (0, "0 µs")],
)
def test_times_are_written_as_people_write_them(ns: int, text: str) -> None:
    assert format_duration(ns) == text


def contrast_with_black(colour: tuple[int, int, int]) -> float:
    parts = [channel / 255 for channel in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05) / 0.05
