"""Paths of the Kubernetes API, built from names that are checked first.

A name that contains `/`, `..`, `%` or `?` would make a path of another object. Names follow
https://kubernetes.io/docs/concepts/overview/working-with-objects/names/: namespaces and containers are
labels (RFC 1123), most other objects are subdomains.
"""

from __future__ import annotations

import re
from typing import Final

from sidelight_kubernetes.cluster_errors import InvalidName

MAX_LABEL_CHARACTERS: Final = 63
MAX_SUBDOMAIN_CHARACTERS: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def build_path(
    resource: str, *, group: str = "", namespace: str | None = None, name: str | None = None
) -> str:
    """Build the path of a list or of an object, in API version v1.

    Without `namespace` it is that of all namespaces, or of a resource without one; without `name` that of
    the list. Raises InvalidName, also for an empty name, which would make the path that of the list.
    """
    parts = ["apis", group, "v1"] if group else ["api", "v1"]
    if namespace is not None:
        parts += ["namespaces", check_namespace(namespace)]
    parts.append(resource)
    if name is not None:
        parts.append(check_namespace(name) if resource == "namespaces" else check_object_name(name))
    return check_path("/" + "/".join(parts))


def check_namespace(name: str) -> str:
    """Return the name of a namespace.

    Raises InvalidName unless it is an RFC 1123 label.
    """
    if len(name) > MAX_LABEL_CHARACTERS or not _LABEL.fullmatch(name):
        raise _make_error(name, "namespace", f"letters a-z, digits and '-', at most {MAX_LABEL_CHARACTERS}")
    return name


def check_object_name(name: str) -> str:
    """Return the name of an object.

    Raises InvalidName unless it is an RFC 1123 subdomain.
    """
    if len(name) > MAX_SUBDOMAIN_CHARACTERS or not _SUBDOMAIN.fullmatch(name):
        allowed = f"letters a-z, digits, '-' and '.', at most {MAX_SUBDOMAIN_CHARACTERS}"
        raise _make_error(name, "object", allowed)
    return name


def check_path(path: str) -> str:
    """Return a path. Raises InvalidName for a part that is empty or not a name."""
    root, *parts = path.split("/")
    if root or not parts or not all(map(_SEGMENT.fullmatch, parts)) or any(".." in part for part in parts):
        raise InvalidName(
            f"{path[:300]!r} is not a path of the Kubernetes API", hint="A part is empty or not a name."
        )
    return path


def _make_error(name: str, kind: str, allowed: str) -> InvalidName:
    return InvalidName(
        f"{name[:300]!r} is not the name of a Kubernetes {kind}", hint=f"A name has {allowed} characters."
    )
