"""What a pod is called: the order of what counts as tables, and properties for whatever an API may say."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_kubernetes import label_names, naming
from sidelight_kubernetes.naming import Owner
from sidelight_model.labels import Labels

DIGEST = "sha256:0123456789abcdef" + "0" * 48


def pod(**parts: Any) -> dict[str, Any]:
    """A pod of a Deployment `shop` that says all that a pod can say of its name; parts of it replaced."""
    metadata = {
        "labels": {
            label_names.APP_NAME: "name-label",
            "app": "app-label",
            label_names.APP_VERSION: "version-label",
            "version": "plain-label",
            "pod-template-hash": "5d4f8c7b9",
            "controller-revision-hash": "77f",
        },
        "annotations": {label_names.SERVICE: "annotated", label_names.VERSION: "annotated-2"},
        "ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": "shop-5d4f8c7b9"}],
    }
    env = [{"name": "SIDELIGHT_SERVICE", "value": "said"}, {"name": "SIDELIGHT_VERSION", "value": "said-2"}]
    spec = {
        "containers": [
            {"name": label_names.SIDECAR, "image": "sidelight:1", "env": env},
            {"name": "web", "image": f"registry:5000/team/shop:2026.11@{DIGEST}"},
        ]
    }
    return {"metadata": metadata | parts.pop("metadata", {}), "spec": spec | parts.pop("spec", {}), **parts}


def without(value: dict[str, Any], *paths: str) -> dict[str, Any]:
    """The pod without some of what it says, each as `metadata|labels|app`."""
    for path in paths:
        *parents, last = path.split("|")
        at: Any = value
        for name in parents:
            at = at[int(name)] if isinstance(at, list) else at[name]
        at.pop(int(last) if isinstance(at, list) else last)
    return value


SERVICES = (
    ("said", "spec|containers|0|env"),
    ("annotated", "metadata|annotations"),
    ("name-label", f"metadata|labels|{label_names.APP_NAME}"),
    ("app-label", "metadata|labels|app"),
    ("shop", "metadata|ownerReferences"),
    ("web", "spec|containers"),
    ("", None),
)
VERSIONS = (
    ("said-2", ("spec|containers|0|env",)),
    ("annotated-2", ("metadata|annotations",)),
    ("version-label", (f"metadata|labels|{label_names.APP_VERSION}",)),
    ("plain-label", ("metadata|labels|version",)),
    ("2026.11", ()),
)


def test_the_service_is_the_first_that_a_pod_says_in_the_documented_order() -> None:
    given_pod = pod()
    for expected, taken in SERVICES:
        assert naming.service_of(given_pod) == expected
        if taken:
            without(given_pod, taken)


def test_the_version_is_the_first_that_a_pod_says_in_the_documented_order() -> None:
    given_pod = pod()
    for expected, taken in VERSIONS:
        assert naming.version_of(given_pod) == expected
        without(given_pod, *taken)
    web = given_pod["spec"]["containers"][1]
    web["image"] = f"registry:5000/team/shop:latest@{DIGEST}"
    assert naming.version_of(given_pod) == "0123456789ab"
    web["image"] = "registry:5000/team/shop:latest"
    given_pod["status"] = {"containerStatuses": [{"name": "web", "imageID": f"docker.io/shop@{DIGEST}"}]}
    assert naming.version_of(given_pod) == "0123456789ab"
    del given_pod["status"]
    assert naming.version_of(given_pod) == "5d4f8c7b9"
    without(given_pod, "metadata|labels|pod-template-hash")
    assert naming.version_of(given_pod) == "77f"
    without(given_pod, "metadata|labels|controller-revision-hash")
    assert naming.version_of(given_pod) == ""


@pytest.mark.parametrize(
    ("reference", "labels", "owner"),
    [
        (("ReplicaSet", "shop-5d4"), {"pod-template-hash": "5d4"}, Owner("Deployment", "shop")),
        (("ReplicaSet", "shop-9zz"), {"pod-template-hash": "5d4"}, Owner("ReplicaSet", "shop-9zz")),
        (("ReplicaSet", "shop-5d4"), {}, Owner("ReplicaSet", "shop-5d4")),
        (("ReplicaSet", "shop-7c"), {"rollouts-pod-template-hash": "7c"}, Owner("Rollout", "shop")),
        (("StatefulSet", "db"), {}, Owner("StatefulSet", "db")),
        (("DaemonSet", "agent"), {}, Owner("DaemonSet", "agent")),
        (("Job", "nightly-29345678"), {}, Owner("CronJob", "nightly")),
        (("Job", "import-2"), {}, Owner("Job", "import-2")),
        (("Node", "node-1"), {}, None),
    ],
)
def test_the_owner_is_what_people_deployed(
    reference: tuple[str, str], labels: dict[str, str], owner: Owner | None
) -> None:
    kind, name = reference
    references = [{"kind": "X", "name": "no controller"}, {"kind": kind, "name": name, "controller": True}]
    assert naming.owner_of({"metadata": {"labels": labels, "ownerReferences": references}}) == owner


def test_an_owner_that_is_known_better_counts_for_the_service() -> None:
    bare = {"metadata": {}, "spec": {"containers": [{"name": "web"}]}}
    assert naming.service_of(bare, Owner("Deployment", "front")) == "front"


@pytest.mark.parametrize("kind", ["initContainers", "containers", "ephemeralContainers"])
def test_the_sidecar_is_found_in_every_kind_of_container(kind: str) -> None:
    name = "sidelight-x1" if kind == "ephemeralContainers" else "sidelight"
    container = {"name": name, "env": [{"name": "SIDELIGHT_SERVICE", "value": "shop"}]}
    assert naming.service_of({"metadata": {}, "spec": {kind: [container]}}) == "shop"


@pytest.mark.parametrize(
    ("variable", "service"),
    [
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team/app']"}}}, "labelled"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['own']"}}}, "noted"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, "prod"),
        ({"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, "first"),
        ({"valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}, "first"),
        ({"value": "$(POD_NAME)-x"}, "first"),
        ({"value": "a\nb"}, "first"),
        ({"value": "é" * 129}, "first"),
        ({"value": "é" * 128}, "é" * 128),
    ],
)
def test_what_only_the_kubelet_or_no_label_could_know_does_not_count(
    variable: dict[str, Any], service: str
) -> None:
    sidecar = {"name": "sidelight", "env": [{"name": "SIDELIGHT_SERVICE", **variable}]}
    metadata = {"namespace": "prod", "labels": {"team/app": "labelled"}, "annotations": {"own": "noted"}}
    found = naming.service_of({"metadata": metadata, "spec": {"containers": [{"name": "first"}, sidecar]}})
    assert found == service


@pytest.mark.parametrize(
    ("image", "tag", "digest"),
    [
        ("shop", "", ""),
        ("shop:latest", "", ""),
        ("shop:1.2", "1.2", ""),
        ("registry:5000/shop", "", ""),
        ("registry:5000/a/shop:1.2", "1.2", ""),
        (f"registry:5000/shop@{DIGEST}", "", "0123456789ab"),
        (f"registry:5000/shop:1.2@{DIGEST}", "1.2", "0123456789ab"),
        (DIGEST, "", "0123456789ab"),
        ("shop@sha256:XYZ", "", ""),
        ("", "", ""),
    ],
)
def test_tags_and_digests_are_read_from_references(image: str, tag: str, digest: str) -> None:
    if image != DIGEST:
        assert naming.image_tag(image) == tag
    assert naming.image_digest(image) == digest


def test_the_annotation_says_which_container_is_watched_if_there_is_one_of_this_name() -> None:
    spec = {"containers": [{"name": "proxy", "image": "p:9"}, {"name": "web", "image": "w:2"}]}
    for wish, version in (("web", "2"), ("gone", "9")):
        metadata = {"annotations": {label_names.CONTAINER: wish}}
        assert naming.version_of({"metadata": metadata, "spec": spec}) == version


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "labels", "env", "value", "kind", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    metadata=JSON, spec=st.dictionaries(st.sampled_from(["containers", "initContainers"]), JSON), status=JSON
)
def test_whatever_an_object_says_its_names_are_text_that_labels_may_have(
    metadata: object, spec: object, status: object
) -> None:
    strange = {"metadata": metadata, "spec": spec, "status": status}
    service, version = naming.service_of(strange), naming.version_of(strange)
    assert Labels.parse({"service": service or "-", "version": version})


@given(name=st.text(string.ascii_lowercase + "-", min_size=1, max_size=20), tag=st.text(max_size=300))
def test_a_service_that_says_its_name_has_it_or_none(name: str, tag: str) -> None:
    named = {"metadata": {"annotations": {label_names.SERVICE: tag}, "labels": {"app": name}}}
    assert naming.service_of(named) in (tag.strip(), name)
