"""The rule that gives a frame its package, on the vectors that the pages are held to as well."""

from __future__ import annotations

import json
from pathlib import Path

from sidelight_model.packages import (
    STDLIB_MODULES,
    THIRD_PARTY_PACKAGES,
    CodeOwner,
    classify_frame,
    find_code_owner,
)

WEB = Path(__file__).parents[2] / "web"


def test_a_frames_package_is_the_one_that_the_pages_colour_it_by() -> None:
    vectors = json.loads((WEB / "test" / "vectors" / "packages.json").read_text())
    assert len(vectors) > 30
    for frame, name, kind in vectors:
        assert classify_frame(frame) == (name, kind), frame


def test_the_owner_of_a_frame_is_the_one_that_the_pages_colour_it_by() -> None:
    vectors = json.loads((WEB / "test" / "vectors" / "groups.json").read_text())
    assert {owner for _, owner in vectors} == set(CodeOwner)
    for frame, owner in vectors:
        assert find_code_owner(frame) == owner, frame


def test_third_party_packages_are_those_of_the_pages() -> None:
    source = (WEB / "src" / "flamegraph" / "tree" / "groups.ts").read_text()
    listed = source.partition("new Set((")[2].partition(").split")[0]
    assert set("".join(listed.split('"')[1::2]).split()) == THIRD_PARTY_PACKAGES


def test_what_the_pages_call_the_standard_library_is_that_here_too() -> None:
    source = (WEB / "src" / "flamegraph" / "tree" / "packages.ts").read_text()
    listed = source.partition("new Set((")[2].partition(").split")[0]
    names = {name for name in "".join(listed.split('"')[1::2]).split() if name}
    assert len(names) > 200
    assert names <= STDLIB_MODULES
