"""Check a container against a namespace's LimitRanges and ResourceQuotas.

This module is pure. The API server checks both after the pod was changed, and refuses the whole pod. After
defaults have been filled in, a container's requests and limits must lie within each LimitRange. If a quota
counts a resource, every container has to declare it. Whether a quota is used up is not checked: that
changes every second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

Json = Mapping[str, Any]

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_SUFFIXES: Final = {
    **{letter: Decimal(1000) ** power for power, letter in enumerate("num kMGTPE", -3) if letter != " "},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}
_QUOTA_RESOURCES: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    **{
        f"{kind}.{resource}": (kind, resource)
        for kind in ("requests", "limits")
        for resource in ("cpu", "memory")
    },
}
"""Names in a quota, and the entry of a container's resources that each of them counts."""


def parse_quantity(text: object) -> Decimal | None:
    """Parse a Kubernetes quantity (`20m`, `256Mi`, `1e3`, 2); None if it is invalid."""
    match = _QUANTITY.fullmatch(str(text))
    try:
        if match is None:
            return None
        return Decimal(match[1]) * Decimal(10) ** int(match[2] or 0) * _SUFFIXES.get(match[3] or "", 1)
    except ArithmeticError:
        return None


def find_violation(container: Json, limit_ranges: Sequence[Json], quotas: Sequence[Json]) -> str:
    """Return which object of the namespace refuses the container and why, or ""."""
    items = [
        item
        for limit_range in limit_ranges
        for item in limit_range["spec"].get("limits") or ()
        if item["type"] == "Container"
    ]
    resources = _apply_defaults(container.get("resources") or {}, items)
    names = {
        id(item): limit_range["metadata"]["name"]
        for limit_range in limit_ranges
        for item in limit_range["spec"].get("limits") or ()
    }
    for item in items:
        if problem := _find_range_violation(resources, item):
            return f"the LimitRange {names[id(item)]!r} refuses {problem}"
    for quota in quotas:
        for counted in _list_required_resources(quota):
            kind, name = _QUOTA_RESOURCES[counted]
            if name not in resources[kind]:
                return (
                    f"the ResourceQuota {quota['metadata']['name']!r} refuses a container without {counted}"
                )
    return ""


def _apply_defaults(resources: Json, items: Sequence[Json]) -> dict[str, dict[str, Decimal]]:
    """Fill in requests and limits as the API server does.

    Defaults of the LimitRanges come first; a request that is still missing takes the value of its limit.
    """
    effective = {kind: _parse_quantities(resources.get(kind)) for kind in ("requests", "limits")}
    for item in items:
        # The API server stores `max` as a missing `default`, and `default` as a missing `defaultRequest`.
        effective["limits"] = _parse_quantities(item.get("default")) | effective["limits"]
        effective["requests"] = _parse_quantities(item.get("defaultRequest")) | effective["requests"]
    effective["requests"] = effective["limits"] | effective["requests"]
    return effective


def _find_range_violation(resources: Mapping[str, Mapping[str, Decimal]], item: Json) -> str:
    requests, limits = resources["requests"], resources["limits"]
    for name, least in _parse_quantities(item.get("min")).items():
        if requests.get(name, least - 1) < least:
            return f"less than {item['min'][name]} of {name} in a container's requests"
        if limits.get(name, least) < least:
            return f"less than {item['min'][name]} of {name} in its limits"
    for name, maximum in _parse_quantities(item.get("max")).items():
        if limits.get(name, maximum + 1) > maximum or requests.get(name, maximum) > maximum:
            return f"more than {item['max'][name]} of {name}"
    for name, maximum in _parse_quantities(item.get("maxLimitRequestRatio")).items():
        request, limit = requests.get(name), limits.get(name)
        if not request or limit is None or limit / request > maximum:
            return f"a limit of more than {item['maxLimitRequestRatio'][name]} times the request of {name}"
    return ""


def _list_required_resources(quota: Json) -> Iterable[str]:
    """Return the resources that the quota requires every container to declare."""
    if "BestEffort" in (quota["spec"].get("scopes") or ()):
        return ()
    return sorted(name for name in quota["spec"].get("hard") or () if name in _QUOTA_RESOURCES)


def _parse_quantities(quantities: Json | None) -> dict[str, Decimal]:
    parsed = {name: parse_quantity(text) for name, text in (quantities or {}).items()}
    return {name: number for name, number in parsed.items() if number is not None}
