"""JSON bodies within limits of size, structure and memory.

A few kilobytes of JSON can decode to hundreds of megabytes of objects: `[]` has 2 bytes, and a list takes 56.
`estimate_memory` therefore bounds the objects from the bytes alone, before anything is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from sidelight_model.errors import LimitExceeded, Reason, SidelightError

VALUE_BYTES: Final = 64
"""Memory of a number, of its place in a container, and of its token while orjson parses (16 bytes)."""
TEXT_BYTES: Final = 64
"""Memory of a text besides its characters."""
CONTAINER_BYTES: Final = 96
"""Memory of a list or an object besides its items; an object with items takes more, with its names."""
NAME_BYTES: Final = 160
"""Memory of an entry of an object, while its hash table grows."""
_COUNT_BYTES: Final = 1 << 20
_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """Limits of a JSON body.

    They are of its decompressed size, the memory of its values, and its depth.
    """

    max_bytes: int
    max_memory_bytes: int
    max_depth: int = 8
    hint: str = "Send less at once."


def estimate_memory(text: bytes) -> int:
    """Return an upper bound of the memory (bytes) that the values of a JSON text take.

    Characters inside texts count as structure too, so the bound is above the true size.
    """
    containers = _count(text, b"[") + _count(text, b"{")
    values = _count(text, b",") + containers + 1
    texts, names = _count(text, b'"') // 2, _count(text, b":")
    # A text takes 4 bytes for each character if one of them needs 4.
    width = 1 if text.isascii() and b"\\u" not in text else 4
    return (
        width * len(text)
        + VALUE_BYTES * values
        + TEXT_BYTES * texts
        + CONTAINER_BYTES * containers
        + NAME_BYTES * names
    )


def check_memory(text: bytes, max_memory_bytes: int, hint: str) -> None:
    """Raise LimitExceeded if values may take more than `max_memory_bytes`."""
    estimate = estimate_memory(text)
    if estimate > max_memory_bytes:
        raise LimitExceeded(
            f"the body has too many values: they may take {estimate:,} bytes of memory, and the limit is "
            f"{max_memory_bytes:,}",
            reason=Reason.TOO_LARGE,
            hint=hint,
        )


def check_json(text: bytes, limits: JsonLimits) -> None:
    """Check memory and depth of a JSON text before it is parsed.

    Raises LimitExceeded, and SidelightError (`bad_json`).
    """
    check_memory(text, limits.max_memory_bytes, limits.hint)
    if measure_depth(text) > limits.max_depth:
        raise SidelightError(
            f"the body has lists or objects inside each other more than {limits.max_depth} levels deep",
            reason=Reason.BAD_JSON,
            hint="docs/api-reference.md says what to send.",
        )


def parse_json_object(text: bytes, limits: JsonLimits) -> Mapping[str, Any]:
    """Parse a body that must be a JSON object.

    Raises LimitExceeded, and SidelightError (`bad_json`).
    """
    check_json(text, limits)
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SidelightError(
            f"the body is not JSON: {error}", reason=Reason.BAD_JSON, hint="Send a JSON object."
        ) from error
    if not isinstance(raw, dict):
        raise SidelightError("the body is not a JSON object", reason=Reason.BAD_JSON, hint="Send {…}.")
    return raw


def measure_depth(text: bytes) -> int:
    """Return how many lists and objects are inside each other at most."""
    depth = deepest = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


def _count(text: bytes, byte: bytes) -> int:
    """Count a byte in steps, so that other threads run in between."""
    return sum(text.count(byte, start, start + _COUNT_BYTES) for start in range(0, len(text), _COUNT_BYTES))
