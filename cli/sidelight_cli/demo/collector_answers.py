"""The demo's queries to the collector's API, parsed into values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from sidelight_cli.demo.versions import SERVICE, DemoVersion
from sidelight_model.errors import Reason, SidelightError


class DemoQueryFailed(SidelightError):
    """The collector did not answer a query successfully."""

    reason = Reason.COLLECTOR_UNREACHABLE


@dataclass(frozen=True, slots=True)
class BusyDepthStatistics:
    """Statistics of stack depth in frames while the service was on the CPU.

    `mean` and `p95` are None without such samples.
    """

    samples: int
    mean: float | None
    p95: float | None
    standard_deviation: float

    @property
    def standard_error(self) -> float:
        """The standard error of the mean."""
        return self.standard_deviation / math.sqrt(self.samples) if self.samples else math.inf


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """The mean number of a pod's asyncio tasks, and how long ready ones waited."""

    mean: float
    ready: float
    longest_ready_seconds: float

    @classmethod
    def parse(cls, timeline: Mapping[str, Any]) -> TaskStatistics | None:
        """Parse a timeline of the profile type tasks; None if no tasks were read."""
        pod_seconds = sum(timeline["pod_seconds"])
        waits = [seconds for seconds in timeline["longest_ready_seconds"] if seconds is not None]
        if not waits or not pod_seconds:
            return None
        ready = sum(timeline["ready_task_seconds"]) / pod_seconds
        return cls(sum(timeline["seconds"]) / pod_seconds, ready, max(waits))


@dataclass(frozen=True, slots=True)
class VersionProfile:
    """The sum of a version's windows.

    `cpu_seconds` comes from the kernel's accounting, not from samples.
    """

    windows: int
    samples: int
    states: Mapping[str, int]
    pod_seconds: float
    cpu_seconds: float
    idle_share: float | None
    depth: BusyDepthStatistics
    truncated_samples: int
    modes: tuple[str, ...]
    samplers: tuple[str, ...]
    python_versions: tuple[str, ...]
    missing_states: tuple[str, ...]
    tasks: TaskStatistics | None = None

    @property
    def cpu_cores(self) -> float | None:
        """Average CPU usage in cores; None if nothing was observed."""
        return self.cpu_seconds / self.pod_seconds if self.pod_seconds else None

    @classmethod
    def parse(cls, document: Mapping[str, Any], timeline: Mapping[str, Any]) -> VersionProfile:
        """Parse a side of `/api/v1/depth` for type cpu, and a timeline of type tasks."""
        return cls(
            windows=document["windows"],
            samples=sum(document["states"].values()),
            states=dict(document["states"]),
            pod_seconds=document["pod_seconds"],
            cpu_seconds=document["target_cpu_seconds"],
            idle_share=document["idle_share"],
            depth=BusyDepthStatistics(
                samples=sum(document["samples_at"]),
                mean=document["mean"],
                p95=document["p95"],
                standard_deviation=compute_standard_deviation(
                    dict(zip(document["depth"], document["samples_at"], strict=True))
                ),
            ),
            truncated_samples=document["truncated_samples"],
            modes=tuple(document["modes"]),
            samplers=tuple(document["samplers"]),
            python_versions=tuple(document["python_versions"]),
            missing_states=tuple(document["missing_states"]),
            tasks=TaskStatistics.parse(timeline),
        )


def compute_standard_deviation(samples_at: Mapping[int, int]) -> float:
    """Compute the standard deviation of a histogram (depth → samples)."""
    total = sum(samples_at.values())
    if total < 2:
        return math.inf
    mean = sum(depth * count for depth, count in samples_at.items()) / total
    sum_of_squares = sum(count * (depth - mean) ** 2 for depth, count in samples_at.items())
    return math.sqrt(sum_of_squares / (total - 1))


class DemoQueries:
    """The demo's queries; times are Unix seconds, `until` is excluded.

    All methods raise DemoQueryFailed.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def count_windows(self, start: float, until: float) -> dict[str, int]:
        """Count the windows of each version that start in the time range."""
        response = await self._fetch_json("services", {"from": f"{start:.6f}", "until": f"{until:.6f}"})
        services = [service for service in response["services"] if service["service"] == SERVICE]
        return {
            version["version"]: version["windows"] for service in services for version in service["versions"]
        }

    async def fetch_profile(self, version: DemoVersion, start: float, until: float) -> VersionProfile:
        """Fetch the profile of a version's windows that start in the time range."""
        query = {"query": version.selector, "from": f"{start:.6f}", "until": f"{until:.6f}"}
        response = await self._fetch_json("depth", {**query, "type": "cpu"})
        timeline = await self._fetch_json("timeline", {**query, "type": "tasks"})
        return VersionProfile.parse(response["sides"][0], timeline)

    async def _fetch_json(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        try:
            async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as answer:
                if answer.status == 200:
                    return dict(await answer.json())
                body = (await answer.text())[:500]
                problem = f"the collector answered {answer.status} to /api/v1/{path}: {body}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = f"the collector did not answer /api/v1/{path}: {error or type(error).__name__}"
        raise DemoQueryFailed(problem, hint="Its log is collector.log in the directory given with --keep.")
