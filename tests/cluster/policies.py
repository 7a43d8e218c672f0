"""What NetworkPolicies let through on a test's node, as the rules of one nft table.

Policies become ways, and ways become both the table and `lets`, which answers for one connection.
Traffic to a pod from its own node is let in, as Kubernetes demands: the kubelet's probes are such, and what
the API server asks. Traffic to the node is held against the policies, though Kubernetes would let it out: DNS
and the API server listen there, and stand for those of a cluster where they are elsewhere. All of it is IPv4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

Json = Mapping[str, Any]
TABLE = "inet sidelight_policies"
EVERYWHERE = IPv4Network("0.0.0.0/0")
ANY_PORT = (0, 65535)


@dataclass(frozen=True, slots=True)
class Way:
    """What one rule lets through: with whom, but for whom, and by which ports; no protocol is all of them."""

    network: IPv4Network
    but: tuple[IPv4Network, ...] = ()
    protocol: str = ""
    ports: tuple[int, int] = ANY_PORT

    def lets(self, other: str, port: int, protocol: str) -> bool:
        address = IPv4Address(other)
        if address not in self.network or any(address in network for network in self.but):
            return False
        return self.protocol in ("", protocol) and self.ports[0] <= port <= self.ports[1]

    def rule(self, end: str) -> str:
        """The same in the words of nft, for the other end (`saddr` or `daddr`)."""
        words = [f"ip {end} {self.network}"]
        if self.but:
            words.append(f"ip {end} != {{ {', '.join(map(str, self.but))} }}")
        if self.protocol and self.ports == ANY_PORT:
            words.append(f"meta l4proto {self.protocol}")
        elif self.protocol:
            first, last = self.ports
            words.append(f"{self.protocol} dport {first if first == last else f'{first}-{last}'}")
        return " ".join([*words, "return"])


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that policies select, in one direction: nothing but these ways."""

    address: str
    direction: str
    ways: tuple[Way, ...]


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; one that is empty selects all."""
    if not (selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    for asked in selector.get("matchExpressions") or ():
        value, values = labels.get(asked["key"]), asked.get("values") or ()
        answers = {
            "In": value is not None and value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not answers[asked["operator"]]:
            return False
    return True


def directions(spec: Json) -> list[str]:
    """What a policy limits: without a word, the way in, and the way out where it has rules for that."""
    return list(spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def labels_of(one: Json) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}


def address_of(pod: Json) -> str:
    return str((pod.get("status") or {}).get("podIP") or "")


def on_the_network(pod: Json) -> bool:
    """Whether a pod has an address of its own; who is on the node's network is the node."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool(address_of(pod)) and not ended and not pod["spec"].get("hostNetwork")


def held(policies: Sequence[Json], namespaces: Sequence[Json], pods: Sequence[Json]) -> list[Held]:
    """What the policies make of the pods."""
    known = {one["metadata"]["name"]: labels_of(one) for one in namespaces}
    there = [pod for pod in pods if on_the_network(pod)]

    def peers(rule: Json, end: str, home: str) -> Iterator[Way]:
        if not rule.get(end):
            yield Way(EVERYWHERE)
        for peer in rule.get(end) or ():
            if block := peer.get("ipBlock"):
                but = (IPv4Network(one, strict=False) for one in block.get("except") or ())
                yield Way(IPv4Network(block["cidr"], strict=False), tuple(but))
                continue
            spaces, wanted = peer.get("namespaceSelector"), peer.get("podSelector") or {}
            for pod in there:
                space = pod["metadata"]["namespace"]
                inside = space == home if spaces is None else selects(spaces, known.get(space, {}))
                if inside and selects(wanted, labels_of(pod)):
                    yield Way(IPv4Network(address_of(pod)))

    def ways(pod: Json, direction: str, rule: Json) -> Iterator[Way]:
        home, end = pod["metadata"]["namespace"], "from" if direction == "Ingress" else "to"
        for way in peers(rule, end, home):
            if not rule.get("ports"):
                yield way
            for port in rule.get("ports") or ():
                protocol, number = port.get("protocol", "TCP").lower(), port.get("port")
                if number is None:
                    yield Way(way.network, way.but, protocol)
                elif isinstance(number, int):
                    yield Way(way.network, way.but, protocol, (number, port.get("endPort") or number))
                elif direction == "Ingress":
                    for found in named(pod, number, protocol):
                        yield Way(way.network, way.but, protocol, (found, found))
                else:
                    for other in (one for one in there if way.lets(address_of(one), 0, "")):
                        for found in named(other, number, protocol):
                            yield Way(IPv4Network(address_of(other)), (), protocol, (found, found))

    result = []
    for pod in there:
        mine = [
            one["spec"]
            for one in policies
            if one["metadata"]["namespace"] == pod["metadata"]["namespace"]
            and selects(one["spec"].get("podSelector") or {}, labels_of(pod))
        ]
        for direction in ("Ingress", "Egress"):
            if limits := [spec for spec in mine if direction in directions(spec)]:
                rules = [rule for spec in limits for rule in spec.get(direction.lower()) or ()]
                found = dict.fromkeys(way for rule in rules for way in ways(pod, direction, rule))
                result.append(Held(address_of(pod), direction, tuple(found)))
    return result


def named(pod: Json, name: str, protocol: str) -> Iterator[int]:
    """The ports of a pod's containers by this name; sidecars are init containers."""
    for container in [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP").lower() == protocol:
                yield port["containerPort"]


def lets(holds: Sequence[Held], source: str, target: str, port: int, protocol: str = "tcp") -> bool:
    """Whether a connection is let through: both ends must agree; a pod always reaches itself."""
    ends = {"Egress": (source, target), "Ingress": (target, source)}
    for one in holds:
        own, other = ends[one.direction]
        concerned = own == one.address and source != target
        if concerned and not any(way.lets(other, port, protocol) for way in one.ways):
            return False
    return True


def table(holds: Sequence[Held]) -> str:
    """What nft is told: the table as a whole, in one step."""
    lines, jumps = [f"table {TABLE}", f"delete table {TABLE}", f"table {TABLE} {{"], {}
    for direction, own, other in (("Egress", "saddr", "daddr"), ("Ingress", "daddr", "saddr")):
        chosen = [one for one in holds if one.direction == direction]
        for place, one in enumerate(chosen):
            rules = [f"ip {other} {one.address} return", *(way.rule(other) for way in one.ways), "drop"]
            lines.append(f"chain {direction}{place} {{ {'; '.join(rules)}; }}")
        places = ", ".join(f"{one.address} : jump {direction}{n}" for n, one in enumerate(chosen))
        jumps[direction] = f"ip {own} vmap {{ {places} }};" if places else ""
    for hook, kept in (("forward", ("Egress", "Ingress")), ("input", ("Egress",))):
        lines.append(f"chain {hook} {{ type filter hook {hook} priority 10; policy accept;")
        lines += ["ct state established,related accept;", *(jumps[direction] for direction in kept), "}"]
    return "\n".join([*lines, "}", ""])
