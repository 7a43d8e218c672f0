"""The demo's report: every number of a run as JSON. docs/demo.md describes the fields."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from sidelight import __version__
from sidelight_cli.demo.demo_run import Measurement
from sidelight_cli.demo.measurement import Measured
from sidelight_cli.demo.published_story import Finding
from sidelight_cli.demo.settings import Settings
from sidelight_cli.demo.versions import SERVICE

FORMAT = 1
LIBRARIES = ("aiohttp", "tornado", "uvloop", "py-spy")


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a run was made."""

    command: Sequence[str]
    url: str
    compare_url: str
    settings: Settings


def report(
    made: Setting, measurement: Measurement, findings: Sequence[Finding], problems: Sequence[str]
) -> dict[str, object]:
    """The report of one round; it is `ok` when there are no problems."""
    return {
        "format": FORMAT,
        "ok": not problems,
        "problems": list(problems),
        "command": list(made.command),
        "url": made.url,
        "compare_url": made.compare_url,
        "from": measurement.start,
        "until": measurement.until,
        "settings": {
            "seconds": made.settings.round_seconds,
            "rate": made.settings.rate,
            "sample_rate": made.settings.sample_rate,
            "window_seconds": made.settings.window_seconds,
        },
        "machine": machine(),
        "libraries": libraries(),
        "service": SERVICE,
        "versions": [_version(one) for one in measurement.versions],
        "story": [dataclasses.asdict(finding) for finding in findings],
    }


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write a report that nobody ever sees half of."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    beside.rename(path)


def machine() -> dict[str, object]:
    """What the run was made on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
    }


def libraries() -> dict[str, str]:
    """The versions of what was compared, and of what measured it."""
    return {"sidelight": __version__, **{name: metadata.version(name) for name in LIBRARIES}}


def _version(one: Measured) -> dict[str, object]:
    profile = one.profile
    cores, rate = profile.cpu_cores, one.load.arrival_rate
    return {
        "version": one.version.name,
        "program": one.version.program,
        "selector": one.version.selector,
        "load": {name: value for name, value in dataclasses.asdict(one.load).items() if name != "complete"},
        "profile": {
            "windows": profile.windows,
            "samples": profile.samples,
            "states": dict(profile.states),
            "pod_seconds": profile.pod_seconds,
            "cpu_seconds": profile.cpu_seconds,
            "cpu_cores": cores,
            "cpu_ms_per_request": cores / rate * 1000 if cores is not None and rate else None,
            "idle_share": profile.idle_share,
            "busy_samples": profile.depth.samples,
            "depth_mean": profile.depth.mean,
            "depth_mean_error": profile.depth.error if profile.depth.samples > 1 else None,
            "depth_p95": profile.depth.p95,
            "truncated_samples": profile.truncated_samples,
            "modes": list(profile.modes),
            "samplers": list(profile.samplers),
            "pythons": list(profile.pythons),
            "missing_states": list(profile.missing_states),
        },
    }
