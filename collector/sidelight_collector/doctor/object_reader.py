"""What the tables of one segment or block say, read one after the other and none kept.

What is kept of them are numbers by service, the hashes of stacks while the tables that name them are read,
and 16 bytes for each window.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from sidelight_collector.arrow_ops import Array, integers, is_word, one, strings, used, words
from sidelight_collector.stack_hashing import stack_hash
from sidelight_collector.storage.checksum import is_sound
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreRefused
from sidelight_collector.storage.segments import SegmentRef, segment_name
from sidelight_collector.storage.tables import HOUR_NS, SCHEMAS, STATES, Part, completed

COUNTED: Final[tuple[Part, ...]] = ("samples", "profiles", "hours", "sums", "daily")
"""Tables that have samples by state, each row's or added up: all say the same of a block."""
STACKS_AT_ONCE: Final = 4096
_ORDER: Final[tuple[Part, ...]] = ("stacks", *COUNTED)
_NAME_STACKS: Final = ("samples", "sums", "daily")

States = tuple[int, ...]


class Damaged(Exception):
    """An object is there and is not the table that it should be; the text says why."""


@dataclass(slots=True)
class Contents:
    """What was read of one segment or block.

    `totals` are samples by state and service, `rows` the rows of each service, both by table; `windows` the
    windows of each service, and `hours` those (Unix ns) in which some began. `unknown_stacks` are how many
    hashes a table names that are not in `stacks`, and one of them.
    """

    ref: SegmentRef
    missing: list[Part] = field(default_factory=list)
    damaged: dict[Part, str] = field(default_factory=dict)
    totals: dict[Part, dict[str, States]] = field(default_factory=dict)
    rows: dict[Part, dict[str, int]] = field(default_factory=dict)
    windows: dict[Part, dict[str, int]] = field(default_factory=dict)
    hours: dict[str, set[int]] = field(default_factory=dict)
    unknown_stacks: dict[Part, tuple[int, str]] = field(default_factory=dict)
    misnamed_stacks: int = 0
    ids: array[int] = field(default_factory=lambda: array("Q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))
    name: str = ""
    span_ms: tuple[int, int] | None = None

    @property
    def services(self) -> Mapping[str, int]:
        """Windows of each service, from whichever table tells them."""
        return self.windows.get("profiles") or self.windows.get("hours") or {}


def contents(
    store: ObjectStore, ref: SegmentRef, parts: Collection[Part], there: Collection[Part]
) -> Contents:
    """Read these tables; those not `there` are not asked for. Raises StoreUnavailable."""
    found = Contents(ref)
    stacks: dict[str, Array] | None = None
    for part in (part for part in _ORDER if part in parts):
        try:
            if part not in there:
                raise ObjectMissing(ref.key(part))
            table = _opened(store, ref.key(part), part)
            if part == "stacks":
                stacks = _stacks(table, found)
            else:
                _counted(table, part, stacks, found)
        except ObjectMissing:
            found.missing.append(part)
        except StoreRefused as refused:
            found.damaged[part] = refused.message
        except Damaged as damaged:
            found.damaged[part] = str(damaged)
    return found


def _opened(store: ObjectStore, key: str, part: Part) -> pa.Table:
    try:
        return opened(store.get(key), part)
    except Damaged:
        return opened(store.get(key), part)  # it may have been damaged on its way


def opened(content: bytes, part: Part) -> pa.Table:
    """The table in these bytes, of its schema. Raises Damaged."""
    schema = SCHEMAS[part]
    if not is_sound(content):
        raise Damaged("its checksum is that of other bytes")
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        there = [name for name in schema.names if name in file.schema_arrow.names]
        groups = [file.read_row_group(at, there, use_threads=False) for at in range(file.num_row_groups)]
        table = pa.concat_tables(groups) if groups else file.read(columns=there, use_threads=False)
        table.validate(full=True)
        table = completed(table, schema.names)
        if missing := [name for name in schema.names if name not in table.column_names]:
            raise Damaged(f"it has no column {', '.join(missing)}")
        empty = [name for name in schema.names if table[name].null_count]
        if empty:
            raise Damaged(f"values are missing in column {', '.join(empty)}")
        return table if table.schema.equals(schema) else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise Damaged(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error


def _stacks(table: pa.Table, found: Contents) -> dict[str, Array]:
    """The hashes of the stacks of each service."""
    found.rows["stacks"] = {service: row[0] for service, row in _added(table, ()).items()}
    for batch in table.select(["h", "frames"]).to_batches(max_chunksize=STACKS_AT_ONCE):
        stacks = cast("list[list[str]]", batch.column("frames").to_pylist())
        named = zip(integers(batch.column("h")), stacks, strict=True)
        found.misnamed_stacks += sum(stack_hash(";".join(frames)) != h for h, frames in named)
    return dict(_by_service(table))


def _counted(table: pa.Table, part: Part, stacks: Mapping[str, Array] | None, found: Contents) -> None:
    added = _added(table, STATES)
    found.totals[part] = {service: numbers[1:] for service, numbers in added.items()}
    found.rows[part] = {service: numbers[0] for service, numbers in added.items()}
    if part == "profiles":
        _windows(table, found)
    elif part == "hours":
        told = _added(table, ("windows",))
        found.windows[part] = {service: numbers[1] for service, numbers in told.items()}
        _hours(table, table["hour"], found)
    if part in _NAME_STACKS and stacks is not None:
        unknown = [
            (service, h)
            for service, hashes in _by_service(table)
            for h in _not_in(hashes, stacks.get(service, pa.array([], pa.uint64())))
        ]
        if unknown:
            service, h = unknown[0]
            found.unknown_stacks[part] = len(unknown), f"{h:016x} of {service}"


def _windows(table: pa.Table, found: Contents) -> None:
    found.windows["profiles"] = dict(found.rows["profiles"])
    ids, digests = strings(table["wid"]), integers(table["digest"])
    found.ids.extend(map(hashed_id, ids))
    found.digests.extend(digests)
    found.name = segment_name(zip(ids, digests, strict=True))
    if ids:
        ends = cast("dict[str, int]", pc.min_max(table["ts"]).as_py())
        found.span_ms = ends["min"] // 10**6, ends["max"] // 10**6
    _hours(table, pc.multiply(pc.divide(table["ts"], pa.scalar(HOUR_NS)), pa.scalar(HOUR_NS)), found)


def hashed_id(wid: str) -> int:
    """A window id in 8 bytes."""
    return xxhash.xxh3_64_intdigest(wid.encode())


def _hours(table: pa.Table, hours: Any, found: Contents) -> None:
    pairs = pa.table({"service": words(table["service"]), "hour": one(hours)})
    pairs = pairs.group_by(["service", "hour"], use_threads=False).aggregate([])
    for service, hour in zip(strings(pairs["service"]), integers(pairs["hour"]), strict=True):
        found.hours.setdefault(service, set()).add(hour)


def _added(table: pa.Table, names: Sequence[str]) -> dict[str, States]:
    """Of each service the number of rows, and the sums of these columns."""
    columns: dict[str, Any] = {"service": words(table["service"])}
    columns |= {name: one(table[name]) for name in names}
    grouped = pa.table(columns).group_by("service", use_threads=False)
    added = grouped.aggregate([([], "count_all"), *((name, "sum") for name in names)])
    numbers = [integers(added[name]) for name in ("count_all", *(f"{name}_sum" for name in names))]
    return dict(zip(strings(added["service"]), zip(*numbers, strict=True), strict=True))


def _by_service(table: pa.Table) -> Iterator[tuple[str, Array]]:
    """The distinct hashes of each service."""
    pairs = pa.table({"service": words(table["service"]), "h": one(table["h"])})
    pairs = pairs.group_by(["service", "h"], use_threads=False).aggregate([])
    for service in used(pairs["service"]):
        yield service, one(pairs.filter(is_word(pairs["service"], service))["h"])


def _not_in(hashes: Array, known: Array) -> list[int]:
    return integers(hashes.filter(pc.invert(pc.is_in(hashes, value_set=known))))
