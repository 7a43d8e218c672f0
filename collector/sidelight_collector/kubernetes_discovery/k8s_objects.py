"""The few fields of Kubernetes objects that discovery keeps.

Text that many pods share (names of nodes, services, versions) is interned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sidelight_kubernetes import label_names, naming
from sidelight_kubernetes.api_paths import build_path

ApiObject = Mapping[str, Any]
ObjectKey = tuple[str, str]
"""Namespace and name."""

APPS_GROUP: Final = "apps"
_REVISION_HISTORY_ANNOTATION: Final = "deployment.kubernetes.io/revision-history"
_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
_MAX_SOURCE_URL: Final = 1000
_WORKLOAD_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet")


class ResourceKind(StrEnum):
    """The watched resources, as in RBAC rules and API paths."""

    PODS = "pods"
    NAMESPACES = "namespaces"
    DEPLOYMENTS = "deployments"
    REPLICASETS = "replicasets"
    STATEFULSETS = "statefulsets"
    DAEMONSETS = "daemonsets"
    CONTROLLERREVISIONS = "controllerrevisions"

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return "" if self in (ResourceKind.PODS, ResourceKind.NAMESPACES) else APPS_GROUP

    def list_path(self, namespace: str = "") -> str:
        """Return the path that lists the resource, in one namespace or in all."""
        return build_path(self.value, group=self.group, namespace=namespace or None)


@dataclass(frozen=True, slots=True)
class WatchScope:
    """One kind of object, in one namespace or in all (empty)."""

    kind: ResourceKind
    namespace: str

    @property
    def list_path(self) -> str:
        return self.kind.list_path(self.namespace)

    @property
    def selectors(self) -> Mapping[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class SidecarContainer:
    """The container that profiles a pod.

    `origin` is how it got there: template, injected or ephemeral. `state` is running, waiting or
    terminated, and `reason` the cluster's reason for it; `since` (Unix seconds) is when it entered that
    state, None if unknown.
    """

    origin: str
    state: str
    reason: str = ""
    restarts: int = 0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: its owner, its phase and its sidecar.

    `revision` is the hash that its owner gave it. `inject_label` is its label for the injector (true, false
    or empty), `skip_reason` why the injector added no sidecar. `sampled_container` is the container that a
    sidecar samples. `source_url` is the template of the pages' links to its source code, unchecked.
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
    source_url: str = ""

    @property
    def is_node_agent(self) -> bool:
        """Return whether it is a node agent of Sidelight's chart."""
        names = self.kind, self.service, self.sampled_container
        return names == ("DaemonSet", label_names.SIDECAR, label_names.AGENT_CONTAINER)

    @property
    def has_ended(self) -> bool:
        """Return whether the pod has ended or is being deleted."""
        return self.deleting or self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Workload:
    """An owner of pods: a Deployment, StatefulSet or DaemonSet.

    `revision` is the number or hash that it rolls out. If the rollout is complete, `completed_at` says
    since when (Unix seconds), if known.
    """

    kind: str
    namespace: str
    name: str
    revision: str
    is_complete: bool
    completed_at: float | None


@dataclass(frozen=True, slots=True)
class Revision:
    """A ReplicaSet or ControllerRevision.

    It has its number, its hash (that of its pods), and the service and version of its pods.
    """

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
    """Return namespace and name of an object."""
    meta = _get_mapping(item, "metadata")
    return _get_text(meta, "namespace"), _get_text(meta, "name")


def parse_object(kind: ResourceKind, item: ApiObject) -> CachedObject | None:
    """Parse an object; None if discovery does not need it."""
    if kind is ResourceKind.PODS:
        return parse_pod(item)
    if kind is ResourceKind.NAMESPACES:
        labels = _get_mapping(item, "metadata", "labels")
        return Namespace(get_object_key(item)[1], _parse_boolean_label(_get_text(labels, label_names.INJECT)))
    if kind in (ResourceKind.REPLICASETS, ResourceKind.CONTROLLERREVISIONS):
        return _parse_revision(kind, item)
    return _parse_workload(kind, item)


def parse_pod(item: ApiObject) -> Pod:
    meta, spec, status = (_get_mapping(item, name) for name in ("metadata", "spec", "status"))
    labels, annotations = _get_mapping(meta, "labels"), _get_mapping(meta, "annotations")
    owner = naming.owner_of(item)
    injection_status = _get_text(annotations, label_names.STATUS)
    ready = next(
        (
            condition
            for condition in _get_list(status, "conditions")
            if _get_text(condition, "type") == "Ready"
        ),
        {},
    )
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
        source_url=_intern(_get_text(annotations, label_names.SOURCE_URL)[:_MAX_SOURCE_URL]),
    )


def _list_containers(spec: ApiObject) -> tuple[str, ...]:
    names = [_get_text(container, "name") for container in _get_list(spec, "containers")]
    return tuple(_intern(name) for name in names if name and not label_names.is_sidecar(name))


def _find_sidecar(spec: ApiObject, status: ApiObject, *, injected: bool) -> SidecarContainer | None:
    """Find the container that profiles a pod, of any type.

    Of several ephemeral ones, it is the last.
    """
    container_fields = (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    )
    for declared, statuses in container_fields:
        names = [_get_text(item, "name") for item in _get_list(spec, declared)]
        sidecars = [name for name in names if label_names.is_sidecar(name)]
        if not sidecars or (declared != "ephemeralContainers" and label_names.SIDECAR not in sidecars):
            continue
        origin = "ephemeral" if declared == "ephemeralContainers" else "injected" if injected else "template"
        sidecar_status = next(
            (item for item in _get_list(status, statuses) if _get_text(item, "name") == sidecars[-1]), {}
        )
        return _parse_sidecar(origin, sidecar_status)
    return None


def _parse_sidecar(origin: str, status: ApiObject) -> SidecarContainer:
    restarts = status.get("restartCount")
    restart_count = restarts if isinstance(restarts, int) else 0
    for state, time_field in (("running", "startedAt"), ("terminated", "finishedAt"), ("waiting", "")):
        details = _get_mapping(status, "state").get(state)
        if isinstance(details, Mapping):
            reason = _get_text(details, "reason")
            if state == "terminated":
                reason = f"{reason or 'ended'}, exit code {details.get('exitCode', '?')}"
            return SidecarContainer(
                origin,
                state,
                _intern(reason),
                restart_count,
                parse_unix_time(_get_text(details, time_field)) if time_field else None,
            )
    return SidecarContainer(origin, "waiting", "", restart_count)


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
        progress = next(
            (condition for condition in conditions if _get_text(condition, "type") == "Progressing"), {}
        )
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
    """Parse a revision of a workload; None for a ReplicaSet without one."""
    meta = _get_mapping(item, "metadata")
    labels, annotations = _get_mapping(meta, "labels"), _get_mapping(meta, "annotations")
    owner = next(
        (reference for reference in _get_list(meta, "ownerReferences") if reference.get("controller")), {}
    )
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
    """Parse a time of the API (RFC 3339) as Unix seconds; None if invalid."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _intern(text: str) -> str:
    return sys.intern(text)


def _parse_boolean_label(text: str) -> str:
    return _intern(text) if text in ("true", "false") else ""


def _get_mapping(item: ApiObject, *path: str) -> Mapping[str, Any]:
    value: object = item
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _get_list(item: ApiObject, name: str) -> Sequence[ApiObject]:
    value = item.get(name)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else ()


def _get_text(item: ApiObject, name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _get_int(item: ApiObject, name: str) -> int:
    value = item.get(name)
    return value if isinstance(value, int) else 0


def iter_kinds(namespaces: Sequence[str]) -> Iterator[tuple[ResourceKind, str]]:
    """Yield the watched kinds, each with a namespace; empty for the whole cluster."""
    for kind in ResourceKind:
        if not namespaces:
            yield kind, ""
        elif kind is not ResourceKind.NAMESPACES:
            yield from ((kind, namespace) for namespace in namespaces)
