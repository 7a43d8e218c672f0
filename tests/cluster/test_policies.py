"""What NetworkPolicies let through, as in the API's documentation; the node's tests show the kernel do it."""

from typing import Any

import pytest

from tests.cluster.policies import directions, held, lets, selects, table

Json = dict[str, Any]
NAMESPACES = [
    {"metadata": {"name": "profiling", "labels": {"name": "profiling"}}},
    {"metadata": {"name": "shop", "labels": {"name": "shop", "team": "one"}}},
    {"metadata": {"name": "bare"}},
]
FAR, NEAR = "192.0.2.9", "192.0.2.200"
"""Two addresses that are no pod's, of one network."""


def pod(namespace: str, name: str, number: int, **more: Any) -> Json:
    ports = [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name, "tier": "a"}},
        "spec": {"containers": [{"name": "c", "ports": ports}], **more},
        "status": {"phase": "Running", "podIP": f"10.0.0.{number}"},
    }


COLLECTOR, OTHER = "10.0.0.1", "10.0.0.2"
CHECKOUT, LEDGER, BARE = "10.0.0.3", "10.0.0.4", "10.0.0.5"
PODS = [
    pod("profiling", "collector", 1),
    pod("profiling", "other", 2),
    pod("shop", "checkout", 3),
    pod("shop", "ledger", 4),
    {**pod("bare", "bare", 5), "metadata": {"namespace": "bare", "name": "bare"}},
]
EVERYBODY = {OTHER, CHECKOUT, LEDGER, BARE, FAR, NEAR}


def policy(namespace: str = "profiling", **spec: Any) -> Json:
    selector = {"podSelector": {"matchLabels": {"app": "collector"}}}
    return {"metadata": {"namespace": namespace, "name": "p"}, "spec": {**selector, **spec}}


def reach(*policies: Json, port: int = 8080, protocol: str = "tcp", out: bool = False) -> set[str]:
    """Who reaches the collector at a port, or whom it reaches."""
    holds = held(policies, NAMESPACES, PODS)
    ways = {one: (COLLECTOR, one) if out else (one, COLLECTOR) for one in EVERYBODY}
    return {one for one, way in ways.items() if lets(holds, *way, port, protocol)}


SPACE_OF_TEAM = {"namespaceSelector": {"matchLabels": {"team": "one"}}}
PEERS = {
    "an empty namespace selector is every pod, and no other address": (
        [{"namespaceSelector": {}}],
        {OTHER, CHECKOUT, LEDGER, BARE},
    ),
    "an empty pod selector is every pod of the policy's namespace": ([{"podSelector": {}}], {OTHER}),
    "pods by label are those of the policy's namespace": (
        [{"podSelector": {"matchLabels": {"app": "checkout"}}}],
        set(),
    ),
    "a namespace by label": ([SPACE_OF_TEAM], {CHECKOUT, LEDGER}),
    "pods of namespaces are both at once": (
        [{**SPACE_OF_TEAM, "podSelector": {"matchLabels": {"app": "checkout"}}}],
        {CHECKOUT},
    ),
    "two peers are one or the other": (
        [SPACE_OF_TEAM, {"podSelector": {"matchLabels": {"app": "other"}}}],
        {CHECKOUT, LEDGER, OTHER},
    ),
    "namespaces by an expression, where a label that is missing is not in it": (
        [
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["one"]}]
                }
            }
        ],
        {OTHER, BARE},
    ),
    "a block": ([{"ipBlock": {"cidr": "192.0.2.0/24"}}], {FAR, NEAR}),
    "a block but for a part": (
        [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/28", "192.0.2.16/28"]}}],
        {NEAR},
    ),
    "a block with pods in it": ([{"ipBlock": {"cidr": "0.0.0.0/0"}}], EVERYBODY),
    "no peers at all are everybody": ([], EVERYBODY),
    "peers that are not given are everybody": (None, EVERYBODY),
}


@pytest.mark.parametrize("out", [False, True], ids=["in", "out"])
@pytest.mark.parametrize(("peers", "expected"), PEERS.values(), ids=list(PEERS))
def test_peers(peers, expected, out):
    end, rules, kind = ("to", "egress", "Egress") if out else ("from", "ingress", "Ingress")
    rule = {"ports": [{"port": 8080}]} | ({end: peers} if peers is not None else {})
    one = policy(**{rules: [rule], "policyTypes": [kind]})
    assert reach(one, out=out) == expected
    assert reach(one, port=8081, out=out) == set()
    assert reach(one, out=not out) == EVERYBODY


PORTS = {
    "by number": ([{"port": 8080}], {("tcp", 8080)}),
    "of a protocol": ([{"port": 53, "protocol": "UDP"}], {("udp", 53)}),
    "by name": ([{"port": "http"}], {("tcp", 8080)}),
    "by name and protocol": ([{"port": "dns", "protocol": "UDP"}], {("udp", 53)}),
    "by the name of another protocol's": ([{"port": "dns"}], set()),
    "by a name that no container has": ([{"port": "metrics"}], set()),
    "a range, with both ends": ([{"port": 8080, "endPort": 8081}], {("tcp", 8080), ("tcp", 8081)}),
    "all of a protocol": ([{"protocol": "UDP"}], {("udp", 53), ("udp", 8080)}),
    "several": ([{"port": 53}, {"port": 8082}], {("tcp", 53), ("tcp", 8082)}),
    "none is every port": ([], "all"),
    "not given is every port": (None, "all"),
}
TRIED = {("tcp", 53), ("tcp", 8080), ("tcp", 8081), ("tcp", 8082), ("udp", 53), ("udp", 8080)}


@pytest.mark.parametrize("out", [False, True], ids=["in", "out"])
@pytest.mark.parametrize(("ports", "expected"), PORTS.values(), ids=list(PORTS))
def test_ports(ports, expected, out):
    rule = {} if ports is None else {"ports": ports}
    one = policy(**{"egress" if out else "ingress": [rule], "policyTypes": ["Egress" if out else "Ingress"]})
    let = {(kind, port) for kind, port in TRIED if CHECKOUT in reach(one, port=port, protocol=kind, out=out)}
    assert let == (TRIED if expected == "all" else expected)


def test_a_name_of_a_port_is_that_of_a_sidecars_too():
    sidecar = {"name": "sidelight", "restartPolicy": "Always", "ports": [{"name": "own", "containerPort": 9}]}
    pods = [pod("profiling", "collector", 1, initContainers=[sidecar]), *PODS[1:]]
    holds = held([policy(ingress=[{"ports": [{"port": "own"}]}])], NAMESPACES, pods)
    assert lets(holds, OTHER, COLLECTOR, 9)
    assert not lets(holds, OTHER, COLLECTOR, 8080)


TYPES = {
    "without a word the way in is limited": ({}, ["Ingress"]),
    "rules for the way out limit it": ({"egress": [{}]}, ["Ingress", "Egress"]),
    "an empty list of them does not": ({"egress": []}, ["Ingress"]),
    "no types are as no word": ({"policyTypes": [], "egress": [{}]}, ["Ingress", "Egress"]),
    "what is said is what counts": ({"policyTypes": ["Egress"], "ingress": [{}]}, ["Egress"]),
}


@pytest.mark.parametrize(("spec", "expected"), TYPES.values(), ids=list(TYPES))
def test_types(spec, expected):
    assert directions(spec) == expected


@pytest.mark.parametrize("rules", [{}, {"ingress": []}, {"ingress": None}])
def test_no_rules_let_nobody_in(rules):
    assert reach(policy(**rules)) == set()
    assert reach(policy(**rules), out=True) == EVERYBODY


def test_what_is_said_of_the_way_out_and_has_no_rules_lets_nothing_out():
    assert reach(policy(policyTypes=["Egress"]), out=True) == set()
    assert reach(policy(policyTypes=["Egress"])) == EVERYBODY


def test_an_empty_rule_is_everybody_by_every_port():
    assert reach(policy(ingress=[{}]), port=1) == EVERYBODY


def test_policies_add_up():
    one = policy(ingress=[{"from": [SPACE_OF_TEAM]}])
    assert reach(one, policy(ingress=[{"from": [{"podSelector": {}}]}])) == {CHECKOUT, LEDGER, OTHER}
    assert reach(one, policy()) == {CHECKOUT, LEDGER}


def test_a_policy_is_about_the_pods_of_its_namespace_that_it_selects():
    assert reach(policy("shop", podSelector={})) == EVERYBODY
    assert reach(policy(podSelector={})) == set()
    assert reach(policy(podSelector={"matchLabels": {"app": "other"}})) == EVERYBODY


def test_both_ends_must_agree():
    let_in = policy(ingress=[{"from": [{"namespaceSelector": {}}]}])
    out_nowhere = policy("shop", podSelector={"matchLabels": {"app": "checkout"}}, policyTypes=["Egress"])
    assert reach(let_in, out_nowhere) == {OTHER, LEDGER, BARE}


def test_a_pod_always_reaches_itself():
    holds = held([policy(policyTypes=["Ingress", "Egress"])], NAMESPACES, PODS)
    assert lets(holds, COLLECTOR, COLLECTOR, 8080)


def test_pods_without_an_address_of_their_own_are_left_out():
    without = [
        {**pod("profiling", "collector", 1), "status": {"phase": "Pending"}},
        {**pod("profiling", "collector", 1), "status": {"phase": "Succeeded", "podIP": COLLECTOR}},
        pod("profiling", "collector", 1, hostNetwork=True),
    ]
    assert held([policy()], NAMESPACES, without) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"operator": "In", "values": ["a", "b"]}, [True, False, False]),
        ({"operator": "NotIn", "values": ["a", "b"]}, [False, True, True]),
        ({"operator": "Exists"}, [True, True, False]),
        ({"operator": "DoesNotExist"}, [False, False, True]),
    ],
    ids=lambda value: value.get("operator") if isinstance(value, dict) else "",
)
def test_expressions(expression, expected):
    selector = {"matchExpressions": [{"key": "tier", **expression}]}
    assert [selects(selector, labels) for labels in ({"tier": "a"}, {"tier": "c"}, {})] == expected


def test_labels_and_expressions_must_all_hold():
    exists = {"key": "tier", "operator": "Exists"}
    selector = {"matchLabels": {"app": "x"}, "matchExpressions": [exists]}
    assert selects(selector, {"app": "x", "tier": "a"})
    assert not selects(selector, {"app": "x"})
    assert not selects(selector, {"tier": "a"})


def test_the_table_is_made_anew_and_says_the_same():
    ways = [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/28"]}}]}]
    one = policy(ingress=[{**ways[0], "ports": [{"port": 1, "endPort": 9}, {"protocol": "UDP"}]}])
    text = table(held([one], NAMESPACES, PODS))
    assert text.splitlines()[:2] == ["table inet sidelight_policies", "delete table inet sidelight_policies"]
    block = "ip saddr 192.0.2.0/24 ip saddr != { 192.0.2.0/28 }"
    rules = f"{block} tcp dport 1-9 return; {block} meta l4proto udp return; drop;"
    assert f"chain Ingress0 {{ ip saddr {COLLECTOR} return; {rules} }}" in text
    assert f"ip daddr vmap {{ {COLLECTOR} : jump Ingress0 }};" in text
