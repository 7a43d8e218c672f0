"""Stage 1 as ClickHouse statements: the same sums as `window_sums.run_scans`.

A pair has an object's number and a window id or group. Sums overflow at 64 bits in the same way as in this
process.

The pairs are parameters and not an external table, because s3Cluster() passes parameters to the statements
of its nodes, but not tables.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from sidelight.settings import BadSetting
from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.engines.sum_statements import (
    SqlStatement,
    batch_scans,
    build_sum_query,
    list_object_keys,
    list_row_keys,
)
from sidelight_collector.settings.engine import ClickHouseUrl
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
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._/-]+")
_OBJECT_NUMBER: Final = (
    "transform(splitByChar('/', _path)[-2], {names:Array(String)}, arrayEnumerate({names:Array(String)}), 0)"
)


def build_statements(
    server: ClickHouseUrl, object_prefix: str, scans: Sequence[Scan]
) -> Iterator[SqlStatement]:
    """Build statements that together sum the rows of these scans.

    `object_prefix` precedes every key: the URL of the objects, or the prefix of their names in the named
    collection. Raises EngineError for a malformed key or window id.
    """
    return (
        _build_statement(server, object_prefix, batch) for batch in batch_scans(scans, MAX_OBJECTS, MAX_KEYS)
    )


def _build_statement(server: ClickHouseUrl, object_prefix: str, batch: Sequence[Scan]) -> SqlStatement:
    first = batch[0]
    keys = list_object_keys(batch)
    parameters = {"objects": f"{object_prefix}{_build_glob([key[:-1] for key in keys])}/{first.part}.parquet"}
    if server.cluster:
        parameters["cluster"] = server.cluster
    if server.collection:
        parameters["collection"] = server.collection
    condition = ""
    if first.keys is not None:
        parameters["names"] = f"[{','.join(repr(key.split('/')[-2]) for key in keys)}]"
        fields = list(_build_key_fields(batch))
        parameters.update((f"only_{number}", field) for number, field in enumerate(fields))
        kind = f"Array(Tuple(UInt32, {_sql_type(first.key_column)}))"
        bound = ", ".join(f"{{only_{number}:{kind}}}" for number in range(len(fields)))
        condition = f"({_OBJECT_NUMBER}, `{first.key_column}`) IN arrayConcat({bound})"
    text = build_sum_query(_build_source(server, first.key_column), condition)
    return SqlStatement(f"{text}\nFORMAT Arrow", parameters)


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
    pairs = [f"({number},{value!r})" for number, scan in enumerate(batch, 1) for value in list_row_keys(scan)]
    for start in range(0, len(pairs), MAX_KEYS_PER_FIELD):
        yield f"[{','.join(pairs[start : start + MAX_KEYS_PER_FIELD])}]"


def build_object_prefix(server: ClickHouseUrl, store: str, s3_endpoint: str | None) -> str:
    """Build the prefix of the keys of an s3:// store, as ClickHouse reads them.

    It is a URL, or a prefix within the named collection. Raises BadSetting for a store that ClickHouse
    would read as a pattern.
    """
    bucket, _, prefix = store.removeprefix("s3://").partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if not _PLAIN_KEY.fullmatch(bucket + prefix):
        raise BadSetting(
            f"ClickHouse would take {store!r} for a pattern, or read it otherwise",
            hint="With --engine clickhouse://, a bucket and a prefix have letters, digits and . _ - / only.",
        )
    if server.collection:
        return prefix
    if endpoint := server.endpoint or s3_endpoint:
        # ClickHouse logs its statements: they have no user and no password of this URL.
        parts = urlsplit(endpoint)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return f"{plain.rstrip('/')}/{bucket}/{prefix}"
    # Imported here because loading the SDK takes a third of a second.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix).url
