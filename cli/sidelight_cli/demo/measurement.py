"""One version of the demo's service: measured from outside by the load, from inside by its profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidelight_cli.demo.collector_answers import VersionProfile
from sidelight_cli.demo.processes.load_generator import LoadRound
from sidelight_cli.demo.versions import DemoVersion

MAX_ERROR_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class MeasuredVersion:
    """A version, the round of load it had, and what the collector knows about the same time."""

    version: DemoVersion
    load: LoadRound
    profile: VersionProfile


@dataclass(frozen=True, slots=True)
class VersionProgress:
    """A version during its first round: the load and the profile so far, None before there is any."""

    version: DemoVersion
    load: LoadRound | None = None
    profile: VersionProfile | None = None


def find_problems(measured: Sequence[MeasuredVersion]) -> list[str]:
    """Why a run proves nothing about some version; empty when every service was loaded and profiled."""
    return [f"{one.version.name}: {problem}" for one in measured for problem in _find_version_problems(one)]


def _find_version_problems(measured_version: MeasuredVersion) -> list[str]:
    found = []
    if measured_version.load.overall.answered == 0:
        found.append(f"no request was answered ({_format_errors(measured_version.load.errors)})")
    elif measured_version.load.failed_requests > MAX_ERROR_SHARE * (
        measured_version.load.overall.answered + measured_version.load.failed_requests
    ):
        found.append(
            f"{measured_version.load.failed_requests} requests failed "
            f"({_format_errors(measured_version.load.errors)}): try a lower --rate"
        )
    if measured_version.profile.samples == 0:
        found.append("the collector has no samples of it")
    return found


def _format_errors(errors: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in errors.items()) or "none was sent"
