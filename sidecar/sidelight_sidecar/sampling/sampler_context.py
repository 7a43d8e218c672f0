"""The dependencies of the sampling loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.governor import Governor
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.samplers.sampler import Sampler
from sidelight_sidecar.samplers.schedule import SamplingPlan
from sidelight_sidecar.triggers import TriggerRules
from sidelight_sidecar.windows.window_writer import WindowWriter


@dataclass(frozen=True, slots=True)
class SamplerContext:
    """Dependencies of ProcessSamplers, and how a pod is sampled.

    `clock` returns monotonic seconds, `rng` a number from 0 to below 1. With `keeps_preroll`, samples
    between windows are held back for captures and triggers. `rate_hz` is the rate of ordinary windows,
    `trigger_rate_hz` the rate after a trigger. `pod_cpu_share` is the budget of the pod's processes together.
    """

    sampler: Sampler
    window_writer: WindowWriter
    governor: Governor
    pause_control: PauseControl
    metrics: SidecarMetrics
    health: HealthBoard
    plan: SamplingPlan
    keeps_preroll: bool
    rate_hz: int
    trigger_rules: TriggerRules
    trigger_rate_hz: int
    max_stacks: int
    max_retry_seconds: float
    pod_cpu_share: float
    clock: Callable[[], float]
    rng: Callable[[], float]
