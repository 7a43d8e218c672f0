"""Labels of a window: reserved ones, such as `service` and `pod`, and custom ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from sidelight_model.errors import BadLabel, LimitExceeded, Reason

RESERVED_LABELS = (
    "service",
    "version",
    "namespace",
    "pod",
    "container",
    "node",
    "process",
    "thread",
    "capture",
)
"""Labels with a fixed meaning; every other name is a custom label."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class LabelLimits:
    """The maximum number of a window's labels, and their length in UTF-8 bytes."""

    max_labels: int = 32
    max_name_bytes: int = 64
    max_value_bytes: int = 256
    allow_missing_service: bool = False
    """Whether `service` may be missing, because the caller fills it in."""


class Labels(Mapping[str, str]):
    """An immutable, hashable set of labels, sorted by name.

    A label with an empty value is dropped: it means the same as an absent label, as in Prometheus.
    """

    __slots__ = ("_pairs",)
    _pairs: tuple[tuple[str, str], ...]

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._pairs = tuple(sorted((name, value) for name, value in pairs.items() if value))

    @classmethod
    def parse(cls, raw: object, limits: LabelLimits | None = None) -> Labels:
        """Parse the labels of a request.

        Raises BadLabel for a name or value that is not allowed and for a missing `service`, and
        LimitExceeded (`too_many_labels`) for more labels than allowed.
        """
        limits = limits or LabelLimits()
        if not isinstance(raw, Mapping):
            raise BadLabel("labels must be an object of names and values", hint='{"service": "shop"}')
        if len(raw) > limits.max_labels:
            raise LimitExceeded(
                f"{len(raw)} labels, more than the {limits.max_labels} allowed",
                reason=Reason.TOO_MANY_LABELS,
                hint="Drop labels, or raise the collector's --max-labels.",
            )
        for name, value in raw.items():
            _check_name(name, limits)
            _check_value(name, value, limits)
        if not raw.get("service") and not limits.allow_missing_service:
            raise BadLabel("the label `service` is missing", hint="Every window names its service.")
        return cls(cast("Mapping[str, str]", raw))

    def __getitem__(self, name: str) -> str:
        for own, value in self._pairs:
            if own == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __hash__(self) -> int:
        return hash(self._pairs)

    def __eq__(self, other: object) -> bool:
        return self._pairs == other._pairs if isinstance(other, Labels) else NotImplemented

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name}={value!r}" for name, value in self._pairs) + "}"


def _check_name(name: object, limits: LabelLimits) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadLabel(
            f"{str(name)[:80]!r} is not a label name",
            hint="A name is letters, digits and _, and does not begin with a digit.",
        )
    if len(name) > limits.max_name_bytes:
        raise BadLabel(
            f"the label name {name[:40]}… has {len(name)} bytes, more than {limits.max_name_bytes}",
            hint="Use a shorter name.",
        )


def _check_value(name: str, value: object, limits: LabelLimits) -> None:
    if not isinstance(value, str):
        raise BadLabel(f"the value of label {name} is not text", hint="Write numbers in quotes.")
    if control := _CONTROL.search(value):
        raise BadLabel(
            f"the value of label {name} holds the control character {control[0]!r}",
            hint="Values are one line of printable text.",
        )
    if (length := len(value.encode())) > limits.max_value_bytes:
        raise BadLabel(
            f"the value of label {name} has {length} bytes, more than {limits.max_value_bytes}",
            hint="Use a shorter value, or raise the collector's --max-label-bytes.",
        )
