"""A checksum of a whole Parquet file, stored inside the file.

Neither Parquet as written here nor zstd detects every changed bit: in the pages of a small file, one
flipped bit in seven changes numbers without an error. Parquet's own checksums cover pages only, not page
headers or the footer. Sidelight therefore stores a checksum of the whole file between the last column and
the footer:

    sidelght 8 bytes, the XXH3 64-bit hash (seed 0, big-endian) of all other bytes of the file

A file of several row groups has more before it, so that some of them can be read and checked alone:

    hash of each row group, hash of the footer (to the end of the file): 8 bytes each
    number of row groups: 4 bytes, little-endian
    sidelrow

Parquet readers follow the offsets in the footer and never read this place, so any engine can read the file.
Files of older versions have no checksum and are accepted without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import xxhash

MAGIC: Final = b"sidelght"
CHECKSUM_BYTES: Final = len(MAGIC) + 8
ROW_GROUPS_MAGIC: Final = b"sidelrow"
_TRAILER_BYTES: Final = 8
"""Size of the end of a Parquet file: footer length and magic, 4 bytes each."""


def add_checksum(content: bytes, row_groups: Sequence[range] = ()) -> bytes:
    """Return a Parquet file with a checksum inserted before its footer.

    `row_groups` are the offsets of its row groups, if they are to be checked alone as well.
    """
    at = _find_footer(content)
    before = content[:at]
    if row_groups:
        view = memoryview(content)
        parts = [view[group.start : group.stop] for group in row_groups] + [view[at:]]
        digests = map(xxhash.xxh3_64_digest, parts)
        before = b"".join((before, *digests, len(row_groups).to_bytes(4, "little"), ROW_GROUPS_MAGIC))
    hasher = xxhash.xxh3_64(before)
    hasher.update(content[at:])
    return b"".join((before, MAGIC, hasher.digest(), content[at:]))


def measure_checked_end(tail: bytes) -> int:
    """Return how many bytes at the end of a file have its footer and all hashes.

    They may be a few more. `tail` are the last bytes, 8 or more. A footer has more than 64 bytes for each
    row group.
    """
    footer = len(tail) - _find_footer(tail)
    return footer + footer // 8 + CHECKSUM_BYTES + len(ROW_GROUPS_MAGIC) + 12


def read_row_group_digests(tail: bytes) -> list[bytes]:
    """Read the hashes of row groups from the end of a file, whose footer is checked.

    The list is empty if the file has none, if they are not in `tail`, or if they or the footer are damaged.
    """
    footer = _find_footer(tail)
    end = footer - CHECKSUM_BYTES - len(ROW_GROUPS_MAGIC)
    if end < 4 or tail[end : end + len(ROW_GROUPS_MAGIC)] != ROW_GROUPS_MAGIC:
        return []
    count = int.from_bytes(tail[end - 4 : end], "little")
    start = end - 4 - 8 * (count + 1)
    if start < 0:
        return []
    digests = [tail[at : at + 8] for at in range(start, end - 4, 8)]
    return digests[:-1] if is_row_group_intact(tail[footer:], digests[-1]) else []


def is_row_group_intact(content: bytes, digest: bytes) -> bool:
    """Return whether bytes of a row group or footer have this hash."""
    return xxhash.xxh3_64_digest(content) == digest


def is_intact(content: bytes) -> bool:
    """Return whether the checksum of a file matches, or the file has none."""
    at = _find_footer(content)
    start = at - CHECKSUM_BYTES
    if start < 0 or content[start : start + len(MAGIC)] != MAGIC:
        return True
    view = memoryview(content)
    hasher = xxhash.xxh3_64(view[:start])
    hasher.update(view[at:])
    return hasher.digest() == content[at - 8 : at]


def _find_footer(content: bytes) -> int:
    """Return the offset of the Parquet footer in bytes."""
    return len(content) - _TRAILER_BYTES - int.from_bytes(content[-_TRAILER_BYTES:-4], "little")
