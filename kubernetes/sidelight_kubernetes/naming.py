"""A pod's service, version and owner, from the pod's JSON.

Every program uses these pure functions, so a pod has the same name everywhere. Users rely on the precedence
of the sources, which docs/identity.md lists as a table. A value that is not a valid label value (control
characters, more than 256 bytes) counts as missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_kubernetes import label_names

Pod = Mapping[str, Any]
"""A pod as the API returns it; any field may be missing or of a wrong type."""

MAX_BYTES: Final = 256
DIGEST_DIGITS: Final = 12
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
_DIGEST: Final = re.compile(r"(?:.*@)?sha256:([0-9a-f]{12,64})")
_FIELD_PATH: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_CRON_JOB_NAME: Final = re.compile(r"(.+)-\d{8,10}")
_TEMPLATE_HASH_LABELS: Final = (
    ("pod-template-hash", "Deployment"),
    ("rollouts-pod-template-hash", "Rollout"),
)
"""The label with the hash at the end of a ReplicaSet's name, and the kind that creates such ReplicaSets."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The workload of a pod, such as a Deployment, StatefulSet, DaemonSet or CronJob."""

    kind: str
    name: str


def service_of(pod: Pod, owner: Owner | None = None) -> str:
    """Return a pod's service, which is never empty for a pod with a container.

    `owner` replaces the owner that the pod itself shows.
    """
    labels, pod_owner = _get_strings(pod, "metadata", "labels"), owner or owner_of(pod)
    candidates = (
        _read_sidecar_setting(pod, "service"),
        _get_strings(pod, "metadata", "annotations").get(label_names.SERVICE, ""),
        labels.get(label_names.APP_NAME, ""),
        labels.get("app", ""),
        pod_owner.name if pod_owner else "",
        target_container(pod, use_annotation=False),
    )
    return next(filter(None, map(_clean_label_value, candidates)), "")


def version_of(pod: Pod) -> str:
    """Return the version of a pod's service, or an empty text if it is unknown."""
    labels, target = _get_strings(pod, "metadata", "labels"), target_container(pod)
    image = next(
        (
            _get_string(container, "image")
            for container in _iter_containers(pod)
            if _get_string(container, "name") == target
        ),
        "",
    )
    candidates = (
        _read_sidecar_setting(pod, "version"),
        _get_strings(pod, "metadata", "annotations").get(label_names.VERSION, ""),
        labels.get(label_names.APP_VERSION, ""),
        labels.get("version", ""),
        image_tag(image),
        image_digest(image) or image_digest(_running_image(pod, target)),
        labels.get("pod-template-hash", ""),
        labels.get("controller-revision-hash", ""),
    )
    return next(filter(None, map(_clean_label_value, candidates)), "")


def owner_of(pod: Pod) -> Owner | None:
    """Return the top-level owner of a pod, as far as the pod itself shows it."""
    reference = next(
        (owner for owner in _get_mappings(pod, "metadata", "ownerReferences") if owner.get("controller")), {}
    )
    kind, name = _get_string(reference, "kind"), _get_string(reference, "name")
    if not (kind and name) or kind == "Node":  # a node's own pod, started from a file there
        return None
    if kind == "ReplicaSet":
        labels = _get_strings(pod, "metadata", "labels")
        for label, maker in _TEMPLATE_HASH_LABELS:
            stem = name.removesuffix(f"-{labels.get(label, '')}")
            if labels.get(label) and stem != name and stem:
                return Owner(maker, stem)
    if kind == "Job" and (cron_name := _CRON_JOB_NAME.fullmatch(name)):
        # A CronJob's jobs are named after their scheduled minute: without this each run would be a service.
        return Owner("CronJob", cron_name[1])
    return Owner(kind, name)


def target_container(pod: Pod, *, use_annotation: bool = True) -> str:
    """Return the name of the container to sample.

    That is the container in the pod's annotation, or the first container that is not a sidecar.
    """
    names = [_get_string(container, "name") for container in _get_mappings(pod, "spec", "containers")]
    annotated = (
        _get_strings(pod, "metadata", "annotations").get(label_names.CONTAINER, "") if use_annotation else ""
    )
    if annotated in names:
        return annotated
    return next((name for name in names if name and not label_names.is_sidecar(name)), "")


def image_tag(image: str) -> str:
    """Return the tag of an image reference; empty without one and for `latest`."""
    path = image.partition("@")[0].rpartition("/")[2]
    tag = path.partition(":")[2]
    return "" if tag == "latest" else tag


def image_digest(image: str) -> str:
    """Return the first 12 digits of the digest in an image reference or id.

    Empty without a digest.
    """
    match = _DIGEST.fullmatch(image)
    return match[1][:DIGEST_DIGITS] if match else ""


def _read_sidecar_setting(pod: Pod, setting: str) -> str:
    """Read a setting of the sidecar's container, from its flag or its variable.

    Returns an empty text if the value refers to a variable that is not in the pod's JSON.
    """
    flag, variable = f"--{setting}", f"SIDELIGHT_{setting.upper()}"
    for container in _iter_containers(pod):
        if not label_names.is_sidecar(_get_string(container, "name")):
            continue
        arguments = [word for name in ("command", "args") for word in _get_string_list(container, name)]
        for at, word in enumerate(arguments):
            name, equals, value = word.partition("=")
            if name == flag and (value := value if equals else "".join(arguments[at + 1 : at + 2])):
                return "" if "$(" in value else value
        for entry in reversed(_get_mappings(container, "env")):
            if entry.get("name") == variable and (value := _resolve_variable(pod, entry)):
                return value
    return ""


def _resolve_variable(pod: Pod, variable: Mapping[str, Any]) -> str:
    value = _get_string(variable, "value")
    if "$(" in value:  # refers to another variable, which only the kubelet expands
        return ""
    source = variable.get("valueFrom")
    field = source.get("fieldRef") if isinstance(source, Mapping) else None
    path = _get_string(field, "fieldPath") if isinstance(field, Mapping) else ""
    if match := _FIELD_PATH.fullmatch(path):
        return _get_strings(pod, "metadata", match[1]).get(match[2], "")
    return value or _get_string(_get_mapping(pod, "metadata"), path.removeprefix("metadata."))


def _running_image(pod: Pod, container: str) -> str:
    statuses = _get_mappings(pod, "status", "containerStatuses")
    return next(
        (_get_string(status, "imageID") for status in statuses if _get_string(status, "name") == container),
        "",
    )


def _iter_containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """Yield all containers, ephemeral ones last."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from _get_mappings(pod, "spec", kind)


def _clean_label_value(text: str) -> str:
    text = text.strip()
    fits = len(text.encode(errors="replace")) <= MAX_BYTES and not _CONTROL.search(text)
    return text if fits else ""


def _get_mapping(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        nested = value.get(name)
        value = nested if isinstance(nested, Mapping) else {}
    return value


def _get_strings(value: Mapping[str, Any], *path: str) -> Mapping[str, str]:
    return {name: text for name, text in _get_mapping(value, *path).items() if isinstance(text, str)}


def _get_mappings(value: Mapping[str, Any], *path: str) -> Sequence[Mapping[str, Any]]:
    items = _get_mapping(value, *path[:-1]).get(path[-1])
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _get_string_list(value: Mapping[str, Any], name: str) -> list[str]:
    items = value.get(name)
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def _get_string(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
