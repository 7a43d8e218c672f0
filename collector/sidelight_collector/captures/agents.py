"""Registry of the sidecars that poll for capture jobs.

It has the sidecars that poll this process, and those that other processes list in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sidelight_collector.captures.capture import CaptureRequest
from sidelight_collector.query.select.matchers import is_full_match
from sidelight_collector.storage.documents import rename_fields
from sidelight_model.capture_protocol import AgentPoll, AgentStatus, CaptureState
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import FullMatch

AGENT_TTL_SECONDS: Final = 120.0
"""A sidecar is no longer listed this long after its last poll."""


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

    Beyond `max_agents` local sidecars it drops the sidecar with the oldest poll.
    """

    def __init__(self, max_agents: int) -> None:
        self._max_agents = max_agents
        self._local: OrderedDict[str, Agent] = OrderedDict()
        self._remote: list[Agent] = []

    def __len__(self) -> int:
        return len(self._local)

    def record_poll(self, poll: AgentPoll, now: float, dedicated_capture: str = "") -> Agent:
        """Record a poll of a sidecar at this moment, and return the sidecar."""
        status, going = poll.status, (CaptureState.SAMPLING, CaptureState.UPLOADING)
        active = next((report.capture for report in poll.reports if report.state in going), "")
        self._local[status.agent] = agent = Agent(status, now, active, dedicated_capture)
        self._local.move_to_end(status.agent)
        if len(self._local) > self._max_agents:
            self._local.popitem(last=False)
        return agent

    def list_local(self, now: float) -> list[Agent]:
        """List the sidecars that poll this process, and drop expired ones."""
        while self._local:
            agent, seen = next(iter(self._local.items()))
            if seen.last_seen >= now - AGENT_TTL_SECONDS:
                break
            del self._local[agent]
        return list(self._local.values())

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
    return {
        **agent.status.to_json(),
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
