from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_cli.local.sampling.quality import SamplingQuality
from sidelight_cli.local.top_table import (
    KEY_HELP,
    SORT_KEYS,
    TableSnapshot,
    TableView,
    build_rows,
    format_body,
    format_header,
    format_heading,
    sort_rows,
)
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.folded import Stack
from sidelight_model.profile import Profile
from sidelight_model.terminal_width import measure_width
from tests.model.strategies import deep, profile, profiles

STORY = profile(
    "main (a.py:1);handle (a.py:7) 6 | main (a.py:2);handle (a.py:9);[gil] 30 | "
    "main (a.py:1);wait (b.py:3);[idle] 60 | main (a.py:1);wait (b.py:3);[cpu_wait] 4 | "
    "main (a.py:1);wait (b.py:3);[gil_wait] 2 | main (a.py:1);wait (b.py:3);[poll] 5"
)
views = st.builds(
    TableView,
    st.sampled_from(ProfileType),
    st.sampled_from(sorted(SORT_KEYS.values())),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def shown(one: Profile = STORY, **changes: object) -> TableSnapshot:
    ledger = SamplingQuality(
        watched_ns=10**9, attempts=100, samples=100, threads=1, stopped_ns=1_600_000, stops=30
    )
    whole = TableSnapshot(one.samples, ledger, 1.0, "process 7 app.py", "gil", "reader own", 100.0, 1, 65.0)
    return replace(whole, **changes)  # type: ignore[arg-type]


def table(view: TableView, one: TableSnapshot, columns: int = 100) -> list[str]:
    return format_body(sort_rows(build_rows(one.counts, lines=view.by_line), view), one, view, columns)


def test_shares_are_of_the_time_watched_and_states_stand_beside_them() -> None:
    assert [line.split() for line in table(TableView(), shown())] == [
        ["36.0", "36.0", "30.0", "6.0", *["0.0"] * 5, "handle", "(a.py:9)"],
        ["0.0", "36.0", *["0.0"] * 7, "main", "(a.py:1)"],
    ]


def test_wall_shows_who_waits_and_lines_are_rows_of_their_own_when_asked() -> None:
    wall = table(TableView(ProfileType.WALL, by_line=True), shown())
    assert [line.split()[:2] + line.split()[-1:] for line in wall] == [
        ["71.0", "71.0", "(b.py:3)"],
        ["30.0", "30.0", "(a.py:9)"],
        ["6.0", "6.0", "(a.py:7)"],
        ["0.0", "77.0", "(a.py:1)"],
        ["0.0", "30.0", "(a.py:2)"],
    ]


def test_failed_ticks_take_nothing_from_a_share() -> None:
    ledger = SamplingQuality(watched_ns=10**9, attempts=200, errors={"read": 100})
    assert table(TableView(), shown(quality=ledger))[0].split()[0] == "36.0"


def test_a_second_process_does_not_halve_the_shares() -> None:
    both = shown(quality=SamplingQuality(watched_ns=2 * 10**9, attempts=200), process_count=2)
    assert table(TableView(), both)[0].split()[0] == "36.0"


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("self", "handle"),
        ("total", "handle"),
        ("gil", "handle"),
        ("idle", "wait"),
        ("cpu_wait", "wait"),
        ("gil_wait", "wait"),
        ("poll", "wait"),
        ("name", "handle"),
    ],
)
def test_the_table_is_sorted_as_asked(sort: str, first: str) -> None:
    assert sort_rows(build_rows(STORY.samples, lines=False), TableView(sort=sort))[0].function == first


def test_keys_change_the_view_and_other_keys_do_not() -> None:
    view = TableView()
    assert view.handle_key("t").sort == "total"
    turned = accumulate("cccc", TableView.handle_key, initial=view)
    assert [one.profile_type.value for one in turned] == ["cpu", "gil", "gil_wait", "off_cpu", "wall"]
    assert view.handle_key("l").by_line
    assert view.handle_key("a").since_start
    assert view.handle_key(" ").is_paused
    assert view.handle_key("x") == view
    assert all(f"{key} " in KEY_HELP for key in SORT_KEYS)


def test_the_header_says_who_how_well_and_what_all_threads_did() -> None:
    assert format_header(shown(), TableView(), 200) == [
        "process 7 app.py · 1:05 · last 1 s",
        "mode gil · 100.0 of 100 samples/s · no errors · target lost 0.16 % · sampler 0.00 % of a core · "
        "reader own",
        "1 thread · self and total are cpu · gil 30.0 % · running 6.0 % · cpu_wait 4.0 % · gil_wait 2.0 %",
        "waiting: lock 0.0 % · poll 5.0 % · io 0.0 % · sleep 0.0 % · idle 60.0 %",
    ]


@given(profiles, views, st.integers(1, 130))
def test_every_line_fits_the_columns_and_nothing_in_it_acts(
    one: Profile, view: TableView, columns: int
) -> None:
    whole = shown(one, name="\x1b[2Jname")
    lines = [
        *format_header(whole, view, columns),
        format_heading(view, columns),
        *table(view, whole, columns),
    ]
    assert all(measure_width(line) <= columns for line in lines)
    assert all(letter.isprintable() for line in lines for letter in line)


@given(profiles, st.sampled_from(ProfileType), st.booleans())
def test_self_times_add_up_to_the_profile_and_totals_hold_them(
    one: Profile, kind: ProfileType, lines: bool
) -> None:
    found = build_rows(one.samples, lines=lines)
    assert sum(row.self_counts.for_type(kind) for row in found) == one.total().for_type(kind)
    assert all(
        row.self_counts.for_type(kind) <= row.total_counts.for_type(kind) <= one.total().for_type(kind)
        for row in found
    )
    assert len({(row.function, row.file, row.line if lines else 0) for row in found}) == len(found)


def test_recursion_counts_once_and_its_depth_is_no_matter() -> None:
    counts = {deep(20_000): Counts(gil=3), Stack("recurse;recurse"): Counts(gil=2)}
    totals = {row.function: row.total_counts.gil for row in build_rows(counts, lines=False)}
    assert totals == {"recurse": 5, "leaf": 3}
