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

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

APPS: Final = "apps"
_OLD_REVISIONS: Final = "deployment.kubernetes.io/revision-history"
_REVISION: Final = "deployment.kubernetes.io/revision"
_OWNED: Final = ("Deployment", "StatefulSet", "DaemonSet")


class Kind(StrEnum):
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
        return "" if self in (Kind.PODS, Kind.NAMESPACES) else APPS

    def path(self, namespace: str = "") -> str:
        """Where these are listed, of one namespace or of all."""
        root = f"/apis/{self.group}/v1" if self.group else "/api/v1"
        return f"{root}/namespaces/{namespace}/{self}" if namespace else f"{root}/{self}"


@dataclass(frozen=True, slots=True)
class Sidecar:
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
    sidecar: Sidecar | None

    @property
    def over(self) -> bool:
        """Whether it has ended, or is about to."""
        return self.deleting or self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Workload:
    """What owns pods: `revision` is the number or hash it rolls out, complete since `complete` if it is."""

    kind: str
    namespace: str
    name: str
    revision: str
    done: bool
    complete: float | None


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
    created: float
    reused: bool
    service: str
    version: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace, and its label for the injector: true, false or empty."""

    name: str
    inject_label: str


Kept = Pod | Workload | Revision | Namespace


def key_of(item: Object) -> Key:
    """Namespace and name of an object."""
    meta = _map(item, "metadata")
    return _text(meta, "namespace"), _text(meta, "name")


def read(kind: Kind, item: Object) -> Kept | None:
    """What is kept of an object; None if it is of no use here."""
    if kind is Kind.PODS:
        return read_pod(item)
    if kind is Kind.NAMESPACES:
        labels = _map(item, "metadata", "labels")
        return Namespace(key_of(item)[1], _short(_text(labels, label_names.INJECT)))
    if kind in (Kind.REPLICASETS, Kind.CONTROLLERREVISIONS):
        return _revision(kind, item)
    return _workload(kind, item)


def read_pod(item: Object) -> Pod:
    """What is kept of a pod."""
    meta, spec, status = (_map(item, name) for name in ("metadata", "spec", "status"))
    labels, notes = _map(meta, "labels"), _map(meta, "annotations")
    owner = naming.owner_of(item)
    told = _text(notes, label_names.STATUS)
    ready = next((one for one in _list(status, "conditions") if _text(one, "type") == "Ready"), {})
    namespace, name = key_of(item)
    return Pod(
        namespace=_same(namespace),
        name=name,
        uid=_text(meta, "uid"),
        service=_same(naming.service_of(item)),
        version=_same(naming.version_of(item)),
        kind=_same(owner.kind if owner else "Pod"),
        workload=_same(owner.name if owner else name),
        revision=_same(_text(labels, "pod-template-hash") or _text(labels, "controller-revision-hash")),
        node=_same(_text(spec, "nodeName")),
        phase=_same(_text(status, "phase")),
        created=unix(_text(meta, "creationTimestamp")) or 0.0,
        ready=unix(_text(ready, "lastTransitionTime")) if _text(ready, "status") == "True" else None,
        deleting=bool(_text(meta, "deletionTimestamp")),
        inject_label=_short(_text(labels, label_names.INJECT)),
        skip_reason=told.partition(":")[2].strip()[:500] if told.startswith("skipped") else "",
        containers=_containers(spec),
        sampled_container=_same(naming.watched_container(item)),
        sidecar=_sidecar(spec, status, injected=told == "injected"),
    )


def _containers(spec: Object) -> tuple[str, ...]:
    names = [_text(one, "name") for one in _list(spec, "containers")]
    return tuple(_same(name) for name in names if name and not label_names.is_sidecar(name))


def _sidecar(spec: Object, status: Object, *, injected: bool) -> Sidecar | None:
    """The container that profiles, wherever it stands; of ephemeral ones the last."""
    places = (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    )
    for declared, told in places:
        names = [_text(one, "name") for one in _list(spec, declared)]
        own = [name for name in names if label_names.is_sidecar(name)]
        if not own or (declared != "ephemeralContainers" and label_names.SIDECAR not in own):
            continue
        how = "ephemeral" if declared == "ephemeralContainers" else "injected" if injected else "template"
        found = next((one for one in _list(status, told) if _text(one, "name") == own[-1]), {})
        return _state(how, found)
    return None


def _state(how: str, told: Object) -> Sidecar:
    restarts = told.get("restartCount")
    times = restarts if isinstance(restarts, int) else 0
    for state, moment in (("running", "startedAt"), ("terminated", "finishedAt"), ("waiting", "")):
        held = _map(told, "state").get(state)
        if isinstance(held, Mapping):
            reason = _text(held, "reason")
            if state == "terminated":
                reason = f"{reason or 'ended'}, exit code {held.get('exitCode', '?')}"
            return Sidecar(how, state, _same(reason), times, unix(_text(held, moment)) if moment else None)
    return Sidecar(how, "waiting", "", times)


def _workload(kind: Kind, item: Object) -> Workload:
    meta, spec, status = (_map(item, name) for name in ("metadata", "spec", "status"))
    namespace, name = key_of(item)
    seen = _whole(status, "observedGeneration") >= _whole(meta, "generation")
    if kind is Kind.DEPLOYMENTS:
        wanted = spec.get("replicas", 1)
        done = (
            seen
            and _whole(status, "updatedReplicas") == wanted == _whole(status, "replicas")
            and _whole(status, "availableReplicas") == wanted
        )
        conditions = _list(status, "conditions")
        progress = next((one for one in conditions if _text(one, "type") == "Progressing"), {})
        came = _text(progress, "reason") == "NewReplicaSetAvailable"
        at = unix(_text(progress, "lastUpdateTime")) if done and came else None
        number = _text(_map(meta, "annotations"), _REVISION)
        return Workload("Deployment", _same(namespace), name, number, done, at)
    if kind is Kind.STATEFULSETS:
        wanted = spec.get("replicas", 1)
        done = seen and _whole(status, "updatedReplicas") == wanted == _whole(status, "readyReplicas")
        return Workload(
            "StatefulSet", _same(namespace), name, _text(status, "updateRevision"), bool(done), None
        )
    wanted = _whole(status, "desiredNumberScheduled")
    done = (
        seen
        and _whole(status, "updatedNumberScheduled") == wanted == _whole(status, "numberAvailable")
        and wanted > 0
    )
    return Workload("DaemonSet", _same(namespace), name, "", done, None)


def _revision(kind: Kind, item: Object) -> Revision | None:
    """A revision of what is rolled out; None for a ReplicaSet that stands alone."""
    meta = _map(item, "metadata")
    labels, notes = _map(meta, "labels"), _map(meta, "annotations")
    owner = next((one for one in _list(meta, "ownerReferences") if one.get("controller")), {})
    if _text(owner, "kind") not in _OWNED:
        return None
    namespace, name = key_of(item)
    own = item.get("spec") if kind is Kind.REPLICASETS else _map(item, "data").get("spec")
    template = _map(own if isinstance(own, Mapping) else {}, "template")
    labelled = dict(_map(template, "metadata", "labels"))
    if kind is Kind.REPLICASETS:
        number, suffix = _text(notes, _REVISION), _text(labels, "pod-template-hash")
        labelled["pod-template-hash"] = suffix
    else:
        number = str(_whole(item, "revision"))
        # Pods of a StatefulSet carry the revision's whole name, those of a DaemonSet the hash.
        suffix = name if _text(owner, "kind") == "StatefulSet" else _text(labels, "controller-revision-hash")
        labelled["controller-revision-hash"] = suffix
    about = {**_map(template, "metadata"), "labels": labelled}
    pod = {"metadata": about, "spec": _map(template, "spec")}
    called = naming.Owner(_text(owner, "kind"), _text(owner, "name"))
    return Revision(
        called.kind,
        _same(namespace),
        name,
        _text(meta, "uid"),
        _same(called.name),
        int(number) if number.isascii() and number.isdigit() else 0,
        suffix,
        unix(_text(meta, "creationTimestamp")) or 0.0,
        bool(_text(notes, _OLD_REVISIONS)),
        _same(naming.service_of(pod, called)),
        _same(naming.version_of(pod)),
    )


def unix(text: str) -> float | None:
    """A time of the API (RFC 3339) as Unix seconds; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _same(text: str) -> str:
    return sys.intern(text)


def _short(text: str) -> str:
    return _same(text) if text in ("true", "false") else ""


def _map(item: Object, *path: str) -> Mapping[str, Any]:
    found: object = item
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _list(item: Object, name: str) -> Sequence[Object]:
    found = item.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else ()


def _text(item: Object, name: str) -> str:
    found = item.get(name)
    return found if isinstance(found, str) else ""


def _whole(item: Object, name: str) -> int:
    found = item.get(name)
    return found if isinstance(found, int) else 0


def all_kinds(namespaces: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    """What is watched, and in which namespace; empty for the whole cluster."""
    for kind in Kind:
        if not namespaces:
            yield kind, ""
        elif kind is not Kind.NAMESPACES:
            yield from ((kind, namespace) for namespace in namespaces)
