"""The composition root of the node agent."""

from __future__ import annotations

import os
from functools import partial

from ulid import ULID

from sidelight_kubernetes.kubernetes_client import KubernetesClient
from sidelight_model.labels import Labels
from sidelight_sidecar.agent.pod_captures import PodCapturePollers, PodProcesses
from sidelight_sidecar.agent.pod_targets import PodTargets
from sidelight_sidecar.agent.pod_watcher import PodWatcher
from sidelight_sidecar.agent.settings import AgentSettings
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.health import HealthBoard
from sidelight_sidecar.main import (
    CaptureTasks,
    MakePoller,
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
    targets = PodTargets(pods, settings.labels, os.getpid())
    budget = Budget(
        settings.budget_cpu_percent / 100,
        settings.budget_stop_percent / 100,
        pod_cpu_share=settings.budget_pod_cpu_percent / 100,
    )
    parts = SamplingParts(
        settings,
        ProcFs(read_pods=True),
        targets,
        budget,
        metrics,
        HealthBoard(needs_processes=False),
        pause_control,
    )

    def wire_captures(make_poller: MakePoller, process_watcher: ProcessWatcher) -> CaptureTasks:
        def make_pod_poller(labels: Labels, processes: PodProcesses) -> CapturePoller:
            return make_poller(str(ULID()), labels, processes)

        pollers = PodCapturePollers(process_watcher, make_pod_poller)
        return CaptureTasks(pollers, [partial(targets.report, metrics, parts.health)])

    pods.start()
    try:
        return await run_sampling(parts, wire_captures)
    finally:
        pods.close()
