"""The sidecars that ask for work: those that ask this process, and those that others documents of."""

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
"""A sidecar that has not asked for so long is not listed any longer."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A sidecar's status, when it polled last (Unix seconds), and the capture that it is at.

    `dedicated_capture` is the one capture that it takes, where it was attached for that.
    """

    status: AgentStatus
    last_seen: float
    active_capture: str = ""
    dedicated_capture: str = ""


class AgentRegistry:
    """The sidecars that ask this process, at most so many; who has not asked for longest goes first."""

    def __init__(self, max_agents: int) -> None:
        self._max_agents = max_agents
        self._local: OrderedDict[str, Agent] = OrderedDict()
        self._remote: list[Agent] = []

    def __len__(self) -> int:
        return len(self._local)

    def record_poll(self, poll: AgentPoll, now: float, dedicated_capture: str = "") -> Agent:
        """It asks at this moment."""
        status, going = poll.status, (CaptureState.SAMPLING, CaptureState.UPLOADING)
        active = next((one.capture for one in poll.reports if one.state in going), "")
        self._local[status.agent] = agent = Agent(status, now, active, dedicated_capture)
        self._local.move_to_end(status.agent)
        if len(self._local) > self._max_agents:
            self._local.popitem(last=False)
        return agent

    def list_local(self, now: float) -> list[Agent]:
        """Those that ask this process; those not seen for long are forgotten."""
        while self._local:
            agent, seen = next(iter(self._local.items()))
            if seen.last_seen >= now - AGENT_TTL_SECONDS:
                break
            del self._local[agent]
        return list(self._local.values())

    def replace_remote(self, documents: Iterable[Mapping[str, object]], now: float) -> None:
        """Take what other processes said of theirs in the place of what they said before."""
        found = [one for document in documents for one in _parse_agents(document)]
        self._remote = [one for one in found if one.last_seen >= now - AGENT_TTL_SECONDS]

    def list_all(self, now: float) -> list[Agent]:
        """All that are known, each once, the latest first."""
        latest: dict[str, Agent] = {}
        for agent in sorted((*self._remote, *self.list_local(now)), key=lambda one: one.last_seen):
            latest[agent.status.agent] = agent
        return [one for one in list(latest.values())[::-1] if one.last_seen >= now - AGENT_TTL_SECONDS]


def matches_request(
    agent: Agent, capture_request: CaptureRequest, matches: FullMatch = is_full_match
) -> bool:
    """Whether a capture asks for this sidecar, whatever it can do."""
    labels = agent.status.labels
    if labels["service"] != capture_request.service or not capture_request.selector.matches(labels, matches):
        return False
    return not isinstance(capture_request.pods, tuple) or labels.get("pod", "") in capture_request.pods


def explain_unavailable(agent: Agent, capture_request: CaptureRequest | None = None) -> tuple[str, str]:
    """What keeps a sidecar from a capture (or any), and what to do about it; empty if nothing does."""
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
    """Those that a capture asks for, and that nothing they say keeps from it."""
    matches = cache(is_full_match)  # thousands have few versions
    return [
        one
        for one in agents
        if not any(explain_unavailable(one, capture_request))
        and matches_request(one, capture_request, matches)
    ]


def explain_no_agents(agents: Sequence[Agent], capture_request: CaptureRequest) -> tuple[str, str]:
    """Why no sidecar took a capture, and what to do; says nothing of namespaces that it does not ask for."""
    reach = [matcher for matcher in capture_request.selector.matchers if matcher.name == "namespace"]
    agents = [
        one
        for one in agents
        if all(matcher.accepts(one.status.labels.get("namespace", ""), is_full_match) for matcher in reach)
    ]
    of_service = [one for one in agents if one.status.labels["service"] == capture_request.service]
    meant = [one for one in of_service if matches_request(one, capture_request)]
    for one in meant:
        problem, hint = explain_unavailable(one, capture_request)
        if problem:
            more = f" (and {len(meant) - 1} more)" if len(meant) > 1 else ""
            return f"no sidecar of {capture_request.service} could take it: {problem}{more}", hint
    if of_service:
        pods = sorted({one.status.labels.get("pod", "") for one in of_service} - {""})
        return (
            f"none of the {len(of_service)} sidecars of {capture_request.service} has the labels or "
            "pods asked for",
            f"Pods that ask for work: {', '.join(pods[:10])}{' …' if len(pods) > 10 else ''}.",
        )
    if agents:
        services = sorted({one.status.labels["service"] for one in agents})
        hint = f"Services that do: {', '.join(services[:10])}{' …' if len(services) > 10 else ''}."
        return (
            f"no sidecar of {capture_request.service} asks this collector for work",
            hint + _CONNECTION_HINT,
        )
    return "no sidecar asks this collector for work", _CONNECTION_HINT.strip()


def summarize_services(agents: Iterable[Agent]) -> list[dict[str, str | int]]:
    """How many sidecars services have, how many could take a capture now, and what keeps one from it."""
    usual: dict[str, list[Agent]] = {}
    for agent in agents:
        usual.setdefault(agent.status.labels["service"], []).append(agent)
    counted: list[dict[str, str | int]] = []
    for service, own in sorted(usual.items()):
        kept = [explain_unavailable(one)[0] for one in own]
        why = next(filter(None, kept), "")
        counted.append(
            {"service": service, "sidecars": len(own), "available": kept.count(""), "problem": why}
        )
    return counted


def agents_to_json(agents: Iterable[Agent]) -> dict[str, object]:
    """Sidecars as one process writes them for the others."""
    return {"format": FORMAT, "agents": [agent_to_json(one) for one in agents]}


def agent_to_json(agent: Agent) -> dict[str, Any]:
    """A sidecar as JSON; `last_seen` in Unix seconds."""
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
"""Names of format 1 that are others now."""
_READINESS_HINT: Final = "Its /readyz says what it needs."
_CONNECTION_HINT: Final = (
    " See that the sidecar runs, that its --collector is this one, that it is not started with"
    " --captures-from-collector off, and that its token is taken: one of --write-tokens-file, or its pod's."
)
