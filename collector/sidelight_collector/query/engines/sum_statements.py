"""Statements that sum the rows of scans: what external engines share.

One statement reads the same table of many objects. If it needs only some of their rows, it selects them by
pairs of an object and a window id or group.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.settings.engine import EngineUrl
from sidelight_collector.storage.manifest import is_key_prefix
from sidelight_collector.storage.tables import SegmentPart
from sidelight_model.counts import STATES

MAX_ERROR_CHARACTERS: Final = 400

_ULID_PATTERN: Final = "^[0-9A-Za-z]{1,26}$"


class EngineFailure(StrEnum):
    """Reasons for a failed request to an engine."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    INVALID_RESPONSE = "invalid"


class EngineError(Exception):
    """The engine did not execute a statement; the text contains no secrets."""

    def __init__(self, cause: EngineFailure, text: str) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A statement, and the values of its parameters."""

    text: str
    parameters: dict[str, str] = field(default_factory=dict)


StatementBuilder: TypeAlias = Callable[[Sequence[Scan]], Iterable[SqlStatement]]
"""Builds statements that together sum the rows of scans. Raises EngineError."""


class EngineClient(Protocol):
    """A client of one engine; thread-safe."""

    @property
    def server(self) -> EngineUrl: ...

    def query(
        self, statement: SqlStatement, timeout_seconds: float, remaining: Callable[[], float]
    ) -> pa.Table:
        """Execute a statement, and return its result.

        `remaining` returns the seconds until the deadline of the query, and raises after it. Raises
        EngineError, and what `remaining` raises.
        """


def build_sum_query(source: str, condition: str, term: str = "{}") -> str:
    """Build a query that sums the states of rows.

    `term` is the SQL of one value, and {} its column.
    """
    added = ", ".join(f"sum({term.format(state)})" for state in STATES)
    where = f"WHERE {condition}\n" if condition else ""
    return f"SELECT service, h, period_ns, {added}\nFROM {source}\n{where}GROUP BY service, h, period_ns"


def batch_scans(scans: Sequence[Scan], max_objects: int, max_keys: int) -> Iterator[list[Scan]]:
    """Group scans into batches that each fit one statement.

    The scans of a batch read the same table, and either all have `keys` or none has.
    """
    groups: dict[tuple[SegmentPart, bool], list[Scan]] = {}
    for scan in scans:
        groups.setdefault((scan.part, scan.keys is None), []).extend(_split_scan(scan, max_keys))
    for pieces in groups.values():
        batch: list[Scan] = []
        batch_keys = 0
        for piece in pieces:
            piece_keys = 0 if piece.keys is None else len(piece.keys)
            if batch and (len(batch) == max_objects or batch_keys + piece_keys > max_keys):
                yield batch
                batch, batch_keys = [], 0
            batch.append(piece)
            batch_keys += piece_keys
        yield batch


def _split_scan(scan: Scan, max_keys: int) -> Iterator[Scan]:
    if scan.keys is None:
        yield scan
        return
    for start in range(0, len(scan.keys), max_keys):
        yield replace(scan, keys=scan.keys.slice(start, max_keys))


def list_object_keys(batch: Sequence[Scan]) -> list[str]:
    """Return the key prefixes of a batch. Raises EngineError for a malformed one."""
    keys = [scan.ref.key_prefix for scan in batch]
    if not all(map(is_key_prefix, keys)):
        raise EngineError(EngineFailure.REFUSED, "a key that no segment and no block has")
    return keys


def list_row_keys(scan: Scan) -> list[object]:
    """Return the window ids or groups of a scan.

    Raises EngineError for a window id that is no ULID.
    """
    if scan.keys is None:
        return []
    if scan.key_column == "wid" and not pc.all(pc.match_substring_regex(scan.keys, _ULID_PATTERN)).as_py():
        raise EngineError(EngineFailure.REFUSED, "a window id that is no ULID")
    return scan.keys.to_pylist()


def sanitize_error(text: str, server: EngineUrl) -> str:
    """Make a text of a server safe to log: short, on one line, without the password."""
    plain = text.replace(server.password, "***") if server.password else text
    line = " ".join(plain.split())
    return line if len(line) <= MAX_ERROR_CHARACTERS else f"{line[:MAX_ERROR_CHARACTERS]} …"
