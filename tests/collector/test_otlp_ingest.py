"""OpenTelemetry profiles, to a whole collector over HTTP."""

from __future__ import annotations

import gzip
import itertools
import json
import time
import tracemalloc
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.ingest.memory_budget import MIN_REQUEST_BYTES
from sidelight_collector.ingest.otlp import otlp_dictionary
from sidelight_collector.ingest.otlp.otlp_handler import VERSION_HEADER
from sidelight_collector.ingest.otlp.otlp_parsing import parse_otlp
from sidelight_collector.ingest.pyroscope.profile_sums import BadProfile
from sidelight_collector.ingest.validation import IngestLimits, ParsedRequest, ReceivedRequest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.counts import FURTHER_STATES
from sidelight_model.errors import LimitExceeded, SidelightError
from sidelight_model.export_formats.protobuf_writer import encode_message
from sidelight_model.window import WindowLimits
from tests.collector.otlp_bodies import MS, SECOND_NS, Request
from tests.collector.test_pyroscope_ingest import stored

PATH = "/v1development/profiles"
PROTO = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
FOLDER = Path(__file__).parent / "otlp"
SDK_REQUEST = FOLDER / "sdk-0.63b4-proto-1.45.bin"
"""A request of opentelemetry-sdk-extension-profiling 0.63b4 with opentelemetry-proto 1.45."""
OLD_SDK_REQUEST = FOLDER / "sdk-0.63b4-proto-1.40.bin"
"""The same with opentelemetry-proto 1.40, whose samples have other fields."""


def request() -> Request:
    built = Request()
    profile = built.profile()
    built.sample(profile, "main;f", [7])
    built.sample(profile, "main;g", timestamps=3)
    return built


def to_json(built: Request) -> bytes:
    """The request in OTLP's JSON, whose ids are hexadecimal."""
    document = MessageToDict(built.message)
    for resource in document["resourceProfiles"]:
        for scope in resource["scopeProfiles"]:
            for profile in scope["profiles"]:
                profile["profileId"] = b64decode(profile["profileId"]).hex()
    return json.dumps(document).encode()


@pytest.mark.parametrize("form", ["proto", "gzip", "json", "json gzip"])
async def test_profiles_are_stored_in_every_encoding_and_once(serving: Any, form: str) -> None:
    built, store = request(), MemoryStore()
    body, headers = (to_json(built), dict(JSON)) if "json" in form else (encode(built), dict(PROTO))
    if "gzip" in form:
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    async with serving(store) as collector:
        for _ in range(2):
            answer = await collector.ask("POST", PATH, body, headers)
            assert (answer.status, answer.body) == (200, b"{}" if "json" in form else b""), answer.body
            assert answer.headers["content-type"].startswith(headers["Content-Type"])
        assert await collector.metric("sidelight_windows_duplicate_total") == 1
        assert await collector.metric("sidelight_otlp_timestamps_ignored_total") == 6
        assert await collector.metric('sidelight_otlp_labels_dropped_total{label="pid"}') == 0
        assert await collector.metric('sidelight_otlp_labels_dropped_total{label="(other)"}') == 2
    [window] = stored(store)
    assert window["stacks"] == {"main (a.py:1);f (a.py:2)": 7, "main (a.py:1);g (a.py:2)": 3}
    assert (window["running"], window["period_ns"], window["sampler"]) == (10, 10 * MS, "spy 1.2")
    names = ("service", "version", "namespace", "pod")
    assert [window[name] for name in names] == ["shop.checkout", "7", "shop", "shop-1"]
    assert dict(window["labels"])["deployment_environment_name"] == "live"
    assert window["missing_states"] == ["idle", "gil", *FURTHER_STATES]


def encode(built: Request) -> bytes:
    return bytes(built.message.SerializeToString())


async def test_profiles_share_a_dictionary_and_keep_their_labels_and_types(serving: Any) -> None:
    built, store = Request({"service.name": "shop", "host.id": "7"}), MemoryStore()
    cpu, wall = built.profile(), built.profile(("wall", "nanoseconds"), ("wall", "nanoseconds"))
    memory = built.profile(("alloc_space", "bytes"), ("", ""))
    names = [f"f{number}" for number in range(300)]
    built.sample(cpu, ";".join(names), [5], http_route="/cart", thread_id=1)
    built.sample(cpu, ";".join(names), [2], http_route="/pay", thread_id=2)
    built.sample(wall, "f1", [40 * MS])
    built.sample(memory, "f1", [9])
    async with serving(store) as collector:
        answer = await collector.ask("POST", PATH, encode(built), PROTO)
        assert answer.status == 200
        response = ExportProfilesServiceResponse.FromString(answer.body)
        assert (response.partial_success.rejected_profiles, "memory" in str(response)) == (1, True)
        assert await collector.metric('sidelight_otlp_profiles_not_stored_total{type="memory"}') == 1
        assert await collector.metric('sidelight_otlp_labels_dropped_total{label="thread_id"}') == 1
    windows = stored(store)
    assert {(dict(w["labels"]).get("http_route"), w["running"], w["idle"]) for w in windows} == {
        ("/cart", 5, 0),
        ("/pay", 2, 0),
        (None, 0, 4),
    }
    deep = ";".join(f"{name} (a.py:{line})" for line, name in enumerate(names, 1))
    assert [list(window["stacks"]) for window in windows].count([deep]) == 2


async def test_a_resource_without_a_name_is_an_unknown_service(serving: Any) -> None:
    built, store = Request({}), MemoryStore()
    built.sample(built.profile(), "", [5])
    async with serving(store) as collector:
        assert (await collector.ask("POST", PATH, encode(built), PROTO)).status == 200
    [window] = stored(store)
    assert (window["service"], window["stacks"]) == ("unknown_service", {"(no frames)": 5})


async def test_a_request_of_the_python_sdk_is_stored(serving: Any) -> None:
    store = MemoryStore()
    recorded = ExportProfilesServiceRequest.FromString(SDK_REQUEST.read_bytes())
    for profile in recorded.resource_profiles[0].scope_profiles[0].profiles:
        profile.time_unix_nano = time.time_ns() - 20 * SECOND_NS
    async with serving(store) as collector:
        answer = await collector.ask("POST", PATH, recorded.SerializeToString(), PROTO)
        assert answer.status == 200, answer.body
        timestamps = await collector.metric("sidelight_otlp_timestamps_ignored_total")
    [window] = stored(store)
    assert (window["service"], window["pod"], window["running"]) == ("shop", "shop-1", 0)
    assert window["idle"] == timestamps > 0
    assert all("<module>" in stack.split(";")[0] and "app.py:" in stack for stack in window["stacks"])
    assert window["sampler"] == "opentelemetry.sdk.extension.profiling 0.63b4"


def change(edit: Callable[[Request], object]) -> bytes:
    built = request()
    edit(built)
    return encode(built)


def first(built: Request) -> Any:
    return built.scope.profiles[0]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (OLD_SDK_REQUEST.read_bytes(), "a number is expected"),
        (change(lambda r: r.dictionary.string_table.__setitem__(0, "x")), "index 0 of string_table"),
        (change(lambda r: first(r).samples.add(stack_index=9, values=[1])), "index 9 is beyond stack_table"),
        (change(lambda r: first(r).samples.add(stack_index=-1, values=[1])), "index -1"),
        (change(lambda r: r.dictionary.stack_table[1].location_indices.append(99)), "location_table"),
        (change(lambda r: r.dictionary.stack_table[1].location_indices.append(-1)), "cannot exist"),
        (change(lambda r: setattr(first(r).sample_type, "unit_strindex", 77)), "string_table"),
        (change(lambda r: setattr(first(r).samples[0], "link_index", 3)), "link_table"),
        (change(lambda r: first(r).samples[0].attribute_indices.append(3)), "attribute_table"),
        (change(lambda r: first(r).samples[0].values.append(3)), "2 values and 0 timestamps"),
        (change(lambda r: first(r).samples[1].values.append(3)), "1 values and 3 timestamps"),
        (change(lambda r: r.message.ClearField("dictionary")), "beyond"),
        (change(lambda r: first(r).samples.add(stack_index=1)), "0 values and 0 timestamps"),
        (encode(request())[:-7], "ends beyond"),
        # Profile of version 1.7: location_indices = 3, where 1.45 has the time.
        (b"\x0a\x08\x12\x06\x12\x04\x1a\x02\x01\x02", "64-bit"),
        (b"\x0a\x02\x08\x01", "a number is"),
    ],
    ids=itertools.count(),
)
async def test_another_layout_is_refused_and_nothing_of_it_stored(
    serving: Any, body: bytes, word: str
) -> None:
    store = MemoryStore()
    async with serving(store) as collector:
        answer = await collector.ask("POST", PATH, body, PROTO)
        assert (answer.status, answer.headers["content-type"]) == (400, "application/x-protobuf")
        text = answer.body.decode(errors="replace")
        assert word in text or "bytes are" in text, text
        assert "1.45" in text
        assert await collector.metric('sidelight_refusals_total{reason="bad_profile"}') == 1
    assert stored(store) == []


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"[]", 400, "not a JSON object"),
        (b"{", 400, "not JSON"),
        (b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sample":[]}]}]}]}', 400, "field `sample`"),
        (b'{"resourceProfiles":{}}', 400, "a list is expected"),
        (b'{"dictionary":{"stringTable":[1]}}', 400, "a text is expected"),
        (b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"period":"1e3"}]}]}]}', 400, "another type"),
        (b'{"resourceProfiles":[' + b"[]," * 200_000 + b"1]}", 413, "too many values"),
    ],
)
async def test_a_refusal_says_what_is_wrong_with_json(
    serving: Any, body: bytes, status: int, word: str
) -> None:
    async with serving(MemoryStore(), max_body_bytes=1 << 20) as collector:
        answer = await collector.ask("POST", PATH, body, JSON)
        assert answer.status == status, answer.body
        assert word in answer.json["message"]


async def test_the_version_is_checked_before_the_body(serving: Any) -> None:
    async with serving(MemoryStore()) as collector:
        for version, status in (("1", 200), ("2", 400), ("1, 1", 400), ("", 400)):
            answer = await collector.ask("POST", PATH, encode(request()), {**PROTO, VERSION_HEADER: version})
            assert answer.status == status, answer.body
        answer = await collector.ask("POST", PATH, b"", {"Content-Type": "text/plain"})
        assert (answer.status, answer.reason) == (415, "unsupported_type")
        assert (await collector.ask("POST", PATH, b"", PROTO)).status == 200


async def test_profiles_need_a_token_and_share_the_memory_budget(serving: Any) -> None:
    tokens = BearerTokens(write=("s3cret",))
    async with serving(MemoryStore(), tokens=tokens) as collector:
        for token, status in (("", 401), ("Bearer s3cret", 200)):
            answer = await collector.ask("POST", PATH, encode(request()), {**PROTO, "Authorization": token})
            assert answer.status == status
    small = {"max_body_bytes": 1000, "max_pending_bytes": MIN_REQUEST_BYTES - 1}
    async with serving(MemoryStore(), **small) as collector:
        answer = await collector.ask("POST", PATH, encode(request()), PROTO)
        assert (answer.status, "retry-after" in answer.headers) == (429, True)
    async with serving(MemoryStore(), otlp_ingest=False) as collector:
        assert (await collector.ask("POST", PATH, b"", PROTO)).status == 405


async def test_a_shared_dictionary_does_not_multiply_the_memory_of_a_request(serving: Any) -> None:
    built = Request()
    deep = ";".join(f"f{number}" for number in range(500))
    profile = built.profile()
    built.sample(profile, deep, [1])
    for _ in range(2000):
        profile.samples.add(stack_index=1, values=[1])
    async with serving(MemoryStore(), max_body_bytes=1 << 17) as collector:
        assert len(encode(built)) < 1 << 16
        answer = await collector.ask("POST", PATH, encode(built), PROTO)
        assert answer.status == 413, answer.body


SMALL_LIMITS = IngestLimits(WindowLimits(), 1 << 18, 300 * SECOND_NS, 7 * 86_400 * SECOND_NS)


def parse(body: bytes) -> ParsedRequest:
    return parse_otlp(ReceivedRequest(body, "", {}, time.time_ns(), None), SMALL_LIMITS, is_json=False)


def nest(content: bytes, *fields: int) -> bytes:
    for field in reversed(fields):
        content = encode_message(field, content)
    return content


EMPTY = 20_000 * b"\x12\x00"
"""Messages without content: field 2 of requests, resources, scopes and profiles."""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(20_000 * b"\x0a\x00", id="resources"),
        pytest.param(nest(EMPTY, 1), id="scopes"),
        pytest.param(nest(EMPTY, 1, 2), id="profiles"),
        pytest.param(nest(EMPTY, 1, 2, 2), id="samples"),
        pytest.param(nest(20_000 * b"\x0a\x00", 1, 1), id="attributes"),
        pytest.param(nest(20_000 * b"\x80\x04", 1, 2, 2, 2, 4), id="values"),
        pytest.param(nest(20_000 * b"\x80\x04", 1, 2, 2, 11), id="attributes of a profile"),
    ],
)
def test_many_empty_parts_take_no_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with suppress(SidelightError):
            assert parse(body).windows == []
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


def test_profiles_cannot_read_a_large_part_of_the_tables_again_and_again() -> None:
    built = Request()
    built.sample(built.profile(), "f", [1], thread_name="x" * 100_000)
    for _ in range(30):
        built.profile().samples.add(stack_index=1, values=[1], attribute_indices=[1])
    with pytest.raises(LimitExceeded, match="of the tables that they share"):
        parse(encode(built))


def test_profiles_cannot_copy_a_long_attribute_again_and_again() -> None:
    built = Request({"service.name": "shop", "long": "x" * 100_000})
    for _ in range(30):
        built.profile(("alloc_space", "bytes"), ("", ""))
    with pytest.raises(LimitExceeded, match="of the tables that they share"):
        parse(encode(built))


def test_the_locations_of_a_very_long_stack_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_dictionary, "_CHUNK_BYTES", 7)
    built = Request()
    profile = built.profile()
    names = [f"f{number}" for number in range(300)]
    built.sample(profile, ";".join(names), [1])
    [window] = parse(encode(built)).windows
    assert list(window.stacks) == [";".join(f"{name} (a.py:{line})" for line, name in enumerate(names, 1))]
    built.dictionary.stack_table[1].location_indices.append(-1)
    with pytest.raises(BadProfile, match="a location that cannot exist"):
        parse(encode(built))
