"""Laws of the patch, for any pod: it only adds, a second time nothing, and Kubernetes takes the result."""

from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_injector.admission.decide import AdmissionContext, decide
from sidelight_kubernetes import label_names
from tests.injector.json_patch import keeps, patched

Json = dict[str, Any]

PORTS = set(range(8081, 8101))
NAMES = st.sampled_from(["app", "web", "proxy", "sidelight", "db"])
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
VALUES = st.one_of(TEXT, st.sampled_from(["true", "false", "1", "60", "web", "app", "gunicorn", "gil", "("]))


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=members)


def container(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    ports = st.lists(st.builds(lambda n: {"containerPort": n}, st.integers(8079, 8103)), max_size=25)
    return st.fixed_dictionaries(
        {"name": NAMES, "image": st.just("registry.example/it:1")},
        optional={
            "args": st.lists(TEXT, max_size=2),
            "ports": ports,
            "securityContext": optional(runAsUser=st.integers(0, 20000), runAsNonRoot=st.booleans()),
            **more,
        },
    )


SPECS = st.fixed_dictionaries(
    {"containers": st.lists(container(), min_size=1, max_size=3)},
    optional={
        "initContainers": st.lists(container(restartPolicy=st.just("Always")), max_size=2),
        "volumes": st.lists(
            st.builds(lambda name: {"name": name, "emptyDir": {}}, st.sampled_from(["a", "sidelight", "b"])),
            max_size=2,
        ),
        "hostPID": st.booleans(),
        "hostNetwork": st.booleans(),
        "shareProcessNamespace": st.booleans(),
        "restartPolicy": st.sampled_from(["Always", "Never", "OnFailure"]),
        "securityContext": optional(runAsNonRoot=st.booleans(), fsGroup=st.integers(0, 9)),
        "os": st.sampled_from([{"name": "linux"}, {"name": "windows"}]),
        "nodeSelector": st.dictionaries(st.sampled_from(["kubernetes.io/os", "zone"]), TEXT, max_size=2),
    },
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("it")},
    optional={
        "labels": st.dictionaries(
            st.sampled_from([label_names.INJECT, "app", label_names.APP_VERSION]), VALUES
        ),
        "annotations": st.dictionaries(
            st.sampled_from([*label_names.ANNOTATIONS, label_names.STATUS, "x/y~z"]), VALUES
        ),
    },
)
PODS = st.builds(
    lambda metadata, spec: {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    METADATA,
    SPECS,
)
FITTING = st.builds(
    lambda containers, volumes, annotations: {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "it", "annotations": annotations},
        "spec": {"containers": containers, "volumes": volumes},
    },
    st.lists(container().filter(lambda one: one["name"] != "sidelight"), min_size=1, max_size=3).filter(
        lambda found: not {port["containerPort"] for one in found for port in one.get("ports", ())} >= PORTS
    ),
    st.lists(st.just({"name": "a", "emptyDir": {}}), max_size=1),
    st.dictionaries(
        st.sampled_from([label_names.RATE, label_names.SERVICE, label_names.WINDOW_SECONDS]), st.just("7")
    ),
)
"""Pods that nothing keeps a sidecar out of."""
PLACES = st.builds(
    AdmissionContext,
    st.just("shop"),
    st.just({label_names.INJECT: "true"}),
    has_native_sidecars=st.booleans(),
    pod_security_level=st.sampled_from(["privileged", "baseline"]),
)


@given(PODS, PLACES)
def test_a_patch_only_adds_and_a_second_time_adds_nothing(recipe, pod, place):
    decision = decide(pod, place, recipe)
    after = patched(pod, decision.patch)
    annotations = pod["metadata"].get("annotations") or {}
    own = {name: text for name, text in annotations.items() if name != label_names.STATUS}
    assert keeps(after, {**pod, "metadata": {**pod["metadata"], "annotations": own}} if annotations else pod)
    assert decide(after, place, recipe).patch == []
    assert not (decision.is_injected and decision.skip)


@pytest.mark.parametrize("version", ["1.28.0", "1.34.0"])
@settings(max_examples=25, deadline=None)
@given(pod=PODS | FITTING)
def test_kubernetes_takes_what_becomes_of_a_pod(recipe, version, pod):
    place = AdmissionContext("shop", {label_names.INJECT: "true"}, has_native_sidecars=version != "1.28.0")
    kubernetes_validate.validate(patched(pod, decide(pod, place, recipe).patch), version, strict=True)


@given(FITTING, st.booleans())
def test_a_pod_that_is_fit_has_one_sidecar_and_no_name_or_port_twice(recipe, pod, native):
    decision = decide(
        pod, AdmissionContext("shop", {label_names.INJECT: "true"}, has_native_sidecars=native), recipe
    )
    assert decision.is_injected
    spec = patched(pod, decision.patch)["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    [sidecar] = [one for one in containers if one["name"] == label_names.SIDECAR]
    others = [one.get("ports", ()) for one in containers if one is not sidecar]
    taken = {port["containerPort"] for ports in others for port in ports}
    assert not taken & {one["containerPort"] for one in sidecar["ports"]}
    names = [one["name"] for one in spec["volumes"]]
    assert names.count("sidelight") == names.count("sidelight-token") == 1
    assert spec["shareProcessNamespace"] is True
