"""The client against a real API server: objects, lists, watches, tokens and permissions."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterUnavailable,
    Conflict,
    InvalidRequest,
    KubernetesClient,
    NotFoundInCluster,
    ResourceVersionExpired,
)
from tests.cluster.api import Api
from tests.cluster.programs import eventually


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


def test_objects_are_made_read_changed_and_deleted(api: Api) -> None:
    cluster = api.cluster()
    with api.namespace() as namespace:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        made = cluster.create(maps, config_map("a", x="1"))
        assert cluster.get(f"{maps}/a")["data"] == {"x": "1"}
        with pytest.raises(Conflict):
            cluster.create(maps, config_map("a"))
        assert cluster.patch(f"{maps}/a", {"data": {"y": "2"}}, "merge")["data"] == {"x": "1", "y": "2"}
        with pytest.raises(Conflict):
            cluster.replace(f"{maps}/a", {**made, "data": {"x": "3"}})
        steps = [{"op": "remove", "path": "/data/x"}]
        assert cluster.patch(f"{maps}/a", steps, "json")["data"] == {"y": "2"}
        with pytest.raises(InvalidRequest):
            cluster.create(maps, config_map("NOT A NAME"))
        cluster.delete(f"{maps}/a")
        with pytest.raises(NotFoundInCluster):
            cluster.get(f"{maps}/a")


def test_a_list_comes_whole_however_many_pages_it_has(api: Api) -> None:
    cluster = api.cluster()
    with api.namespace() as namespace:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        names = {f"m{number}" for number in range(7)}
        for name in names:
            cluster.create(maps, config_map(name))
        pages = cluster.pages(maps, limit="3")
        assert {one["metadata"]["name"] for one in pages} >= names
        assert int(pages.version) > 0


def test_a_watch_tells_what_happened_since_the_list(api: Api) -> None:
    cluster = api.cluster()
    with api.namespace() as namespace:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        pages = cluster.pages(maps)
        list(pages)
        cluster.create(maps, config_map("b"))
        cluster.patch(f"{maps}/b", {"data": {"x": "1"}})
        cluster.delete(f"{maps}/b")
        told = []
        watching = cluster.watch(maps, pages.version, timeout_seconds=120)
        for event in watching:
            if event.object["metadata"].get("name") == "b":
                told.append(event.type)
            if len(told) == 3:
                break
        watching.close()
        assert told == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_from_a_version_that_is_no_longer_known_is_told_to_list_again(api: Api) -> None:
    # What is kept of a resource of one's own begins when it is defined.
    cluster, group = api.cluster(), f"w{secrets.token_hex(4)}.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.create(definitions, definition)
    try:
        path = f"/apis/{group}/v1/things"
        eventually("it is served", lambda: api.call("GET", path)[0] == 200)
        with pytest.raises(ResourceVersionExpired):
            list(cluster.watch(path, "1", timeout_seconds=60))
    finally:
        cluster.delete(f"{definitions}/things.{group}")


def test_what_is_not_allowed_is_said_as_a_rule_would_name_it(api: Api) -> None:
    with api.namespace() as namespace:
        api.service_account(namespace, "nobody")
        cluster = api.cluster(namespace, "nobody")
        assert not cluster.is_allowed("list", "pods", namespace)
        assert not cluster.is_allowed("create", "tokenreviews", group="authentication.k8s.io")
        with pytest.raises(AccessDenied) as told:
            list(cluster.pages(f"/api/v1/namespaces/{namespace}/pods"))
        assert (told.value.verb, told.value.resource) == ("list", "pods")
        assert "list pods" in told.value.hint
        with pytest.raises(AccessDenied) as told:
            cluster.review_token("x", "sidelight")
        assert (told.value.verb, told.value.resource) == ("create", "tokenreviews")
        assert "nobody" in told.value.message
        assert api.cluster().is_allowed("list", "pods", namespace)


def test_a_server_that_is_away_is_said_to_be(api: Api, tmp_path: Path) -> None:
    text = api.kubeconfig.read_text()
    (tmp_path / "config").write_text(text.replace(api.url, "https://127.0.0.1:1"))
    with pytest.raises(ClusterUnavailable) as told:
        KubernetesClient.open(str(tmp_path / "config")).get("/version")
    assert told.value.reason == "cluster_unavailable"


def test_a_token_is_reviewed_for_its_audience(api: Api) -> None:
    cluster = api.cluster()
    with api.namespace() as namespace:
        api.service_account(namespace, "shop")
        token = api.token(namespace, "shop", audience="sidelight")
        found = cluster.review_token(token, "sidelight")
        assert (found.authenticated, found.namespace, found.service_account) == (True, namespace, "shop")
        assert (found.pod, found.pod_uid) == ("", "")
        other = cluster.review_token(token, "another")
        assert not other.authenticated
        assert "audience" in other.error
        assert not cluster.review_token("not a token", "sidelight").authenticated
