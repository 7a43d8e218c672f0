"""Registry of the sidecars that poll for capture jobs.

It has the sidecars that poll this process, and those that other processes list in the store.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from sidelight_collector.captures.agent_polls import CaptureLimitReached
from sidelight_collector.captures.capture import CaptureRequest
from sidelight_collector.query.select.matchers import is_full_match
from sidelight_collector.storage.documents import rename_fields
from sidelight_model.capture_protocol import AgentPoll, AgentStatus, CaptureState
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import FullMatch

AGENT_TTL_SECONDS: Final = 120.0
"""A sidecar is no longer listed this long after its last poll."""
_STATUS_BYTES: Final = 4096
"""Memory of a sidecar without its texts: its labels, and its places in the table."""
_PROCESS_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Agent:
    """A sidecar's status, its last poll (Unix seconds) and its running capture.

    `dedicated_capture` is the only capture that the sidecar takes, if it was attached for that.
    """

    status: AgentStatus
    last_seen: float
    active_capture: str = ""
    dedicated_capture: str = ""


class AgentRegistry:
    """The sidecars that poll this process, and the known ones of other processes.

    It has at most twice `max_polls` local sidecars that take `max_bytes` together, and `max_per_pod` of each
    pod. Beyond these it drops sidecars of the namespace that takes the most memory: those of a pod that has
    several first, then the one that polled longest ago. Nobody loses a sidecar to a larger namespace.
    """

    def __init__(self, max_polls: int, max_bytes: int = 64 << 20, max_per_pod: int = 8) -> None:
        self.max_polls = max_polls
        self._max_agents = 2 * max_polls
        self._max_bytes = max_bytes
        self._max_per_pod = max_per_pod
        self._local: OrderedDict[str, Agent] = OrderedDict()
        self._namespaces: dict[str, _NamespaceAgents] = {}
        self._bytes = 0
        self._remote: list[Agent] = []

    def __len__(self) -> int:
        return len(self._local)

    @property
    def size_bytes(self) -> int:
        """The estimated memory of the local sidecars."""
        return self._bytes

    def record_poll(
        self,
        poll: AgentPoll,
        now: float,
        dedicated_capture: str = "",
        is_waiting: Callable[[str], bool] = lambda _: False,
    ) -> Agent:
        """Record a poll of a sidecar at this moment, and return the sidecar.

        A new sidecar of a pod takes the place of one that no longer waits (`is_waiting`). Raises
        CaptureLimitReached if all of them do.
        """
        status, going = poll.status, (CaptureState.SAMPLING, CaptureState.UPLOADING)
        active = next((report.capture for report in poll.reports if report.state in going), "")
        agent = Agent(status, now, active, dedicated_capture or status.only_capture)
        self._make_room_in_pod(agent, is_waiting)
        self._remove(status.agent)
        self._add(agent)
        while len(self._local) > self._max_agents or self._bytes > self._max_bytes:
            self._remove(self._choose_victim(_get_namespace(agent)))
        return agent

    def list_local(self, now: float) -> list[Agent]:
        """List the sidecars that poll this process, and drop expired ones."""
        while self._local:
            name, seen = next(iter(self._local.items()))
            if seen.last_seen >= now - AGENT_TTL_SECONDS:
                break
            self._remove(name)
        return list(self._local.values())

    def _make_room_in_pod(self, agent: Agent, is_waiting: Callable[[str], bool]) -> None:
        namespace = self._namespaces.get(_get_namespace(agent))
        names = namespace.pods.get(_get_pod(agent), {}) if namespace else {}
        if agent.status.agent in names or len(names) < self._max_per_pod:
            return
        idle = next((name for name in names if not is_waiting(name)), None)
        if idle is None:
            raise CaptureLimitReached(
                f"{len(names)} sidecars of {_get_pod(agent)} poll here already",
                hint="Run one sidecar in a pod, or raise the collector's --capture-max-agents-per-pod.",
            )
        self._remove(idle)

    def _add(self, agent: Agent) -> None:
        name, size_bytes = agent.status.agent, estimate_bytes(agent.status)
        self._local[name] = agent
        namespace = self._namespaces.setdefault(_get_namespace(agent), _NamespaceAgents())
        namespace.sizes[name] = size_bytes
        namespace.bytes += size_bytes
        namespace.pods.setdefault(_get_pod(agent), {})[name] = None
        if len(namespace.pods[_get_pod(agent)]) > 1:
            namespace.shared_pods[_get_pod(agent)] = None
        self._bytes += size_bytes

    def _remove(self, name: str) -> None:
        agent = self._local.pop(name, None)
        if agent is None:
            return
        pod, namespace = _get_pod(agent), self._namespaces[_get_namespace(agent)]
        size_bytes = namespace.sizes.pop(name)
        namespace.bytes -= size_bytes
        self._bytes -= size_bytes
        del namespace.pods[pod][name]
        if len(namespace.pods[pod]) < 2:
            namespace.shared_pods.pop(pod, None)
        if not namespace.pods[pod]:
            del namespace.pods[pod]
        if not namespace.sizes:
            del self._namespaces[_get_namespace(agent)]

    def _choose_victim(self, own: str) -> str:
        """Choose a sidecar of the namespace that takes the most memory.

        Among namespaces that take the same, `own` is chosen.
        """
        largest = max(self._namespaces, key=lambda name: (self._namespaces[name].bytes, name == own))
        namespace = self._namespaces[largest]
        if namespace.shared_pods:
            pod = max(namespace.shared_pods, key=lambda name: len(namespace.pods[name]))
            return next(iter(namespace.pods[pod]))
        return next(iter(namespace.sizes))

    def replace_remote(self, documents: Iterable[Mapping[str, object]], now: float) -> None:
        """Replace the sidecars of other processes with those in these documents."""
        found = [agent for document in documents for agent in _parse_agents(document)]
        self._remote = [agent for agent in found if agent.last_seen >= now - AGENT_TTL_SECONDS]

    def list_all(self, now: float) -> list[Agent]:
        """List all known sidecars once, the one seen last first."""
        latest: dict[str, Agent] = {}
        for agent in sorted((*self._remote, *self.list_local(now)), key=lambda agent: agent.last_seen):
            latest[agent.status.agent] = agent
        return [agent for agent in list(latest.values())[::-1] if agent.last_seen >= now - AGENT_TTL_SECONDS]


@dataclass(slots=True)
class _NamespaceAgents:
    """The sidecars of a namespace, the one that polled longest ago first."""

    bytes: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    pods: dict[str, dict[str, None]] = field(default_factory=dict)
    shared_pods: dict[str, None] = field(default_factory=dict)
    """Pods with several sidecars."""


def estimate_bytes(status: AgentStatus) -> int:
    """Estimate the memory of a sidecar's status."""
    texts = [status.agent, status.sidelight_version, status.sampler, status.problem, status.hint]
    texts.append(status.only_capture)
    texts += [text for label in status.labels.items() for text in label]
    texts += status.limits.modes
    texts += [text for process in status.processes for text in (process.role, process.python_version)]
    return _STATUS_BYTES + _PROCESS_BYTES * len(status.processes) + sum(map(sys.getsizeof, texts))


def _get_namespace(agent: Agent) -> str:
    return agent.status.labels.get("namespace", "")


def _get_pod(agent: Agent) -> str:
    """Return the pod of a sidecar; outside Kubernetes, the sidecar itself."""
    return agent.status.labels.get("pod") or agent.status.agent


def matches_request(
    agent: Agent, capture_request: CaptureRequest, matches: FullMatch = is_full_match
) -> bool:
    """Return whether a capture request selects this sidecar, available or not."""
    labels = agent.status.labels
    if labels["service"] != capture_request.service or not capture_request.selector.matches(labels, matches):
        return False
    return not isinstance(capture_request.pods, tuple) or labels.get("pod", "") in capture_request.pods


def explain_unavailable(agent: Agent, capture_request: CaptureRequest | None = None) -> tuple[str, str]:
    """Explain why a sidecar cannot take a capture, and how to fix it.

    Returns a problem and a hint, both empty if the sidecar can take it. Without `capture_request`, the result
    has only problems that hold for every capture.
    """
    status = agent.status
    pod = status.labels.get("pod") or status.agent
    if agent.dedicated_capture:
        return (
            f"the sidecar of {pod} was attached for {agent.dedicated_capture} alone",
            "Start a capture that attaches too.",
        )
    if status.paused:
        return f"the sidecar of {pod} is paused", "Resume it: POST /resume on its port, or sidelight --help."
    if not status.ready:
        return f"{pod}: {status.problem or 'the sidecar is not ready'}", status.hint or _READINESS_HINT
    if agent.active_capture:
        return f"the sidecar of {pod} is busy with {agent.active_capture}", "Wait for its end, or stop it."
    if capture_request is None:
        return "", ""
    limits = status.limits
    if limits.modes and capture_request.mode not in limits.modes:
        return (
            f"the sidecar of {pod} has no mode {capture_request.mode}",
            f"It has {', '.join(limits.modes)}.",
        )
    if limits.max_seconds and capture_request.seconds > limits.max_seconds:
        return (
            f"the sidecar of {pod} captures for at most {limits.max_seconds:g} s",
            "Ask for less, or raise its --capture-max-seconds.",
        )
    if limits.max_rate and capture_request.rate > limits.max_rate:
        return (
            f"the sidecar of {pod} samples at most {limits.max_rate} times a second",
            "Ask for less, or raise its --capture-max-rate.",
        )
    return "", ""


def select_eligible_agents(agents: Iterable[Agent], capture_request: CaptureRequest) -> list[Agent]:
    """Select the sidecars that a capture request selects and that can take it."""
    matches = cache(is_full_match)  # thousands of sidecars share a few label values
    return [
        agent
        for agent in agents
        if not any(explain_unavailable(agent, capture_request))
        and matches_request(agent, capture_request, matches)
    ]


def explain_no_agents(agents: Sequence[Agent], capture_request: CaptureRequest) -> tuple[str, str]:
    """Explain why no sidecar took a capture: a problem and a hint.

    Sidecars in namespaces that the request does not select are not mentioned.
    """
    reach = [matcher for matcher in capture_request.selector.matchers if matcher.name == "namespace"]
    agents = [
        agent
        for agent in agents
        if all(matcher.accepts(agent.status.labels.get("namespace", ""), is_full_match) for matcher in reach)
    ]
    of_service = [agent for agent in agents if agent.status.labels["service"] == capture_request.service]
    meant = [agent for agent in of_service if matches_request(agent, capture_request)]
    for agent in meant:
        problem, hint = explain_unavailable(agent, capture_request)
        if problem:
            more = f" (and {len(meant) - 1} more)" if len(meant) > 1 else ""
            return f"no sidecar of {capture_request.service} could take it: {problem}{more}", hint
    if of_service:
        pods = sorted({agent.status.labels.get("pod", "") for agent in of_service} - {""})
        return (
            f"none of the {len(of_service)} sidecars of {capture_request.service} has the "
            "requested labels or pods",
            f"Pods that poll: {', '.join(pods[:10])}{' …' if len(pods) > 10 else ''}.",
        )
    if agents:
        services = sorted({agent.status.labels["service"] for agent in agents})
        hint = f"Services that do: {', '.join(services[:10])}{' …' if len(services) > 10 else ''}."
        return (
            f"no sidecar of {capture_request.service} polls this collector",
            hint + _CONNECTION_HINT,
        )
    return "no sidecar polls this collector", _CONNECTION_HINT.strip()


def summarize_services(agents: Iterable[Agent]) -> list[dict[str, str | int]]:
    """Count each service's sidecars, and those that could take a capture now.

    `problem` says why one of the others cannot.
    """
    by_service: dict[str, list[Agent]] = {}
    for agent in agents:
        by_service.setdefault(agent.status.labels["service"], []).append(agent)
    summaries: list[dict[str, str | int]] = []
    for service, agents_of_service in sorted(by_service.items()):
        problems = [explain_unavailable(agent)[0] for agent in agents_of_service]
        problem = next(filter(None, problems), "")
        summaries.append(
            {
                "service": service,
                "sidecars": len(agents_of_service),
                "available": problems.count(""),
                "problem": problem,
            }
        )
    return summaries


def agents_to_json(agents: Iterable[Agent]) -> dict[str, object]:
    """Encode the sidecars of one process, for the other processes to read."""
    return {"format": FORMAT, "agents": [agent_to_json(agent) for agent in agents]}


def agent_to_json(agent: Agent) -> dict[str, Any]:
    """Encode a sidecar as JSON; `last_seen` is in Unix seconds."""
    status = agent.status.to_json()
    del status["only_capture"]  # `dedicated_capture` says it
    return {
        **status,
        "last_seen": agent.last_seen,
        "active_capture": agent.active_capture,
        "dedicated_capture": agent.dedicated_capture,
    }


def _parse_agents(document: Mapping[str, Any]) -> list[Agent]:
    try:
        renamed = _FORMAT_1 if document.get("format", 1) == 1 else {}
        return [_parse_agent(rename_fields(agent, renamed)) for agent in document["agents"]]
    except (KeyError, TypeError, ValueError, AttributeError, SidelightError):
        return []


def _parse_agent(raw: Mapping[str, Any]) -> Agent:
    return Agent(
        AgentStatus.parse(raw),
        float(raw["last_seen"]),
        str(raw["active_capture"]),
        str(raw.get("dedicated_capture", "")),
    )


FORMAT: Final = 2
_FORMAT_1: Final = {
    "sidelight": "sidelight_version",
    "seen": "last_seen",
    "busy": "active_capture",
    "only": "dedicated_capture",
}
"""Names in format 1, each with the current name."""
_READINESS_HINT: Final = "Its /readyz says what it needs."
_CONNECTION_HINT: Final = (
    " See that the sidecar runs, that its --collector is this one, that it is not started with"
    " --captures-from-collector off, and that its token is taken: one of --write-tokens-file, or its pod's."
)
