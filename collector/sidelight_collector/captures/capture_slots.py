"""Decides whether a new capture may run, with a share for each namespace. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache

from sidelight_collector.captures.agent_polls import CaptureLimitReached
from sidelight_collector.captures.agents import Agent, matches_request
from sidelight_collector.captures.capture import Capture, CapturePolicy, CaptureRequest
from sidelight_collector.query.select.matchers import is_full_match


def find_namespaces(agents: Iterable[Agent], capture_request: CaptureRequest) -> set[str]:
    """Return the namespaces of the sidecars that a request selects, available or not."""
    matches = cache(is_full_match)
    return {
        agent.status.labels.get("namespace", "")
        for agent in agents
        if matches_request(agent, capture_request, matches)
    }


def check_slots(
    running: Iterable[Capture],
    agents: Sequence[Agent],
    namespaces: AbstractSet[str],
    policy: CapturePolicy,
) -> None:
    """Raise CaptureLimitReached if a capture in one of `namespaces` may not start now.

    A namespace may have `max_running_per_namespace` captures, and all together `max_running`. Beyond that, a
    namespace without any may start one. A capture that no sidecar took or could take has no slot; at most
    `max_running` such captures wait.
    """
    used, total, waiting = Counter[str](), 0, 0
    for capture in running:
        taken = {claim.labels.get("namespace", "") for claim in capture.claims}
        taken = taken or find_namespaces(agents, capture.request)
        used.update(taken)
        total += bool(taken)
        waiting += not taken
    if not namespaces:
        if waiting >= policy.max_running:
            raise CaptureLimitReached(
                f"{waiting} captures wait for services that no sidecar serves",
                hint="Check the name of the service, or ask again when its sidecar polls this collector.",
            )
        return
    if all(used[name] >= policy.max_running_per_namespace for name in namespaces):
        raise CaptureLimitReached(
            f"{policy.max_running_per_namespace} captures are running already in namespace "
            f"{min(namespaces)!r}",
            hint="Wait for one to end, stop one, or raise the collector's "
            "--capture-max-running-per-namespace.",
        )
    if total >= policy.max_running and all(used[name] for name in namespaces):
        raise CaptureLimitReached(
            f"{total} captures are running already",
            hint="Wait for one to end, stop one, or raise the collector's --capture-max-running.",
        )
