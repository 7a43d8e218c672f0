"""The measurements of one version of the demo service.

The load generator measures from the outside, the profile from the inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidelight_cli.demo.collector_answers import VersionProfile
from sidelight_cli.demo.processes.load_generator import LoadRound
from sidelight_cli.demo.versions import DemoVersion

MAX_ERROR_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class MeasuredVersion:
    """A version with a round of load and its profile of the same time."""

    version: DemoVersion
    load: LoadRound
    profile: VersionProfile


@dataclass(frozen=True, slots=True)
class VersionProgress:
    """The progress of a version in its first round.

    `load` and `profile` are None until they are available.
    """

    version: DemoVersion
    load: LoadRound | None = None
    profile: VersionProfile | None = None


def find_problems(measured: Sequence[MeasuredVersion]) -> list[str]:
    """Return the problems that invalidate a version's measurements.

    The list is empty if every service had load and has a profile.
    """
    return [
        f"{version.version.name}: {problem}"
        for version in measured
        for problem in _find_version_problems(version)
    ]


def _find_version_problems(measured_version: MeasuredVersion) -> list[str]:
    problems = []
    if measured_version.load.overall.answered == 0:
        problems.append(f"no request was answered ({_format_errors(measured_version.load.errors)})")
    elif measured_version.load.failed_requests > MAX_ERROR_SHARE * (
        measured_version.load.overall.answered + measured_version.load.failed_requests
    ):
        problems.append(
            f"{measured_version.load.failed_requests} requests failed "
            f"({_format_errors(measured_version.load.errors)}): try a lower --rate"
        )
    if measured_version.profile.samples == 0:
        problems.append("the collector has no samples of it")
    return problems


def _format_errors(errors: dict[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in errors.items()) or "none was sent"
