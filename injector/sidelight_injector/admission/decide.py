"""Decide what happens to a new pod: inject the sidecar, skip it, or ignore it.

This module is pure. A pod is read as the API server sends it to admission: its shape is valid, and nothing
else is assumed. A patch only adds; it never changes or removes what the pod has. A pod that already has the
sidecar's container stays as it is, so that a second review (reinvocation, a copied pod) changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidelight_injector.admission import limits, pod_security
from sidelight_injector.admission.ports import MAX_PORTS_TRIED, find_free_port
from sidelight_injector.admission.recipe import Recipe
from sidelight_injector.admission.skip_reasons import MAX_MESSAGE_CHARACTERS, Skip, SkipReason
from sidelight_kubernetes import label_names, naming
from sidelight_kubernetes.profiling_request import (
    MIRROR_POD_ANNOTATION,
    get_metadata,
    has_sidecar,
    is_requested,
)
from sidelight_model.errors import SidelightError

Pod = Mapping[str, Any]
Patch = list[dict[str, Any]]
"""A JSON patch (RFC 6902) of nothing but `add`."""

INJECTED_STATUS: Final = "injected"
SKIPPED_STATUS_PREFIX: Final = "skipped: "
_STATUS_PATH: Final = "/metadata/annotations/" + label_names.STATUS.replace("~", "~0").replace("/", "~1")
_OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
_LOOPBACK_LISTEN: Final = "127.0.0.1:0"


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """The namespace of a new pod, with its policies, and the cluster's capabilities.

    `has_native_sidecars`: init containers may have restartPolicy Always. `pod_security_level`: the level of
    Pod Security in force. `limit_ranges` and `resource_quotas` are the namespace's LimitRanges and
    ResourceQuotas.
    """

    namespace: str
    namespace_labels: Mapping[str, str]
    has_native_sidecars: bool = True
    pod_security_level: str = "privileged"
    limit_ranges: Sequence[Mapping[str, Any]] = ()
    resource_quotas: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What the injector does with a pod.

    `patch` is what to add. `skip` is set if a sidecar was requested and cannot be injected. The API server
    shows `warnings` to the client that creates the pod.
    """

    patch: Patch = field(default_factory=list)
    skip: Skip | None = None
    is_injected: bool = False
    warnings: Sequence[str] = ()


UNCHANGED: Final = Decision()
"""No sidecar is requested, or the pod already has it."""


def decide(pod: Pod, context: AdmissionContext, recipe: Recipe) -> Decision:
    """Decide whether this pod gets the sidecar, and build the patch."""
    annotations = get_metadata(pod, "annotations")
    requested = is_requested(
        get_metadata(pod, "labels").get(label_names.INJECT), context.namespace_labels.get(label_names.INJECT)
    )
    if MIRROR_POD_ANNOTATION in annotations or not requested or has_sidecar(pod):
        return UNCHANGED
    skip = _check_pod(pod, context)
    container: dict[str, Any] = {}
    if skip is None:
        try:
            container = _build_container(pod, recipe)
        except _SkipPod as stop:
            skip = stop.skip
        except SidelightError as error:
            skip = Skip(SkipReason.BAD_ANNOTATION, error.message, error.hint or "see docs/injector.md")
    if skip is None:
        skip = _check_admission(pod, container, context, recipe)
    if skip is not None:
        return skip_pod(pod, skip)
    patch = _build_patch(
        pod, container, recipe, has_native_sidecars=context.has_native_sidecars
    ) + _build_status_patch(pod, INJECTED_STATUS)
    return Decision(patch, is_injected=True, warnings=_warn_unknown_annotations(annotations))


def skip_pod(pod: Pod, skip: Skip) -> Decision:
    """Leave the pod without a sidecar; annotation and warning give the reason."""
    warning = f"Sidelight did not inject its sidecar. {skip.message}"[:MAX_MESSAGE_CHARACTERS]
    return Decision(_build_status_patch(pod, SKIPPED_STATUS_PREFIX + skip.message), skip, warnings=(warning,))


class _SkipPod(Exception):
    def __init__(self, reason: SkipReason, problem: str, hint: str) -> None:
        self.skip = Skip(reason, problem, hint)


def _spec(pod: Pod) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = pod.get("spec") or {}
    return spec


def _containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    yield from _spec(pod).get("initContainers") or ()
    yield from _spec(pod).get("containers") or ()


def _check_pod(pod: Pod, context: AdmissionContext) -> Skip | None:
    """Return why the pod as a whole cannot have a sidecar, or None."""
    spec, own = _spec(pod), get_metadata(pod, "labels").get(label_names.INJECT, "true")
    if own != "true":
        return Skip(
            SkipReason.BAD_LABEL,
            f"the label {label_names.INJECT} is {own!r}",
            'give it the value "true" or "false", in quotes',
        )
    system = (spec.get("os") or {}).get("name") or next(
        (value for label in _OS_LABELS if (value := (spec.get("nodeSelector") or {}).get(label))), "linux"
    )
    if system != "linux":
        return Skip(
            SkipReason.OTHER_OS, f"the pod is for {system}", f'label it {label_names.INJECT}: "false"'
        )
    if spec.get("hostPID"):
        return Skip(
            SkipReason.HOST_PID,
            "hostPID: true shows every process of the node, and goes with no shared PID namespace",
            "take hostPID out, or run `sidelight sidecar` with --match in a container of your own",
        )
    if spec.get("shareProcessNamespace") is False:
        return Skip(
            SkipReason.PROCESSES_APART,
            "the pod sets shareProcessNamespace: false, and the sidecar has to see the other processes",
            "take the line out, or set it to true",
        )
    if not context.has_native_sidecars and (ends := _explain_completion(pod)):
        return Skip(
            SkipReason.WOULD_NOT_END,
            f"{ends}, and an ordinary container beside it would keep it from ending",
            "native sidecars come with Kubernetes 1.29 (--native-sidecars)",
        )
    return None


def _explain_completion(pod: Pod) -> str:
    owner = naming.owner_of(pod)
    if owner is not None and owner.kind in ("Job", "CronJob"):
        return f"the pod belongs to a {owner.kind}"
    policy = _spec(pod).get("restartPolicy", "Always")
    return f"the pod has restartPolicy {policy}" if policy != "Always" else ""


def _build_container(pod: Pod, recipe: Recipe) -> dict[str, Any]:
    """Build the sidecar's container for this pod.

    Raises `_SkipPod`, and SidelightError if the sidecar would refuse the settings.
    """
    annotations, spec = get_metadata(pod, "annotations"), _spec(pod)
    container = recipe.build_container(
        service=naming.service_of(pod),
        version=naming.version_of(pod),
        annotations=annotations,
        target_container=_find_target_container(pod, annotations.get(label_names.CONTAINER, "")),
    )
    if spec.get("resources"):
        # With pod-level resources, the requests of all containers must fit into them.
        container.pop("resources", None)
    if spec.get("hostNetwork"):
        # All pods of a node would share the port, so none is declared and nothing can probe it.
        container.pop("ports", None)
        container.pop("livenessProbe", None)
        return _set_listen_address(container, _LOOPBACK_LISTEN)
    port = find_free_port(_containers(pod), recipe.port)
    if port is None:
        raise _SkipPod(
            SkipReason.NO_FREE_PORT,
            f"the ports {recipe.port} to {recipe.port + MAX_PORTS_TRIED - 1} are all named by the "
            "pod's containers",
            "choose another sidecar.port in the chart's values",
        )
    if port != recipe.port:
        container["ports"] = [{**item, "containerPort": port} for item in container.get("ports", ())]
        return _set_listen_address(container, f"0.0.0.0:{port}")
    return container


def _set_listen_address(container: dict[str, Any], address: str) -> dict[str, Any]:
    env = [
        {**variable, "value": address} if variable["name"] == "SIDELIGHT_LISTEN" else variable
        for variable in container["env"]
    ]
    return {**container, "env": env}


def _find_target_container(pod: Pod, name: str) -> str:
    """Return the container that the pod's annotation names, or "" without one.

    Raises `_SkipPod` if the pod has no such container, or if it ends before the sidecar starts.
    """
    if not name:
        return ""
    spec = _spec(pod)
    lasting = [container["name"] for container in spec.get("containers") or ()]
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            lasting.append(container["name"])
        elif container["name"] == name:
            raise _SkipPod(
                SkipReason.CONTAINER_ENDS_FIRST,
                f"{name!r} is an init container, which ends before the sidecar starts",
                f"name one of {', '.join(lasting)} in {label_names.CONTAINER}",
            )
    if name not in lasting:
        raise _SkipPod(
            SkipReason.NO_SUCH_CONTAINER,
            f"the pod has no container {name!r}",
            f"name one of {', '.join(lasting)} in {label_names.CONTAINER}",
        )
    return name


def _check_admission(
    pod: Pod, container: Mapping[str, Any], context: AdmissionContext, recipe: Recipe
) -> Skip | None:
    """Return why the API server would refuse the pod with the sidecar, or None."""
    volume_names = {volume.get("name") for volume in _spec(pod).get("volumes") or ()}
    clashing = sorted(volume_names & {volume["name"] for volume in recipe.volumes})
    if clashing:
        return Skip(
            SkipReason.NAME_TAKEN,
            f"the pod has a volume named {clashing[0]!r}",
            "give that volume another name",
        )
    if what := pod_security.find_violation(container, context.pod_security_level):
        return Skip(
            SkipReason.POD_SECURITY,
            f"Pod Security {context.pod_security_level!r} of namespace {context.namespace!r} refuses {what}",
            f"label the namespace {pod_security.ENFORCE_LABEL}=privileged, or exempt it (docs/injector.md)",
        )
    # With pod-level resources the sidecar has none of its own.
    if "resources" in container and (
        what := limits.find_violation(container, context.limit_ranges, context.resource_quotas)
    ):
        return Skip(
            SkipReason.NAMESPACE_LIMITS, what, "give the sidecar other resources in the chart's values"
        )
    return None


def _build_patch(
    pod: Pod, container: Mapping[str, Any], recipe: Recipe, *, has_native_sidecars: bool
) -> Patch:
    spec, patch = _spec(pod), []
    if not spec.get("shareProcessNamespace"):
        patch.append(_build_add_operation("/spec/shareProcessNamespace", True))
    if has_native_sidecars:
        # After the other init containers, so that none of them waits for the sidecar.
        patch += _append_items(spec, "initContainers", [{**container, "restartPolicy": "Always"}])
    else:
        patch += _append_items(spec, "containers", [container])
    patch += _append_items(spec, "volumes", recipe.volumes)
    present = [secret.get("name") for secret in spec.get("imagePullSecrets") or ()]
    secrets = [secret for secret in recipe.pull_secrets if secret["name"] not in present]
    return patch + _append_items(spec, "imagePullSecrets", secrets)


def _append_items(spec: Mapping[str, Any], name: str, items: Sequence[Mapping[str, Any]]) -> Patch:
    if items and not spec.get(name):
        return [_build_add_operation(f"/spec/{name}", list(items))]
    return [_build_add_operation(f"/spec/{name}/-", item) for item in items]


def _build_status_patch(pod: Pod, status: str) -> Patch:
    annotations = get_metadata(pod, "annotations")
    if annotations.get(label_names.STATUS) == status:
        return []
    if not annotations:
        return [_build_add_operation("/metadata/annotations", {label_names.STATUS: status})]
    return [_build_add_operation(_STATUS_PATH, status)]


def _build_add_operation(path: str, value: object) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _warn_unknown_annotations(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning for each unknown annotation in Sidelight's domain.

    Most of them are misspelled.
    """
    supported = {*label_names.ANNOTATIONS, label_names.STATUS}
    unknown = sorted(
        name for name in annotations if name.startswith(f"{label_names.DOMAIN}/") and name not in supported
    )
    return tuple(f"Sidelight knows no annotation {name}"[:MAX_MESSAGE_CHARACTERS] for name in unknown[:5])
