"""HTTP handler of `/api/v1/workloads`: coverage of pods, and rollouts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from sidelight_collector.answers.timeline import VersionRollout
from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.http.api.parameters import parse_count, read_single_values
from sidelight_collector.http.api.responses import EncodedResponse, accepts_gzip, encode_json_response
from sidelight_collector.kubernetes_discovery.coverage_status import (
    CoverageState,
    PodCoverage,
    WorkloadCoverage,
    group_by_workload,
)
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.kubernetes_discovery.shared_state import ClusterSnapshot
from sidelight_collector.kubernetes_discovery.watcher import OFF, ClusterDiscovery, SidecarActivity
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.select.matchers import is_full_match, parse_re2_selector
from sidelight_collector.times import format_rfc3339
from sidelight_model.selectors import Selector

PATH: Final = "/api/v1/workloads"
PARAMETERS: Final = ("query", "unprofiled", "limit", "pods")
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 5000
DEFAULT_PODS: Final = 10
MAX_PODS: Final = 1000
MAX_ROLLOUTS: Final = 10
"""Maximum number of rollouts per workload, latest first."""


def build_workload_routes(
    discovery: ClusterDiscovery,
    load_activity: Callable[[], Awaitable[SidecarActivity]],
) -> list[web.RouteDef]:
    """Return the route.

    Its handler raises BadParameter and BadSelector.
    """

    async def get_workloads(request: web.Request) -> web.Response:
        parameters = read_single_values(request.query, PARAMETERS)
        unprofiled = parameters.get("unprofiled", "0")
        if unprofiled not in ("0", "1"):
            raise BadParameter.invalid_value("unprofiled", unprofiled, "0 or 1")
        limit = min(parse_count("limit", parameters.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        max_pods = min(parse_count("pods", parameters.get("pods", ""), DEFAULT_PODS), MAX_PODS)
        reader = get_principal(request)
        activity = await load_activity() if discovery.is_enabled else SidecarActivity({}, frozenset())
        gzip, text = accepts_gzip(request), parameters.get("query", "")

        def can_read(namespace: str) -> bool:
            return reader.can_read({"namespace": namespace})

        def build_response() -> EncodedResponse:
            selector, now = parse_re2_selector(text), time.time()
            snapshot, visible = discovery.get_snapshot(), activity
            namespaces = discovery.policy.namespaces
            if reader.namespaces is not None:
                snapshot, visible = (
                    _select_namespaces(snapshot, can_read),
                    activity.select_namespaces(can_read),
                )
                namespaces = tuple(filter(can_read, namespaces))
            workloads = group_by_workload(
                snapshot.inventory,
                visible.last_seen,
                now,
                discovery.policy.stale_seconds,
                visible.service_names,
                lambda pod: matches_pod(selector, pod),
                visible.by_agent,
            )
            selected = [workload for workload in workloads if unprofiled == "0" or workload.is_unprofiled]
            shown = [workload_to_json(workload, max_pods, discovery) for workload in selected[:limit]]
            body = {
                "discovery": _snapshot_to_json(snapshot, namespaces),
                "workloads": shown,
                "total": len(selected),
            }
            return encode_json_response(body, gzip=gzip)

        return (await asyncio.to_thread(build_response)).to_response(request)

    return [web.get(PATH, get_workloads)]


def matches_pod(selector: Selector, pod: Pod) -> bool:
    """Return whether a selector accepts a pod.

    It sees the labels that the pod's windows would have, and the workload's name and kind.
    """
    labels = {
        "service": pod.service,
        "version": pod.version,
        "namespace": pod.namespace,
        "pod": pod.name,
        "node": pod.node,
        "workload": pod.workload,
        "kind": pod.kind,
    }
    return selector.matches(labels, is_full_match)


def workload_to_json(
    coverage: WorkloadCoverage, max_pods: int, discovery: ClusterDiscovery
) -> dict[str, Any]:
    """Encode a workload as JSON, with its first `max_pods` pods."""
    running = [pod for pod in coverage.pods if pod.state is not CoverageState.ENDED]
    versions = Counter(pod.pod.version for pod in running)
    workload = coverage.namespace, coverage.kind, coverage.workload
    rollouts = [
        rollout
        for rollout in discovery.list_rollouts()
        if (rollout.namespace, rollout.kind, rollout.workload) == workload
    ]
    rollouts.sort(key=lambda rollout: -rollout.started)
    return {
        "namespace": coverage.namespace,
        "kind": coverage.kind,
        "workload": coverage.workload,
        "service": coverage.service,
        "profiling_expected": coverage.is_expected,
        "versions": dict(sorted(versions.items())),
        "pod_counts": {"total": len(running)}
        | {str(state): coverage.count_pods(state) for state in CoverageState},
        "covered_by": coverage.count_coverers(),
        "source_url": next((pod.pod.source_url for pod in running if pod.pod.source_url), ""),
        "rollouts": [rollout_to_json(rollout) for rollout in rollouts[:MAX_ROLLOUTS]],
        "pods": [_pod_to_json(pod) for pod in coverage.pods[:max_pods]],
    }


def rollout_to_json(rollout: Rollout) -> VersionRollout:
    """Encode a rollout as JSON, with times in Unix seconds."""
    return {
        "namespace": rollout.namespace,
        "kind": rollout.kind,
        "workload": rollout.workload,
        "revision": rollout.revision,
        "version": rollout.version,
        "started": rollout.started,
        "ended": rollout.ended,
    }


def _pod_to_json(coverage: PodCoverage) -> dict[str, Any]:
    pod, sidecar = coverage.pod, coverage.pod.sidecar
    return {
        "pod": pod.name,
        "version": pod.version,
        "node": pod.node,
        "phase": pod.phase,
        "status": coverage.state,
        "covered_by": coverage.covered_by,
        "attachable": coverage.state is CoverageState.NO_SIDECAR and pod.inject_label != "false",
        "problem": coverage.problem,
        "hint": coverage.hint,
        "last_seen": None if coverage.last_seen is None else _format_time(coverage.last_seen),
        "sidecar": None
        if sidecar is None
        else {
            "origin": sidecar.origin,
            "state": sidecar.state,
            "reason": sidecar.reason,
            "restarts": sidecar.restarts,
        },
    }


def _select_namespaces(snapshot: ClusterSnapshot, is_selected: Callable[[str], bool]) -> ClusterSnapshot:
    """Return a snapshot of the selected namespaces alone.

    It has no omitted pods, because these are counted for all namespaces together.
    """
    inventory = snapshot.inventory
    return replace(
        snapshot,
        inventory=replace(
            inventory,
            pods=tuple(pod for pod in inventory.pods if is_selected(pod.namespace)),
            skipped_pods=0,
        ),
        watch_problems=tuple(
            problem
            for problem in snapshot.watch_problems
            if not problem.namespace or is_selected(problem.namespace)
        ),
    )


def _snapshot_to_json(snapshot: ClusterSnapshot, namespaces: Sequence[str]) -> Mapping[str, Any]:
    problem, hint = snapshot.problem, snapshot.hint
    if snapshot.state == OFF:
        problem = "the collector does not watch the cluster: what is known is what sidecars say"
        hint = "Start it with --kubernetes in-cluster and without --no-discovery; the chart does."
    elif snapshot.watch_problems and not problem:
        problem, hint = snapshot.watch_problems[0].problem, snapshot.watch_problems[0].hint
    return {
        "state": snapshot.state,
        "observed_at": _format_time(snapshot.observed_at),
        "namespaces": list(namespaces),
        "pods": len(snapshot.inventory.pods),
        "pods_omitted": snapshot.inventory.skipped_pods,
        "problem": problem,
        "hint": hint,
        "watch_problems": [
            {
                "verb": watch_problem.verb,
                "resource": watch_problem.resource,
                "group": watch_problem.group,
                "namespace": watch_problem.namespace,
                "problem": watch_problem.problem,
                "hint": watch_problem.hint,
            }
            for watch_problem in snapshot.watch_problems
        ],
    }


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix * 1000) * 1_000_000)
