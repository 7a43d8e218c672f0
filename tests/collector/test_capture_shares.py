"""Pods and namespaces share the table of sidecars and the captures that may run."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from sidelight_collector.auth.authorizer import (
    RETRY_AFTER_SECONDS,
    Authorizer,
    BearerTokens,
    build_error_response,
)
from sidelight_collector.auth.node_identity import NodeWriterIdentity
from sidelight_collector.auth.write_identity import LabelMismatch, WriterIdentity
from sidelight_collector.captures.agent_polls import CaptureLimitReached
from sidelight_collector.captures.agents import Agent, AgentRegistry, estimate_bytes
from sidelight_collector.captures.capture import Capture, CapturePolicy, CaptureRequest, Claim
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.capture_slots import check_slots, find_namespaces
from sidelight_collector.captures.capture_writers import CaptureWriters
from sidelight_collector.ingest.memory_budget import Overloaded
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.capture_protocol import AgentPoll, AgentStatus
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import Labels

NOW = 1000.0
ID = "c_01M883XB1SK9Y8CVHV1VR54JHX"


def poll(
    name: str, pod: str = "", namespace: str = "", service: str = "shop", problem: str = ""
) -> AgentPoll:
    labels = Labels({"service": service, "pod": pod or name, "namespace": namespace})
    return AgentPoll(AgentStatus(name, labels, problem=problem))


def names(agents: AgentRegistry) -> list[str]:
    return [agent.status.agent for agent in agents.list_local(NOW)]


def test_a_new_sidecar_of_a_pod_replaces_one_that_no_longer_waits() -> None:
    agents = AgentRegistry(50, max_per_pod=2)
    for name in ("a", "b", "c"):
        agents.record_poll(poll(name, pod="p"), NOW)
    assert names(agents) == ["b", "c"]
    agents.record_poll(poll("d", pod="p"), NOW, is_waiting=lambda name: name == "b")
    assert names(agents) == ["b", "d"]
    with pytest.raises(CaptureLimitReached, match="2 sidecars of p") as refused:
        agents.record_poll(poll("e", pod="p"), NOW, is_waiting=lambda _: True)
    assert "--capture-max-agents-per-pod" in refused.value.hint
    agents.record_poll(poll("b", pod="p"), NOW, is_waiting=lambda _: True)  # it is in the table already
    agents.record_poll(poll("e", pod="q"), NOW, is_waiting=lambda _: True)  # another pod


def test_a_full_table_drops_sidecars_of_the_largest_namespace() -> None:
    agents = AgentRegistry(2)
    agents.record_poll(poll("small", namespace="small"), NOW)
    for number in range(50):
        agents.record_poll(poll(f"many-{number}", namespace="large"), NOW)
    assert names(agents) == ["small", "many-47", "many-48", "many-49"]
    agents.record_poll(poll("late", namespace="late"), NOW)
    assert names(agents) == ["small", "many-48", "many-49", "late"]


def test_a_full_table_drops_second_sidecars_of_a_pod_first() -> None:
    agents = AgentRegistry(2)
    for name, pod in (("a", "p"), ("b", "q"), ("c", "q"), ("d", "r"), ("e", "s")):
        agents.record_poll(poll(name, pod=pod), NOW)
    assert names(agents) == ["a", "c", "d", "e"]


def test_the_table_is_bounded_by_its_memory() -> None:
    one = estimate_bytes(poll("a").status)
    agents = AgentRegistry(50, max_bytes=3 * one)
    for name in "abc":
        agents.record_poll(poll(name), NOW)
    assert (len(agents), agents.size_bytes) == (3, 3 * one)
    agents.record_poll(poll("d", problem="xx"), NOW)
    assert names(agents) == ["c", "d"]
    agents.record_poll(poll("c", problem="xx"), NOW)
    assert agents.size_bytes <= 3 * one


def test_the_table_counts_right_whatever_happens() -> None:
    chance, agents = random.Random(7), AgentRegistry(10, max_bytes=19 * 5000, max_per_pod=2)
    for _ in range(2000):
        number = chance.randrange(60)
        agents.record_poll(
            poll(
                str(number), str(number // 3), str(chance.randrange(4)), problem="x" * chance.randrange(300)
            ),
            NOW,
        )
        local = agents.list_local(NOW)
        assert agents.size_bytes == sum(estimate_bytes(agent.status) for agent in local)
    agents.list_local(NOW + 10_000)
    assert (len(agents), agents.size_bytes) == (0, 0)


def request(service: str = "shop") -> CaptureRequest:
    return CaptureRequest(service, "", parse_re2_selector(""), 1, 2.0, 100, "auto", True)


def running(*namespaces: str) -> list[Capture]:
    """Captures that a sidecar in each of these namespaces took."""
    return [
        Capture(f"c{number}", request(), NOW, claims=(Claim("a", {"namespace": name}, NOW),))
        for number, name in enumerate(namespaces)
    ]


POLICY = CapturePolicy(max_running=3, max_running_per_namespace=2)


@pytest.mark.parametrize(
    ("taken", "wanted", "refusal"),
    [
        ("a", "a", ""),
        ("aa", "a", "2 captures are running already in namespace 'a'"),
        ("aa", "b", ""),
        ("aa", "ab", ""),
        ("aab", "b", "3 captures are running already"),
        ("aab", "c", ""),  # each namespace has a share, however busy the others are
        ("aabcd", "e", ""),
        ("aab", "", ""),
    ],
)
def test_each_namespace_has_a_share_of_the_captures(taken: str, wanted: str, refusal: str) -> None:
    if not refusal:
        check_slots(running(*taken), [], set(wanted), POLICY)
        return
    with pytest.raises(CaptureLimitReached, match=refusal):
        check_slots(running(*taken), [], set(wanted), POLICY)


def test_captures_of_services_without_sidecars_take_no_slot() -> None:
    agents: Sequence[Agent] = [Agent(poll("a", namespace="n").status, NOW)]
    assert find_namespaces(agents, request()) == {"n"}
    waiting = [Capture(f"c{number}", request("nobody"), NOW) for number in range(POLICY.max_running)]
    check_slots(waiting, agents, {"n"}, POLICY)
    check_slots(waiting[1:], agents, set(), POLICY)
    with pytest.raises(CaptureLimitReached, match="that no sidecar serves"):
        check_slots(waiting, agents, set(), POLICY)
    # A capture that a polling sidecar could take has a slot.
    with pytest.raises(CaptureLimitReached, match="in namespace 'n'"):
        check_slots([Capture("c", request(), NOW)] * 2, agents, {"n"}, POLICY)


def of_capture(namespace: str = "n", pod: str = "p", capture: str = ID) -> Labels:
    """The labels of a window."""
    return Labels({"service": "shop", "namespace": namespace, "pod": pod, "capture": capture})


def test_a_pod_cannot_write_windows_of_a_capture_that_it_did_not_take() -> None:
    repository = CaptureRepository(MemoryStore())
    claim = Claim("a", {"service": "shop", "namespace": "n", "pod": "p"}, NOW)
    repository.create(Capture(ID, request(), NOW, claims=(claim,)))
    writers = CaptureWriters(repository)
    for _ in range(2):
        own = [of_capture(), of_capture(capture=""), of_capture(capture="a-capture-of-its-own")]
        writers.check(WriterIdentity("n", "p"), own)
    for other in (WriterIdentity("n", "q"), WriterIdentity("m", "p")):
        with pytest.raises(LabelMismatch, match="did not take") as refused:
            writers.check(other, [of_capture(other.namespace, other.pod)])
        assert refused.value.reason is Reason.WRONG_POD
    repository.close()


def test_a_node_agent_writes_windows_of_a_capture_only_for_pods_for_which_it_took_it() -> None:
    repository = CaptureRepository(MemoryStore())
    agent = NodeWriterIdentity("profiling", "agent-x", "uid-x", "node-1")
    claim = Claim(agent.qualify_agent_name("a"), {"service": "shop", "namespace": "n", "pod": "p"}, NOW)
    repository.create(Capture(ID, request(), NOW, claims=(claim,)))
    writers = CaptureWriters(repository)
    writers.check(agent, [of_capture()])
    other = NodeWriterIdentity("profiling", "agent-y", "uid-y", "node-1")
    for writer, pod in ((agent, "q"), (other, "p")):
        with pytest.raises(LabelMismatch, match="did not take"):
            writers.check(writer, [of_capture(), of_capture(pod=pod)])
    repository.close()


class NoIdentities:
    """Identities that nobody may ask for."""

    async def identify(self, token: str) -> WriterIdentity:
        raise AssertionError(token)


@pytest.mark.parametrize("token", ["\udcff", "slat_\udcff", "schlüssel", ""])
async def test_a_token_that_no_identity_can_have_is_unauthorized(token: str) -> None:
    authorizer = Authorizer(
        BearerTokens(write=("x",)), pod_identities=NoIdentities(), one_time_identities=NoIdentities()
    )
    with pytest.raises(SidelightError) as refused:
        await authorizer.identify_writer(f"Bearer {token}")
    assert refused.value.reason is Reason.UNAUTHORIZED


@pytest.mark.parametrize("reason", RETRY_AFTER_SECONDS)
def test_clients_refused_together_return_at_different_times(reason: Reason) -> None:
    least = RETRY_AFTER_SECONDS[reason]
    waits = {
        int(build_error_response(SidelightError("x", reason=reason)).headers["Retry-After"])
        for _ in range(200)
    }
    assert least <= min(waits) < max(waits) <= 2 * least


def test_a_refusal_for_overload_says_how_long_to_wait() -> None:
    error = Overloaded("x", hint="", retry_after_seconds=40)
    assert 40 <= int(build_error_response(error).headers["Retry-After"]) <= 80
