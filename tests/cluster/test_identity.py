"""Pods send as themselves: a real collector process, a real API server, and tokens as kubelets mount them."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import zstandard
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from ulid import ULID

from tests.cluster.api import Api
from tests.cluster.programs import eventually
from tests.collector.processes import Process

JSON = {"Content-Type": "application/json"}
REVIEWS = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


class Relay:
    """A way to the API server that can be cut, held up and mended; TLS goes through it untouched."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: list[socket.socket] = []
        self._free = threading.Event()
        self._free.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._begin()

    def _begin(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listener.accept()
                other = socket.create_connection(("127.0.0.1", self._to))
                self._open += [one, other]
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._free.wait()
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        self._free.clear()

    def cut(self) -> None:
        with contextlib.suppress(OSError):  # cut already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()
        self._free.set()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._begin()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.json.get("error", "")


@dataclass
class Collector:
    """A collector in a namespace of its own, as an account with the rules it was given."""

    api: Api
    process: Process
    namespace: str
    relay: Relay
    tokens: Path
    known: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        token: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.process.port(), timeout=60)
        sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def send(self, token: str, window_id: str = "", **labels: str) -> Answer:
        """Send a window with these labels."""
        header = {
            "format": 1,
            "id": window_id or str(ULID()),
            "labels": labels,
            "start_ns": time.time_ns() - 10**9,
            "duration_ns": 10**9,
            "period_ns": 10**7,
        }
        return self.ask("POST", "/api/v1/windows", f"# {json.dumps(header)}\nmain;f 3\n".encode(), token)

    def poll(self, token: str, agent: str, *reports: Mapping[str, object], **labels: str) -> Answer:
        body = {"v": 1, "agent": agent, "labels": labels, "hold_seconds": 0, "ready": True, "modes": ["auto"]}
        told = json.dumps({**body, "reports": list(reports)}).encode()
        return self.ask("POST", "/api/v1/agents/poll", told, token, JSON)

    def windows(self) -> list[dict[str, str]]:
        """The labels of what was stored, from what readers are told."""
        found = []
        for pod in self.values("pod"):
            names = ("namespace", "service", "version")
            found.append({"pod": pod, **{name: "".join(self.values(name, pod)) for name in names}})
        return found

    def values(self, name: str, pod: str = "") -> list[str]:
        query = f"?query=pod%3D%22{pod}%22" if pod else ""
        return list(self.ask("GET", f"/api/v1/labels/{name}/values{query}").json["values"])

    def metric(self, line: str) -> float:
        found = re.search(rf"^{re.escape(line)} (\S+)$", self.ask("GET", "/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def allow(self, *rules: Mapping[str, object]) -> None:
        """Give the collector's account a cluster role with these rules, and no other."""
        name = f"collector-{self.namespace}"
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        }
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "collector", "namespace": self.namespace}],
        }
        self.api.apply({"apiVersion": "v1", "kind": "List", "items": [role, binding]})


@pytest.fixture
def begin(api: Api, tmp_path: Path) -> Iterator[Any]:
    """`begin(REVIEWS, PODS, "--option", …)`: a collector whose account has these rules."""
    started: list[Collector] = []
    with contextlib.ExitStack() as undo:

        def one(*given: Any) -> Collector:
            rules = [rule for rule in given if isinstance(rule, dict)]
            options = [str(option) for option in given if not isinstance(option, dict)]
            namespace = undo.enter_context(api.namespace())
            api.service_account(namespace, "collector")
            relay = Relay(int(api.url.rpartition(":")[2]))
            undo.callback(relay.cut)
            config = tmp_path / f"{namespace}.kubeconfig"
            own = api.kubeconfig_of(namespace, "collector").read_text()
            config.write_text(own.replace(api.url, f"https://127.0.0.1:{relay.port}"))
            tokens = tmp_path / f"{namespace}.tokens"
            tokens.write_text("batch a-static-token\n")
            collector = Collector(api, None, namespace, relay, tokens)  # type: ignore[arg-type]
            if rules:
                collector.allow(*rules)
                name = f"collector-{namespace}"
                undo.callback(api.try_kubectl, "delete", "clusterrole,clusterrolebinding", name)
                allowed = api.cluster(namespace, "collector")
                for rule in rules:
                    verb, resource, group = rule["verbs"][0], rule["resources"][0], rule["apiGroups"][0]
                    eventually(f"may {verb} {resource}", lambda: allowed.may(verb, resource, "", group))  # noqa: B023
            collector.process = Process(
                tmp_path,
                str(tmp_path / f"store-{namespace}"),
                *("--kubernetes", str(config), "--write-tokens-file", str(tokens), "--flush-seconds", "0"),
                *options,
            )
            started.append(collector)
            return collector

        yield one
        for collector in started:
            collector.process.kill()


@pytest.fixture
def team(api: Api) -> Iterator[str]:
    """A namespace of a service, with an account."""
    with api.namespace() as namespace:
        api.service_account(namespace, "shop")
        yield namespace


def pod(api: Api, namespace: str, name: str, **metadata: Any) -> str:
    """Make a pod of the service shop, version 7; the token that the kubelet would mount into it."""
    labels = {"app.kubernetes.io/name": "shop", "app.kubernetes.io/version": "7"}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
        "spec": {
            "serviceAccountName": "shop",
            "containers": [{"name": "web", "image": "shop:7"}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", made)
    assert status == 201, answer
    return api.token(namespace, "shop", audience="sidelight", pod=name)


def resigned(api: Api, token: str, **claims: object) -> str:
    """The token with other claims, signed by the cluster's own key."""
    header, body, _ = token.split(".")
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    changed = (
        base64.urlsafe_b64encode(json.dumps({**json.loads(raw), **claims}).encode()).rstrip(b"=").decode()
    )
    key = next(api.ca.parent.glob("*sa*.key"), None) or next(api.ca.parent.glob("sign*.key"))
    private: Any = serialization.load_pem_private_key(key.read_bytes(), None)
    text = f"{header}.{changed}".encode()
    signature = private.sign(text, padding.PKCS1v15(), hashes.SHA256())
    return f"{header}.{changed}." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


def reviews(api: Api) -> int:
    """How many tokens the API server has reviewed."""
    counted = re.findall(
        r'^apiserver_request_total\{[^}]*resource="tokenreviews"[^}]*\} (\d+)',
        api.get("/metrics"),
        re.MULTILINE,
    )
    return sum(map(int, counted))


def test_a_pod_sends_as_itself_and_what_it_leaves_out_is_filled_in(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    assert collector.send(token).status == 200
    other = pod(api, team, "shop-2")
    assert collector.send(other, service="shop", namespace=team, pod="shop-2", version="8").status == 200
    assert collector.windows() == [
        {"pod": "shop-1", "namespace": team, "service": "shop", "version": "7"},
        {"pod": "shop-2", "namespace": team, "service": "shop", "version": "8"},
    ]
    folded = collector.ask("POST", "/api/v1/windows?process=web", b"main;f 3\n", token)
    assert folded.status == 200, folded.text
    assert collector.values("process") == ["web"]
    assert collector.ask("GET", "/readyz").text == "ok\n"
    for what in ("tokens", "pods"):
        assert collector.metric(f'sidelight_identity_degraded{{what="{what}"}}') == 0


def test_a_window_sent_again_is_the_same_window(api: Api, begin: Any, team: str) -> None:
    collector, token, window = begin(REVIEWS, PODS), pod(api, team, "shop-1"), str(ULID())
    labels = {"format": 1, "id": window, "labels": {}, "start_ns": time.time_ns() - 10**9}
    body = f"# {json.dumps({**labels, 'duration_ns': 10**9, 'period_ns': 10**7})}\nmain;f 3\n".encode()
    assert collector.ask("POST", "/api/v1/windows", body, token).json["accepted"] == [window]
    assert collector.ask("POST", "/api/v1/windows", body, token).json["duplicates"] == [window]


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"namespace": "kube-system"}, "wrong_namespace"),
        ({"pod": "shop-2"}, "wrong_pod"),
        ({"service": "checkout"}, "wrong_service"),
    ],
)
def test_nobody_sends_as_another(said: dict[str, str], word: str, api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    pod(api, team, "shop-2")
    refused = collector.send(token, **said)
    assert refused.refusal == (403, word)
    assert team in refused.json["message"]
    assert refused.json["hint"]
    polled = collector.poll(token, "a", **said)
    assert polled.refusal == (403, word)
    assert collector.ask("GET", "/api/v1/agents").json["agents"] == []
    assert collector.windows() == []
    assert collector.metric(f'sidelight_refusals_total{{reason="{word}"}}') == 2


def test_of_several_windows_one_that_is_anothers_stores_none(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    common = {"format": 1, "start_ns": time.time_ns() - 10**9, "duration_ns": 10**9, "period_ns": 10**7}
    body = "".join(
        f"# {json.dumps({**common, 'id': str(ULID()), 'labels': {'pod': name}})}\nmain;f 3\n"
        for name in ("shop-1", "shop-2")
    )
    assert collector.ask("POST", "/api/v1/windows", body.encode(), token).refusal == (403, "wrong_pod")
    assert collector.windows() == []


def test_a_capture_is_taken_told_of_and_recorded_by_its_own_sidecar_only(
    api: Api, begin: Any, team: str
) -> None:
    collector = begin(REVIEWS, PODS, "--capture-look-seconds", "0.1")
    owner, thief = pod(api, team, "shop-1"), pod(api, team, "shop-2")
    assert collector.poll(owner, "same").status == 200
    wish = json.dumps({"service": "shop", "pods": ["shop-1"], "seconds": 5}).encode()
    made = collector.ask("POST", "/api/v1/captures", wish, headers=JSON).json
    capture = made["id"]
    orders = eventually("it is ordered", lambda: collector.poll(owner, "same").json["orders"])
    assert orders[0]["capture"] == capture
    (part,) = collector.ask("GET", f"/api/v1/captures/{capture}").json["parts"]
    assert part["labels"] == {"namespace": team, "pod": "shop-1", "service": "shop", "version": "7"}
    # Another pod that knows the name of the sidecar, also the one that readers see, is another sidecar.
    for name in ("same", part["agent"]):
        told = collector.poll(thief, name, {"capture": capture, "state": "failed", "problem": "made up"})
        assert told.status == 200
        assert told.json == {"orders": [], "stops": []}
    collector.poll(owner, "same", {"capture": capture, "state": "sampling", "samples": 3})
    (part,) = collector.ask("GET", f"/api/v1/captures/{capture}").json["parts"]
    assert (part["state"], part["samples"]) == ("sampling", 3)

    def record(token: str, **labels: str) -> Answer:
        recording = {
            "v": 1,
            "capture": capture,
            "agent": "same",
            "labels": {"service": "shop", **labels},
            "pid": 9,
            "start_ns": time.time_ns(),
            "period_us": 10_000,
            "dropped": 0,
            "frames": ["main (a.py:1)"],
            "stacks": [[0]],
            "threads": [{"name": "MainThread", "at_us": [0], "stack": [0], "state": [1]}],
        }
        body = zstandard.compress(json.dumps(recording).encode())
        path, packed = f"/api/v1/captures/{capture}/recordings/same-9", {**JSON, "Content-Encoding": "zstd"}
        return collector.ask("PUT", path, body, token, packed)

    assert record(thief).refusal == (400, "bad_parameter")
    assert record(owner, pod="shop-2").refusal == (403, "wrong_pod")
    assert record(owner, service="checkout").refusal == (403, "wrong_service")
    assert record(owner).status == 201
    (listed,) = collector.ask("GET", f"/api/v1/captures/{capture}/recordings").json["recordings"]
    assert (listed["labels"]["namespace"], listed["labels"]["pod"]) == (team, "shop-1")


def test_tokens_that_are_not_those_of_a_pod_for_us_are_refused_with_what_is_wrong(
    api: Api, begin: Any, team: str
) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    header, body, signature = token.split(".")
    forged = f"{header}.{body}.{'A' * len(signature)}"
    cases = [
        (api.token(team, "shop", audience="vault", pod="shop-1"), 401, "unauthorized", "not meant for"),
        (api.token(team, "shop", pod="shop-1"), 401, "unauthorized", "not meant for"),
        (api.token(team, "shop", audience="sidelight"), 403, "no_pod", "bound to no pod"),
        (resigned(api, token, exp=int(time.time()) - 300), 401, "unauthorized", "expired"),
        (forged, 401, "unauthorized", "does not accept"),
        ("not-a-token", 401, "unauthorized", "neither"),
        ("a.b.c", 401, "unauthorized", "neither"),
        ("", 401, "unauthorized", "a token is needed"),
    ]
    for given, status, word, said in cases:
        refused = collector.send(given, service="shop")
        assert refused.refusal == (status, word), said
        assert said in refused.json["message"]
        assert refused.json["hint"]
    # What was resigned well is as good as the cluster's own: it is the claims that were refused above.
    assert collector.send(resigned(api, token)).status == 200
    assert (
        not api.cluster()
        .review_token(resigned(api, token, exp=int(time.time()) - 300), "sidelight")
        .authenticated
    )
    assert collector.send("a-static-token", service="other", namespace="other").status == 200


def test_a_pod_that_is_deleted_sends_no_more(api: Api, begin: Any, team: str) -> None:
    collector = begin(REVIEWS, PODS, "--kubernetes-token-seconds", "0.1")
    token = pod(api, team, "shop-1")
    assert collector.send(token).status == 200
    api.kubectl("-n", team, "delete", "pod", "shop-1", "--grace-period=0", "--force")
    # The API server itself believes a token for ten seconds; the pod is gone at once.
    eventually("it is refused", lambda: collector.send(token).refusal == (401, "unauthorized"))
    # One of the same name is another pod: the old token is not its.
    new = pod(api, team, "shop-1")
    assert collector.send(token).refusal == (401, "unauthorized")
    assert collector.send(new).status == 200


def test_without_leave_to_read_pods_the_service_is_what_the_sidecar_says_and_that_is_told(
    api: Api, begin: Any, team: str
) -> None:
    collector, token = begin(REVIEWS), pod(api, team, "shop-1")
    assert collector.send(token, service="checkout").status == 200
    assert collector.send(token, service="checkout", pod="other").refusal == (403, "wrong_pod")
    nameless = collector.send(token)
    assert nameless.refusal == (422, "bad_label")
    assert "get pods" in nameless.json["hint"]
    assert "what sidecars say" in collector.ask("GET", "/readyz").text
    assert collector.metric('sidelight_identity_degraded{what="pods"}') == 1
    assert collector.windows() == [{"pod": "shop-1", "namespace": team, "service": "checkout", "version": ""}]


def test_without_leave_to_review_tokens_pods_wait_and_go_on_once_it_is_given(
    api: Api, begin: Any, team: str
) -> None:
    collector, token = begin(), pod(api, team, "shop-1")
    refused = collector.send(token, service="shop")
    assert refused.refusal == (503, "cluster_denied")
    assert int(refused.headers["Retry-After"]) > 0
    assert "create tokenreviews" in refused.json["hint"]
    assert "tokenreviews" in collector.ask("GET", "/readyz").text
    assert collector.metric('sidelight_identity_degraded{what="tokens"}') == 1
    assert collector.send("a-static-token", service="shop").status == 200
    collector.allow(REVIEWS, PODS)
    try:
        eventually("it is let in", lambda: collector.send(token).status == 200)
        assert collector.ask("GET", "/readyz").text == "ok\n"
        assert collector.metric('sidelight_identity_degraded{what="tokens"}') == 0
    finally:
        name = f"collector-{collector.namespace}"
        api.kubectl("delete", "clusterrole,clusterrolebinding", name)


def test_while_the_api_server_is_away_known_pods_go_on_and_others_wait(
    api: Api, begin: Any, team: str
) -> None:
    collector = begin(REVIEWS, PODS, "--kubernetes-token-seconds", "0.1")
    known, unknown = pod(api, team, "shop-1"), pod(api, team, "shop-2")
    assert collector.send(known).status == 200
    collector.relay.cut()
    # Its time is over, so that it is asked for again, in vain.
    eventually(
        "it goes on by grace",
        lambda: (
            collector.send(known).status == 200
            and collector.metric('sidelight_identity_tokens_total{outcome="grace"}')
        ),
    )
    refused = collector.send(unknown)
    assert refused.refusal == (503, "cluster_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert "kubernetes" in collector.ask("GET", "/readyz").text
    assert collector.metric('sidelight_identity_degraded{what="tokens"}') == 1
    collector.relay.mend()
    eventually("it is let in", lambda: collector.send(unknown).status == 200)
    assert collector.send(known).status == 200


def test_grace_ends(api: Api, begin: Any, team: str) -> None:
    options = ("--kubernetes-token-seconds", "0.1", "--kubernetes-grace-seconds", "0")
    collector, token = begin(REVIEWS, PODS, *options), pod(api, team, "shop-1")
    assert collector.send(token).status == 200
    collector.relay.cut()
    eventually("it waits", lambda: collector.send(token).refusal == (503, "cluster_unavailable"))


def test_an_api_server_that_does_not_answer_holds_up_nobody_else(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    assert collector.ask("GET", "/livez").status == 200
    collector.relay.hold()
    told: list[Answer] = []
    waiting = threading.Thread(target=lambda: told.append(collector.send(token)))
    waiting.start()
    for _ in range(20):
        assert collector.send("a-static-token", service="shop").status == 200
    assert waiting.is_alive()
    collector.relay.cut()
    waiting.join(60)
    assert told[0].refusal == (503, "cluster_unavailable")


def test_a_token_is_reviewed_once_however_many_ask(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    assert collector.ask("GET", "/livez").status == 200
    before, told = reviews(api), []
    threads = [threading.Thread(target=lambda: told.append(collector.send(token).status)) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert told == [200] * 24
    assert reviews(api) - before == 1


def test_refused_tokens_are_remembered_for_a_while(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    header, body, signature = token.split(".")
    forged = f"{header}.{body}.{'A' * len(signature)}"
    assert collector.ask("GET", "/livez").status == 200
    before = reviews(api)
    for _ in range(5):
        assert collector.send(forged).refusal == (401, "unauthorized")
    # What no service account's token could be costs no review at all.
    for number in range(5):
        assert collector.send(f"junk-{number}").status == 401
    assert reviews(api) - before == 1
    assert collector.metric('sidelight_identity_tokens_total{outcome="refused"}') == 4


def test_a_collector_without_a_way_to_the_cluster_does_not_start(begin: Any, tmp_path: Path) -> None:
    process = Process(tmp_path, str(tmp_path / "store"), "--kubernetes", str(tmp_path / "gone"))
    status, said = process.ended()
    assert status != 0
    assert "kubeconfig" in said
