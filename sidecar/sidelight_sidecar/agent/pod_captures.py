"""Polls the collector for the capture jobs of each sampled pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ulid import ULID

from sidelight.waiting import wait_for_event
from sidelight_model.capture_protocol import AgentPollResponse, Attachment
from sidelight_model.labels import Labels
from sidelight_sidecar.agent.attached_pods import AttachedPods
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.captures.capture_tasks import MakePoller
from sidelight_sidecar.sampling.process_capture import CapturePlan, ProcessCapture
from sidelight_sidecar.sampling.process_sampler import ProcessSampler
from sidelight_sidecar.sampling.process_watcher import SampledProcesses

_CHECK_SECONDS: Final = 1.0
_POD_LABELS: Final = ("service", "version", "namespace", "pod", "node")
_PollerKey = tuple[Labels, Attachment | None]


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
    """The pollers of all sampled pods.

    A pod gets another one when its labels or its attachment change. A pod that is attached takes only that
    capture. Without an attachment, a pod has a poller only if it asks to be profiled (`is_profiled`): the
    processes of one that was attached are let go a little later than its attachment.
    """

    def __init__(
        self,
        processes: SampledProcesses,
        make_poller: MakePoller,
        attached: AttachedPods,
        is_profiled: Callable[[str], bool],
    ) -> None:
        self._processes = processes
        self._make_poller = make_poller
        self._attached = attached
        self._is_profiled = is_profiled
        self._pollers: dict[_PollerKey, CapturePoller] = {}
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Let `run` return once all captures have ended and are reported."""
        self._draining.set()

    def list_waiting(self) -> tuple[str, ...]:
        """Return the captures that are attached to a pod without a sampled process."""
        return tuple(attachment.capture for attachment in self._list_waiting_attachments())

    def receive(self, response: AgentPollResponse) -> None:
        """Take the attachments of a response, and end those whose capture is over."""
        self._attached.receive(response)
        for attachment in self._list_waiting_attachments():
            if attachment.capture in response.stop_captures:
                self._attached.end(attachment)

    def _list_waiting_attachments(self) -> list[Attachment]:
        polling = {attachment for _, attachment in self._pollers}
        return [one for one in self._attached.list_current() if one not in polling]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._draining.is_set():
                pods = self._list_pods()
                for key in self._pollers.keys() - pods.keys():
                    self._pollers.pop(key).drain()
                for key in pods.keys() - self._pollers.keys():
                    labels, attachment = key
                    agent = attachment.agent if attachment else str(ULID())
                    poller = self._make_poller(
                        agent,
                        labels,
                        PodProcesses(self._processes, pods[key]),
                        only_capture=attachment.capture if attachment else "",
                    )
                    self._pollers[key] = poller
                    group.create_task(poller.run(), name=f"ask for captures of {pods[key]}")
                self._end_attachments()
                await wait_for_event(self._draining, _CHECK_SECONDS)
            for poller in self._pollers.values():
                poller.drain()

    def _end_attachments(self) -> None:
        for (_, attachment), poller in self._pollers.items():
            if attachment is not None and poller.is_reported(attachment.capture):
                self._attached.end(attachment)

    def _list_pods(self) -> Mapping[_PollerKey, str]:
        pods: dict[_PollerKey, str] = {}
        for watch in self._processes.process_samplers:
            pod, labels = watch.target_labels.pod, watch.target_labels.labels
            attachment = self._attached.find(labels.get("namespace", ""), labels.get("pod", ""))
            if attachment is not None or self._is_profiled(pod):
                pod_labels = Labels({name: labels[name] for name in _POD_LABELS if name in labels})
                pods[pod_labels, attachment] = pod
        return pods
