"""What the collector's API says about the demo, read into values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from sidelight_cli.demo.versions import SERVICE, Version
from sidelight_model.errors import Reason, SidelightError


class NoAnswer(SidelightError):
    """The collector did not answer a query as it should."""

    reason = Reason.COLLECTOR_UNREACHABLE


@dataclass(frozen=True, slots=True)
class BusyDepth:
    """How deep stacks were while the service was on the CPU, in frames; None without such samples."""

    samples: int
    mean: float | None
    p95: float | None
    deviation: float

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.samples) if self.samples else math.inf


@dataclass(frozen=True, slots=True)
class Profiled:
    """What one version's windows add up to. Seconds of CPU are the kernel's count, not sampled."""

    windows: int
    samples: int
    states: Mapping[str, int]
    pod_seconds: float
    cpu_seconds: float
    idle_share: float | None
    depth: BusyDepth
    truncated_samples: int
    modes: tuple[str, ...]
    samplers: tuple[str, ...]
    pythons: tuple[str, ...]
    missing_states: tuple[str, ...]

    @property
    def cpu_cores(self) -> float | None:
        """Cores kept busy on average; None when nothing was watched."""
        return self.cpu_seconds / self.pod_seconds if self.pod_seconds else None

    @classmethod
    def read(cls, side: Mapping[str, Any]) -> Profiled:
        """Read one side of an answer of `/api/v1/depth` for the type cpu."""
        return cls(
            windows=side["windows"],
            samples=sum(side["states"].values()),
            states=dict(side["states"]),
            pod_seconds=side["pod_seconds"],
            cpu_seconds=side["target_cpu_seconds"],
            idle_share=side["idle_share"],
            depth=BusyDepth(
                samples=sum(side["samples_at"]),
                mean=side["mean"],
                p95=side["p95"],
                deviation=deviation(dict(zip(side["depth"], side["samples_at"], strict=True))),
            ),
            truncated_samples=side["truncated_samples"],
            modes=tuple(side["modes"]),
            samplers=tuple(side["samplers"]),
            pythons=tuple(side["python_versions"]),
            missing_states=tuple(side["missing_states"]),
        )


def deviation(samples_at: Mapping[int, int]) -> float:
    """The standard deviation of depths, given how many samples had which."""
    total = sum(samples_at.values())
    if total < 2:
        return math.inf
    mean = sum(depth * count for depth, count in samples_at.items()) / total
    squares = sum(count * (depth - mean) ** 2 for depth, count in samples_at.items())
    return math.sqrt(squares / (total - 1))


class Answers:
    """The queries that the demo makes; times are seconds since 1970, `until` is excluded."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def windows(self, start: float, until: float) -> dict[str, int]:
        """How many windows of each version began in that time."""
        answer = await self._get("services", {"from": f"{start:.6f}", "until": f"{until:.6f}"})
        found = [service for service in answer["services"] if service["service"] == SERVICE]
        return {version["version"]: version["windows"] for one in found for version in one["versions"]}

    async def profiled(self, version: Version, start: float, until: float) -> Profiled:
        """What the windows of a version that began in that time add up to."""
        query = {"query": version.selector, "from": f"{start:.6f}", "until": f"{until:.6f}", "type": "cpu"}
        answer = await self._get("depth", query)
        return Profiled.read(answer["sides"][0])

    async def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        try:
            async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as answer:
                if answer.status == 200:
                    return dict(await answer.json())
                said = (await answer.text())[:500]
                problem = f"the collector answered {answer.status} to /api/v1/{path}: {said}"
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = f"the collector did not answer /api/v1/{path}: {error or type(error).__name__}"
        raise NoAnswer(problem, hint="Its log is collector.log in the directory given with --keep.")
