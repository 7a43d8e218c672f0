"""Export as OpenTelemetry profiles, in the layout of opentelemetry-proto 1.45.

The messages are those of `opentelemetry/proto/profiles/v1development`. All profiles of a request share one
dictionary, and index 0 of each of its tables is the zero value. A profile has values of one type, so the
samples of a window become two profiles: `cpu`, and `off_cpu` for threads that wait. Samples have the
attribute `state`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from sidelight_model.counts import ON_CPU_STATES
from sidelight_model.export_formats.pprof import ProfileTimes, StateRow
from sidelight_model.export_formats.protobuf_writer import (
    encode_fixed64,
    encode_message,
    encode_number,
    encode_varint,
)
from sidelight_model.export_formats.provenance import Provenance
from sidelight_model.frames import Frame, unescape_frame

CPU: Final = "cpu"
OFF_CPU: Final = "off_cpu"
_ATTRIBUTE_NAMES: Final = {
    "service": "service.name",
    "version": "service.version",
    "namespace": "k8s.namespace.name",
    "pod": "k8s.pod.name",
    "container": "k8s.container.name",
    "node": "k8s.node.name",
}
_ZERO: Final = b""
_SERVICE: Final = re.compile(r'\bservice="(?P<name>[^"\\]+)"')
_PROFILE_ID_BYTES: Final = 16


def write_otlp(rows: Iterable[StateRow], provenance: Provenance, *, period_ns: int) -> bytes:
    """Write the profile of one side as a request of OTLP.

    The attributes of its resource name the service of the selector, and what the profile rests on.
    """
    side = provenance.sides[0]
    match = _SERVICE.search(side.query)
    labels = {
        "service": match["name"] if match else "",
        "sidelight.title": provenance.title,
        "sidelight.about": "; ".join(provenance.to_lines()),
        "sidelight.type": provenance.type,
    }
    name, _, version = provenance.exporter.partition(" ")
    times = ProfileTimes(period_ns, side.from_ns, round(side.pod_seconds * 1e9))
    builder = OtlpRequestBuilder((name, version))
    ordered = sorted(rows, key=lambda row: (tuple(row.frames), row.state))
    builder.add_window(provenance.title, {key: text for key, text in labels.items() if text}, ordered, times)
    return builder.encode()


class OtlpRequestBuilder:
    """Builds an ExportProfilesServiceRequest.

    `exporter` names the program and its version.
    """

    def __init__(self, exporter: tuple[str, str]) -> None:
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[bytes, int] = {_ZERO: 0}
        self._locations: dict[bytes, int] = {_ZERO: 0}
        self._stacks: dict[bytes, int] = {_ZERO: 0}
        self._attributes: dict[bytes, int] = {_ZERO: 0}
        self._location_of_frame: dict[str, bytes] = {}
        name, version = exporter
        self._scope = _encode_text(1, name) + _encode_text(2, version)
        self._resources = bytearray()

    def add_window(
        self, identity: str, labels: Mapping[str, str], rows: Iterable[StateRow], times: ProfileTimes
    ) -> None:
        """Add the rows of a window as profiles; `identity` tells it from others."""
        samples = {CPU: bytearray(), OFF_CPU: bytearray()}
        for row in rows:
            kind = CPU if row.state in (*ON_CPU_STATES, "") else OFF_CPU
            samples[kind] += encode_message(2, self._encode_sample(row))
        profiles = b"".join(
            encode_message(2, self._encode_profile(identity, kind, bytes(encoded), times))
            for kind, encoded in samples.items()
            if encoded
        )
        if not profiles:
            return
        attributes = b"".join(
            encode_message(1, _encode_text(1, _ATTRIBUTE_NAMES.get(name, name)) + _encode_value(text))
            for name, text in labels.items()
        )
        scope = encode_message(1, self._scope) + profiles
        self._resources += encode_message(1, encode_message(1, attributes) + encode_message(2, scope))

    def encode(self) -> bytes:
        tables = (
            (1, [_ZERO]),
            (2, self._locations),
            (3, self._functions),
            (4, [_ZERO]),
            (5, (text.encode(errors="replace") for text in self._strings)),
            (6, self._attributes),
            (7, self._stacks),
        )
        dictionary = b"".join(encode_message(field, entry) for field, table in tables for entry in table)
        return bytes(self._resources) + encode_message(2, dictionary)

    def _encode_profile(self, identity: str, kind: str, samples: bytes, times: ProfileTimes) -> bytes:
        hashed = hashlib.sha256(f"{identity} {kind}".encode()).digest()[:_PROFILE_ID_BYTES]
        value_type = self._encode_value_type(kind)
        return b"".join(
            (
                encode_message(1, value_type),
                samples,
                encode_fixed64(3, times.start_ns),
                encode_number(4, times.duration_ns),
                encode_message(5, value_type),
                encode_number(6, times.period_ns),
                encode_message(7, hashed),
            )
        )

    def _encode_value_type(self, kind: str) -> bytes:
        return encode_number(1, self._intern(kind)) + encode_number(2, self._intern("nanoseconds"))

    def _encode_sample(self, row: StateRow) -> bytes:
        locations = encode_message(1, b"".join(map(self._find_location, reversed(row.frames))))
        stack = self._stacks.setdefault(locations, len(self._stacks))
        attributes = b""
        if row.state:
            attribute = encode_number(1, self._intern("state")) + _encode_value(row.state)
            number = self._attributes.setdefault(attribute, len(self._attributes))
            attributes = encode_message(2, encode_varint(number))
        return encode_number(1, stack) + attributes + encode_message(4, encode_varint(row.ns))

    def _find_location(self, text: str) -> bytes:
        """Return the encoded number of the location of an escaped frame."""
        number = self._location_of_frame.get(text)
        if number is None:
            frame = Frame.parse(unescape_frame(text))
            function = encode_number(1, self._intern(frame.function))
            function += encode_number(3, self._intern(frame.file))
            at = self._functions.setdefault(function, len(self._functions))
            location = encode_message(3, encode_number(1, at) + encode_number(2, frame.line))
            number = encode_varint(self._locations.setdefault(location, len(self._locations)))
            self._location_of_frame[text] = number
        return number

    def _intern(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))


def _encode_text(field: int, text: str) -> bytes:
    return encode_message(field, text.encode(errors="replace"))


def _encode_value(text: str) -> bytes:
    """Encode the field `value` of an attribute: AnyValue {string string_value = 1}."""
    return encode_message(2, _encode_text(1, text))
