"""docs/record.md is complete: an option, a key or a mode that it does not name fails here."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from sidelight.settings import format_flag
from sidelight_cli.local.output import infer_format
from sidelight_cli.local.settings import SAMPLING_MODES, RecordSettings, TopSettings
from sidelight_cli.local.top_table import KEY_HELP

PAGE = (Path(__file__).parents[3] / "docs" / "record.md").read_text()


def test_every_option_is_documented_and_no_other() -> None:
    flags = {format_flag(field) for one in (RecordSettings, TopSettings) for field in dataclasses.fields(one)}
    named = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert named - {"--no-lines", "--no-states"} == flags - {"--output"}
    assert "-o shop" in PAGE


def test_every_mode_and_every_key_is_documented() -> None:
    assert all(f"|`{mode}`|" in PAGE for mode in SAMPLING_MODES)
    keys = set(re.findall(r"`(.)`", PAGE.partition("## The table")[2]))
    assert keys == {word for word in KEY_HELP.split() if len(word) == 1}


def test_every_ending_means_the_format_it_is_documented_for() -> None:
    rows = re.findall(r"^\|`(svg|speedscope|folded)`\|(.*?)\|", PAGE, re.MULTILINE)
    assert len(rows) == 3
    for name, endings in rows:
        assert {infer_format(f"x{suffix}") for suffix in re.findall(r"`(\S+)`", endings)} == {name}
