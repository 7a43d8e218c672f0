"""A capture attaches a sidecar to a pod without one: real collector, API server, sidecar and Python program.

There is no node here, so a thread of the test does what a kubelet would: it starts the ephemeral containers
of pods, as processes of this machine, and writes into the pods' status how they are.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cluster.api import Api
from tests.cluster.programs import eventually
from tests.cluster.test_discovery import APPS, CORE, granted
from tests.collector.processes import Process
from tests.processes import free_port

SPIN = Path(__file__).parents[1] / "sidecar" / "targets" / "spin.py"
GET = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ATTACH = {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["patch"]}
STRATEGIC = "application/strategic-merge-patch+json"
FINAL = ("ready", "failed", "stopped")


class Kubelet:
    """Starts ephemeral containers of one namespace's pods; `refuse` is a reason why it starts none."""

    def __init__(self, api: Api, namespace: str, pid: int, scratch: Path) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pid = pid
        self._scratch = scratch
        self._over = threading.Event()
        self.refuse = ""
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.specs: dict[str, dict[str, Any]] = {}
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for process in self.started.values():
            process.kill()
            process.wait()

    def exit_codes(self) -> list[int | None]:
        return [process.poll() for process in self.started.values()]

    def log(self) -> str:
        return "".join(path.read_text() for path in self._scratch.glob("container-*.log"))

    def _work(self) -> None:
        while not self._over.wait(0.1):
            for pod in self._api.get(self._path)["items"]:
                made = pod["spec"].get("ephemeralContainers", [])
                states = [self._state(one) for one in made]
                old = pod["status"].get("ephemeralContainerStatuses", [])
                if [one["state"] for one in states] != [one.get("state") for one in old]:
                    path = f"{self._path}/{pod['metadata']['name']}/status"
                    body = {"status": {"ephemeralContainerStatuses": states}}
                    self._api.call("PATCH", path, body, kind=STRATEGIC)

    def _state(self, made: dict[str, Any]) -> dict[str, Any]:
        name = made["name"]
        self.specs[name] = made
        told = {"name": name, "image": made["image"], "imageID": "", "restartCount": 0, "ready": False}
        if self.refuse:
            return {**told, "state": {"waiting": {"reason": self.refuse, "message": "no such image"}}}
        if name not in self.started:
            # All processes of the pod's namespace: here that is one, by its pid.
            args = [f"--pid={self._pid}" if arg == "--all" else arg for arg in made["args"]]
            given = {one["name"]: one["value"] for one in made["env"]}
            with (self._scratch / f"container-{name}.log").open("wb") as log:
                self.started[name] = subprocess.Popen(
                    [sys.executable, "-m", "sidelight.main", *args],
                    env={**os.environ, **given},
                    stdout=log,
                    stderr=log,
                )
        code = self.started[name].poll()
        if code is None:
            return {**told, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}
        ended |= {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
        return {**told, "state": {"terminated": ended}}


class Collector:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.port = process.port()

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            content = None if body is None else json.dumps(body)
            sent = {"Content-Type": "application/json"} if content else {}
            connection.request(method, f"/api/v1/{path}", content, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def start(self, **wish: object) -> tuple[int, Any]:
        asked = {"service": "spin", "seconds": 2, "attach": True, **wish}
        return self.ask("POST", "captures", asked)

    def ended(self, capture: str) -> Any:
        def look() -> Any:
            told = self.ask("GET", f"captures/{capture}")[1]
            return told if told["state"] in FINAL else None

        return eventually("the capture has ended", look, 90)


@contextmanager
def collecting(
    scratch: Path, config: Path, *namespaces: str, options: tuple[str, ...] = ()
) -> Iterator[Collector]:
    port = free_port()
    attach = [option for name in namespaces for option in ("--attach-namespaces", name)]
    given = (
        *("--listen", f"127.0.0.1:{port}", "--kubernetes", str(config), *attach),
        *("--attach-image", "sidelight-sidecar:1", "--attach-collector-url", f"http://127.0.0.1:{port}"),
        *("--discovery-publish-interval-seconds", "0.2", "--capture-check-interval-seconds", "0.2", *options),
    )
    process = Process(scratch, str(scratch / "store"), *given)
    try:
        yield Collector(process)
    finally:
        process.kill()


def pod(api: Api, namespace: str, name: str = "spin-1") -> None:
    """A pod that runs, as far as its status says."""
    api.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": "spin", "version": "7"}},
            "spec": {"containers": [{"name": "app", "image": "spin:7"}]},
        }
    )
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    status, answer = api.call("PATCH", path, {"status": {"phase": "Running"}}, kind=STRATEGIC)
    assert status == 200, answer


def seen(collector: Collector, namespace: str, pods: int = 1) -> None:
    query = quote(f'namespace="{namespace}", service="spin"')

    def look() -> bool:
        found = collector.ask("GET", f"workloads?query={query}")[1]["workloads"]
        return sum(one["pod_counts"]["no_sidecar"] for one in found) == pods

    eventually("the pod is seen", look)


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    with api.namespace() as name:
        yield name


@pytest.fixture
def kubelet(api: Api, namespace: str, tmp_path: Path) -> Iterator[Kubelet]:
    target = subprocess.Popen([sys.executable, str(SPIN)])
    made = Kubelet(api, namespace, target.pid, tmp_path)
    try:
        yield made
    finally:
        made.close()
        target.kill()
        target.wait()


def taken(answer: tuple[int, Any]) -> Any:
    """The capture that was started; None while there is no pod for it."""
    status, told = answer
    assert status in (201, 404), told
    return told if status == 201 else None


def test_a_capture_attaches_a_sidecar_that_samples_and_ends(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    config = granted(api, namespace, "all", CORE, APPS, GET, ATTACH, everywhere=True)
    with collecting(tmp_path, config, namespace) as collector:
        pod(api, namespace)
        seen(collector, namespace)
        status, made = collector.start()
        assert status == 201, made
        told = collector.ended(made["id"])
        assert (told["state"], told["problem"]) == ("ready", ""), (told, kubelet.log())
        (part,) = told["parts"]
        assert part["labels"]["pod"] == "spin-1"
        assert part["samples"] > 0
        assert part["recordings"] == 1
        (name,) = kubelet.started
        assert part["ephemeral_container"] == name
        # Its windows are under the names that the cluster knows.
        query = quote(f'capture="{made["id"]}"')
        (service,) = collector.ask("GET", f"services?query={query}")[1]["services"]
        assert (service["service"], service["versions"][0]["version"]) == ("spin", "7")
        spec = kubelet.specs[name]
        assert spec["targetContainerName"] == "app"
        assert spec["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
        eventually("the sidecar has ended", lambda: kubelet.exit_codes() == [0])
        assert not list(Path("/dev/shm").glob(name))
        # What stands in the pod's spec reads nothing, writes for nobody else, and is not in the capture.
        token = {one["name"]: one["value"] for one in spec["env"]}["SIDELIGHT_ONE_SHOT_TOKEN"]
        assert token.rpartition(".")[2] not in json.dumps(told)
        assert token.rpartition(".")[2] not in kubelet.log()
        bearer = {"Authorization": f"Bearer {token}"}
        poll = {"v": 1, "agent": "other", "labels": {"service": "spin"}, "ready": True, "timeout_seconds": 0}
        assert collector.ask("POST", "agents/poll", poll, bearer)[0] == 403
        poll["agent"] = token.split(".")[1]
        assert collector.ask("POST", "agents/poll", {**poll, "labels": {"service": "cart"}}, bearer)[0] == 403
        assert (
            collector.ask("POST", "agents/poll", poll, {"Authorization": f"Bearer {token[:-1]}x"})[0] == 401
        )
        # Nobody without a token may write, as the collector is in a cluster.
        assert collector.ask("POST", "agents/poll", poll)[0] == 401
        # A second capture attaches a second one, once the collector knows that the first is none any more.
        again = eventually("a second capture starts", lambda: taken(collector.start(pods=["spin-1"])))
        assert collector.ended(again["id"])["state"] == "ready"
        assert len(kubelet.started) == 2


def test_an_image_that_cannot_be_pulled_fails_the_capture_and_says_so(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    config = granted(api, namespace, "pull", CORE, APPS, GET, ATTACH, everywhere=True)
    kubelet.refuse = "ErrImageNeverPull"
    with collecting(tmp_path, config, namespace) as collector:
        pod(api, namespace)
        seen(collector, namespace)
        told = collector.ended(collector.start()[1]["id"])
        assert told["state"] == "failed"
        assert "cannot run the sidecar's image sidelight-sidecar:1: ErrImageNeverPull" in told["problem"]
        assert "--attach-image" in told["hint"]


def test_without_the_right_to_attach_the_capture_says_which_is_missing(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    config = granted(api, namespace, "no", CORE, APPS, GET, everywhere=True)
    with collecting(tmp_path, config, namespace) as collector:
        pod(api, namespace)
        seen(collector, namespace)
        told = collector.ended(collector.start()[1]["id"])
        assert told["state"] == "failed"
        assert f"may not patch pods/ephemeralcontainers in the namespace {namespace}" in told["problem"]
        # What it says to do, done.
        for command in told["hint"].partition("by hand: ")[2].split(" && "):
            api.kubectl(*command.split()[1:])
        cluster = api.cluster(namespace, "no")
        assert cluster.is_allowed("patch", "pods", namespace, subresource="ephemeralcontainers")


def test_pod_security_that_refuses_is_named_with_the_label_that_allows(api: Api, tmp_path: Path) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    with api.namespace(labels) as namespace:
        config = granted(api, namespace, "ps", CORE, APPS, GET, ATTACH, everywhere=True)
        with collecting(tmp_path, config, namespace) as collector:
            pod(api, namespace)
            seen(collector, namespace)
            told = collector.ended(collector.start()[1]["id"])
            assert told["state"] == "failed"
            assert f"Pod Security (baseline) of the namespace {namespace} refuses" in told["problem"]
            assert "SYS_PTRACE" in told["problem"]
            assert "pod-security.kubernetes.io/enforce=privileged" in told["hint"]


def test_what_is_not_switched_on_or_not_there_is_refused_at_once(
    api: Api, namespace: str, tmp_path: Path
) -> None:
    config = granted(api, namespace, "at-once", CORE, APPS, GET, ATTACH, everywhere=True)
    with collecting(tmp_path, config, "elsewhere") as collector:
        pod(api, namespace)
        seen(collector, namespace)
        status, told = collector.start()
        assert status == 403
        assert namespace in told["message"]
        assert "--attach-namespaces" in told["hint"]
        status, told = collector.start(service="nobody")
        assert status == 404
        assert "nobody" in told["message"]
    with collecting(tmp_path, config, namespace) as collector:
        seen(collector, namespace)
        status, told = collector.start(container="web")
        assert status == 404
        assert "They have app" in told["hint"]
    plain = Process(tmp_path, str(tmp_path / "store"))
    try:
        status, told = Collector(plain).start()
        assert status == 403
        assert "--attach-image" in told["hint"]
    finally:
        plain.kill()


def test_a_named_pod_is_attached_to_without_the_right_to_list_pods(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    config = granted(api, namespace, "get", GET, ATTACH, everywhere=False)
    with collecting(tmp_path, config, namespace) as collector:
        pod(api, namespace)
        status, told = collector.start()
        assert status == 403
        assert "sees no pods (" in told["message"]
        status, made = collector.start(pods=["spin-1"])
        assert status == 201, made
        told = collector.ended(made["id"])
        assert told["state"] == "ready", (told, kubelet.log())


def test_a_capture_with_both_kinds_of_pods_waits_for_the_attached_one(
    api: Api, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    config = granted(api, namespace, "both", CORE, APPS, GET, ATTACH, everywhere=True)
    with collecting(tmp_path, config, namespace) as collector:
        for name in ("spin-1", "spin-2"):
            pod(api, namespace, name)
        seen(collector, namespace, 2)
        status, made = collector.start(pods="all", seconds=1)
        assert status == 201
        told = collector.ended(made["id"])
        with suppress(KeyError):
            assert told["pods"] == 2
        # Both sample one process of this machine here, which is sampled by one of them at a time.
        assert {part["labels"]["pod"] for part in told["parts"]} == {"spin-1", "spin-2"}
        eventually("both have ended", lambda: all(code is not None for code in kubelet.exit_codes()))
