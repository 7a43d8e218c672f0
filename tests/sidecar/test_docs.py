"""docs/sidecar.md is complete: a mode that it does not name fails here."""

from __future__ import annotations

from pathlib import Path

from sidelight_sidecar.sampling_settings import SAMPLING_MODES

PAGE = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text()


def test_every_mode_is_documented() -> None:
    for mode in SAMPLING_MODES:
        assert f"|`{mode}`|" in PAGE
