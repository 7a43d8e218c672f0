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
_COUNTED: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    **{f"{kind}.{one}": (kind, one) for kind in ("requests", "limits") for one in ("cpu", "memory")},
}
"""What quotas call the parts of a container's resources."""


def quantity(text: object) -> Decimal | None:
    """A Kubernetes quantity (`20m`, `256Mi`, `1e3`, 2) as a number; None for what is none."""
    found = _QUANTITY.fullmatch(str(text))
    try:
        if found is None:
            return None
        return Decimal(found[1]) * Decimal(10) ** int(found[2] or 0) * _SUFFIXES.get(found[3] or "", 1)
    except ArithmeticError:
        return None


def refusal(container: Json, ranges: Sequence[Json], quotas: Sequence[Json]) -> str:
    """What in the namespace refuses the container, and why; empty when nothing does."""
    items = [
        item for one in ranges for item in one["spec"].get("limits") or () if item["type"] == "Container"
    ]
    asked = _filled(container.get("resources") or {}, items)
    names = {id(item): one["metadata"]["name"] for one in ranges for item in one["spec"].get("limits") or ()}
    for item in items:
        if problem := _outside(asked, item):
            return f"the LimitRange {names[id(item)]!r} refuses {problem}"
    for quota in quotas:
        for counted in _counted(quota):
            kind, name = _COUNTED[counted]
            if name not in asked[kind]:
                return (
                    f"the ResourceQuota {quota['metadata']['name']!r} refuses a container without {counted}"
                )
    return ""


def _filled(resources: Json, items: Sequence[Json]) -> dict[str, dict[str, Decimal]]:
    """Requests and limits as the API server fills them in: by defaults, and requests by limits."""
    asked = {kind: _numbers(resources.get(kind)) for kind in ("requests", "limits")}
    for item in items:
        # Without `default` the API server has put `max` there, and `default` into `defaultRequest`.
        asked["limits"] = _numbers(item.get("default")) | asked["limits"]
        asked["requests"] = _numbers(item.get("defaultRequest")) | asked["requests"]
    asked["requests"] = asked["limits"] | asked["requests"]
    return asked


def _outside(asked: Mapping[str, Mapping[str, Decimal]], item: Json) -> str:
    requests, limits = asked["requests"], asked["limits"]
    for name, least in _numbers(item.get("min")).items():
        if requests.get(name, least - 1) < least:
            return f"less than {item['min'][name]} of {name} in a container's requests"
        if limits.get(name, least) < least:
            return f"less than {item['min'][name]} of {name} in its limits"
    for name, most in _numbers(item.get("max")).items():
        if limits.get(name, most + 1) > most or requests.get(name, most) > most:
            return f"more than {item['max'][name]} of {name}"
    for name, most in _numbers(item.get("maxLimitRequestRatio")).items():
        request, limit = requests.get(name), limits.get(name)
        if not request or limit is None or limit / request > most:
            return f"a limit of more than {item['maxLimitRequestRatio'][name]} times the request of {name}"
    return ""


def _counted(quota: Json) -> Iterable[str]:
    """What every container must say for the quota to be counted."""
    if "BestEffort" in (quota["spec"].get("scopes") or ()):
        return ()
    return sorted(name for name in quota["spec"].get("hard") or () if name in _COUNTED)


def _numbers(given: Json | None) -> dict[str, Decimal]:
    read = {name: quantity(text) for name, text in (given or {}).items()}
    return {name: number for name, number in read.items() if number is not None}
