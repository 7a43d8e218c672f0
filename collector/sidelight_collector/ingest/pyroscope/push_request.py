"""Read the messages of `push.v1.PusherService/Push`, in Protocol Buffers or JSON.

PushRequest {repeated RawProfileSeries series = 1}
RawProfileSeries {repeated LabelPair labels = 1; repeated RawSample samples = 2}
LabelPair {string name = 1; string value = 2}
RawSample {bytes raw_profile = 1; string ID = 2}
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sidelight_collector.ingest.pyroscope.profile_sums import BadProfile
from sidelight_collector.json_body import JsonLimits, parse_json_object
from sidelight_model.import_formats.protobuf_wire import (
    DamagedMessage,
    iter_fields,
    read_bytes,
    read_text,
)
from sidelight_model.window import too_many_windows_error

_HINT = "Send a PushRequest of push.v1.PusherService."


@dataclass(frozen=True, slots=True)
class RawProfile:
    """A profile in pprof with the labels of its series and the id of its sender.

    It may be compressed.
    """

    labels: tuple[tuple[str, str], ...]
    content: bytes
    profile_id: str


def parse_push_message(body: bytes, max_profiles: int) -> list[RawProfile]:
    """Parse a request in Protocol Buffers.

    Raises BadProfile, and LimitExceeded (`too_many_windows`) for more than `max_profiles`.
    """
    try:
        return _take(_iter_message(memoryview(body)), max_profiles)
    except DamagedMessage as error:
        raise BadProfile(f"the request is cut or damaged: {error}", _HINT) from error


def parse_push_json(body: bytes, limits: JsonLimits, max_profiles: int) -> list[RawProfile]:
    """Parse a request in JSON, whose profiles are in base64.

    Raises SidelightError (`bad_json`), BadProfile, and LimitExceeded.
    """
    document = parse_json_object(body, limits)
    try:
        return _take(_iter_json(document), max_profiles)
    except (AttributeError, KeyError, TypeError, ValueError, Base64Error) as error:
        raise BadProfile(f"a field is missing or of another type ({error})", _HINT) from error


def _take(profiles: Iterator[RawProfile], max_profiles: int) -> list[RawProfile]:
    taken: list[RawProfile] = []
    for profile in profiles:
        if len(taken) == max_profiles:
            raise too_many_windows_error(max_profiles)
        taken.append(profile)
    return taken


def _iter_message(body: memoryview) -> Iterator[RawProfile]:
    for number, value in iter_fields(body):
        if number != 1:
            continue
        labels: list[tuple[str, str]] = []
        samples: list[memoryview] = []
        for part, content in iter_fields(read_bytes(value)):
            if part == 1:
                labels.append(_read_label(read_bytes(content)))
            elif part == 2:
                samples.append(read_bytes(content))
        for sample in samples:
            fields = dict(iter_fields(sample))
            content = read_bytes(fields.get(1, memoryview(b"")))
            yield RawProfile(tuple(labels), bytes(content), read_text(fields[2]) if 2 in fields else "")


def _read_label(message: memoryview) -> tuple[str, str]:
    fields = dict(iter_fields(message))
    name, value = (read_text(fields[number]) if number in fields else "" for number in (1, 2))
    return name, value


def _iter_json(document: Mapping[str, Any]) -> Iterator[RawProfile]:
    for series in document.get("series") or ():
        pairs = series.get("labels") or ()
        labels = tuple((label.get("name", ""), label.get("value", "")) for label in pairs)
        if not all(isinstance(text, str) for label in labels for text in label):
            raise TypeError("a label is no text")
        for sample in series.get("samples") or ():
            encoded = sample.get("rawProfile") or sample.get("raw_profile") or ""
            yield RawProfile(labels, b64decode(encoded), str(sample.get("ID") or sample.get("id") or ""))
