"""Numbers as text, on the vectors that the UI's own tests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidelight_model.change import format_number, format_percent, format_signed

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "web" / "test" / "vectors" / "changes.json").read_text()
)


@pytest.mark.parametrize("vector", VECTORS["numbers"])
def test_numbers_are_written_as_the_pages_write_them(vector: dict[str, Any]) -> None:
    value = vector["value"]
    written = format_number(value), format_percent(value), format_signed(format_percent(value), value)
    assert written == (vector["short"], vector["percent"], vector["signed"])
