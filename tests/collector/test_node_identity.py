"""A node agent writes for the pods of its node alone; without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sidelight_collector.auth.node_identity import NodePods, NodeWriterIdentity
from sidelight_collector.auth.write_identity import LabelMismatch
from sidelight_collector.settings.types import parse_service_account
from sidelight_kubernetes.kubernetes_client import AccessDenied, ClusterUnavailable, NotFoundInCluster
from sidelight_model.errors import Reason
from sidelight_model.labels import Labels

OWN = {"namespace": "prod", "pod": "shop-1"}


class FakeCluster:
    """Pods by namespace and name, and an error to raise instead; counts the reads."""

    def __init__(self) -> None:
        self.nodes = {("prod", "shop-1"): "node-1", ("prod", "shop-2"): "node-2", ("prod", "new"): ""}
        self.error: Exception | None = None
        self.reads = 0
        self.now = 0.0

    def get_pod(self, namespace: str, name: str) -> Mapping[str, Any]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        if (namespace, name) not in self.nodes:
            raise NotFoundInCluster(f"pods {name!r} not found")
        labels = {"app.kubernetes.io/name": "shop", "app.kubernetes.io/version": "7"}
        metadata = {"namespace": namespace, "name": name, "uid": name, "labels": labels}
        spec = {"nodeName": self.nodes[namespace, name], "containers": [{"name": "web", "image": "shop:7"}]}
        return {"metadata": metadata, "spec": spec}

    def agent(self, node: str = "node-1") -> NodeWriterIdentity:
        pods = NodePods(self.get_pod, 300.0, 3600.0, lambda: self.now)
        return NodeWriterIdentity("profiling", "agent-x", "uid-x", node, "agent", "1", pods)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def refusal(agent: NodeWriterIdentity, labels: Mapping[str, str]) -> Reason:
    with pytest.raises(LabelMismatch) as refused:
        agent.bind_labels(labels)
    assert refused.value.hint
    return refused.value.reason


def test_labels_of_a_pod_on_the_node_are_filled_in(cluster: FakeCluster) -> None:
    filled = {**OWN, "node": "node-1", "service": "shop", "version": "7"}
    assert cluster.agent().bind_labels(OWN) == Labels(filled)
    assert cluster.agent().bind_labels({**filled, "container": "web"}) == Labels(
        {**filled, "container": "web"}
    )


@pytest.mark.parametrize(
    "labels",
    [
        {"namespace": "prod", "pod": "shop-2"},
        {"namespace": "prod", "pod": "new"},
        {"namespace": "prod", "pod": "gone"},
        {"namespace": "prod", "pod": "agent-x"},
        {"pod": "shop-1"},
        {**OWN, "node": "node-2"},
    ],
)
def test_a_pod_that_is_not_on_the_node_is_refused(cluster: FakeCluster, labels: dict[str, str]) -> None:
    assert refusal(cluster.agent(), labels) is Reason.WRONG_NODE


def test_a_pod_on_the_node_keeps_its_own_service(cluster: FakeCluster) -> None:
    assert refusal(cluster.agent(), {**OWN, "service": "ledger"}) is Reason.WRONG_SERVICE


def test_a_token_without_a_node_writes_for_its_own_pod_alone(cluster: FakeCluster) -> None:
    agent = cluster.agent(node="")
    assert refusal(agent, OWN) is Reason.WRONG_NODE
    # A pod that waits for its node has none either.
    assert refusal(agent, {"namespace": "prod", "pod": "new"}) is Reason.WRONG_NODE
    assert agent.bind_labels({})["pod"] == "agent-x"
    assert cluster.reads == 0


def test_a_pod_is_read_once_until_its_entry_is_old(cluster: FakeCluster) -> None:
    agent = cluster.agent()
    for _ in range(3):
        agent.bind_labels(OWN)
    assert cluster.reads == 1
    cluster.now = 300.0
    agent.bind_labels(OWN)
    assert cluster.reads == 2


@pytest.mark.parametrize("ending", ["deleted", "moved", "unavailable"])
def test_a_pod_that_was_read_stays_writable_for_the_grace_period(cluster: FakeCluster, ending: str) -> None:
    agent = cluster.agent()
    agent.bind_labels(OWN)
    if ending == "deleted":
        del cluster.nodes["prod", "shop-1"]
    elif ending == "moved":
        cluster.nodes["prod", "shop-1"] = "node-2"
    else:
        cluster.error = ClusterUnavailable("the API server is away")
    cluster.now = 3899.0
    assert agent.bind_labels(OWN)["node"] == "node-1"
    cluster.now = 3900.0
    with pytest.raises((LabelMismatch, ClusterUnavailable)):
        agent.bind_labels(OWN)


def test_an_old_pod_of_one_node_gives_nothing_to_another(cluster: FakeCluster) -> None:
    first = cluster.agent()
    first.bind_labels(OWN)
    second = NodeWriterIdentity("profiling", "agent-y", "uid-y", "node-2", "", "", first.node_pods)
    assert refusal(second, OWN) is Reason.WRONG_NODE


@pytest.mark.parametrize("error", [ClusterUnavailable("away"), AccessDenied("forbidden", "get", "pods")])
def test_a_pod_that_cannot_be_read_is_not_refused_for_good(cluster: FakeCluster, error: Exception) -> None:
    cluster.error = error
    with pytest.raises(type(error)):
        cluster.agent().bind_labels(OWN)


@pytest.mark.parametrize("text", ["agent", "/agent", "prod/", "Prod/agent", "prod/a/b", "prod/a b"])
def test_a_text_that_is_no_service_account_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_service_account(text)


def test_a_service_account_is_its_namespace_and_name() -> None:
    assert parse_service_account("profiling/sidelight-agent") == "profiling/sidelight-agent"
