"""Stage 1 as statements of ClickHouse: the same sums as `scan.added_up`, over the same rows.

One statement reads one table of many objects. Where not all their rows are wanted, it is told which by pairs
of an object's number and a window id or group. Sums wrap around at 64 bits, there as here.

What is wanted goes as parameters, not as a table sent along: s3Cluster() gives a node's statement its
parameters, and not the tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array
from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.engines.clickhouse.clickhouse_client import Cause, EngineFailed
from sidelight_collector.settings.engine_url import EngineUrl
from sidelight_collector.storage.manifest import is_place
from sidelight_collector.storage.tables import STATES, Part

OBJECTS: Final = 500
"""Most objects of one statement: ClickHouse takes up to 1,000 alternatives in a name."""
IDS: Final = 50_000
"""Most window ids or groups of one statement."""
IDS_IN_FIELD: Final = 2_500
"""A field of a form may have 128 KiB, and a window id in it takes 35 bytes."""

# A column that an object lacks is read as nulls where it may have them, and as zeros where not.
_KEYS: Final = "service LowCardinality(Nullable(String)), period_ns Nullable(Int64), h Nullable(UInt64)"
_ID: Final = "^[0-9A-Za-z]{1,26}$"
_OBJECT: Final = (
    "transform(splitByChar('/', _path)[-2], {names:Array(String)}, arrayEnumerate({names:Array(String)}), 0)"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A text, and the values that are bound to the names in it."""

    text: str
    parameters: dict[str, str]


def statements(at: EngineUrl, place: str, scans: Sequence[Scan]) -> Iterator[Statement]:
    """What adds up to the rows of these scans. Raises EngineFailed for what cannot be asked so.

    `place` comes before every key: the URL of the objects, or what their names begin with in the collection.
    """
    return (_statement(at, place, batch) for batch in batches(scans))


def batches(scans: Sequence[Scan]) -> Iterator[list[Scan]]:
    """The same rows in lists of one part each, with `only` or without, so short that each is a statement."""
    kinds: dict[tuple[Part, bool], list[Scan]] = {}
    for scan in scans:
        kinds.setdefault((scan.part, scan.only is None), []).extend(_pieces(scan))
    for pieces in kinds.values():
        batch: list[Scan] = []
        ids = 0
        for piece in pieces:
            own = 0 if piece.only is None else len(piece.only)
            if batch and (len(batch) == OBJECTS or ids + own > IDS):
                yield batch
                batch, ids = [], 0
            batch.append(piece)
            ids += own
        yield batch


def _pieces(scan: Scan) -> Iterator[Scan]:
    if scan.only is None:
        yield scan
        return
    for start in range(0, len(scan.only), IDS):
        yield replace(scan, only=scan.only.slice(start, IDS))


def _statement(at: EngineUrl, place: str, batch: Sequence[Scan]) -> Statement:
    first = batch[0]
    keys = [scan.ref.key_prefix for scan in batch]
    if not all(map(is_place, keys)):
        raise EngineFailed(Cause.REFUSED, "a key that no segment and no block has")
    parameters = {"objects": f"{place}{_alternatives([key[:-1] for key in keys])}/{first.part}.parquet"}
    if at.cluster:
        parameters["cluster"] = at.cluster
    if at.collection:
        parameters["collection"] = at.collection
    where = ""
    if first.only is not None:
        parameters["names"] = f"[{','.join(repr(key.split('/')[-2]) for key in keys)}]"
        fields = list(_fields(batch))
        parameters.update((f"only_{number}", field) for number, field in enumerate(fields))
        kind = f"Array(Tuple(UInt32, {_kind(first.by)}))"
        bound = ", ".join(f"{{only_{number}:{kind}}}" for number in range(len(fields)))
        where = f"WHERE ({_OBJECT}, `{first.by}`) IN arrayConcat({bound})\n"
    added = ", ".join(f"sum({state})" for state in STATES)
    text = (
        f"SELECT service, h, period_ns, {added}\n"
        f"FROM {_source(at, first.by)}\n"
        f"{where}GROUP BY service, h, period_ns\n"
        "FORMAT Arrow"
    )
    return Statement(text, parameters)


def _source(at: EngineUrl, by: str) -> str:
    states = ", ".join(f"{state} Int64" for state in STATES)
    columns = f"'{_KEYS}, `{by}` {_kind(by)}, {states}'"
    function = "s3Cluster({cluster:String}, " if at.cluster else "s3("
    if at.collection:
        named = "{collection:Identifier}, filename = {objects:String}"
        return f"{function}{named}, format = 'Parquet', structure = {columns})"
    return f"{function}{{objects:String}}, 'Parquet', {columns})"


def _kind(by: str) -> str:
    return "String" if by == "wid" else "Int32"


def _alternatives(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{{{','.join(names)}}}"


def _fields(batch: Sequence[Scan]) -> Iterator[str]:
    """Pairs of an object's number, from 1, and what is wanted of it."""
    pairs = [
        f"({number},{value!r})"
        for number, scan in enumerate(batch, 1)
        if scan.only is not None
        for value in _values(scan.only, scan.by)
    ]
    for start in range(0, len(pairs), IDS_IN_FIELD):
        yield f"[{','.join(pairs[start : start + IDS_IN_FIELD])}]"


def _values(only: Array, by: str) -> list[object]:
    if by == "wid" and not pc.all(pc.match_substring_regex(only, _ID)).as_py():
        raise EngineFailed(Cause.REFUSED, "a window id that is no ULID")
    return only.to_pylist()
