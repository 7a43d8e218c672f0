"""Measured versions for tests, made from the few numbers that matter."""

from __future__ import annotations

from sidelight_cli.demo.collector_answers import BusyDepthStatistics, TaskStatistics, VersionProfile
from sidelight_cli.demo.measurement import MeasuredVersion
from sidelight_cli.demo.processes.latency import Latency
from sidelight_cli.demo.processes.load_generator import LoadRound
from sidelight_cli.demo.versions import VERSIONS

NAMED = {version.name: version for version in VERSIONS}


def measured(
    name: str,
    *,
    depth: float | None = 10.0,
    idle: float | None = 0.9,
    cpu: float = 0.1,
    rate: float = 150.0,
    p99_ms: float = 53.0,
    samples: int = 2000,
    busy: int = 200,
    mode: str = "blocking",
    errors: dict[str, int] | None = None,
    answered: int = 3000,
    tasks: TaskStatistics | None = None,
) -> MeasuredVersion:
    """A version: mean busy depth in frames, idle share, cores, arrivals per second, p99 of /50."""
    latency = Latency(answered, 52.0, 52.5, p99_ms, 60.0) if answered else Latency.summarize([])
    load = LoadRound(
        1000.0, 1020.0, rate, rate, 3000, errors or {}, 1.0, latency, {"/50": latency, "/125": latency}
    )
    profile = VersionProfile(
        windows=9,
        samples=samples,
        states={"idle": samples - busy, "running": 0, "gil": busy},
        pod_seconds=18.0,
        cpu_seconds=18.0 * cpu,
        idle_share=idle,
        depth=BusyDepthStatistics(busy, depth, None if depth is None else depth + 5, 3.0),
        truncated_samples=0,
        modes=(mode,),
        samplers=("py-spy 0.4.3",),
        python_versions=("3.11.7",),
        missing_states=(),
        tasks=tasks,
    )
    return MeasuredVersion(NAMED[name], load, profile)
