"""A stack with a weight in any unit, as readers of other tools' formats return it."""

from __future__ import annotations

from typing import NamedTuple

from sidelight_model.folded import Stack


class WeightedStack(NamedTuple):
    """A stack, its state (`[idle]`, `[gil]` or empty), and a weight in any unit."""

    stack: Stack
    state: str
    weight: float
