"""The attributes of OTLP resources and samples, as labels."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from sidelight_collector.ingest.otlp.otlp_dictionary import OtherLayout, OtlpDictionary
from sidelight_model.import_formats.protobuf_wire import (
    iter_fields,
    read_bytes,
    read_integer,
    read_text,
)

DEFAULT_SERVICE: Final = "unknown_service"
"""The service of a resource without a name, as the specification of OpenTelemetry has it."""
_PER_PROCESS_PREFIXES: Final = (
    *("process.", "thread.", "telemetry.", "os.", "host.id", "host.ip", "host.mac", "container.id"),
    *("cpu.", "service.instance.id", "profile.", "k8s.pod.uid", "k8s.pod.ip", "k8s.pod.start_time"),
)
_OF_SAMPLER: Final = ("process.runtime.name", "process.runtime.version")


def read_resource_attributes(resource: memoryview, dictionary: OtlpDictionary) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a resource's attributes.

    Lists and maps have the text "". Raises OtherLayout, DamagedMessage.
    """
    for number, value in iter_fields(resource):
        if number == 1:
            yield _read_attribute(read_bytes(value), dictionary, is_in_table=False)


def read_sample_attribute(index: int, dictionary: OtlpDictionary) -> tuple[str, str]:
    """Return the name and the text of an attribute of the table.

    Raises OtherLayout, DamagedMessage.
    """
    return _read_attribute(dictionary.get_attribute(index), dictionary, is_in_table=True)


def is_label(name: str, text: str) -> bool:
    """Return whether an attribute becomes a label.

    One that differs in each process or thread does not.
    """
    if not text or not name:
        return False
    return name in _OF_SAMPLER or not name.startswith(_PER_PROCESS_PREFIXES)


def _read_attribute(message: memoryview, dictionary: OtlpDictionary, *, is_in_table: bool) -> tuple[str, str]:
    """Read a KeyValueAndUnit of the table, or a KeyValue.

    The name of a KeyValue may refer to the table of strings too.
    """
    name, text = "", ""
    for number, value in iter_fields(message):
        if number == 2:
            text = _read_value(read_bytes(value), dictionary)
        elif number == (1 if is_in_table else 3):
            name = dictionary.get_text(read_integer(value)) or name
        elif number == 1:
            name = read_text(value)
    return name, text


def _read_value(message: memoryview, dictionary: OtlpDictionary) -> str:
    """Return the text of an AnyValue."""
    for number, value in iter_fields(message):
        if number == 1:
            return read_text(value)
        if number == 2:
            return "true" if read_integer(value) else "false"
        if number == 3:
            return str(read_integer(value))
        if number == 4:
            content = read_bytes(value)
            if len(content) != struct.calcsize("d"):
                raise OtherLayout("an attribute is not a 64-bit number")
            return f"{struct.unpack('<d', content)[0]:g}"
        if number == 8:
            return dictionary.get_text(read_integer(value))
    return ""
