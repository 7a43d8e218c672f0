"""GET /api/v1/workloads: how the pods of each workload stand, and when their revisions were rolled out."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from sidelight_collector.answers.timeline import Rolled
from sidelight_collector.auth.authorizer import reader_of
from sidelight_collector.http.api.parameters import count, once
from sidelight_collector.http.api.responses import Reply, json_reply, takes_gzip
from sidelight_collector.kubernetes_discovery.coverage_status import Group, Standing, Stands, groups
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod
from sidelight_collector.kubernetes_discovery.rollouts import Rollout
from sidelight_collector.kubernetes_discovery.shared_state import Sight
from sidelight_collector.kubernetes_discovery.watcher import OFF, Around, Discovery
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.select.matchers import fullmatch, read_selector
from sidelight_collector.times import rfc3339
from sidelight_model.selectors import Selector

PATH: Final = "/api/v1/workloads"
PARAMETERS: Final = ("query", "unprofiled", "limit", "pods")
DEFAULT_LIMIT: Final = 100
MOST_LIMIT: Final = 5000
DEFAULT_PODS: Final = 10
MOST_PODS: Final = 1000
ROLLOUTS: Final = 10
"""Of each workload so many rollouts are told, the latest first."""


def routes(
    discovery: Discovery, around: Callable[[], Awaitable[Around]], clock: Callable[[], float] = time.time
) -> list[web.RouteDef]:
    """The route. Its handler raises BadParameter and BadSelector."""

    async def workloads(request: web.Request) -> web.Response:
        given = once(request.query, PARAMETERS)
        unprofiled = given.get("unprofiled", "0")
        if unprofiled not in ("0", "1"):
            raise BadParameter.value("unprofiled", unprofiled, "0 or 1")
        limit = min(count("limit", given.get("limit", ""), DEFAULT_LIMIT), MOST_LIMIT)
        pods = min(count("pods", given.get("pods", ""), DEFAULT_PODS), MOST_PODS)
        reader = reader_of(request)
        near = await around() if discovery.on else Around({}, frozenset())
        gzip, text = takes_gzip(request), given.get("query", "")

        def answer() -> Reply:
            selector, sight, now = read_selector(text), discovery.sight(), clock()
            found = groups(
                sight.known,
                near.heard,
                now,
                discovery.rules.silent_seconds,
                near.services,
                lambda pod: reader.sees({"namespace": pod.namespace}) and selects(selector, pod),
            )
            wanted = [one for one in found if unprofiled == "0" or one.lacking]
            shown = [workload(one, pods, discovery) for one in wanted[:limit]]
            body = {"discovery": _sight(sight, discovery), "workloads": shown, "total": len(wanted)}
            return json_reply(body, gzip=gzip)

        return (await asyncio.to_thread(answer)).response(request)

    return [web.get(PATH, workloads)]


def selects(selector: Selector, pod: Pod) -> bool:
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
    return selector.matches(labels, fullmatch)


def workload(group: Group, pods: int, discovery: Discovery) -> dict[str, Any]:
    """A workload as JSON, with its first pods."""
    there = [one for one in group.pods if one.standing is not Standing.OVER]
    versions = Counter(one.pod.version for one in there)
    own = [
        one
        for one in discovery.rollouts()
        if (one.namespace, one.kind, one.workload) == (group.namespace, group.kind, group.workload)
    ]
    own.sort(key=lambda one: -one.started)
    return {
        "namespace": group.namespace,
        "kind": group.kind,
        "workload": group.workload,
        "service": group.service,
        "profiling_expected": group.expected,
        "versions": dict(sorted(versions.items())),
        "pod_counts": {"total": len(there)} | {str(one): group.count(one) for one in Standing},
        "rollouts": [told(one) for one in own[:ROLLOUTS]],
        "pods": [_pod(one) for one in group.pods[:pods]],
    }


def told(rollout: Rollout) -> Rolled:
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


def _pod(one: Stands) -> dict[str, Any]:
    pod, sidecar = one.pod, one.pod.sidecar
    return {
        "pod": pod.name,
        "version": pod.version,
        "node": pod.node,
        "phase": pod.phase,
        "status": one.standing,
        "problem": one.problem,
        "hint": one.hint,
        "last_seen": None if one.heard is None else _time(one.heard),
        "sidecar": None
        if sidecar is None
        else {
            "origin": sidecar.origin,
            "state": sidecar.state,
            "reason": sidecar.reason,
            "restarts": sidecar.restarts,
        },
    }


def _sight(sight: Sight, discovery: Discovery) -> Mapping[str, Any]:
    problem, hint = sight.problem, sight.hint
    if sight.state == OFF:
        problem = "the collector does not watch the cluster: what is known is what sidecars say"
        hint = "Start it with --kubernetes in-cluster and without --no-discovery; the chart does."
    elif sight.missing and not problem:
        problem, hint = sight.missing[0].problem, sight.missing[0].hint
    return {
        "state": sight.state,
        "observed_at": _time(sight.at),
        "namespaces": list(discovery.rules.namespaces),
        "pods": len(sight.known.pods),
        "pods_omitted": sight.known.left_out,
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
            for one in sight.missing
        ],
    }


def _time(unix: float) -> str:
    return rfc3339(round(unix * 1000) * 1_000_000)
