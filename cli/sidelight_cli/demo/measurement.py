"""One version of the demo's service: measured from outside by the load, from inside by its profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidelight_cli.demo.collector_answers import Profiled
from sidelight_cli.demo.processes.load_generator import Round
from sidelight_cli.demo.versions import Version

MOST_ERRORS = 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """A version, the round of load it had, and what the collector knows about the same time."""

    version: Version
    load: Round
    profile: Profiled


@dataclass(frozen=True, slots=True)
class Progress:
    """A version during its first round: the load and the profile so far, None before there is any."""

    version: Version
    load: Round | None = None
    profile: Profiled | None = None


def problems(measured: Sequence[Measured]) -> list[str]:
    """Why a run proves nothing about some version; empty when every service was loaded and profiled."""
    return [f"{one.version.name}: {problem}" for one in measured for problem in _problems(one)]


def _problems(one: Measured) -> list[str]:
    found = []
    if one.load.overall.answered == 0:
        found.append(f"no request was answered ({_counted(one.load.errors)})")
    elif one.load.failed > MOST_ERRORS * (one.load.overall.answered + one.load.failed):
        found.append(f"{one.load.failed} requests failed ({_counted(one.load.errors)}): try a lower --rate")
    if one.profile.samples == 0:
        found.append("the collector has no samples of it")
    return found


def _counted(errors: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in errors.items()) or "none was sent"
