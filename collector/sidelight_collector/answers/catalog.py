"""What there is: services, their versions, labels and values; read off windows, without their stacks."""

from operator import itemgetter
from typing import Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.usage import Seen, seen
from sidelight_collector.arrow_ops import integers, one, strings, used
from sidelight_collector.query.data_basis import Basis, basis
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.matchers import label
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.labels import KNOWN


class Version(TypedDict):
    """When a version was seen: Unix seconds of its first window's start and its last window's end."""

    version: str
    first_seen: float
    last_seen: float


class WasSeen(TypedDict):
    """How much was seen of something; `cpu_cores` is CPU seconds per pod-second, None if not known."""

    first_seen: float
    last_seen: float
    windows: int
    samples: int
    pods: int
    cpu_cores: float | None


class VersionSeen(WasSeen):
    version: str


class ServiceSeen(WasSeen):
    service: str
    versions: list[VersionSeen]


# `from` is a word of the language, so this one is written as a call.
Services = TypedDict(
    "Services", {"services": list[ServiceSeen], "from": float, "until": float, "basis": Basis}
)


class LabelNames(TypedDict):
    labels: list[str]
    basis: Basis


class LabelValues(TypedDict):
    values: list[str]
    basis: Basis


def services(reading: Reading, question: Question) -> Services:
    """Every service with windows in the range, and its versions in the order in which they appeared."""
    chosen = choose(reading, question, stacks=False)
    versions: dict[str, list[VersionSeen]] = {}
    by_version = seen(chosen, ProfileType.CPU, "service", "version")
    for of in sorted(by_version, key=lambda of: (of.first_ns, of.key)):
        service, version = of.key
        versions.setdefault(service, []).append({"version": version, **_told(of)})
    return {
        "services": [
            {"service": of.key[0], **_told(of), "versions": versions[of.key[0]]}
            for of in seen(chosen, ProfileType.CPU, "service")
        ],
        "from": question.from_ns / SECOND_NS,
        "until": question.until_ns / SECOND_NS,
        "basis": basis([chosen], ProfileType.WALL, reading.unreadable),
    }


def label_names(reading: Reading, question: Question) -> LabelNames:
    """Labels that at least one window of the question has."""
    chosen = choose(reading, question, stacks=False)
    known = [name for name in KNOWN if any(used(chosen.table[name]))]
    return {
        "labels": sorted({*known, *_free(chosen.table)}),
        "basis": basis([chosen], ProfileType.WALL, reading.unreadable),
    }


def label_values(reading: Reading, question: Question, name: str) -> LabelValues:
    """The values that a label has on the windows of the question."""
    chosen = choose(reading, question, stacks=False)
    return {
        "values": [value for value in used(label(chosen.table, name)) if value],
        "basis": basis([chosen], ProfileType.WALL, reading.unreadable),
    }


def versions(table: pa.Table) -> list[Version]:
    """When each version was seen, in the order in which they appeared."""
    added = table.group_by("version", use_threads=False).aggregate([("ts", "min"), ("end_ns", "max")])
    columns = integers(added["ts_min"]), integers(added["end_ns_max"])
    found = zip(strings(added["version"]), *columns, strict=True)
    return [
        {"version": version, "first_seen": first / SECOND_NS, "last_seen": last / SECOND_NS}
        for version, first, last in sorted(found, key=itemgetter(1, 0))
    ]


def _told(of: Seen) -> WasSeen:
    return {
        "first_seen": of.first_ns / SECOND_NS,
        "last_seen": of.last_ns / SECOND_NS,
        "windows": of.windows,
        "samples": of.sampled,
        "pods": len(of.pods),
        "cpu_cores": of.rate,
    }


def _free(table: pa.Table) -> list[str]:
    pairs = cast("pa.MapArray[Any, Any]", one(table["labels"]))
    return strings(pc.unique(pairs.keys))
