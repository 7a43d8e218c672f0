"""Reads the tables of one segment or block and summarizes them.

Tables are read one after the other and then released. The summary has numbers by service and 16 bytes for
each window. The hashes of stacks are only held while the tables that refer to them are read.
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

from sidelight_collector.arrow_ops import (
    Array,
    combine_chunks,
    dictionary_encode,
    is_equal_string,
    list_unique_strings,
    to_ints,
    to_strings,
)
from sidelight_collector.stack_hashing import hash_stack
from sidelight_collector.storage.checksum import is_intact
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreRefused
from sidelight_collector.storage.segments import SegmentRef, compute_segment_name
from sidelight_collector.storage.tables import HOUR_NS, SCHEMAS, SegmentPart, add_missing_columns
from sidelight_model.counts import STATES

COUNTED_PARTS: Final[tuple[SegmentPart, ...]] = ("samples", "profiles", "hours", "sums", "daily")
"""Tables with samples by state; their totals by service must agree."""
STACK_BATCH_SIZE: Final = 4096
_READ_ORDER: Final[tuple[SegmentPart, ...]] = ("stacks", *COUNTED_PARTS)
_PARTS_NAMING_STACKS: Final = ("samples", "sums", "daily")

CountsByState = tuple[int, ...]


class TableDamaged(Exception):
    """An object exists but is not the expected table; the message has the reason."""


@dataclass(slots=True)
class TableContents:
    """The summary of the tables of one segment or block.

    `totals` has the samples by state of each service, and `rows` the rows of each service, both by table.
    `windows` has the windows of each service, by table, and `hours` the hours (start in Unix ns) in which
    some of them began. `unknown_stacks` has, by table, the number of hashes that are not in `stacks`, and
    an example.
    """

    ref: SegmentRef
    missing: list[SegmentPart] = field(default_factory=list)
    damaged: dict[SegmentPart, str] = field(default_factory=dict)
    totals: dict[SegmentPart, dict[str, CountsByState]] = field(default_factory=dict)
    rows: dict[SegmentPart, dict[str, int]] = field(default_factory=dict)
    windows: dict[SegmentPart, dict[str, int]] = field(default_factory=dict)
    hours: dict[str, set[int]] = field(default_factory=dict)
    unknown_stacks: dict[SegmentPart, tuple[int, str]] = field(default_factory=dict)
    mismatched_stacks: int = 0
    id_hashes: array[int] = field(default_factory=lambda: array("Q"))
    digests: array[int] = field(default_factory=lambda: array("Q"))
    computed_name: str = ""
    start_range_ms: tuple[int, int] | None = None

    @property
    def windows_by_service(self) -> Mapping[str, int]:
        """The number of windows of each service, from `profiles` or else `hours`."""
        return self.windows.get("profiles") or self.windows.get("hours") or {}


def read_contents(
    store: ObjectStore, ref: SegmentRef, parts: Collection[SegmentPart], stored_parts: Collection[SegmentPart]
) -> TableContents:
    """Read and summarize these tables. Raises StoreUnavailable.

    Tables that are not in `stored_parts` count as missing without a request.
    """
    result = TableContents(ref)
    stacks: dict[str, Array] | None = None
    for part in (part for part in _READ_ORDER if part in parts):
        try:
            if part not in stored_parts:
                raise ObjectMissing(ref.key(part))
            table = _read_table(store, ref.key(part), part)
            if part == "stacks":
                stacks = _read_stacks(table, result)
            else:
                _read_counts(table, part, stacks, result)
        except ObjectMissing:
            result.missing.append(part)
        except StoreRefused as refused:
            result.damaged[part] = refused.message
        except TableDamaged as damaged:
            result.damaged[part] = str(damaged)
    return result


def _read_table(store: ObjectStore, key: str, part: SegmentPart) -> pa.Table:
    try:
        return parse_table(store.get(key), part)
    except TableDamaged:
        return parse_table(store.get(key), part)  # the damage may have happened in transit


def parse_table(content: bytes, part: SegmentPart) -> pa.Table:
    """Parse a table and cast it to its schema. Raises TableDamaged."""
    schema = SCHEMAS[part]
    if not is_intact(content):
        raise TableDamaged("its checksum is that of other bytes")
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        columns = [name for name in schema.names if name in file.schema_arrow.names]
        groups = [file.read_row_group(at, columns, use_threads=False) for at in range(file.num_row_groups)]
        table = pa.concat_tables(groups) if groups else file.read(columns=columns, use_threads=False)
        table.validate(full=True)
        table = add_missing_columns(table, schema.names)
        if missing := [name for name in schema.names if name not in table.column_names]:
            raise TableDamaged(f"it has no column {', '.join(missing)}")
        empty = [name for name in schema.names if table[name].null_count]
        if empty:
            raise TableDamaged(f"values are missing in column {', '.join(empty)}")
        return table if table.schema.equals(schema) else table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        raise TableDamaged(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error


def _read_stacks(table: pa.Table, result: TableContents) -> dict[str, Array]:
    """Check the hashes of stacks, and return the hashes of each service."""
    result.rows["stacks"] = {service: row[0] for service, row in _sum_by_service(table, ()).items()}
    for batch in table.select(["h", "frames"]).to_batches(max_chunksize=STACK_BATCH_SIZE):
        stacks = cast("list[list[str]]", batch.column("frames").to_pylist())
        hashed = zip(to_ints(batch.column("h")), stacks, strict=True)
        result.mismatched_stacks += sum(hash_stack(";".join(frames)) != h for h, frames in hashed)
    return dict(_iter_stack_hashes(table))


def _read_counts(
    table: pa.Table, part: SegmentPart, stacks: Mapping[str, Array] | None, result: TableContents
) -> None:
    sums = _sum_by_service(table, STATES)
    result.totals[part] = {service: numbers[1:] for service, numbers in sums.items()}
    result.rows[part] = {service: numbers[0] for service, numbers in sums.items()}
    if part == "profiles":
        _read_windows(table, result)
    elif part == "hours":
        window_sums = _sum_by_service(table, ("windows",))
        result.windows[part] = {service: numbers[1] for service, numbers in window_sums.items()}
        _add_hours(table, table["hour"], result)
    if part in _PARTS_NAMING_STACKS and stacks is not None:
        unknown = [
            (service, h)
            for service, hashes in _iter_stack_hashes(table)
            for h in _find_unknown(hashes, stacks.get(service, pa.array([], pa.uint64())))
        ]
        if unknown:
            service, h = unknown[0]
            result.unknown_stacks[part] = len(unknown), f"{h:016x} of {service}"


def _read_windows(table: pa.Table, result: TableContents) -> None:
    result.windows["profiles"] = dict(result.rows["profiles"])
    ids, digests = to_strings(table["wid"]), to_ints(table["digest"])
    result.id_hashes.extend(map(hash_window_id, ids))
    result.digests.extend(digests)
    result.computed_name = compute_segment_name(zip(ids, digests, strict=True))
    if ids:
        bounds = cast("dict[str, int]", pc.min_max(table["ts"]).as_py())
        result.start_range_ms = bounds["min"] // 10**6, bounds["max"] // 10**6
    _add_hours(table, pc.multiply(pc.divide(table["ts"], pa.scalar(HOUR_NS)), pa.scalar(HOUR_NS)), result)


def hash_window_id(wid: str) -> int:
    """Hash a window id to 8 bytes."""
    return xxhash.xxh3_64_intdigest(wid.encode())


def _add_hours(table: pa.Table, hours: Any, result: TableContents) -> None:
    pairs = pa.table({"service": dictionary_encode(table["service"]), "hour": combine_chunks(hours)})
    pairs = pairs.group_by(["service", "hour"], use_threads=False).aggregate([])
    for service, hour in zip(to_strings(pairs["service"]), to_ints(pairs["hour"]), strict=True):
        result.hours.setdefault(service, set()).add(hour)


def _sum_by_service(table: pa.Table, names: Sequence[str]) -> dict[str, CountsByState]:
    """Return for each service the number of rows, then the sums of these columns."""
    columns: dict[str, Any] = {"service": dictionary_encode(table["service"])}
    columns |= {name: combine_chunks(table[name]) for name in names}
    grouped = pa.table(columns).group_by("service", use_threads=False)
    aggregated = grouped.aggregate([([], "count_all"), *((name, "sum") for name in names)])
    numbers = [to_ints(aggregated[name]) for name in ("count_all", *(f"{name}_sum" for name in names))]
    return dict(zip(to_strings(aggregated["service"]), zip(*numbers, strict=True), strict=True))


def _iter_stack_hashes(table: pa.Table) -> Iterator[tuple[str, Array]]:
    """Iterate over services with their distinct stack hashes."""
    pairs = pa.table({"service": dictionary_encode(table["service"]), "h": combine_chunks(table["h"])})
    pairs = pairs.group_by(["service", "h"], use_threads=False).aggregate([])
    for service in list_unique_strings(pairs["service"]):
        yield service, combine_chunks(pairs.filter(is_equal_string(pairs["service"], service))["h"])


def _find_unknown(hashes: Array, known_hashes: Array) -> list[int]:
    return to_ints(hashes.filter(pc.invert(pc.is_in(hashes, value_set=known_hashes))))
