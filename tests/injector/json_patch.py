"""JSON patches, applied and drawn."""

import copy
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def patched(document: Json, patch: Iterable[Json]) -> Json:
    """The document with a patch of `add` operations applied, as RFC 6902 has it."""
    made = copy.deepcopy(document)
    for change in patch:
        assert change["op"] == "add"
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]]
        place: Any = made
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place[part]
        value = copy.deepcopy(change["value"])
        if isinstance(place, list):
            place.append(value) if last == "-" else place.insert(int(last), value)
        else:
            place[last] = value
    return made


def keeps(after: Any, before: Any) -> bool:
    """Whether all of `before` is still there: every member, and lists with their items first and in order."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            name in after and keeps(after[name], value) for name, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(after, list) and len(after) >= len(before) and all(map(keeps, after, before))
    return after == before
