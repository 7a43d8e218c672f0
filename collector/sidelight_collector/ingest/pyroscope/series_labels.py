"""Map the labels of Pyroscope's series and samples to labels of windows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sidelight_model.errors import LimitExceeded, Reason

PER_REQUEST_LABELS: Final = ("span_id", "trace_id", "thread_id", "pid", "profile_id", "__session_id__")
"""Labels with another value in each request or process: each value would be a series of its own."""
OTHER_LABELS: Final = "(other)"
"""Stands in the metric for any other label that is dropped."""
MAX_SENT_LABELS: Final = 256
_LABEL_NAMES: Final = {
    "service_name": "service",
    "service_version": "version",
    "k8s_namespace_name": "namespace",
    "k8s_pod_name": "pod",
    "k8s_container_name": "container",
    "k8s_node_name": "node",
}
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_]")
_MAX_WORD_CHARACTERS: Final = 64


@dataclass(frozen=True, slots=True)
class SeriesLabels:
    """The labels of a series, and what its metadata says of the sampler.

    `metric` is the label `__name__`, such as `process_cpu`. `dropped` are names of per-request labels.
    """

    labels: Mapping[str, str]
    metric: str
    sampler: str
    python: str
    dropped: frozenset[str]


@dataclass(frozen=True, slots=True)
class PyroscopeClient:
    """A client by the headers of a request; `labels` are those of all its profiles."""

    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""


def map_series_labels(pairs: Iterable[tuple[str, str]], client: str) -> SeriesLabels:
    """Map the labels of a series; `client` names the sampler if no label does.

    Raises LimitExceeded for more than MAX_SENT_LABELS.
    """
    sent = dict(pairs)
    check_label_count(len(sent))
    scope = f"{sent.get('otel.scope.name', '')} {sent.get('otel.scope.version', '')}".strip()
    is_python = sent.get("process.runtime.name", "") in ("cpython", "pypy")
    return SeriesLabels(
        map_labels((name, value) for name, value in sent.items() if name not in PER_REQUEST_LABELS),
        sent.get("__name__", ""),
        to_word(scope or sent.get("pyroscope_spy", "") or client or "pyroscope"),
        to_word(sent.get("process.runtime.version", "")) if is_python else "",
        frozenset(name for name in sent if name in PER_REQUEST_LABELS),
    )


def check_label_count(count: int) -> None:
    """Raise LimitExceeded for more than MAX_SENT_LABELS."""
    if count > MAX_SENT_LABELS:
        raise LimitExceeded(
            f"{count} labels in one series, more than {MAX_SENT_LABELS}",
            reason=Reason.TOO_MANY_LABELS,
            hint="Drop labels.",
        )


def map_labels(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Map names to those of Sidelight, without metadata such as `__name__`.

    The first of two labels with the same name stays.
    """
    labels: dict[str, str] = {}
    # Names of Pyroscope come before those of OpenTelemetry, which have dots and may mean the same.
    for name, value in sorted(pairs, key=lambda pair: ("." in pair[0], pair)):
        if name.startswith("__") or not value:
            continue
        mapped = _NOT_IN_NAMES.sub("_", name)
        if mapped[:1].isdigit():
            mapped = f"_{mapped}"
        labels.setdefault(_LABEL_NAMES.get(mapped, mapped), value)
    return labels


def name_dropped_label(name: str) -> str:
    """Return the name of a dropped label in the metric: one of a closed set."""
    return name if name in PER_REQUEST_LABELS else OTHER_LABELS


def to_word(text: str) -> str:
    """Return a text as a word of a window's quality: short and printable."""
    return "".join(filter(str.isprintable, text))[:_MAX_WORD_CHARACTERS]
