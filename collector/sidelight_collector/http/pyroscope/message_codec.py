"""Encode and decode messages by their fields, as Protocol Buffers and as JSON.

JSON follows https://protobuf.dev/programming-guides/json: names in camel case, 64-bit integers as strings.
Fields that a message does not declare are skipped.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from sidelight_collector.query.query_errors import BadParameter
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.export_formats.protobuf_writer import (
    encode_double,
    encode_message,
    encode_number,
    encode_packed,
    encode_text,
)
from sidelight_model.import_formats.protobuf_wire import (
    DamagedMessage,
    FieldValue,
    iter_fields,
    read_bytes,
    read_integer,
    read_integers,
)

_INT64: Final = range(-(1 << 63), 1 << 63)
_INTEGER: Final = re.compile(r"-?\d{1,20}(\.0+)?", re.ASCII)
_DOUBLE_BYTES: Final = 8

Message = Mapping[str, Any]
"""The values of a message by the names of its fields. Nested messages may also be encoded already."""


class Kind(Enum):
    """The type of a field."""

    TEXT = "a text"
    INTEGER = "a whole number of 64 bits"
    DOUBLE = "a number"
    FLAG = "true or false"
    ENUM = "a name or a number"
    MESSAGE = "an object"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    `schema` has the fields of a nested message, `names` the names of an enum's values.
    """

    name: str
    kind: Kind = Kind.TEXT
    is_repeated: bool = False
    schema: Schema | None = None
    names: tuple[str, ...] = ()

    @property
    def json_name(self) -> str:
        """The name in JSON, such as `maxSelf` for `max_self`."""
        first, *rest = self.name.split("_")
        return first + "".join(word[:1].upper() + word[1:] for word in rest)


Schema = Mapping[int, Field]
"""The fields of a message by their numbers."""


class UndecodableMessage(SidelightError):
    """A message cannot be decoded."""

    reason = Reason.BAD_REQUEST


def decode_message(schema: Schema, content: memoryview) -> dict[str, Any]:
    """Decode Protocol Buffers; absent fields are absent in the result.

    Raises UndecodableMessage.
    """
    try:
        return _decode(schema, content)
    except DamagedMessage as error:
        raise UndecodableMessage(
            f"the message is cut or damaged: {error}", hint="Send the message of this method."
        ) from error


def _decode(schema: Schema, content: memoryview) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number, raw in iter_fields(content):
        field = schema.get(number)
        if field is None:
            continue
        if not field.is_repeated:
            values[field.name] = _decode_value(field, raw)
        elif field.kind is Kind.INTEGER:
            values.setdefault(field.name, []).extend(read_integers(raw))
        else:
            values.setdefault(field.name, []).append(_decode_value(field, raw))
    return values


def _decode_value(field: Field, raw: FieldValue) -> Any:
    if field.kind is Kind.MESSAGE:
        return _decode(field.schema or {}, read_bytes(raw))
    if field.kind is Kind.TEXT:
        try:
            return bytes(read_bytes(raw)).decode()
        except UnicodeDecodeError as error:
            raise DamagedMessage(f"{field.name} is not UTF-8") from error
    if field.kind is Kind.DOUBLE:
        fixed = read_bytes(raw)
        if len(fixed) != _DOUBLE_BYTES:
            raise DamagedMessage(f"{field.name} has {len(fixed)} bytes")
        return struct.unpack("<d", fixed)[0]
    number = read_integer(raw)
    return bool(number) if field.kind is Kind.FLAG else number


def encode(schema: Schema, message: Message | bytes) -> bytes:
    """Encode a message as Protocol Buffers; fields without a value are omitted."""
    if isinstance(message, bytes):
        return message
    encoded = bytearray()
    for number, field in schema.items():
        value = message.get(field.name)
        if value is None:
            continue
        if field.is_repeated and field.kind is Kind.INTEGER:
            encoded += encode_packed(number, value) if value else b""
        else:
            for one in value if field.is_repeated else (value,):
                encoded += _encode_value(number, field, one)
    return bytes(encoded)


def _encode_value(number: int, field: Field, value: Any) -> bytes:
    if field.kind is Kind.MESSAGE:
        return encode_message(number, encode(field.schema or {}, value))
    if field.kind is Kind.TEXT:
        return encode_text(number, value) if value or field.is_repeated else b""
    if field.kind is Kind.DOUBLE:
        return encode_double(number, value)
    return encode_number(number, value)


def parse_json_message(schema: Schema, document: Mapping[str, Any]) -> dict[str, Any]:
    """Read the values of a JSON object; names may be in camel or snake case.

    Raises BadParameter, which names the field.
    """
    values: dict[str, Any] = {}
    for field in schema.values():
        given = document.get(field.json_name, document.get(field.name))
        if given is None:
            continue
        if not field.is_repeated:
            values[field.name] = _parse_json_value(field, given)
            continue
        if not isinstance(given, list):
            raise BadParameter.invalid_value(field.json_name, str(given), "a list")
        values[field.name] = [_parse_json_value(field, one) for one in given]
    return values


def _parse_json_value(field: Field, given: Any) -> Any:
    if field.kind is Kind.MESSAGE and isinstance(given, dict):
        return parse_json_message(field.schema or {}, given)
    if field.kind is Kind.TEXT and isinstance(given, str):
        return given
    if field.kind is Kind.FLAG and isinstance(given, bool):
        return given
    if field.kind is Kind.DOUBLE and isinstance(given, int | float) and not isinstance(given, bool):
        if math.isfinite(given):
            return float(given)
    elif field.kind is Kind.ENUM and isinstance(given, str):
        # The name of a newer protocol has no number here.
        return field.names.index(given) if given in field.names else -1
    elif field.kind in (Kind.INTEGER, Kind.ENUM) and not isinstance(given, bool):
        text = str(int(given)) if isinstance(given, float) and given.is_integer() else str(given)
        if _INTEGER.fullmatch(text) and (number := int(text.partition(".")[0])) in _INT64:
            return number
    raise BadParameter.invalid_value(field.json_name, str(given), field.kind.value)


def to_json(schema: Schema, message: Message | bytes) -> dict[str, Any]:
    """Return a message as an object for JSON.

    Lists are there also if they are empty: clients in JavaScript use them unchecked.
    """
    values = _decode(schema, memoryview(message)) if isinstance(message, bytes) else message
    document: dict[str, Any] = {}
    for field in schema.values():
        value = values.get(field.name)
        if field.is_repeated:
            document[field.json_name] = [_to_json_value(field, one) for one in value or ()]
        elif value is not None:
            document[field.json_name] = _to_json_value(field, value)
    return document


def _to_json_value(field: Field, value: Any) -> Any:
    if field.kind is Kind.MESSAGE:
        return to_json(field.schema or {}, value)
    if field.kind is Kind.INTEGER:
        return str(value)
    if field.kind is Kind.ENUM:
        return field.names[value] if 0 <= value < len(field.names) else value
    return value
