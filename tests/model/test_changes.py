"""Differences in numbers, on the vectors that the UI's own tests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidelight_model.change import (
    compute_change,
    format_number,
    format_percent,
    format_signed,
)

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "web" / "test" / "vectors" / "changes.json").read_text()
)


@pytest.mark.parametrize("vector", VECTORS["changes"])
def test_a_change_has_the_direction_and_the_noise_of_the_pages(vector: dict[str, Any]) -> None:
    found = compute_change(vector["us"], vector["samples"], vector["divisors"])
    assert found.direction == vector["direction"]
    assert found.delta == pytest.approx(vector["delta"], abs=1e-12)
    assert found.noise_limit == pytest.approx(vector["least"], abs=1e-12)


@pytest.mark.parametrize("vector", VECTORS["numbers"])
def test_numbers_are_written_as_the_pages_write_them(vector: dict[str, Any]) -> None:
    value = vector["value"]
    written = format_number(value), format_percent(value), format_signed(format_percent(value), value)
    assert written == (vector["short"], vector["percent"], vector["signed"])
