"""What is kept of the objects of an API server: a few fields, whatever the rest of them weighs.

Text that many pods have in common (names of nodes, services, versions) is kept once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sidelight_kubernetes import label_names, naming

ApiObject = Mapping[str, Any]
ObjectKey = tuple[str, str]
"""Namespace and name."""

APPS_GROUP: Final = "apps"
_REVISION_HISTORY_ANNOTATION: Final = "deployment.kubernetes.io/revision-history"
_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
_WORKLOAD_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet")


class ResourceKind(StrEnum):
    """What is watched, as RBAC rules and paths name it."""

    PODS = "pods"
    NAMESPACES = "namespaces"
    DEPLOYMENTS = "deployments"
    REPLICASETS = "replicasets"
    STATEFULSETS = "statefulsets"
    DAEMONSETS = "daemonsets"
    CONTROLLERREVISIONS = "controllerrevisions"

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return "" if self in (ResourceKind.PODS, ResourceKind.NAMESPACES) else APPS_GROUP

    def list_path(self, namespace: str = "") -> str:
        """Where these are listed, of one namespace or of all."""
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
        return f"{root}/namespaces/{namespace}/{self}" if namespace else f"{root}/{self}"


@dataclass(frozen=True, slots=True)
class SidecarContainer:
    """The container that profiles a pod.

    `origin` is how it came: template, injected or ephemeral. `state` is running, waiting or terminated,
    `reason` the cluster's word for why; `since` (Unix seconds) when it became so, None where nothing tells.
    """

    origin: str
    state: str
    reason: str = ""
    restarts: int = 0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: whose it is, how far it is, and its sidecar.

    `revision` is the hash its owner gave it, `inject_label` its label for the injector (true, false or
    empty), `skip_reason` why the injector gave it no sidecar, `sampled_container` the one that a sidecar
    samples.
    """

    namespace: str
    name: str
    uid: str
    service: str
    version: str
    kind: str
    workload: str
    revision: str
    node: str
    phase: str
    created: float
    ready: float | None
    deleting: bool
    inject_label: str
    skip_reason: str
    containers: tuple[str, ...]
    sampled_container: str
    sidecar: SidecarContainer | None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or is about to."""
        return self.deleting or self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Workload:
    """What owns pods: `revision` is the number or hash it rolls out, complete since `completed_at` if it
    is.
    """

    kind: str
    namespace: str
    name: str
    revision: str
    is_complete: bool
    completed_at: float | None


@dataclass(frozen=True, slots=True)
class Revision:
    """A ReplicaSet or ControllerRevision: number, hash (that of its pods), and what its pods run."""

    kind: str
    namespace: str
    name: str
    uid: str
    workload: str
    number: int
    hash: str
    created_at: float
    is_reused: bool
    service: str
    version: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, and its label for the injector: true, false or empty."""

    name: str
    inject_label: str


CachedObject = Pod | Workload | Revision | Namespace


def get_object_key(item: ApiObject) -> ObjectKey:
    """Namespace and name of an object."""
    meta = _get_mapping(item, "metadata")
    return _get_text(meta, "namespace"), _get_text(meta, "name")


def parse_object(kind: ResourceKind, item: ApiObject) -> CachedObject | None:
    """What is kept of an object; None if it is of no use here."""
    if kind is ResourceKind.PODS:
        return parse_pod(item)
    if kind is ResourceKind.NAMESPACES:
        labels = _get_mapping(item, "metadata", "labels")
        return Namespace(get_object_key(item)[1], _parse_boolean_label(_get_text(labels, label_names.INJECT)))
    if kind in (ResourceKind.REPLICASETS, ResourceKind.CONTROLLERREVISIONS):
        return _parse_revision(kind, item)
    return _parse_workload(kind, item)


def parse_pod(item: ApiObject) -> Pod:
    """What is kept of a pod."""
    meta, spec, status = (_get_mapping(item, name) for name in ("metadata", "spec", "status"))
    labels, annotations = _get_mapping(meta, "labels"), _get_mapping(meta, "annotations")
    owner = naming.owner_of(item)
    injection_status = _get_text(annotations, label_names.STATUS)
    ready = next((one for one in _get_list(status, "conditions") if _get_text(one, "type") == "Ready"), {})
    namespace, name = get_object_key(item)
    return Pod(
        namespace=_intern(namespace),
        name=name,
        uid=_get_text(meta, "uid"),
        service=_intern(naming.service_of(item)),
        version=_intern(naming.version_of(item)),
        kind=_intern(owner.kind if owner else "Pod"),
        workload=_intern(owner.name if owner else name),
        revision=_intern(
            _get_text(labels, "pod-template-hash") or _get_text(labels, "controller-revision-hash")
        ),
        node=_intern(_get_text(spec, "nodeName")),
        phase=_intern(_get_text(status, "phase")),
        created=parse_unix_time(_get_text(meta, "creationTimestamp")) or 0.0,
        ready=parse_unix_time(_get_text(ready, "lastTransitionTime"))
        if _get_text(ready, "status") == "True"
        else None,
        deleting=bool(_get_text(meta, "deletionTimestamp")),
        inject_label=_parse_boolean_label(_get_text(labels, label_names.INJECT)),
        skip_reason=injection_status.partition(":")[2].strip()[:500]
        if injection_status.startswith("skipped")
        else "",
        containers=_list_containers(spec),
        sampled_container=_intern(naming.target_container(item)),
        sidecar=_find_sidecar(spec, status, injected=injection_status == "injected"),
    )


def _list_containers(spec: ApiObject) -> tuple[str, ...]:
    names = [_get_text(one, "name") for one in _get_list(spec, "containers")]
    return tuple(_intern(name) for name in names if name and not label_names.is_sidecar(name))


def _find_sidecar(spec: ApiObject, status: ApiObject, *, injected: bool) -> SidecarContainer | None:
    """The container that profiles, wherever it stands; of ephemeral ones the last."""
    places = (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    )
    for declared, told in places:
        names = [_get_text(one, "name") for one in _get_list(spec, declared)]
        own = [name for name in names if label_names.is_sidecar(name)]
        if not own or (declared != "ephemeralContainers" and label_names.SIDECAR not in own):
            continue
        origin = "ephemeral" if declared == "ephemeralContainers" else "injected" if injected else "template"
        found = next((one for one in _get_list(status, told) if _get_text(one, "name") == own[-1]), {})
        return _parse_sidecar(origin, found)
    return None


def _parse_sidecar(origin: str, status: ApiObject) -> SidecarContainer:
    restarts = status.get("restartCount")
    times = restarts if isinstance(restarts, int) else 0
    for state, moment in (("running", "startedAt"), ("terminated", "finishedAt"), ("waiting", "")):
        held = _get_mapping(status, "state").get(state)
        if isinstance(held, Mapping):
            reason = _get_text(held, "reason")
            if state == "terminated":
                reason = f"{reason or 'ended'}, exit code {held.get('exitCode', '?')}"
            return SidecarContainer(
                origin,
                state,
                _intern(reason),
                times,
                parse_unix_time(_get_text(held, moment)) if moment else None,
            )
    return SidecarContainer(origin, "waiting", "", times)


def _parse_workload(kind: ResourceKind, item: ApiObject) -> Workload:
    meta, spec, status = (_get_mapping(item, name) for name in ("metadata", "spec", "status"))
    namespace, name = get_object_key(item)
    is_observed = _get_int(status, "observedGeneration") >= _get_int(meta, "generation")
    if kind is ResourceKind.DEPLOYMENTS:
        replicas = spec.get("replicas", 1)
        is_complete = (
            is_observed
            and _get_int(status, "updatedReplicas") == replicas == _get_int(status, "replicas")
            and _get_int(status, "availableReplicas") == replicas
        )
        conditions = _get_list(status, "conditions")
        progress = next((one for one in conditions if _get_text(one, "type") == "Progressing"), {})
        is_available = _get_text(progress, "reason") == "NewReplicaSetAvailable"
        completed_at = (
            parse_unix_time(_get_text(progress, "lastUpdateTime")) if is_complete and is_available else None
        )
        number = _get_text(_get_mapping(meta, "annotations"), _REVISION_ANNOTATION)
        return Workload("Deployment", _intern(namespace), name, number, is_complete, completed_at)
    if kind is ResourceKind.STATEFULSETS:
        replicas = spec.get("replicas", 1)
        is_complete = is_observed and _get_int(status, "updatedReplicas") == replicas == _get_int(
            status, "readyReplicas"
        )
        return Workload(
            "StatefulSet",
            _intern(namespace),
            name,
            _get_text(status, "updateRevision"),
            bool(is_complete),
            None,
        )
    replicas = _get_int(status, "desiredNumberScheduled")
    is_complete = (
        is_observed
        and _get_int(status, "updatedNumberScheduled") == replicas == _get_int(status, "numberAvailable")
        and replicas > 0
    )
    return Workload("DaemonSet", _intern(namespace), name, "", is_complete, None)


def _parse_revision(kind: ResourceKind, item: ApiObject) -> Revision | None:
    """A revision of what is rolled out; None for a ReplicaSet that stands alone."""
    meta = _get_mapping(item, "metadata")
    labels, annotations = _get_mapping(meta, "labels"), _get_mapping(meta, "annotations")
    owner = next((one for one in _get_list(meta, "ownerReferences") if one.get("controller")), {})
    if _get_text(owner, "kind") not in _WORKLOAD_KINDS:
        return None
    namespace, name = get_object_key(item)
    container_spec_source = (
        item.get("spec") if kind is ResourceKind.REPLICASETS else _get_mapping(item, "data").get("spec")
    )
    template = _get_mapping(
        container_spec_source if isinstance(container_spec_source, Mapping) else {}, "template"
    )
    pod_labels = dict(_get_mapping(template, "metadata", "labels"))
    if kind is ResourceKind.REPLICASETS:
        number, suffix = _get_text(annotations, _REVISION_ANNOTATION), _get_text(labels, "pod-template-hash")
        pod_labels["pod-template-hash"] = suffix
    else:
        number = str(_get_int(item, "revision"))
        # Pods of a StatefulSet carry the revision's whole name, those of a DaemonSet the hash.
        suffix = (
            name
            if _get_text(owner, "kind") == "StatefulSet"
            else _get_text(labels, "controller-revision-hash")
        )
        pod_labels["controller-revision-hash"] = suffix
    metadata = {**_get_mapping(template, "metadata"), "labels": pod_labels}
    pod = {"metadata": metadata, "spec": _get_mapping(template, "spec")}
    owner_ref = naming.Owner(_get_text(owner, "kind"), _get_text(owner, "name"))
    return Revision(
        owner_ref.kind,
        _intern(namespace),
        name,
        _get_text(meta, "uid"),
        _intern(owner_ref.name),
        int(number) if number.isascii() and number.isdigit() else 0,
        suffix,
        parse_unix_time(_get_text(meta, "creationTimestamp")) or 0.0,
        bool(_get_text(annotations, _REVISION_HISTORY_ANNOTATION)),
        _intern(naming.service_of(pod, owner_ref)),
        _intern(naming.version_of(pod)),
    )


def parse_unix_time(text: str) -> float | None:
    """A time of the API (RFC 3339) as Unix seconds; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _intern(text: str) -> str:
    return sys.intern(text)


def _parse_boolean_label(text: str) -> str:
    return _intern(text) if text in ("true", "false") else ""


def _get_mapping(item: ApiObject, *path: str) -> Mapping[str, Any]:
    found: object = item
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _get_list(item: ApiObject, name: str) -> Sequence[ApiObject]:
    found = item.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else ()


def _get_text(item: ApiObject, name: str) -> str:
    found = item.get(name)
    return found if isinstance(found, str) else ""


def _get_int(item: ApiObject, name: str) -> int:
    found = item.get(name)
    return found if isinstance(found, int) else 0


def iter_kinds(namespaces: Sequence[str]) -> Iterator[tuple[ResourceKind, str]]:
    """What is watched, and in which namespace; empty for the whole cluster."""
    for kind in ResourceKind:
        if not namespaces:
            yield kind, ""
        elif kind is not ResourceKind.NAMESPACES:
            yield from ((kind, namespace) for namespace in namespaces)
