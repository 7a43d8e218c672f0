"""Whether a namespace's LimitRanges and ResourceQuotas would refuse a container. Pure.

Both judge a pod after it was changed, and refuse all of it. What a container asks for must lie within each
LimitRange, after its defaults have been filled in; and where a quota counts a resource, every container has
to say how much of it it wants. Whether a quota is used up is another matter, and changes by the second.
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
    **{f"{kind}.{one}": (kind, one) for kind in ("requests", "limits") for one in ("cpu", "memory")},
}
"""What quotas call the parts of a container's resources."""


def parse_quantity(text: object) -> Decimal | None:
    """A Kubernetes quantity (`20m`, `256Mi`, `1e3`, 2) as a number; None for what is none."""
    found = _QUANTITY.fullmatch(str(text))
    try:
        if found is None:
            return None
        return Decimal(found[1]) * Decimal(10) ** int(found[2] or 0) * _SUFFIXES.get(found[3] or "", 1)
    except ArithmeticError:
        return None


def find_violation(container: Json, limit_ranges: Sequence[Json], quotas: Sequence[Json]) -> str:
    """What in the namespace refuses the container, and why; empty when nothing does."""
    items = [
        item
        for one in limit_ranges
        for item in one["spec"].get("limits") or ()
        if item["type"] == "Container"
    ]
    asked = _apply_defaults(container.get("resources") or {}, items)
    names = {
        id(item): one["metadata"]["name"] for one in limit_ranges for item in one["spec"].get("limits") or ()
    }
    for item in items:
        if problem := _find_range_violation(asked, item):
            return f"the LimitRange {names[id(item)]!r} refuses {problem}"
    for quota in quotas:
        for counted in _list_required_resources(quota):
            kind, name = _QUOTA_RESOURCES[counted]
            if name not in asked[kind]:
                return (
                    f"the ResourceQuota {quota['metadata']['name']!r} refuses a container without {counted}"
                )
    return ""


def _apply_defaults(resources: Json, items: Sequence[Json]) -> dict[str, dict[str, Decimal]]:
    """Requests and limits as the API server fills them in: by defaults, and requests by limits."""
    asked = {kind: _parse_quantities(resources.get(kind)) for kind in ("requests", "limits")}
    for item in items:
        # Without `default` the API server has put `max` there, and `default` into `defaultRequest`.
        asked["limits"] = _parse_quantities(item.get("default")) | asked["limits"]
        asked["requests"] = _parse_quantities(item.get("defaultRequest")) | asked["requests"]
    asked["requests"] = asked["limits"] | asked["requests"]
    return asked


def _find_range_violation(resources: Mapping[str, Mapping[str, Decimal]], item: Json) -> str:
    requests, limits = resources["requests"], resources["limits"]
    for name, least in _parse_quantities(item.get("min")).items():
        if requests.get(name, least - 1) < least:
            return f"less than {item['min'][name]} of {name} in a container's requests"
        if limits.get(name, least) < least:
            return f"less than {item['min'][name]} of {name} in its limits"
    for name, most in _parse_quantities(item.get("max")).items():
        if limits.get(name, most + 1) > most or requests.get(name, most) > most:
            return f"more than {item['max'][name]} of {name}"
    for name, most in _parse_quantities(item.get("maxLimitRequestRatio")).items():
        request, limit = requests.get(name), limits.get(name)
        if not request or limit is None or limit / request > most:
            return f"a limit of more than {item['maxLimitRequestRatio'][name]} times the request of {name}"
    return ""


def _list_required_resources(quota: Json) -> Iterable[str]:
    """What every container must say for the quota to be counted."""
    if "BestEffort" in (quota["spec"].get("scopes") or ()):
        return ()
    return sorted(name for name in quota["spec"].get("hard") or () if name in _QUOTA_RESOURCES)


def _parse_quantities(quantities: Json | None) -> dict[str, Decimal]:
    read = {name: parse_quantity(text) for name, text in (quantities or {}).items()}
    return {name: number for name, number in read.items() if number is not None}
