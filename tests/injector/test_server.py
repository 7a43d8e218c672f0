"""The webhook over HTTP: whatever it is asked, and whatever fails, the pod may be made."""

import asyncio
import base64
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

from sidelight.settings import BadSetting, parse_settings
from sidelight_injector.admission.decide import AdmissionContext, decide
from sidelight_injector.admission.namespaces import MAX_CACHED_NAMESPACES, NamespaceCache
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.review import parse_review
from sidelight_injector.admission.skip_reasons import Skip, SkipReason
from sidelight_injector.events import MAX_DEDUPLICATED_EVENTS, MAX_QUEUED_EVENTS, EventRecorder
from sidelight_injector.main import has_native_sidecars, read_recipe
from sidelight_injector.metrics import Metrics
from sidelight_injector.server import MutatingWebhook
from sidelight_injector.settings import Settings
from sidelight_kubernetes import label_names
from sidelight_kubernetes.kubernetes_client import ClusterUnavailable
from sidelight_model.errors import SidelightError
from tests.cluster.pki import Authority

Json = dict[str, Any]


class FakeCluster:
    """Namespaces by name and their labels, or no answer at all; what was asked and made."""

    def __init__(self, namespaces: dict[str, Json]) -> None:
        self.namespaces = namespaces
        self.away = False
        self.asked: list[str] = []
        self.made: list[Json] = []

    def get(self, path: str, **_: str) -> Json:
        self.asked.append(path)
        if self.away:
            raise ClusterUnavailable("the API server cannot be reached: no", hint="Wait.")
        if path.endswith(("/limitranges", "/resourcequotas")):
            return {"items": []}
        return {"metadata": {"labels": self.namespaces[path.rpartition("/")[2]]}}

    def create(self, path: str, body: Json, **_: str) -> Json:
        self.made.append(body)
        return body


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({"shop": {label_names.INJECT: "true"}})


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def ask(recipe, cluster, metrics):
    """Posts a body to the webhook; its answer's status and JSON."""
    settings = parse_settings(
        Settings, "injector", "", ["--sidecar-file", "/x", "--max-body-bytes", "1M"], {}
    )
    with ThreadPoolExecutor(2) as executor:
        namespaces = NamespaceCache(cluster, executor, Clock(), ttl_seconds=2, timeout_seconds=60)
        webhook = MutatingWebhook(settings, recipe, namespaces, None, metrics, has_native_sidecars=True)
        async with TestClient(TestServer(webhook.build_app())) as client:

            async def post(body: object, **headers: str) -> tuple[int, Any]:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await client.post("/mutate", data=data, headers=headers)
                text = await answer.text()
                return answer.status, json.loads(text) if text.startswith("{") else text

            yield post


def review(pod: object, namespace: str = "shop", **more: Any) -> Json:
    request = {
        "uid": "u",
        "kind": {"kind": "Pod"},
        "operation": "CREATE",
        "namespace": namespace,
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **more}}


POD: Json = {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "app", "image": "a:1"}]}}


async def test_a_page_of_another_site_reaches_no_webhook(ask):
    status, answer = await ask(review(POD), Origin="http://evil.example")
    assert (status, answer["error"]) == (403, "forbidden")
    assert answer["hint"] == "Only the API server calls this webhook."


async def test_a_pod_is_answered_with_a_patch(ask):
    status, answer = await ask(review(POD))
    assert status == 200
    assert answer["response"] | {"patch": ""} == {
        "uid": "u",
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": "",
    }
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert "/spec/initContainers" in [change["path"] for change in patch]


@pytest.mark.parametrize(
    "more", [{"operation": "UPDATE"}, {"kind": {"kind": "Job"}}, {"subResource": "ephemeralcontainers"}]
)
async def test_what_is_no_new_pod_is_allowed_as_it_is(ask, more):
    assert (await ask(review(POD, **more)))[1]["response"] == {"uid": "u", "allowed": True}


async def test_a_pod_of_an_excluded_namespace_is_not_even_looked_up(ask, cluster):
    assert (await ask(review(POD, "kube-system")))[1]["response"] == {"uid": "u", "allowed": True}
    assert cluster.asked == []


async def test_when_the_namespace_cannot_be_read_the_pod_is_allowed_and_told(ask, cluster, metrics):
    cluster.away = True
    answer = (await ask(review(POD)))[1]["response"]
    patch = json.loads(base64.b64decode(answer["patch"]))
    assert answer["allowed"] is True
    assert [change["path"] for change in patch] == ["/metadata/annotations"]
    assert "cannot be reached" in answer["warnings"][0]
    assert metrics.skipped_pods.labels("namespace_unknown")._value.get() == 1


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {}, "spec": {"containers": [7]}},
        {"metadata": {"labels": 7}, "spec": {}},
        {"metadata": {"annotations": ["a"]}, "spec": {"containers": "app"}},
        {"spec": 7},
        {"metadata": {}, "spec": {"containers": [{"name": "app", "image": "a"}], "volumes": [7]}},
    ],
)
async def test_a_pod_that_nobody_understands_is_allowed(ask, metrics, pod):
    status, answer = await ask(review(pod))
    assert status == 200
    assert answer["response"]["allowed"] is True


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"{}", b'{"request": 7}', b"[" * 100_000, b"\xff"])
async def test_what_is_no_question_is_refused(ask, metrics, body):
    status, answer = await ask(body)
    assert status == 400
    assert answer["error"] == "bad_request"
    assert metrics.admission_reviews.labels("unreadable")._value.get() == 1


async def test_a_question_that_is_too_large_is_refused_and_counted(ask, metrics):
    assert (await ask(b"x" * ((1 << 20) + 1)))[0] == 413
    assert metrics.admission_reviews.labels("too_large")._value.get() == 1


async def test_a_namespaces_labels_are_read_once_in_a_while_and_only_so_many_are_kept(cluster):
    clock = Clock()
    with ThreadPoolExecutor(2) as executor:
        namespaces = NamespaceCache(cluster, executor, clock, ttl_seconds=2, timeout_seconds=60)
        for later, asked in ((0, 3), (1.9, 3), (2.1, 6)):
            clock.now = 1000 + later
            assert (await namespaces.get("shop")).labels == {label_names.INJECT: "true"}
            assert len(cluster.asked) == asked
        cluster.namespaces |= {f"n{number}": {} for number in range(MAX_CACHED_NAMESPACES + 1)}
        for number in range(MAX_CACHED_NAMESPACES + 1):
            await namespaces.get(f"n{number}")
        assert len(namespaces._entries) == MAX_CACHED_NAMESPACES


async def test_labels_that_take_too_long_are_given_up(cluster):
    hold = asyncio.Event()
    loop = asyncio.get_running_loop()
    cluster.get = lambda path: asyncio.run_coroutine_threadsafe(hold.wait(), loop).result(10)
    with ThreadPoolExecutor(1) as executor:
        namespaces = NamespaceCache(cluster, executor, Clock(), ttl_seconds=2, timeout_seconds=0.05)
        with pytest.raises(ClusterUnavailable, match="was not told of"):
            await namespaces.get("shop")
        hold.set()


async def test_events_are_not_repeated_and_only_so_many_wait(cluster, metrics):
    clock = Clock()
    with ThreadPoolExecutor(1) as executor:
        events = EventRecorder(cluster, executor, metrics, clock, per_minute=6000, repeat_seconds=600)
        skip = Skip(SkipReason.HOST_PID, "it is so", "change it")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "7", "controller": True}
        owned = {"metadata": {"generateName": "rs-", "ownerReferences": [owner]}}
        events.record("shop", owned, skip)
        events.record("shop", owned, skip)
        events.record("shop", owned, Skip(SkipReason.OTHER_OS, "it is so", "change it"))
        clock.now += 601
        events.record("shop", owned, skip)
        for number in range(MAX_DEDUPLICATED_EVENTS):
            events.record("shop", {"metadata": {"name": str(number)}}, skip)
        outcome = metrics.events.labels
        assert outcome("repeated")._value.get() == 1
        assert outcome("dropped")._value.get() == MAX_DEDUPLICATED_EVENTS + 3 - MAX_QUEUED_EVENTS
        writing = asyncio.create_task(events.run())
        async with asyncio.timeout(30):
            while len(cluster.made) < MAX_QUEUED_EVENTS:
                await asyncio.sleep(0.01)
        writing.cancel()
    first = cluster.made[0]
    assert first["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "rs",
        "uid": "7",
        "namespace": "shop",
    }
    assert first["message"] == "Sidelight did not inject its sidecar. it is so: change it"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(annotations=st.dictionaries(st.sampled_from([*label_names.ANNOTATIONS, "a"]), st.text(max_size=30)))
def test_annotations_hold_any_text_at_all(recipe, annotations):
    pod = {"metadata": {"annotations": annotations}, "spec": POD["spec"]}
    decision = decide(pod, AdmissionContext("shop", {label_names.INJECT: "true"}), recipe)
    assert decision.is_injected or decision.skip


@given(ANYTHING)
def test_a_body_of_any_json_is_a_question_or_refused(body):
    with suppress(SidelightError):
        assert parse_review(json.dumps(body).encode()).uid


@pytest.mark.parametrize(
    ("major", "minor", "native"),
    [
        ("1", "28", False),
        ("1", "29", True),
        ("1", "28+", False),
        ("1", "34+", True),
        ("2", "0", True),
        ("", "", False),
    ],
)
def test_native_sidecars_are_known_by_the_servers_version(major, minor, native):
    assert has_native_sidecars({"major": major, "minor": minor}) is native


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda told: told.pop("volumes"), "not a sidecar"),
        (lambda told: told["container"].update(name="other"), "not named sidelight"),
        (lambda told: told["volumes"].pop(), "volumes are mounted that are not there: sidelight-token"),
        (
            lambda told: told["container"]["env"].append({"name": "SIDELIGHT_RATE", "value": "0"}),
            "--rate must",
        ),
    ],
)
def test_a_recipe_that_would_make_no_sidecar_is_refused_at_start(sidecar_json, change, told):
    recipe = json.loads(sidecar_json)
    change(recipe)
    with pytest.raises(BadSetting) as refusal:
        Recipe.parse(json.dumps(recipe))
    assert told in refusal.value.message


def with_collector(sidecar_json: str, url: str) -> str:
    told = json.loads(sidecar_json)
    [variable] = [one for one in told["container"]["env"] if one["name"] == "SIDELIGHT_COLLECTOR"]
    variable["value"] = url
    return json.dumps(told)


async def test_sidecars_trust_the_authorities_of_a_file_that_may_change(
    sidecar_json, cluster, metrics, tmp_path
):
    """Each pod gets the present certificates; without any, none is injected and the pod is made."""
    first, second = (Authority(tmp_path / name).certificate.read_text() for name in ("a", "b"))
    (tmp_path / "sidecar.json").write_text(with_collector(sidecar_json, "https://collector:8080"))
    file = tmp_path / "ca.crt"
    flags = ["--sidecar-file", str(tmp_path / "sidecar.json"), "--ca-file", str(file)]
    settings = parse_settings(Settings, "injector", "", flags, {})
    with pytest.raises(BadSetting, match="cannot read the CA certificates"):
        read_recipe(settings)
    file.write_text(first)
    recipe = read_recipe(settings)
    with ThreadPoolExecutor(2) as executor:
        namespaces = NamespaceCache(cluster, executor, Clock(), ttl_seconds=2, timeout_seconds=60)
        webhook = MutatingWebhook(settings, recipe, namespaces, None, metrics, has_native_sidecars=True)
        async with TestClient(TestServer(webhook.build_app())) as client:

            async def certificates() -> str | None:
                answer = (await (await client.post("/mutate", json=review(POD))).json())["response"]
                assert answer["allowed"]
                patch = json.loads(base64.b64decode(answer["patch"]))
                values = {change["path"]: change["value"] for change in patch}
                [container] = values.get("/spec/initContainers", [{"env": []}])
                variables = {one["name"]: one.get("value") for one in container["env"]}
                return variables.get("SIDELIGHT_CA_CERTIFICATES")

            assert await certificates() == first
            file.write_text(f"{first}{second}")
            assert await certificates() == first + second
            file.write_text("")
            assert await certificates() is None
            file.write_text(second)
            assert await certificates() == second


def test_authorities_for_a_collector_without_tls_end_the_start(sidecar_json, tmp_path):
    (tmp_path / "sidecar.json").write_text(with_collector(sidecar_json, "http://collector:8080"))
    authority = Authority(tmp_path).certificate
    flags = ["--sidecar-file", str(tmp_path / "sidecar.json"), "--ca-file", str(authority)]
    with pytest.raises(BadSetting, match="is not an https:// URL"):
        read_recipe(parse_settings(Settings, "injector", "", flags, {}))
