"""What a look finds: the verdict of `/api/v1/verdict` about a deploy's sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sidelight.collector.deploys.deploy import Deploy, Range, State
from sidelight.collector.query.reading import Reading


@dataclass(frozen=True, slots=True)
class Found:
    """What one comparison found."""

    state: State
    way: str = ""
    baseline: Range | None = None
    comparison: Range | None = None
    sentence: str = ""
    rate: Mapping[str, Any] | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    verdict: Mapping[str, Any] | None = None
    problem: str = ""


Judge = Callable[[Reading, Deploy, float, int], Found]
"""Compares a deploy at an offset, as its k-th look."""
