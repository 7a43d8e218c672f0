"""GET /api/v1/workloads: how the pods of each workload stand, and when their revisions were rolled out."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
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
"""Of each workload so many rollouts are told, the latest first."""


def build_workload_routes(
    discovery: ClusterDiscovery,
    load_activity: Callable[[], Awaitable[SidecarActivity]],
    clock: Callable[[], float] = time.time,
) -> list[web.RouteDef]:
    """The route. Its handler raises BadParameter and BadSelector."""

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

        def answer() -> EncodedResponse:
            selector, snapshot, now = parse_re2_selector(text), discovery.get_snapshot(), clock()
            found = group_by_workload(
                snapshot.inventory,
                activity.last_seen,
                now,
                discovery.policy.stale_seconds,
                activity.services,
                lambda pod: reader.can_read({"namespace": pod.namespace}) and matches_pod(selector, pod),
            )
            wanted = [one for one in found if unprofiled == "0" or one.is_unprofiled]
            shown = [workload_to_json(one, max_pods, discovery) for one in wanted[:limit]]
            body = {
                "discovery": _snapshot_to_json(snapshot, discovery),
                "workloads": shown,
                "total": len(wanted),
            }
            return encode_json_response(body, gzip=gzip)

        return (await asyncio.to_thread(answer)).to_response(request)

    return [web.get(PATH, get_workloads)]


def matches_pod(selector: Selector, pod: Pod) -> bool:
    """Whether a selector accepts a pod: by the labels that its windows would have, and by its workload."""
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
    """A workload as JSON, with its first pods."""
    running = [one for one in coverage.pods if one.state is not CoverageState.ENDED]
    versions = Counter(one.pod.version for one in running)
    rollouts = [
        one
        for one in discovery.list_rollouts()
        if (one.namespace, one.kind, one.workload) == (coverage.namespace, coverage.kind, coverage.workload)
    ]
    rollouts.sort(key=lambda one: -one.started)
    return {
        "namespace": coverage.namespace,
        "kind": coverage.kind,
        "workload": coverage.workload,
        "service": coverage.service,
        "profiling_expected": coverage.is_expected,
        "versions": dict(sorted(versions.items())),
        "pod_counts": {"total": len(running)} | {str(one): coverage.count_pods(one) for one in CoverageState},
        "rollouts": [rollout_to_json(one) for one in rollouts[:MAX_ROLLOUTS]],
        "pods": [_pod_to_json(one) for one in coverage.pods[:max_pods]],
    }


def rollout_to_json(rollout: Rollout) -> VersionRollout:
    """A rollout as JSON: times in Unix seconds."""
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


def _snapshot_to_json(snapshot: ClusterSnapshot, discovery: ClusterDiscovery) -> Mapping[str, Any]:
    problem, hint = snapshot.problem, snapshot.hint
    if snapshot.state == OFF:
        problem = "the collector does not watch the cluster: what is known is what sidecars say"
        hint = "Start it with --kubernetes in-cluster and without --no-discovery; the chart does."
    elif snapshot.watch_problems and not problem:
        problem, hint = snapshot.watch_problems[0].problem, snapshot.watch_problems[0].hint
    return {
        "state": snapshot.state,
        "observed_at": _format_time(snapshot.observed_at),
        "namespaces": list(discovery.policy.namespaces),
        "pods": len(snapshot.inventory.pods),
        "pods_omitted": snapshot.inventory.skipped_pods,
        "problem": problem,
        "hint": hint,
        "watch_problems": [
            {
                "verb": one.verb,
                "resource": one.resource,
                "group": one.group,
                "namespace": one.namespace,
                "problem": one.problem,
                "hint": one.hint,
            }
            for one in snapshot.watch_problems
        ],
    }


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix * 1000) * 1_000_000)
