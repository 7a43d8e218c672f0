"""Map Pyroscope's selectors and label names to those of windows.

A window has the time of all profile types. The labels that name a type, such as `__profile_type__`, are
therefore no labels of windows: matchers on them choose among the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.select.matchers import is_full_match, make_pattern_check
from sidelight_model.counts import ProfileType
from sidelight_model.errors import BadSelector
from sidelight_model.selectors import (
    MAX_SELECTOR_CHARACTERS,
    Matcher,
    Op,
    Selector,
    parse_selector,
)

PROFILE_TYPE_LABEL: Final = "__profile_type__"
SERVICE_LABEL: Final = "service_name"
_PART_LABELS: Final = ("__name__", "__type__", "__unit__", "__period_type__", "__period_unit__")
TYPE_LABELS: Final = (PROFILE_TYPE_LABEL, *_PART_LABELS)

_TYPE_ORDER: Final = (ProfileType.CPU, *(kind for kind in ProfileType if kind is not ProfileType.CPU))
_TYPE_NAMES: Final = {ProfileType.CPU: "process_cpu"}
TYPE_IDS: Final[Mapping[ProfileType, str]] = {
    kind: f"{_TYPE_NAMES.get(kind, kind)}:{kind}:nanoseconds:{kind}:nanoseconds" for kind in _TYPE_ORDER
}
"""The id of each profile type: `name:type:unit:period type:period unit`."""
_KINDS_BY_ID: Final = {
    **{type_id: kind for kind, type_id in TYPE_IDS.items()},
    # Pyroscope's clients name wall time so, and dashboards that were made for them ask for it.
    "wall:wall:nanoseconds:cpu:nanoseconds": ProfileType.WALL,
}
NO_WINDOWS: Final = Selector((Matcher("service", Op.EQUAL, ""),))
"""Selects nothing, because each window has a service."""


@dataclass(frozen=True, slots=True)
class MappedSelector:
    """A selector of windows, and the profile types that its text selects."""

    selector: Selector
    kinds: tuple[ProfileType, ...]

    def for_kind(self, kind: ProfileType) -> Selector:
        """The selector of windows for one type; of another type it selects none."""
        return self.selector if kind in self.kinds else NO_WINDOWS


def parse_profile_type_id(text: str, name: str = "profileTypeID") -> ProfileType:
    """Parse the id of a profile type. Raises BadParameter with the field `name`."""
    if text not in _KINDS_BY_ID:
        raise BadParameter.invalid_value(name, text, f"one of {', '.join(TYPE_IDS.values())}")
    return _KINDS_BY_ID[text]


def map_selectors(texts: Iterable[str]) -> MappedSelector:
    """Parse selectors that must all hold; together they may be as long as one.

    Raises BadSelector.
    """
    check, rest = make_pattern_check(), MAX_SELECTOR_CHARACTERS
    matchers: list[Matcher] = []
    for text in texts:
        matchers += parse_selector(text, check).matchers
        rest -= len(text)
        if rest < 0:
            raise BadSelector(MAX_SELECTOR_CHARACTERS, "the selectors are too long together")
    of_types = [matcher for matcher in matchers if matcher.name in TYPE_LABELS]
    kinds = tuple(
        kind
        for kind in TYPE_IDS
        if all(one.accepts(list_type_labels(kind)[one.name], is_full_match) for one in of_types)
    )
    of_windows = tuple(
        replace(matcher, name=to_window_label(matcher.name))
        for matcher in matchers
        if matcher.name not in TYPE_LABELS
    )
    return MappedSelector(Selector(of_windows), kinds)


def list_type_labels(kind: ProfileType) -> dict[str, str]:
    """Return the labels that name a profile type."""
    type_id = TYPE_IDS[kind]
    return {PROFILE_TYPE_LABEL: type_id, **dict(zip(_PART_LABELS, type_id.split(":"), strict=True))}


def to_window_label(name: str) -> str:
    """Return the name that a label has on windows."""
    return "service" if name == SERVICE_LABEL else name


def to_pyroscope_label(name: str) -> str:
    """Return the name that a window's label has for Pyroscope's clients."""
    return SERVICE_LABEL if name == "service" else name


def list_profile_types() -> Sequence[Mapping[str, str]]:
    """List the profile types as messages."""
    names = ("name", "sample_type", "sample_unit", "period_type", "period_unit")
    return [
        {"ID": type_id, **dict(zip(names, type_id.split(":"), strict=True))} for type_id in TYPE_IDS.values()
    ]
