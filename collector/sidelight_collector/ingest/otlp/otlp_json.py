"""Turn an OTLP request in JSON into Protocol Buffers.

One parser then checks both. OTLP's JSON has names in camel case, 64-bit integers as texts or numbers, and
ids in hexadecimal (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). Unknown names are
ignored, except those of older layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sidelight_collector.ingest.otlp.otlp_dictionary import OtherLayout
from sidelight_collector.json_body import JsonLimits, parse_json_object
from sidelight_model.export_formats.protobuf_writer import (
    encode_fixed64,
    encode_message,
    encode_number,
    encode_varint,
)

_MAX_UINT64: Final = (1 << 64) - 1
_OLD_NAMES: Final = frozenset(
    {
        *("sample", "stringTable", "locationTable", "locationIndices", "timeNanos", "durationNanos"),
        *("locationsStartIndex", "locationsLength", "attributeUnits", "commentStrindices"),
    }
)
_DICTIONARY_NAMES: Final = frozenset({"stringTable", "locationTable"})

Encode = Callable[[int, Any], bytes]
Fields = Mapping[str, tuple[int, Encode]]


def encode_json_request(text: bytes, limits: JsonLimits) -> bytes:
    """Encode an ExportProfilesServiceRequest in JSON as Protocol Buffers.

    Raises SidelightError (`bad_json`), OtherLayout, LimitExceeded.
    """
    document = parse_json_object(text, limits)
    try:
        return _encode(document, _REQUEST)
    except (TypeError, ValueError, AttributeError) as error:
        raise OtherLayout(f"a field has another type ({error})") from error


def _encode(message: Mapping[str, Any], fields: Fields, allowed: Iterable[str] = ()) -> bytes:
    if not isinstance(message, dict):
        raise TypeError("an object is expected")
    if old := (_OLD_NAMES & message.keys()) - set(allowed):
        raise OtherLayout(f"it has the field `{min(old)}` of another layout")
    parts = []
    for name, value in message.items():
        if name in fields and value is not None:
            number, encode = fields[name]
            parts.append(encode(number, value))
    return b"".join(parts)


def _message(fields: Fields, allowed: Iterable[str] = ()) -> Encode:
    return lambda number, value: encode_message(number, _encode(value, fields, allowed))


def _repeated(encode: Encode) -> Encode:
    def encode_all(number: int, values: Any) -> bytes:
        if not isinstance(values, list):
            raise TypeError("a list is expected")
        return b"".join(encode(number, value) for value in values)

    return encode_all


def _text(number: int, value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return encode_message(number, value.encode(errors="replace"))


def _to_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("a whole number is expected")
    integer = int(value) if len(str(value)) <= 20 else _MAX_UINT64 + 1
    if not -(1 << 63) <= integer <= _MAX_UINT64:
        raise ValueError("a number has more than 64 bits")
    return integer


def _integer(number: int, value: Any) -> bytes:
    return encode_number(number, _to_int(value))


def _fixed64(number: int, value: Any) -> bytes:
    return encode_fixed64(number, _to_int(value))


def _packed(number: int, values: Any) -> bytes:
    if not isinstance(values, list):
        raise TypeError("a list is expected")
    return encode_message(number, b"".join(encode_varint(_to_int(value)) for value in values))


def _packed_fixed64(number: int, values: Any) -> bytes:
    if not isinstance(values, list):
        raise TypeError("a list is expected")
    return encode_message(number, b"".join(struct.pack("<Q", _to_int(value)) for value in values))


def _double(number: int, value: Any) -> bytes:
    return encode_varint(number << 3 | 1) + struct.pack("<d", float(value))


def _boolean(number: int, value: Any) -> bytes:
    return encode_number(number, int(bool(value)))


_ANY_VALUE: Final[Fields] = {
    "stringValue": (1, _text),
    "boolValue": (2, _boolean),
    "intValue": (3, _integer),
    "doubleValue": (4, _double),
    "stringValueStrindex": (8, _integer),
}
_KEY_VALUE: Final[Fields] = {
    "key": (1, _text),
    "value": (2, _message(_ANY_VALUE)),
    "keyStrindex": (3, _integer),
}
_VALUE_TYPE: Final[Fields] = {"typeStrindex": (1, _integer), "unitStrindex": (2, _integer)}
_SAMPLE: Final[Fields] = {
    "stackIndex": (1, _integer),
    "attributeIndices": (2, _packed),
    "linkIndex": (3, _integer),
    "values": (4, _packed),
    "timestampsUnixNano": (5, _packed_fixed64),
}
_PROFILE: Final[Fields] = {
    "sampleType": (1, _message(_VALUE_TYPE)),
    "samples": (2, _repeated(_message(_SAMPLE))),
    "timeUnixNano": (3, _fixed64),
    "durationNano": (4, _integer),
    "periodType": (5, _message(_VALUE_TYPE)),
    "period": (6, _integer),
    "profileId": (7, _text),
    "attributeIndices": (11, _packed),
}
_SCOPE: Final[Fields] = {"name": (1, _text), "version": (2, _text)}
_SCOPE_PROFILES: Final[Fields] = {
    "scope": (1, _message(_SCOPE)),
    "profiles": (2, _repeated(_message(_PROFILE))),
}
_RESOURCE: Final[Fields] = {"attributes": (1, _repeated(_message(_KEY_VALUE)))}
_RESOURCE_PROFILES: Final[Fields] = {
    "resource": (1, _message(_RESOURCE)),
    "scopeProfiles": (2, _repeated(_message(_SCOPE_PROFILES))),
}
_LINE: Final[Fields] = {"functionIndex": (1, _integer), "line": (2, _integer)}
_LOCATION: Final[Fields] = {
    "mappingIndex": (1, _integer),
    "address": (2, _integer),
    "lines": (3, _repeated(_message(_LINE))),
}
_FUNCTION: Final[Fields] = {
    "nameStrindex": (1, _integer),
    "systemNameStrindex": (2, _integer),
    "filenameStrindex": (3, _integer),
}
_LINK: Final[Fields] = {"traceId": (1, _text), "spanId": (2, _text)}
_ATTRIBUTE: Final[Fields] = {"keyStrindex": (1, _integer), "value": (2, _message(_ANY_VALUE))}
_STACK: Final[Fields] = {"locationIndices": (1, _packed)}
_DICTIONARY: Final[Fields] = {
    "mappingTable": (1, _repeated(_message({"filenameStrindex": (4, _integer)}))),
    "locationTable": (2, _repeated(_message(_LOCATION))),
    "functionTable": (3, _repeated(_message(_FUNCTION))),
    "linkTable": (4, _repeated(_message(_LINK))),
    "stringTable": (5, _repeated(_text)),
    "attributeTable": (6, _repeated(_message(_ATTRIBUTE))),
    "stackTable": (7, _repeated(_message(_STACK, {"locationIndices"}))),
}
_REQUEST: Final[Fields] = {
    "resourceProfiles": (1, _repeated(_message(_RESOURCE_PROFILES))),
    "dictionary": (2, _message(_DICTIONARY, _DICTIONARY_NAMES)),
}
