"""A pod's service, version and owner, read from its JSON. Pure, and the same wherever a pod is named.

The order of what counts is part of what users rely on: docs/identity.md has it as a table. What a pod
says and no label may be (control characters, more than 256 bytes) counts as not said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_kubernetes import label_names

Pod = Mapping[str, Any]
"""A pod as the API gives it: nothing in it is taken for granted."""

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
"""The label with the hash that ends a ReplicaSet's name, and what makes such ReplicaSets."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What a pod belongs to: a Deployment, StatefulSet, DaemonSet, CronJob and so on."""

    kind: str
    name: str


def service_of(pod: Pod, owner: Owner | None = None) -> str:
    """The service a pod runs, never empty for a pod with a container; `owner` where it is known better."""
    labels, owned = _get_strings(pod, "metadata", "labels"), owner or owner_of(pod)
    found = (
        _read_sidecar_setting(pod, "service"),
        _get_strings(pod, "metadata", "annotations").get(label_names.SERVICE, ""),
        labels.get(label_names.APP_NAME, ""),
        labels.get("app", ""),
        owned.name if owned else "",
        target_container(pod, use_annotation=False),
    )
    return next(filter(None, map(_clean_label_value, found)), "")


def version_of(pod: Pod) -> str:
    """The version of it that a pod runs; empty when nothing tells."""
    labels, container = _get_strings(pod, "metadata", "labels"), target_container(pod)
    image = next(
        (_get_string(one, "image") for one in _iter_containers(pod) if _get_string(one, "name") == container),
        "",
    )
    found = (
        _read_sidecar_setting(pod, "version"),
        _get_strings(pod, "metadata", "annotations").get(label_names.VERSION, ""),
        labels.get(label_names.APP_VERSION, ""),
        labels.get("version", ""),
        image_tag(image),
        image_digest(image) or image_digest(_running_image(pod, container)),
        labels.get("pod-template-hash", ""),
        labels.get("controller-revision-hash", ""),
    )
    return next(filter(None, map(_clean_label_value, found)), "")


def owner_of(pod: Pod) -> Owner | None:
    """What a pod belongs to in the end, as far as the pod itself tells."""
    reference = next(
        (one for one in _get_mappings(pod, "metadata", "ownerReferences") if one.get("controller")), {}
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
    if kind == "Job" and (cron := _CRON_JOB_NAME.fullmatch(name)):
        # A CronJob names its jobs after the minute they were due; else each run would be a service.
        return Owner("CronJob", cron[1])
    return Owner(kind, name)


def target_container(pod: Pod, *, use_annotation: bool = True) -> str:
    """The container that is watched: the one the pod's annotation names, or the first that is not ours."""
    names = [_get_string(one, "name") for one in _get_mappings(pod, "spec", "containers")]
    wish = (
        _get_strings(pod, "metadata", "annotations").get(label_names.CONTAINER, "") if use_annotation else ""
    )
    if wish in names:
        return wish
    return next((name for name in names if name and not label_names.is_sidecar(name)), "")


def image_tag(image: str) -> str:
    """The tag of an image's reference; empty without one and for `latest`, which says nothing."""
    path = image.partition("@")[0].rpartition("/")[2]
    tag = path.partition(":")[2]
    return "" if tag == "latest" else tag


def image_digest(image: str) -> str:
    """The first 12 digits of the digest in an image's reference or id; empty without one."""
    found = _DIGEST.fullmatch(image)
    return found[1][:DIGEST_DIGITS] if found else ""


def _read_sidecar_setting(pod: Pod, setting: str) -> str:
    """What the sidecar's container is told, by flag or by variable, as far as the pod alone tells."""
    flag, variable = f"--{setting}", f"SIDELIGHT_{setting.upper()}"
    for container in _iter_containers(pod):
        if not label_names.is_sidecar(_get_string(container, "name")):
            continue
        given = [one for name in ("command", "args") for one in _get_string_list(container, name)]
        for at, word in enumerate(given):
            name, equals, value = word.partition("=")
            if name == flag and (value := value if equals else "".join(given[at + 1 : at + 2])):
                return "" if "$(" in value else value
        for one in reversed(_get_mappings(container, "env")):
            if one.get("name") == variable and (value := _resolve_variable(pod, one)):
                return value
    return ""


def _resolve_variable(pod: Pod, variable: Mapping[str, Any]) -> str:
    value = _get_string(variable, "value")
    if "$(" in value:  # names another variable: the kubelet fills it in
        return ""
    source = variable.get("valueFrom")
    field = source.get("fieldRef") if isinstance(source, Mapping) else None
    path = _get_string(field, "fieldPath") if isinstance(field, Mapping) else ""
    if found := _FIELD_PATH.fullmatch(path):
        return _get_strings(pod, "metadata", found[1]).get(found[2], "")
    return value or _get_string(_get_mapping(pod, "metadata"), path.removeprefix("metadata."))


def _running_image(pod: Pod, container: str) -> str:
    statuses = _get_mappings(pod, "status", "containerStatuses")
    return next(
        (_get_string(one, "imageID") for one in statuses if _get_string(one, "name") == container), ""
    )


def _iter_containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    """All of them, those that were attached last."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from _get_mappings(pod, "spec", kind)


def _clean_label_value(text: str) -> str:
    text = text.strip()
    fits = len(text.encode(errors="replace")) <= MAX_BYTES and not _CONTROL.search(text)
    return text if fits else ""


def _get_mapping(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        found = value.get(name)
        value = found if isinstance(found, Mapping) else {}
    return value


def _get_strings(value: Mapping[str, Any], *path: str) -> Mapping[str, str]:
    return {name: text for name, text in _get_mapping(value, *path).items() if isinstance(text, str)}


def _get_mappings(value: Mapping[str, Any], *path: str) -> Sequence[Mapping[str, Any]]:
    found = _get_mapping(value, *path[:-1]).get(path[-1])
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _get_string_list(value: Mapping[str, Any], name: str) -> list[str]:
    found = value.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _get_string(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
