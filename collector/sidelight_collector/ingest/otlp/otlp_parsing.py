"""Turn an OTLP request into windows, or raise the reason to refuse it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sidelight_collector.decompress import decompress_body
from sidelight_collector.ingest.otlp.otlp_attributes import (
    DEFAULT_SERVICE,
    is_label,
    read_resource_attributes,
    read_sample_attribute,
)
from sidelight_collector.ingest.otlp.otlp_dictionary import OtherLayout, OtlpDictionary, PprofStrings
from sidelight_collector.ingest.otlp.otlp_json import encode_json_request
from sidelight_collector.ingest.pyroscope.profile_windows import SentProfile, WindowBuilder, hash_profile
from sidelight_collector.ingest.pyroscope.push_parsing import build_json_limits
from sidelight_collector.ingest.pyroscope.series_labels import (
    SeriesLabels,
    check_label_count,
    map_series_labels,
)
from sidelight_collector.ingest.validation import IngestLimits, ParsedRequest, ReceivedRequest
from sidelight_model.export_formats.protobuf_writer import encode_message, encode_number, encode_varint
from sidelight_model.import_formats.protobuf_wire import (
    DamagedMessage,
    FieldValue,
    iter_fields,
    iter_integers,
    iter_messages,
    read_bytes,
    read_integer,
    read_numbers,
    read_text,
)
from sidelight_model.window import too_many_windows_error

JSON_DEPTH: Final = 24
_FIXED64_BYTES: Final = 8
_MAX_DURATION_NS: Final = 2**62


def parse_otlp(request: ReceivedRequest, limits: IngestLimits, *, is_json: bool) -> ParsedRequest:
    """Parse the profiles of a request. Raises the first reason to refuse it."""
    body = decompress_body(request.body, request.encoding, limits.max_body_bytes)
    message = body
    if is_json:
        message = encode_json_request(body, replace(build_json_limits(limits), max_depth=JSON_DEPTH))
    builder = WindowBuilder(limits, request.now_ns, request.writer)
    try:
        parser = _RequestParser(memoryview(message), builder)
        parser.parse()
    except DamagedMessage as error:
        raise OtherLayout(str(error)) from error
    builder.unpacked_bytes = parser.dictionary.encoded_bytes
    return replace(builder.finish(len(body)), ignored_timestamps=parser.timestamps)


class _RequestParser:
    """Adds the windows of a request to a builder.

    All methods raise OtherLayout and DamagedMessage.
    """

    def __init__(self, message: memoryview, builder: WindowBuilder) -> None:
        dictionary = memoryview(b"")
        for dictionary in iter_messages(message, 2):  # noqa: B007 - the last one counts
            pass
        self._message = message
        self._builder = builder
        self.dictionary = OtlpDictionary(dictionary, builder.profile_limits, builder.limits.max_body_bytes)
        self.timestamps = 0
        self._profiles = 0

    def parse(self) -> None:
        for resource_profiles in iter_messages(self._message, 1):
            attributes: list[tuple[str, str]] = []
            for resource in iter_messages(resource_profiles, 1):
                for attribute in read_resource_attributes(resource, self.dictionary):
                    attributes.append(attribute)
                    check_label_count(len(attributes))
            for scope in iter_messages(resource_profiles, 2):
                self._add_scope(scope, attributes)

    def _add_scope(self, message: memoryview, attributes: Sequence[tuple[str, str]]) -> None:
        scope: list[tuple[str, str]] = []
        for content in iter_messages(message, 1):
            texts = {at: read_text(text) for at, text in iter_fields(content) if at in (1, 2)}
            scope = [("otel.scope.name", texts.get(1, "")), ("otel.scope.version", texts.get(2, ""))]
        series: SeriesLabels | None = None
        for profile in iter_messages(message, 2):
            series = series or self._map_series(attributes, scope)
            self.dictionary.count_read(sum(len(name) + len(text) for name, text in attributes))
            self._profiles += 1
            if self._profiles > self._builder.limits.window_limits.max_windows:
                raise too_many_windows_error(self._builder.limits.window_limits.max_windows)
            self._add_profile(profile, series)

    def _map_series(
        self, attributes: Sequence[tuple[str, str]], scope: Sequence[tuple[str, str]]
    ) -> SeriesLabels:
        labels = [pair for pair in attributes if is_label(*pair)]
        names = {name for name, _ in labels}
        if "service.name" not in names and self._builder.writer is None:
            labels.append(("service.name", DEFAULT_SERVICE))
        if "k8s.namespace.name" not in names:
            labels += [("k8s.namespace.name", text) for name, text in labels if name == "service.namespace"]
        mapped = map_series_labels((*labels, *scope), "otlp")
        # The scope is the sampler's name in the quality of a window, and no label of it.
        own = {name: text for name, text in mapped.labels.items() if not name.startswith("otel_scope_")}
        dropped = frozenset(name.replace(".", "_") for name, text in attributes if not is_label(name, text))
        return replace(mapped, labels=own, dropped=mapped.dropped | dropped)

    def _add_profile(self, message: memoryview, series: SeriesLabels) -> None:
        """Turn a profile into pprof, and add its windows."""
        times = [0, 0, 0]
        types = {1: memoryview(b""), 5: memoryview(b"")}
        profile_id = b""
        for number, value in iter_fields(message):
            if number in types:
                types[number] = read_bytes(value)
            elif number == 3:
                times[0] = _read_fixed64(value)
            elif number in (4, 6):
                times[1 if number == 4 else 2] = min(read_integer(value), _MAX_DURATION_NS)
            elif number == 7:
                profile_id = bytes(read_bytes(value))
            elif number == 11:
                deque(iter_integers(value), maxlen=0)  # checks that there are numbers
        strings = PprofStrings()
        content = self._encode_value_type(1, types[1], strings)
        content += self._encode_samples(iter_messages(message, 2), strings, series)
        content += self._encode_value_type(11, types[5], strings)
        content += encode_number(9, times[0]) + encode_number(10, times[1]) + encode_number(12, times[2])
        table = strings.encode()
        self.dictionary.add_encoded(len(table))
        content += table
        self._builder.add_pprof(content, SentProfile(series, hash_profile(series, profile_id.hex(), content)))

    def _encode_value_type(self, field: int, message: memoryview, strings: PprofStrings) -> bytes:
        name, unit = map(self.dictionary.get_text, read_numbers(message, 1, 2))
        encoded = encode_number(1, strings.intern(name)) + encode_number(2, strings.intern(unit))
        return encode_message(field, encoded)

    def _encode_samples(
        self, samples: Iterable[memoryview], strings: PprofStrings, series: SeriesLabels
    ) -> bytes:
        stacks: dict[int, bytes] = {}
        labels: dict[int, bytes] = {}
        dropped: set[str] = set()
        add_label = partial(self._encode_label, strings=strings, dropped=dropped)
        encoded = bytearray()
        for sample in samples:
            stack = link = total = values = timestamp_bytes = 0
            tags = bytearray()
            for number, value in iter_fields(sample):
                if number == 1:
                    stack = read_integer(value)
                elif number == 2:
                    for attribute in iter_integers(read_bytes(value)):
                        if attribute not in labels:
                            labels[attribute] = add_label(attribute)
                        tags += labels[attribute]
                        self.dictionary.add_encoded(len(labels[attribute]))
                elif number == 3:
                    link = read_integer(value)
                elif number == 4:
                    # Only packed numbers: version 1.40 has the number of a link here.
                    for integer in iter_integers(read_bytes(value)):
                        total += integer
                        values += 1
                elif number == 5:
                    timestamp_bytes += len(read_bytes(value))
            count, rest = divmod(timestamp_bytes, _FIXED64_BYTES)
            if rest or values not in ((0, count) if count else (1,)):
                raise OtherLayout(f"a sample has {values} values and {count} timestamps")
            if link:
                self.dictionary.check_link(link)
                dropped.add("span_id")
            self.timestamps += count
            if stack not in stacks:
                stacks[stack] = self.dictionary.read_stack(stack)
            content = encode_message(1, stacks[stack])
            content += encode_message(2, encode_varint(total if values else count))
            self.dictionary.add_encoded(len(content))
            encoded += encode_message(2, content + tags)
        self._builder.count_dropped_labels(dropped - series.dropped)
        return bytes(encoded) + self.dictionary.encode_tables(stacks.values(), strings)

    def _encode_label(self, index: int, *, strings: PprofStrings, dropped: set[str]) -> bytes:
        name, text = read_sample_attribute(index, self.dictionary)
        if not is_label(name, text):
            if name:
                dropped.add(name.replace(".", "_"))
            return b""
        encoded = encode_number(1, strings.intern(name)) + encode_number(2, strings.intern(text))
        return encode_message(3, encoded)


def _read_fixed64(value: FieldValue) -> int:
    content = read_bytes(value)
    if len(content) != _FIXED64_BYTES:
        raise OtherLayout("the time of a profile is not a 64-bit number")
    return int.from_bytes(content, "little")
