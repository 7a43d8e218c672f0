"""The status that a sidecar reports to the collector.

It identifies the sidecar and says whether it could run a capture now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from sidelight import __version__
from sidelight_model.capture_protocol import (
    MAX_PROCESSES,
    AgentPollResponse,
    AgentStatus,
    RequestLimits,
    SampledProcess,
)
from sidelight_model.labels import Labels
from sidelight_sidecar.captures.captures import CaptureLimits
from sidelight_sidecar.health import HealthBoard, parse_pid
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.samplers.sampler import COMMAND_MODE
from sidelight_sidecar.sampling.process_watcher import SampledProcesses

_NOT_BLOCKING = ("collector", "sending from the spool", "spool", "cluster")
"""Subjects of problems in spite of which a capture is possible."""
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.captures.agent_status")


class NodeAgentNotice:
    """Says in log and metrics that a node agent leaves the pod to this sidecar."""

    def __init__(self, metrics: SidecarMetrics) -> None:
        self._metrics = metrics
        self._agent = ""

    def update(self, response: AgentPollResponse) -> None:
        """Take over what a response says."""
        if response.node_agent == self._agent:
            return
        self._agent = response.node_agent
        self._metrics.displaces_agent.set(bool(self._agent))
        if self._agent:
            _log.info("this sidecar samples the pod, and the node agent leaves it alone", agent=self._agent)
        else:
            _log.info("no node agent runs beside this sidecar any more")


def build_static_fields(
    agent: str, labels: Mapping[str, str], mode: str, modes: Sequence[str], limits: CaptureLimits
) -> AgentStatus:
    """Build the part of a status that never changes."""
    return AgentStatus(
        agent,
        Labels(labels),
        __version__,
        "py-spy" if mode == COMMAND_MODE else "native",
        RequestLimits(tuple(modes), limits.max_seconds, limits.max_rate),
    )


class AgentStatusReader:
    """Reads the current status from the sidecar's parts.

    Two equal statuses mean that nothing has changed in between.
    """

    def __init__(
        self,
        static_fields: AgentStatus,
        processes: SampledProcesses,
        pause_control: PauseControl,
        health: HealthBoard,
    ) -> None:
        self._static_fields = static_fields
        self._processes = processes
        self._pause_control = pause_control
        self._health = health

    def read(self) -> AgentStatus:
        """Return the current status.

        Problems with shipping windows do not make the sidecar unready: a capture is possible in spite of
        them.
        """
        process_samplers = self._processes.process_samplers
        pids = {None, *(watch.key.pid for watch in process_samplers)}
        blocking_issues = [
            problem
            for about, problem in self._health.issues.items()
            if about not in _NOT_BLOCKING and parse_pid(about) in pids
        ]
        first = blocking_issues[0] if blocking_issues else None
        return replace(
            self._static_fields,
            ready=bool(process_samplers) and not blocking_issues and not self._pause_control.is_paused,
            problem=first.message if first else "",
            hint=first.hint if first else "",
            paused=self._pause_control.is_paused,
            processes=tuple(
                SampledProcess(watch.key.pid, watch.role, watch.python_version)
                for watch in process_samplers[:MAX_PROCESSES]
            ),
        )
