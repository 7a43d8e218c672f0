"""Window ids derived from content, so that a repeated request counts once."""

from __future__ import annotations

from typing import NamedTuple

import xxhash
from ulid import ULID

_RANDOM_BITS = 80
_MS_BITS = 48


class ContentId(NamedTuple):
    """The id of a window and its digest, both derived from its content."""

    window_id: str
    digest: int


def hash_content(*parts: bytes) -> bytes:
    """Hash the parts of a profile, each with its length."""
    hasher = xxhash.xxh3_128()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def derive_content_id(content_hash: bytes, number: int, start_ns: int) -> ContentId:
    """Derive the id of window `number` of the content with this hash.

    `start_ns` must be part of the content. If the content has no time, it is the beginning of the day (UTC)
    on which it arrived, so that a repeated upload has the id of the first.
    """
    hashed = xxhash.xxh3_128_intdigest(content_hash + number.to_bytes(8, "little"))
    milliseconds = max(start_ns, 0) // 10**6 % (1 << _MS_BITS)
    ulid = ULID.from_int(milliseconds << _RANDOM_BITS | hashed % (1 << _RANDOM_BITS))
    return ContentId(str(ulid), xxhash.xxh3_64_intdigest(content_hash, seed=number % (1 << 32)))
