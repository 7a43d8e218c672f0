"""Pods send as themselves: a real collector process, a real API server, and tokens as kubelets mount them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from ulid import ULID

from sidelight_collector.auth.token_review import TokenReviewer, TokenReviewPolicy, TooManyPendingReviews
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes.kubernetes_client import KubernetesClient
from tests.cluster.api import Api
from tests.cluster.identity_world import (
    JSON,
    PODS,
    REVIEWS,
    TARGET,
    Answer,
    Collector,
    Relay,
    pod,
    readiness,
    resigned,
    reviews,
    words,
)
from tests.cluster.programs import eventually
from tests.collector.processes import Process
from tests.processes import free_port


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
                    check = functools.partial(allowed.is_allowed, verb, resource, "", group)
                    eventually(f"may {verb} {resource}", check)
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


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Any]:
    """`sidecar(collector, token, "--service", …)`: a real one that watches a process; where it listens."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(collector: Collector, token: str, *options: str) -> int:
        started.append(target := subprocess.Popen([sys.executable, "-c", TARGET]))
        (tmp_path / "token").write_text(token)
        port = free_port()
        command = [sys.executable, "-m", "sidelight.main", "sidecar", "--pid", str(target.pid)]
        command += ["--collector", f"http://127.0.0.1:{collector.process.port()}", "--window-seconds", "1"]
        command += ["--token-file", str(tmp_path / "token"), "--listen", f"127.0.0.1:{port}"]
        # In a pod its host name is the pod's; here it is this machine's.
        command += ["--spool-dir", str(tmp_path / "spool"), "--pod", "", *options]
        started.append(subprocess.Popen(command, stderr=(tmp_path / "sidecar.log").open("wb")))
        return port

    yield begin
    for one in started:
        one.kill()
        one.wait()


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
        assert collector.metric(f'sidelight_identity_degraded{{resource="{what}"}}') == 0


def test_a_window_sent_again_is_the_same_window(api: Api, begin: Any, team: str) -> None:
    collector, token, start_ns = begin(REVIEWS, PODS), pod(api, team, "shop-1"), time.time_ns() - 10**9
    window = str(ULID.from_timestamp(start_ns // 10**6))
    labels = {"format": 1, "id": window, "labels": {}, "start_ns": start_ns}
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


def test_a_node_agent_writes_for_the_pods_of_its_node_alone(api: Api, begin: Any, team: str) -> None:
    api.service_account(team, "agent")
    collector = begin(REVIEWS, PODS, "--node-agents", f"{team}/agent")
    agent = pod(api, team, "agent-a", node="node-a", account="agent")
    pod(api, team, "shop-1", node="node-a")
    ordinary = pod(api, team, "shop-2", node="node-b")
    pod(api, team, "shop-3", node="node-a")
    assert collector.send(agent, namespace=team, pod="shop-1").status == 200
    for labels in ({"pod": "shop-2"}, {"pod": "shop-9"}, {"pod": "shop-3", "node": "node-b"}):
        assert collector.send(agent, namespace=team, **labels).refusal == (403, "wrong_node")
    assert collector.poll(agent, "a", namespace=team, pod="shop-2").refusal == (403, "wrong_node")
    # Another account's pod on the same node writes for itself, as before.
    assert collector.send(ordinary, namespace=team, pod="shop-1").refusal == (403, "wrong_pod")
    assert collector.windows() == [{"pod": "shop-1", "namespace": team, "service": "shop", "version": "7"}]
    assert collector.values("node") == ["node-a"]
    assert collector.metric('sidelight_refusals_total{reason="wrong_node"}') == 4


def test_of_several_windows_one_of_another_pod_stores_none(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    start_ns = time.time_ns() - 10**9
    ids = [str(ULID.from_timestamp(start_ns // 10**6)) for _ in range(2)]
    common = {"format": 1, "start_ns": start_ns, "duration_ns": 10**9, "period_ns": 10**7}
    body = "".join(
        f"# {json.dumps({**common, 'id': window_id, 'labels': {'pod': name}})}\nmain;f 3\n"
        for window_id, name in zip(ids, ("shop-1", "shop-2"), strict=True)
    )
    assert collector.ask("POST", "/api/v1/windows", body.encode(), token).refusal == (403, "wrong_pod")
    assert collector.windows() == []


def test_a_capture_is_taken_told_of_and_recorded_by_its_own_sidecar_only(
    api: Api, begin: Any, team: str
) -> None:
    collector = begin(REVIEWS, PODS, "--capture-check-interval-seconds", "0.1")
    owner, thief = pod(api, team, "shop-1"), pod(api, team, "shop-2")
    assert collector.poll(owner, "same").status == 200
    wish = json.dumps({"service": "shop", "pods": ["shop-1"], "seconds": 5}).encode()
    made = collector.ask("POST", "/api/v1/captures", wish, headers=JSON).json
    capture = made["id"]
    orders = eventually("it is ordered", lambda: collector.poll(owner, "same").json["capture_jobs"])
    assert orders[0]["capture"] == capture
    (part,) = collector.ask("GET", f"/api/v1/captures/{capture}").json["parts"]
    assert part["labels"] == {"namespace": team, "pod": "shop-1", "service": "shop", "version": "7"}
    # Another pod that knows the name of the sidecar, also the one that readers see, is another sidecar.
    for name in ("same", part["agent"]):
        told = collector.poll(thief, name, {"capture": capture, "state": "failed", "problem": "made up"})
        assert told.status == 200
        assert (told.json["capture_jobs"], told.json["stop_captures"]) == ([], [])
    collector.poll(owner, "same", {"capture": capture, "state": "sampling", "samples": 3})
    (part,) = collector.ask("GET", f"/api/v1/captures/{capture}").json["parts"]
    assert (part["state"], part["samples"]) == ("sampling", 3)

    record = functools.partial(send_recording, collector, capture)
    assert record(thief).refusal == (400, "bad_parameter")
    assert record(owner, pod="shop-2").refusal == (403, "wrong_pod")
    assert record(owner, service="checkout").refusal == (403, "wrong_service")
    assert record(owner).status == 201
    (listed,) = collector.ask("GET", f"/api/v1/captures/{capture}/recordings").json["recordings"]
    assert (listed["labels"]["namespace"], listed["labels"]["pod"]) == (team, "shop-1")


def send_recording(collector: Collector, capture: str, token: str, **labels: str) -> Answer:
    """Send the recording of a process as the sidecar `same`."""
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


def test_a_node_agent_records_for_a_pod_of_its_node_that_has_part_in_the_capture(
    api: Api, begin: Any, team: str
) -> None:
    api.service_account(team, "agent")
    collector = begin(
        *(REVIEWS, PODS, "--node-agents", f"{team}/agent", "--capture-check-interval-seconds", "0.1")
    )
    agent, other = (pod(api, team, f"agent-{at}", node=f"node-{at}", account="agent") for at in "ab")
    pod(api, team, "shop-1", node="node-a")
    pod(api, team, "shop-2", node="node-b")
    pod(api, team, "shop-3", node="node-a")
    own = {"namespace": team, "pod": "shop-1"}
    assert collector.poll(agent, "same", **own).status == 200
    wish = json.dumps({"service": "shop", "pods": ["shop-1"], "seconds": 5}).encode()
    capture = collector.ask("POST", "/api/v1/captures", wish, headers=JSON).json["id"]
    eventually("it is ordered", lambda: collector.poll(agent, "same", **own).json["capture_jobs"])
    record = functools.partial(send_recording, collector, capture)
    assert record(agent, namespace=team, pod="shop-2").refusal == (403, "wrong_node")
    assert record(agent, node="node-b", **own).refusal == (403, "wrong_node")
    # The agent takes part in it for one pod of its node, not for another.
    assert collector.poll(agent, "other", namespace=team, pod="shop-3").status == 200
    beside = {"namespace": team, "pod": "shop-3"}
    for refused in (record(agent, **beside), collector.send(agent, capture=capture, **beside)):
        assert refused.refusal == (403, "wrong_pod")
    assert collector.send(agent, capture=capture, **own).status == 200
    # The agent of another node has no part in it, whatever it calls itself.
    assert record(other, **own).refusal == (400, "bad_parameter")
    assert record(agent, **own).status == 201
    (listed,) = collector.ask("GET", f"/api/v1/captures/{capture}/recordings").json["recordings"]
    assert listed["labels"] == {**own, "node": "node-a", "service": "shop", "version": "7"}
    assert collector.values("pod") == ["shop-1"]


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
    collector = begin(REVIEWS, PODS, "--token-cache-seconds", "0.1")
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
    assert collector.metric('sidelight_identity_degraded{resource="pods"}') == 1
    assert collector.windows() == [{"pod": "shop-1", "namespace": team, "service": "checkout", "version": ""}]


def test_pods_of_namespaces_that_are_left_out_are_not_read_and_nothing_is_wrong_with_that(
    api: Api, begin: Any, team: str
) -> None:
    """The account may read pods of no namespace: who is asked for is told of, who is left out is not."""
    token = pod(api, team, "shop-1")
    outside = begin(REVIEWS, "--kubernetes-namespaces", "elsewhere")
    assert outside.send(token, service="checkout").status == 200
    assert outside.send(token, service="checkout", pod="other").refusal == (403, "wrong_pod")
    nameless = outside.send(token)
    assert nameless.refusal == (422, "bad_label")
    assert "--kubernetes-namespaces" in nameless.json["hint"]
    assert outside.ask("GET", "/readyz").text == "ok\n"
    assert outside.metric('sidelight_identity_degraded{resource="pods"}') == 0
    inside = begin(REVIEWS, "--kubernetes-namespaces", team)
    assert inside.send(token, service="checkout").status == 200
    assert "what sidecars say" in inside.ask("GET", "/readyz").text
    assert inside.metric('sidelight_identity_degraded{resource="pods"}') == 1


def test_pods_of_namespaces_that_are_named_are_read(api: Api, begin: Any, team: str) -> None:
    collector = begin(REVIEWS, PODS, "--kubernetes-namespaces", team)
    assert collector.send(pod(api, team, "shop-1")).status == 200
    assert [one["service"] for one in collector.windows()] == ["shop"]


def test_without_leave_to_review_tokens_pods_wait_and_go_on_once_it_is_given(
    api: Api, begin: Any, team: str
) -> None:
    collector, token = begin(), pod(api, team, "shop-1")
    refused = collector.send(token, service="shop")
    assert refused.refusal == (503, "cluster_denied")
    assert int(refused.headers["Retry-After"]) > 0
    assert "create tokenreviews" in refused.json["hint"]
    assert "tokenreviews" in collector.ask("GET", "/readyz").text
    assert collector.metric('sidelight_identity_degraded{resource="tokenreviews"}') == 1
    assert collector.send("a-static-token", service="shop").status == 200
    collector.allow(REVIEWS, PODS)
    try:
        eventually("it is let in", lambda: collector.send(token).status == 200)
        assert collector.ask("GET", "/readyz").text == "ok\n"
        assert collector.metric('sidelight_identity_degraded{resource="tokenreviews"}') == 0
    finally:
        name = f"collector-{collector.namespace}"
        api.kubectl("delete", "clusterrole,clusterrolebinding", name)


def test_while_the_api_server_is_away_known_pods_go_on_and_others_wait(
    api: Api, begin: Any, team: str
) -> None:
    collector = begin(REVIEWS, PODS, "--token-cache-seconds", "0.1")
    known, unknown = pod(api, team, "shop-1"), pod(api, team, "shop-2")
    assert collector.send(known).status == 200
    collector.relay.cut()
    # Its time is over, so that it is asked for again, in vain.
    eventually(
        "it goes on by grace",
        lambda: (
            collector.send(known).status == 200
            and collector.metric('sidelight_token_reviews_total{outcome="stale"}')
        ),
    )
    refused = collector.send(unknown)
    assert refused.refusal == (503, "cluster_unavailable")
    assert int(refused.headers["Retry-After"]) > 0
    assert "kubernetes" in collector.ask("GET", "/readyz").text
    assert collector.metric('sidelight_identity_degraded{resource="tokenreviews"}') == 1
    collector.relay.mend()
    eventually("it is let in", lambda: collector.send(unknown).status == 200)
    assert collector.send(known).status == 200


def test_grace_does_not_outlive_the_token(api: Api, begin: Any, team: str) -> None:
    collector = begin(REVIEWS, PODS, "--token-cache-seconds", "0.1")
    assert collector.ask("GET", "/livez").status == 200
    # The API server allows clocks that differ by a minute, and so does the collector.
    token = resigned(api, pod(api, team, "shop-1"), exp=int(time.time()) - 30)
    assert collector.send(token).status == 200
    collector.relay.cut()
    eventually("its time is over", lambda: collector.send(token).refusal == (401, "unauthorized"))
    assert collector.metric('sidelight_token_reviews_total{outcome="stale"}') > 0


def test_grace_ends(api: Api, begin: Any, team: str) -> None:
    options = ("--token-cache-seconds", "0.1", "--token-stale-if-error-seconds", "0")
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
    # A request is counted when its answer is on its way.
    eventually("it is counted", lambda: reviews(api) > before)
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
    assert collector.metric('sidelight_token_reviews_total{outcome="rejected"}') == 4


def test_a_collector_without_a_way_to_the_cluster_does_not_start(begin: Any, tmp_path: Path) -> None:
    process = Process(tmp_path, str(tmp_path / "store"), "--kubernetes", str(tmp_path / "gone"))
    status, said = process.ended()
    assert status != 0
    assert "kubeconfig" in said


def test_a_real_sidecar_ships_as_its_pod(api: Api, begin: Any, team: str, sidecar: Any) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    sidecar(collector, token, "--service", "shop")
    eventually("its windows are there", collector.windows)
    assert collector.windows() == [{"pod": "shop-1", "namespace": team, "service": "shop", "version": "7"}]
    agents = eventually("it asks for work", lambda: collector.ask("GET", "/api/v1/agents").json["agents"])
    assert agents[0]["labels"]["pod"] == "shop-1"


def test_a_real_sidecar_that_says_another_service_names_that_in_its_readiness(
    api: Api, begin: Any, team: str, sidecar: Any
) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    port = sidecar(collector, token, "--service", "checkout")
    eventually("it says so", lambda: "wrong_service" in words(port))
    # Each request is refused: those with new windows, with windows of the spool, and polls for captures.
    found = [one for one in readiness(port)["problems"] if one["error"] == "wrong_service"]
    assert found
    assert all("sidelight.dev/service" in problem["hint"] for problem in found)
    assert collector.windows() == []


def test_a_real_sidecar_keeps_its_windows_while_the_api_server_is_away(
    api: Api, begin: Any, team: str, sidecar: Any
) -> None:
    collector, token = begin(REVIEWS, PODS), pod(api, team, "shop-1")
    assert collector.ask("GET", "/livez").status == 200
    collector.relay.cut()
    port = sidecar(collector, token, "--service", "shop")
    eventually("it says so", lambda: "cluster_unavailable" in words(port))
    collector.relay.mend()
    eventually("its windows are there", collector.windows)
    eventually("all is well", lambda: readiness(port).get("problems") == [])


def test_no_more_tokens_are_remembered_than_allowed(api: Api, begin: Any, team: str) -> None:
    collector = begin(REVIEWS, PODS, "--token-cache-entries", "1")
    tokens = [pod(api, team, "shop-1"), pod(api, team, "shop-2")]
    assert collector.ask("GET", "/livez").status == 200
    before = reviews(api)
    for token in (*tokens, tokens[1], tokens[0]):
        assert collector.send(token).status == 200
    eventually("they are counted", lambda: reviews(api) - before >= 3)
    assert reviews(api) - before == 3


async def test_no_more_tokens_wait_for_a_review_than_allowed(api: Api, begin: Any, team: str) -> None:
    tokens = [pod(api, team, f"shop-{number}") for number in range(3)]
    relay = Relay(int(api.url.rpartition(":")[2]))
    relay.hold()
    config = Path(api.kubeconfig.with_name("held.kubeconfig"))
    config.write_text(api.kubeconfig.read_text().replace(api.url, f"https://127.0.0.1:{relay.port}"))
    asking = TokenReviewer(
        KubernetesClient.open(str(config)), TokenReviewPolicy(concurrency=1, max_pending=2), Metrics()
    )
    try:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(asking.identify(token)) for token in tokens[:2]]
            await asyncio.sleep(0)
            with pytest.raises(TooManyPendingReviews) as told:
                await asking.identify(tokens[2])
            assert told.value.reason == "overloaded"
            assert told.value.hint
            relay.go_on()
        assert {task.result().pod for task in waiting} == {"shop-0", "shop-1"}
        assert (await asking.identify(tokens[2])).pod == "shop-2"
    finally:
        asking.close()
        relay.cut()


def test_each_of_several_workers_knows_pods(api: Api, begin: Any, team: str) -> None:
    collector, token = begin(REVIEWS, PODS, "--workers", "2"), pod(api, team, "shop-1")
    header, body, signature = token.split(".")
    for _ in range(12):
        assert collector.send(token).status == 200
        assert collector.send(f"{header}.{body}.{'A' * len(signature)}").status == 401
    assert [one["service"] for one in collector.windows()] == ["shop"]
