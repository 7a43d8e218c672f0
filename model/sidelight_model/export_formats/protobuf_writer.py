"""Write the wire format of Protocol Buffers: fields of a message.

It is described in https://protobuf.dev/programming-guides/encoding.
`sidelight_model.import_formats.protobuf_wire` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

_WIRE_VARINT: Final = 0
_WIRE_FIXED64: Final = 1
_WIRE_BYTES: Final = 2
_UINT64_MASK: Final = (1 << 64) - 1
_ONE_BYTE_VARINTS: Final = [bytes([value]) for value in range(0x80)]


def encode_number(field: int, value: int) -> bytes:
    """Encode an integer field; zero is omitted, because an absent field reads as zero."""
    return encode_varint(field << 3 | _WIRE_VARINT) + encode_varint(value) if value else b""


def encode_double(field: int, value: float) -> bytes:
    """Encode a field of 64-bit floating point; zero is omitted."""
    return encode_varint(field << 3 | _WIRE_FIXED64) + struct.pack("<d", value) if value else b""


def encode_fixed64(field: int, value: int) -> bytes:
    """Encode a field of type fixed64; zero is omitted."""
    return (
        encode_varint(field << 3 | _WIRE_FIXED64) + struct.pack("<Q", value & _UINT64_MASK) if value else b""
    )


def encode_message(field: int, content: bytes) -> bytes:
    """Encode a field with a length: a message, a text or bytes."""
    return encode_varint(field << 3 | _WIRE_BYTES) + encode_varint(len(content)) + content


def encode_text(field: int, text: str) -> bytes:
    """Encode a text field; halves of surrogate pairs are replaced."""
    return encode_message(field, text.encode(errors="replace"))


def encode_packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a repeated integer field in one block."""
    return encode_message(field, b"".join(map(encode_varint, values)))


def encode_varint(value: int) -> bytes:
    """Encode an integer of up to 64 bits."""
    if 0 <= value < len(_ONE_BYTE_VARINTS):
        return _ONE_BYTE_VARINTS[value]
    value &= _UINT64_MASK
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
