"""The demo's JSON report with all numbers of a run.

docs/demo.md describes the fields.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from sidelight import __version__
from sidelight.file_output import replace_file
from sidelight_cli.demo.demo_run import RoundMeasurement
from sidelight_cli.demo.measurement import MeasuredVersion
from sidelight_cli.demo.published_story import StoryFinding
from sidelight_cli.demo.settings import DemoSettings
from sidelight_cli.demo.versions import SERVICE

FORMAT = 1
LIBRARIES = ("aiohttp", "tornado", "uvloop", "py-spy")


@dataclasses.dataclass(frozen=True, slots=True)
class RunContext:
    """The command, URLs and settings of a run."""

    command: Sequence[str]
    url: str
    compare_url: str
    settings: DemoSettings


def build_report(
    context: RunContext,
    measurement: RoundMeasurement,
    findings: Sequence[StoryFinding],
    problems: Sequence[str],
) -> dict[str, object]:
    """Build the report of one round; `ok` is true if there are no problems."""
    return {
        "format": FORMAT,
        "ok": not problems,
        "problems": list(problems),
        "command": list(context.command),
        "url": context.url,
        "compare_url": context.compare_url,
        "from": measurement.start,
        "until": measurement.until,
        "settings": {
            "seconds": context.settings.round_seconds,
            "rate": context.settings.rate,
            "sample_rate": context.settings.sample_rate,
            "window_seconds": context.settings.window_seconds,
        },
        "machine": describe_machine(),
        "libraries": list_library_versions(),
        "service": SERVICE,
        "versions": [_version_to_json(measured) for measured in measurement.versions],
        "story": [dataclasses.asdict(finding) for finding in findings],
    }


def write_report(path: Path, content: Mapping[str, object]) -> None:
    """Write a report atomically."""
    replace_file(path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def describe_machine() -> dict[str, object]:
    """Describe Python version, operating system and number of usable cores."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
    }


def list_library_versions() -> dict[str, str]:
    """Return the versions of the compared libraries and of the profiler."""
    return {"sidelight": __version__, **{name: metadata.version(name) for name in LIBRARIES}}


def _version_to_json(measured: MeasuredVersion) -> dict[str, object]:
    profile = measured.profile
    cores, rate = profile.cpu_cores, measured.load.arrival_rate
    return {
        "version": measured.version.name,
        "program": measured.version.program,
        "selector": measured.version.selector,
        "load": {
            name: value for name, value in dataclasses.asdict(measured.load).items() if name != "complete"
        },
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
            "depth_mean_error": profile.depth.standard_error if profile.depth.samples > 1 else None,
            "depth_p95": profile.depth.p95,
            "truncated_samples": profile.truncated_samples,
            "modes": list(profile.modes),
            "samplers": list(profile.samplers),
            "pythons": list(profile.python_versions),
            "missing_states": list(profile.missing_states),
            "tasks": dataclasses.asdict(profile.tasks) if profile.tasks else None,
        },
    }
