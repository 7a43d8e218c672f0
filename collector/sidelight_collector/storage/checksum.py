"""A checksum inside a Parquet file, of all of it.

Neither Parquet as we write it nor zstd notice every bit that has changed: one in seven that is flipped in a
small file's pages gives other numbers and no error. Parquet's own checksums are of pages only: neither their
headers nor the footer have one. So there is one of the whole file, where Parquet leaves room and readers, who
go by the offsets in the footer, never look: between the last column and the footer,

    sidelght 8 bytes, the XXH3 64-bit hash (seed 0, big-endian) of all other bytes of the file

so that any engine reads the file as it is. Files of older versions have none, and are taken as they are.
"""

from __future__ import annotations

from typing import Final

import xxhash

MAGIC: Final = b"sidelght"
CHECKSUM_BYTES: Final = len(MAGIC) + 8
_TRAILER_BYTES: Final = 8
"""A Parquet file ends with the length of its footer and four letters."""


def add_checksum(content: bytes) -> bytes:
    """A Parquet file with its checksum."""
    at = _find_footer(content)
    digest = xxhash.xxh3_64_digest(content)
    return b"".join((content[:at], MAGIC, digest, content[at:]))


def is_intact(content: bytes) -> bool:
    """Whether a file is as it was sealed, or never was."""
    at = _find_footer(content)
    start = at - CHECKSUM_BYTES
    if start < 0 or content[start : start + len(MAGIC)] != MAGIC:
        return True
    view = memoryview(content)
    hasher = xxhash.xxh3_64(view[:start])
    hasher.update(view[at:])
    return hasher.digest() == content[at - 8 : at]


def _find_footer(content: bytes) -> int:
    """Where the footer begins."""
    return len(content) - _TRAILER_BYTES - int.from_bytes(content[-_TRAILER_BYTES:-4], "little")
