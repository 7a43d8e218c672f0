"""The sidecars that ask for work: those that ask this process, and those that others told of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from sidelight_collector.captures.capture import Wish
from sidelight_collector.captures.capture_requests import Poll
from sidelight_collector.query.select.matchers import fullmatch
from sidelight_model.labels import Labels
from sidelight_model.selectors import FullMatch

FORGET_SECONDS: Final = 120.0
"""A sidecar that has not asked for so long is not listed any longer."""
PRESENT_SECONDS: Final = 40.0
"""One that asked within this time is about to ask again: a poll is held for 25 s."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A sidecar as it showed itself, and when it asked last (Unix seconds); `busy` names what it captures."""

    poll: Poll
    seen: float
    busy: str = ""


class Agents:
    """The sidecars that ask this process, at most so many; who has not asked for longest goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._own: OrderedDict[str, Agent] = OrderedDict()
        self._told: list[Agent] = []

    def __len__(self) -> int:
        return len(self._own)

    def saw(self, poll: Poll, now: float) -> Agent:
        """It asks at this moment."""
        kept = replace(poll, reports=())
        busy = next((one.capture for one in poll.reports if one.state in ("sampling", "uploading")), "")
        self._own[poll.agent] = agent = Agent(kept, now, busy)
        self._own.move_to_end(poll.agent)
        if len(self._own) > self._most:
            self._own.popitem(last=False)
        return agent

    def own(self, now: float) -> list[Agent]:
        """Those that ask this process; those not seen for long are forgotten."""
        while self._own:
            agent, seen = next(iter(self._own.items()))
            if seen.seen >= now - FORGET_SECONDS:
                break
            del self._own[agent]
        return list(self._own.values())

    def hear(self, told: Iterable[Mapping[str, object]], now: float) -> None:
        """Take what other processes said of theirs in the place of what they said before."""
        found = [one for told_by in told for one in _agents(told_by)]
        self._told = [one for one in found if one.seen >= now - FORGET_SECONDS]

    def all(self, now: float) -> list[Agent]:
        """All that are known, each once, the latest first."""
        latest: dict[str, Agent] = {}
        for agent in sorted((*self._told, *self.own(now)), key=lambda one: one.seen):
            latest[agent.poll.agent] = agent
        return [one for one in list(latest.values())[::-1] if one.seen >= now - FORGET_SECONDS]


def is_meant(agent: Agent, wish: Wish, matches: FullMatch = fullmatch) -> bool:
    """Whether a capture asks for this sidecar, whatever it can do."""
    labels = agent.poll.labels
    if labels["service"] != wish.service or not wish.selector.matches(labels, matches):
        return False
    return not isinstance(wish.pods, tuple) or labels.get("pod", "") in wish.pods


def obstacle(agent: Agent, wish: Wish | None = None) -> tuple[str, str]:
    """What keeps a sidecar from a capture (or any), and what to do about it; empty if nothing does."""
    poll = agent.poll
    pod = poll.labels.get("pod") or poll.agent
    if poll.only:
        return (
            f"the sidecar of {pod} was attached for {poll.only} alone",
            "Start a capture that attaches too.",
        )
    if poll.paused:
        return f"the sidecar of {pod} is paused", "Resume it: POST /resume on its port, or sidelight --help."
    if not poll.ready:
        return f"{pod}: {poll.problem or 'the sidecar is not ready'}", poll.hint or _READY
    if agent.busy:
        return f"the sidecar of {pod} is busy with {agent.busy}", "Wait for its end, or stop it."
    if wish is None:
        return "", ""
    if poll.modes and wish.mode not in poll.modes:
        return f"the sidecar of {pod} has no mode {wish.mode}", f"It has {', '.join(poll.modes)}."
    if poll.max_seconds and wish.seconds > poll.max_seconds:
        return (
            f"the sidecar of {pod} captures for at most {poll.max_seconds:g} s",
            "Ask for less, or raise its --capture-max-seconds.",
        )
    if poll.max_rate and wish.rate > poll.max_rate:
        return (
            f"the sidecar of {pod} samples at most {poll.max_rate} times a second",
            "Ask for less, or raise its --capture-max-rate.",
        )
    return "", ""


def able(agents: Iterable[Agent], wish: Wish) -> list[Agent]:
    """Those that a capture asks for, and that nothing they say keeps from it."""
    matches = cache(fullmatch)  # thousands have few versions
    return [one for one in agents if not any(obstacle(one, wish)) and is_meant(one, wish, matches)]


def why_nobody(agents: Sequence[Agent], wish: Wish) -> tuple[str, str]:
    """Why no sidecar took a capture, and what to do; says nothing of namespaces that it does not ask for."""
    reach = [matcher for matcher in wish.selector.matchers if matcher.name == "namespace"]
    agents = [
        one
        for one in agents
        if all(matcher.accepts(one.poll.labels.get("namespace", ""), fullmatch) for matcher in reach)
    ]
    of_service = [one for one in agents if one.poll.labels["service"] == wish.service]
    meant = [one for one in of_service if is_meant(one, wish)]
    for one in meant:
        problem, hint = obstacle(one, wish)
        if problem:
            more = f" (and {len(meant) - 1} more)" if len(meant) > 1 else ""
            return f"no sidecar of {wish.service} could take it: {problem}{more}", hint
    if of_service:
        pods = sorted({one.poll.labels.get("pod", "") for one in of_service} - {""})
        return (
            f"none of the {len(of_service)} sidecars of {wish.service} has the labels or pods asked for",
            f"Pods that ask for work: {', '.join(pods[:10])}{' …' if len(pods) > 10 else ''}.",
        )
    if agents:
        services = sorted({one.poll.labels["service"] for one in agents})
        hint = f"Services that do: {', '.join(services[:10])}{' …' if len(services) > 10 else ''}."
        return f"no sidecar of {wish.service} asks this collector for work", hint + _CHECK
    return "no sidecar asks this collector for work", _CHECK.strip()


def of_services(agents: Iterable[Agent]) -> list[dict[str, str | int]]:
    """How many sidecars services have, how many could take a capture now, and what keeps one from it."""
    usual: dict[str, list[Agent]] = {}
    for agent in agents:
        usual.setdefault(agent.poll.labels["service"], []).append(agent)
    counted: list[dict[str, str | int]] = []
    for service, own in sorted(usual.items()):
        kept = [obstacle(one)[0] for one in own]
        why = next(filter(None, kept), "")
        counted.append({"service": service, "sidecars": len(own), "free": kept.count(""), "problem": why})
    return counted


def tell(agents: Iterable[Agent]) -> dict[str, object]:
    """Sidecars as one process writes them for the others."""
    return {"format": 1, "agents": [told(one) for one in agents]}


def told(agent: Agent) -> dict[str, Any]:
    """A sidecar as JSON; `seen` in Unix seconds."""
    poll = agent.poll
    return {
        "agent": poll.agent,
        "labels": dict(poll.labels),
        "sidelight": poll.sidelight,
        "sampler": poll.sampler,
        "modes": list(poll.modes),
        "max_seconds": poll.max_seconds,
        "max_rate": poll.max_rate,
        "ready": poll.ready,
        "problem": poll.problem,
        "hint": poll.hint,
        "paused": poll.paused,
        "processes": list(poll.processes),
        "seen": agent.seen,
        "busy": agent.busy,
        "only": poll.only,
    }


def _agents(said: Mapping[str, Any]) -> list[Agent]:
    try:
        return [
            Agent(
                Poll(
                    one["agent"],
                    Labels(one["labels"]),
                    one["sidelight"],
                    one["sampler"],
                    tuple(one["modes"]),
                    one["max_seconds"],
                    one["max_rate"],
                    one["ready"],
                    one["problem"],
                    one["hint"],
                    one["paused"],
                    one["processes"],
                    0.0,
                    (),
                    one.get("only", ""),
                ),
                float(one["seen"]),
                one["busy"],
            )
            for one in said["agents"]
            if one["labels"]["service"]
        ]
    except (KeyError, TypeError, ValueError):
        return []


_READY: Final = "Its /readyz says what it needs."
_CHECK: Final = (
    " See that the sidecar runs, that its --collector is this one, that it is not started with"
    " --captures-from-collector off, and that its token is taken: one of --write-tokens-file, or its pod's."
)
