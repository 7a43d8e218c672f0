"""Stage 1 as Trino statements: the same sums as `window_sums.run_scans`.

They read the tables of `sidelight storage trino-ddl`. A sum that does not fit 64 bits is an error of Trino.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.engines.sum_statements import (
    SqlStatement,
    batch_scans,
    build_sum_query,
    list_object_keys,
    list_row_keys,
)

MAX_OBJECTS: Final = 200
MAX_KEYS: Final = 8_000
"""Trino takes statements of 1,000,000 characters: 8,000 pairs of 75, and 200 objects of 1,100."""


def build_statements(location: str, scans: Sequence[Scan]) -> Iterator[SqlStatement]:
    """Build statements that together sum the rows of these scans.

    `location` is the URL of the store as its tables have it. Raises EngineError for a malformed key or
    window id.
    """
    return (_build_statement(location, batch) for batch in batch_scans(scans, MAX_OBJECTS, MAX_KEYS))


def _build_statement(location: str, batch: Sequence[Scan]) -> SqlStatement:
    first = batch[0]
    keys = list_object_keys(batch)
    folders = [key.split("/") for key in keys]
    paths = [f"{location}/{key}{first.part}.parquet" for key in keys]
    condition = (
        f"level IN ({_list_strings({folder[1] for folder in folders})})"
        f" AND day IN ({_list_strings({folder[2] for folder in folders})})"
        f' AND "$path" IN ({_list_strings(paths)})'
    )
    if first.keys is not None:
        pairs = [
            f"{folder[-2]}:{key}"
            for folder, scan in zip(folders, batch, strict=True)
            for key in list_row_keys(scan)
        ]
        pair = f"concat(element_at(split(\"$path\", '/'), -2), ':', CAST(\"{first.key_column}\" AS varchar))"
        # One literal for all pairs: the time to plan a statement grows with its expressions.
        condition += f" AND {pair} IN (SELECT * FROM UNNEST(split('{','.join(pairs)}', ',')))"  # noqa: S608 - checked
    # Objects of earlier versions lack states that are newer.
    return SqlStatement(build_sum_query(first.part, condition, term="coalesce({}, 0)"))


def _list_strings(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))
