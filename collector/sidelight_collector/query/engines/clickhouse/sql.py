"""Stage 1 as ClickHouse statements: the same sums as `window_sums.run_scans`.

One statement reads the same table of many objects. If it needs only some of their rows, it selects them by
pairs of an object's number and a window id or group. Sums overflow at 64 bits in the same way as in this
process.

The pairs are parameters and not an external table, because s3Cluster() passes parameters to the statements
of its nodes, but not tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array
from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouseError, EngineFailure
from sidelight_collector.settings.engine_url import ClickHouseUrl
from sidelight_collector.storage.manifest import is_key_prefix
from sidelight_collector.storage.tables import SegmentPart
from sidelight_model.counts import STATES

MAX_OBJECTS: Final = 500
"""The most objects of a statement; ClickHouse takes up to 1,000 alternatives in a name."""
MAX_KEYS: Final = 50_000
"""The most window ids or groups of one statement."""
MAX_KEYS_PER_FIELD: Final = 2_500
"""A field of a form may have up to 128 KiB, and a window id takes 35 bytes of it."""

# ClickHouse reads a missing column as nulls if its type is nullable, and as zeros otherwise.
_KEY_COLUMNS: Final = (
    "service LowCardinality(Nullable(String)), period_ns Nullable(Int64), h Nullable(UInt64)"
)
_ULID_PATTERN: Final = "^[0-9A-Za-z]{1,26}$"
_OBJECT_NUMBER: Final = (
    "transform(splitByChar('/', _path)[-2], {names:Array(String)}, arrayEnumerate({names:Array(String)}), 0)"
)


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A statement, and the values of its parameters."""

    text: str
    parameters: dict[str, str]


def build_statements(
    server: ClickHouseUrl, object_prefix: str, scans: Sequence[Scan]
) -> Iterator[SqlStatement]:
    """Build statements that together sum the rows of these scans.

    `object_prefix` precedes every key: the URL of the objects, or the prefix of their names in the named
    collection. Raises ClickHouseError for a malformed key or window id.
    """
    return (_build_statement(server, object_prefix, batch) for batch in batch_scans(scans))


def batch_scans(scans: Sequence[Scan]) -> Iterator[list[Scan]]:
    """Group scans into batches that each fit one statement.

    The scans of a batch read the same table, and either all have `keys` or none has.
    """
    groups: dict[tuple[SegmentPart, bool], list[Scan]] = {}
    for scan in scans:
        groups.setdefault((scan.part, scan.keys is None), []).extend(_split_scan(scan))
    for pieces in groups.values():
        batch: list[Scan] = []
        batch_keys = 0
        for piece in pieces:
            piece_keys = 0 if piece.keys is None else len(piece.keys)
            if batch and (len(batch) == MAX_OBJECTS or batch_keys + piece_keys > MAX_KEYS):
                yield batch
                batch, batch_keys = [], 0
            batch.append(piece)
            batch_keys += piece_keys
        yield batch


def _split_scan(scan: Scan) -> Iterator[Scan]:
    if scan.keys is None:
        yield scan
        return
    for start in range(0, len(scan.keys), MAX_KEYS):
        yield replace(scan, keys=scan.keys.slice(start, MAX_KEYS))


def _build_statement(server: ClickHouseUrl, object_prefix: str, batch: Sequence[Scan]) -> SqlStatement:
    first = batch[0]
    keys = [scan.ref.key_prefix for scan in batch]
    if not all(map(is_key_prefix, keys)):
        raise ClickHouseError(EngineFailure.REFUSED, "a key that no segment and no block has")
    parameters = {"objects": f"{object_prefix}{_build_glob([key[:-1] for key in keys])}/{first.part}.parquet"}
    if server.cluster:
        parameters["cluster"] = server.cluster
    if server.collection:
        parameters["collection"] = server.collection
    where = ""
    if first.keys is not None:
        parameters["names"] = f"[{','.join(repr(key.split('/')[-2]) for key in keys)}]"
        fields = list(_build_key_fields(batch))
        parameters.update((f"only_{number}", field) for number, field in enumerate(fields))
        kind = f"Array(Tuple(UInt32, {_sql_type(first.key_column)}))"
        bound = ", ".join(f"{{only_{number}:{kind}}}" for number in range(len(fields)))
        where = f"WHERE ({_OBJECT_NUMBER}, `{first.key_column}`) IN arrayConcat({bound})\n"
    added = ", ".join(f"sum({state})" for state in STATES)
    text = (
        f"SELECT service, h, period_ns, {added}\n"
        f"FROM {_build_source(server, first.key_column)}\n"
        f"{where}GROUP BY service, h, period_ns\n"
        "FORMAT Arrow"
    )
    return SqlStatement(text, parameters)


def _build_source(server: ClickHouseUrl, key_column: str) -> str:
    states = ", ".join(f"{state} Int64" for state in STATES)
    columns = f"'{_KEY_COLUMNS}, `{key_column}` {_sql_type(key_column)}, {states}'"
    function = "s3Cluster({cluster:String}, " if server.cluster else "s3("
    if server.collection:
        named = "{collection:Identifier}, filename = {objects:String}"
        return f"{function}{named}, format = 'Parquet', structure = {columns})"
    return f"{function}{{objects:String}}, 'Parquet', {columns})"


def _sql_type(key_column: str) -> str:
    return "String" if key_column == "wid" else "Int32"


def _build_glob(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"


def _build_key_fields(batch: Sequence[Scan]) -> Iterator[str]:
    """Yield literals of pairs: an object's number, from 1, and a key of its rows."""
    pairs = [
        f"({number},{value!r})"
        for number, scan in enumerate(batch, 1)
        if scan.keys is not None
        for value in _list_keys(scan.keys, scan.key_column)
    ]
    for start in range(0, len(pairs), MAX_KEYS_PER_FIELD):
        yield f"[{','.join(pairs[start : start + MAX_KEYS_PER_FIELD])}]"


def _list_keys(keys: Array, key_column: str) -> list[object]:
    if key_column == "wid" and not pc.all(pc.match_substring_regex(keys, _ULID_PATTERN)).as_py():
        raise ClickHouseError(EngineFailure.REFUSED, "a window id that is no ULID")
    return keys.to_pylist()
