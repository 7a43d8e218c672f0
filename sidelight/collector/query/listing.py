"""What there is: services, their versions, labels and values; read off windows, without their stacks."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import integers, one, ordered, strings, total, used
from sidelight.collector.query.basis import Basis, basis, pods, time_ns
from sidelight.collector.query.frames import STATES_OF
from sidelight.collector.query.matching import label
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.watched import pod_seconds, processes
from sidelight.collector.query.windows import Question, choose
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.labels import KNOWN


class Version(TypedDict):
    """When a version was seen: Unix seconds of its first window's start and its last window's end."""

    version: str
    first_seen: float
    last_seen: float


class Seen(TypedDict):
    """How much was seen of something; `cpu_cores` is CPU seconds per pod-second, None if not known."""

    first_seen: float
    last_seen: float
    windows: int
    samples: int
    pods: int
    cpu_cores: float | None


class VersionSeen(Seen):
    version: str


class ServiceSeen(Seen):
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
    watched = dict(split(processes(chosen.watched), "service"))
    return {
        "services": [
            {"service": name, **_seen(table, watched[name]), "versions": _versions_seen(table, watched[name])}
            for name, table in split(chosen.table, "service")
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


def split(table: pa.Table, name: str) -> list[tuple[str, pa.Table]]:
    """The rows of each value of a column, in the order of the values."""
    rows = ordered(table, [name])
    parts: list[tuple[str, pa.Table]] = []
    start = 0
    for value, members in groupby(strings(rows[name])):
        length = sum(1 for _ in members)
        parts.append((value, rows.slice(start, length)))
        start += length
    return parts


def _versions_seen(table: pa.Table, processes: pa.Table) -> list[VersionSeen]:
    watched = dict(split(processes, "version"))
    found: Sequence[VersionSeen] = [
        {"version": version, **_seen(rows, watched[version])} for version, rows in split(table, "version")
    ]
    return sorted(found, key=itemgetter("first_seen", "version"))


def _seen(table: pa.Table, processes: pa.Table) -> Seen:
    watched = pod_seconds(processes)
    cpu = sum(time_ns(table, state) for state in STATES_OF[ProfileType.CPU]) / SECOND_NS
    return {
        "first_seen": pc.min(table["ts"]).as_py() / SECOND_NS,
        "last_seen": pc.max(table["end_ns"]).as_py() / SECOND_NS,
        "windows": total(table["windows"]),
        "samples": sum(total(table[state]) for state in STATES_OF[ProfileType.WALL]),
        "pods": pods(processes),
        "cpu_cores": cpu / watched if watched else None,
    }


def _free(table: pa.Table) -> list[str]:
    pairs = cast("pa.MapArray[Any, Any]", one(table["labels"]))
    return strings(pc.unique(pairs.keys))
