"""The wire format of Protocol Buffers: the fields of a message.

It is described in https://protobuf.dev/programming-guides/encoding. `native/src/collector/wire.rs` is the
same in Rust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_LENGTHS: Final = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES: Final = 10
_UINT64_MASK: Final = (1 << 64) - 1

FieldValue = int | memoryview
"""A varint as a signed 64-bit integer, or the bytes of a text, a message, packed or fixed numbers."""


class DamagedMessage(ValueError):
    """A message ends within a field, or a field has another type than expected."""


def iter_fields(content: memoryview) -> Iterator[tuple[int, FieldValue]]:
    """Yield the number and the value of each field. Raises DamagedMessage."""
    at, end = 0, len(content)
    while at < end:
        tag = content[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = _read_varint(content, at)
        wire_type = tag & 7
        if wire_type in (_VARINT, _BYTES):
            # Most numbers have one byte.
            if at < end and content[at] < 0x80:
                length = content[at]
                at += 1
            else:
                length, at = _read_varint(content, at)
            if wire_type == _VARINT:
                yield tag >> 3, length
                continue
        elif wire_type in _FIXED_LENGTHS:
            length = _FIXED_LENGTHS[wire_type]
        else:
            raise DamagedMessage("a field has an unknown wire type")
        if not 0 <= length <= end - at:
            raise DamagedMessage("a field ends beyond the profile")
        yield tag >> 3, content[at : at + length]
        at += length


def iter_messages(content: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the bytes of each field with this number. Raises DamagedMessage."""
    return (read_bytes(value) for at, value in iter_fields(content) if at == number)


def read_bytes(value: FieldValue) -> memoryview:
    """Return the bytes of a field. Raises DamagedMessage for a number."""
    if isinstance(value, int):
        raise DamagedMessage("bytes are expected where a number is")
    return value


def read_integer(value: FieldValue) -> int:
    """Return the number of a field. Raises DamagedMessage for bytes."""
    if not isinstance(value, int):
        raise DamagedMessage("a number is expected where bytes are")
    return value


def read_text(value: FieldValue) -> str:
    """Return the text of a field; bytes that are not UTF-8 are replaced."""
    return bytes(read_bytes(value)).decode(errors="replace")


def iter_integers(value: FieldValue) -> Iterator[int]:
    """Yield the numbers of a repeated field, single or packed. Raises DamagedMessage."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        integer, at = _read_varint(value, at)
        yield integer


def read_integers(value: FieldValue) -> list[int]:
    """Return the numbers of a repeated field. Raises DamagedMessage."""
    return list(iter_integers(value))


def read_numbers(message: memoryview, *numbers: int) -> list[int]:
    """Return the last values of some fields of a message; 0 if they are absent."""
    found = dict.fromkeys(numbers, 0)
    for number, value in iter_fields(message):
        if number in found:
            found[number] = read_integer(value)
    return list(found.values())


def _read_varint(content: memoryview, at: int) -> tuple[int, int]:
    """Return a signed 64-bit integer and the position after it."""
    result = 0
    for shift, byte in enumerate(content[at : at + _MAX_VARINT_BYTES]):
        result |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            result &= _UINT64_MASK
            return result - (1 << 64) if result >> 63 else result, at + shift + 1
    raise DamagedMessage("a number ends beyond the profile, or has more than 64 bits")
