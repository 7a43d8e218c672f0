"""The composition root of the node agent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from functools import partial

from ulid import ULID

from sidelight_kubernetes.kubernetes_client import KubernetesClient
from sidelight_model.labels import Labels
from sidelight_sidecar.agent.attached_pods import AttachedPods
from sidelight_sidecar.agent.pod_captures import PodCapturePollers, PodProcesses
from sidelight_sidecar.agent.pod_targets import PodTargets
from sidelight_sidecar.agent.pod_watcher import PodWatcher
from sidelight_sidecar.agent.settings import AgentSettings
from sidelight_sidecar.captures.capture_tasks import CaptureTasks, MakePoller
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.main import (
    SamplingParts,
    build_pause_control,
    prepare_process,
    run_sampling,
)
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.budget import Budget
from sidelight_sidecar.sampling.process_watcher import ProcessWatcher


async def serve(settings: AgentSettings) -> int:
    """Run the agent until SIGTERM or SIGINT; return 0, or 1 if a root task died.

    Raises SidelightError if the agent cannot start, before it samples anything.
    """
    prepare_process(settings)
    metrics = SidecarMetrics()
    pause_control = build_pause_control(settings, metrics)
    cluster = KubernetesClient.open(settings.kubernetes)
    pods = PodWatcher(cluster, settings.node)
    attached = AttachedPods(time.monotonic)
    targets = PodTargets(pods, attached, settings, os.getpid())
    parts = SamplingParts(
        settings,
        ProcFs(read_pods=True),
        targets,
        Budget(settings.budget_cpu_percent / 100, settings.budget_stop_percent / 100),
        metrics,
        HealthBoard(needs_processes=False),
        pause_control,
        is_node_agent=True,
    )

    def wire_captures(make_poller: MakePoller, process_watcher: ProcessWatcher) -> CaptureTasks:
        tasks: list[Callable[[], Coroutine[None, None, None]]] = [
            partial(targets.report, metrics, parts.health)
        ]
        pollers = PodCapturePollers(process_watcher, make_poller, attached, targets.is_profiled)
        if settings.captures_from_collector:
            node = Labels({"node": settings.node})
            no_processes = PodProcesses(process_watcher, "")
            node_poller = make_poller(str(ULID()), node, no_processes, is_for_node=True)
            node_poller.on_response, node_poller.list_attached = pollers.receive, pollers.list_waiting
            tasks.append(node_poller.run)
        return CaptureTasks(pollers, tasks)

    pods.start()
    try:
        return await run_sampling(parts, wire_captures)
    finally:
        pods.close()
