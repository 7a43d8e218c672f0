"""The pictures of the documentation: every one is made by the script, and the script makes pictures."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.pictures.shots import SHOTS, THEMES, take

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
MADE = {f"{shot.name}{'' if theme == 'light' else '-dark'}.png" for shot in SHOTS for theme in THEMES}


def test_every_picture_is_made_by_the_script() -> None:
    assert {path.name for path in PICTURES.iterdir()} == MADE


def test_the_pages_show_every_picture() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w-]+\.png)", page.read_text())}
    assert shown == MADE
    first = re.search(r"pictures/([\w-]+)\.png", (ROOT / "README.md").read_text())
    assert first
    assert first[1].removesuffix("-dark") == "compare"


@pytest.mark.long
def test_the_script_photographs_a_live_demo(tmp_path: Path) -> None:
    wanted = [shot for shot in SHOTS if shot.name in ("services", "compare", "flame")]
    taken = list(take(wanted, tmp_path, 2.0, tmp_path / "run"))
    assert [path.name for path in taken] == [
        f"{shot.name}{'' if theme == 'light' else '-dark'}.png" for theme in THEMES for shot in wanted
    ]
    sizes = {path.name: struct.unpack(">II", path.read_bytes()[16:24]) for path in taken}
    assert sizes["services.png"] == sizes["services-dark.png"] == (1280, 860)
    assert sizes["flame.png"][0] > 1000
    assert sizes["flame.png"][1] > 200
    # A page without anything on it compresses to far less.
    assert min(path.stat().st_size for path in taken) > 20_000
