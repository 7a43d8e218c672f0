"""Statements that make the objects of a store tables of Trino's Hive connector.

Every table reads the same objects in place. Its partitions are the folders `v1/LEVEL/DAY/`, which Trino
derives from the query (partition projection): new objects and days need no further statement. A folder has
the objects of all tables, so each query has to select those of its table by `"$path"`.

https://trino.io/docs/current/connector/hive.html
"""

import re
from typing import Final

import pyarrow as pa

from sidelight_collector.storage.tables import SCHEMAS, SegmentPart

TRINO_PARTS: Final[tuple[SegmentPart, ...]] = ("samples", "stacks", "sums", "daily")
FIRST_DAY: Final = "2020-01-01"

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_LOCATION: Final = re.compile(r"s3://[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_TYPES: Final[dict[pa.DataType, str]] = {
    pa.string(): "varchar",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    # Trino has no unsigned integers; the bits are the same.
    pa.uint64(): "bigint",
}


def build_trino_ddl(store: str, catalog: str, schema: str, *, replace: bool = False) -> list[str]:
    """Build statements that create the schema and the tables of an s3:// store.

    With `replace` the statements drop each table first, which deletes no object. Raises ValueError for a
    name or a location that Trino would read otherwise.
    """
    location = parse_location(store)
    for name in (catalog, schema):
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of lower-case letters, digits and _")
    statements = [f"CREATE SCHEMA IF NOT EXISTS {catalog}.{schema}"]
    for part in TRINO_PARTS:
        table = f"{catalog}.{schema}.{part}"
        if replace:
            statements.append(f"DROP TABLE IF EXISTS {table}")
        statements.append(_build_table(table, location, part))
    return statements


def parse_location(store: str) -> str:
    """Return the URL of an s3:// store, without a slash at its end.

    Raises ValueError for a location that Trino would read otherwise.
    """
    location = store.rstrip("/")
    if not _LOCATION.fullmatch(location):
        raise ValueError(f"{store!r} is not s3://bucket/prefix of letters, digits and . _ -")
    return location


def _build_table(table: str, location: str, part: SegmentPart) -> str:
    columns = [f'"{field.name}" {_sql_type(field.type)}' for field in SCHEMAS[part]]
    columns += [
        "level varchar WITH (partition_projection_type = 'ENUM', "
        "partition_projection_values = ARRAY['l0', 'raw'])",
        "day varchar WITH (partition_projection_type = 'DATE', partition_projection_format = 'yyyy-MM-dd', "
        f"partition_projection_range = ARRAY['{FIRST_DAY}', 'NOW'])",
    ]
    listed = ",\n    ".join(columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (\n    {listed}\n) WITH (\n"
        "    format = 'PARQUET',\n"
        f"    external_location = '{location}/v1/',\n"
        "    partitioned_by = ARRAY['level', 'day'],\n"
        "    partition_projection_enabled = true,\n"
        f"    partition_projection_location_template = '{location}/v1/${{level}}/${{day}}/'\n)"
    )


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _sql_type(kind.value_type)
    if pa.types.is_list(kind):
        return f"array({_sql_type(kind.value_type)})"
    return _TYPES[kind]
