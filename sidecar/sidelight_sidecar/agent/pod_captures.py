"""Polls the collector for the capture jobs of each sampled pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sidelight.waiting import wait_for_event
from sidelight_model.labels import Labels
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.process_sampler import ProcessSampler
from sidelight_sidecar.sampling.process_watcher import SampledProcesses

_CHECK_SECONDS: Final = 1.0
_POD_LABELS: Final = ("service", "version", "namespace", "pod", "node")


class PodProcesses:
    """The sampled processes of one pod."""

    def __init__(self, processes: SampledProcesses, pod: str) -> None:
        self._processes = processes
        self._pod = pod

    @property
    def process_samplers(self) -> list[ProcessSampler]:
        return [watch for watch in self._processes.process_samplers if watch.target_labels.pod == self._pod]

    def start_capture(
        self, job: CapturePlan, process_captures: Sequence[tuple[ProcessSampler, ProcessCapture]]
    ) -> None:
        self._processes.start_capture(job, process_captures)


class PodCapturePollers:
    """The pollers of all sampled pods; a pod gets another one when its labels change."""

    def __init__(
        self, processes: SampledProcesses, make_poller: Callable[[Labels, PodProcesses], CapturePoller]
    ) -> None:
        self._processes = processes
        self._make_poller = make_poller
        self._pollers: dict[Labels, CapturePoller] = {}
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Let `run` return once all captures have ended and are reported."""
        self._draining.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._draining.is_set():
                pods = self._list_pods()
                for labels in self._pollers.keys() - pods.keys():
                    self._pollers.pop(labels).drain()
                for labels in pods.keys() - self._pollers.keys():
                    poller = self._make_poller(labels, PodProcesses(self._processes, pods[labels]))
                    self._pollers[labels] = poller
                    group.create_task(poller.run(), name=f"ask for captures of {pods[labels]}")
                await wait_for_event(self._draining, _CHECK_SECONDS)
            for poller in self._pollers.values():
                poller.drain()

    def _list_pods(self) -> Mapping[Labels, str]:
        return {
            Labels({name: labels[name] for name in _POD_LABELS if name in labels}): watch.target_labels.pod
            for watch in self._processes.process_samplers
            for labels in [watch.target_labels.labels]
        }
