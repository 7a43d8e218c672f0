"""A checksum of a whole Parquet file, stored inside the file.

Neither Parquet as written here nor zstd detects every changed bit: in the pages of a small file, one
flipped bit in seven changes numbers without an error. Parquet's own checksums cover pages only, not page
headers or the footer. Sidelight therefore stores a checksum of the whole file between the last column and
the footer:

    sidelght 8 bytes, the XXH3 64-bit hash (seed 0, big-endian) of all other bytes of the file

Parquet readers follow the offsets in the footer and never read this place, so any engine can read the file.
Files of older versions have no checksum and are accepted without one.
"""

from __future__ import annotations

from typing import Final

import xxhash

MAGIC: Final = b"sidelght"
CHECKSUM_BYTES: Final = len(MAGIC) + 8
_TRAILER_BYTES: Final = 8
"""Size of the end of a Parquet file: footer length and magic, 4 bytes each."""


def add_checksum(content: bytes) -> bytes:
    """Return a Parquet file with a checksum inserted before its footer."""
    at = _find_footer(content)
    digest = xxhash.xxh3_64_digest(content)
    return b"".join((content[:at], MAGIC, digest, content[at:]))


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
