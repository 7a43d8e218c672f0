"""Parsers of settings; each raises ValueError with the invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

DAY_SECONDS: Final = 86_400.0


def parse_path_prefix(text: str) -> str:
    """Parse a URL path prefix: empty, or with a leading and no trailing slash."""
    prefix = text.rstrip("/")
    if prefix and not (prefix.startswith("/") and all(part.isascii() for part in prefix)):
        raise ValueError(f"{text!r} is not a path such as /profiles")
    if any(part in ("", ".", "..") for part in prefix.split("/")[1:]) or set(prefix) & set("{}?#% "):
        raise ValueError(f"{text!r} is not a plain path such as /profiles")
    return prefix


def parse_log_level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError(f"{text!r} is not debug, info, warning or error")
    return text


def parse_namespace(text: str) -> str:
    """Parse the name of a namespace (an RFC 1123 label)."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", text):
        raise ValueError(f"{text!r} is not the name of a namespace")
    return text


def parse_service_account(text: str) -> str:
    """Parse a service account: NAMESPACE/NAME."""
    namespace, slash, name = text.partition("/")
    if not slash or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME of a service account")
    return f"{parse_namespace(namespace)}/{name}"


def parse_namespace_or_all(text: str) -> str:
    """Parse the name of a namespace, or * for all namespaces."""
    return text if text == "*" else parse_namespace(text)


class RetentionDays(NamedTuple):
    """How many days to store individual windows, then hours, then days."""

    window: int
    hour: int
    day: int


def parse_service_days(text: str) -> tuple[str, RetentionDays]:
    """Parse a service with its retention times: `shop=30/90/400`."""
    service, separator, days = text.rpartition("=")
    parts = days.split("/")
    if not (
        service and separator and len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts)
    ):
        raise ValueError(f"{text!r} is not like shop=30/90/400: days of windows, hours and days")
    return service, RetentionDays(*map(int, parts))


def parse_role(text: str) -> str:
    """Parse the role of a collector."""
    if text not in ("all", "serve", "compactor"):
        raise ValueError(f"{text!r} is not all, serve or compactor")
    return text


def check_bounds(settings: object, positive: Iterable[str], maximums: Mapping[str, float]) -> None:
    """Check that settings are at least 1, or at most their maximum.

    Raises ValueError with the name of the first that is not.
    """
    for name in positive:
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1")
    for name, maximum in maximums.items():
        if getattr(settings, name) > maximum:
            raise ValueError(f"{name} must be at most {maximum:g}")
