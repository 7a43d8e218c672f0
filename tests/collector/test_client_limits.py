"""What clients send is limited before it is parsed, and bodies count in a memory budget."""

from __future__ import annotations

import asyncio
import json

import pytest
import zstandard

from sidelight_collector.http.request_body import MAX_LOOP_BYTES
from sidelight_collector.json_body import (
    JsonLimits,
    check_memory,
    estimate_memory,
    measure_depth,
    parse_json_object,
)
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.errors import LimitExceeded, Reason, SidelightError
from tests.collector.conftest import Running, Serve
from tests.collector.fake_sidecars import JSON, Sidecar, recording, started, until
from tests.collector.worst_bodies import MIB, SHAPES, measure

POLL = "/api/v1/agents/poll"
ZSTD = {**JSON, "Content-Encoding": "zstd"}
BOMB = b'{"x":[' + b"[]," * 300_000 + b"[]]}"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_estimate_is_above_the_memory_that_parsing_takes(shape: str) -> None:
    text = SHAPES[shape](2 * MIB)
    estimate = estimate_memory(text)
    assert 0 < measure(text, estimate) <= estimate
    assert measure(text, estimate - 1) == 0


def test_a_body_at_the_memory_limit_is_parsed() -> None:
    text = b'{"a":[1,2,{}]}'
    limits = JsonLimits(1000, estimate_memory(text), max_depth=3)
    assert parse_json_object(text, limits) == {"a": [1, 2, {}]}
    with pytest.raises(LimitExceeded) as refused:
        check_memory(text, estimate_memory(text) - 1, "Send less.")
    assert (refused.value.reason, refused.value.hint) == (Reason.TOO_LARGE, "Send less.")


def test_a_body_deeper_than_the_limit_is_refused() -> None:
    assert measure_depth(rb'{"a\"[[[":[[1],"]]{",[]]}') == 3
    text = b'{"a":[[1]]}'
    assert parse_json_object(text, JsonLimits(1000, 10_000, max_depth=3))
    with pytest.raises(SidelightError, match="more than 2 levels deep") as refused:
        parse_json_object(text, JsonLimits(1000, 10_000, max_depth=2))
    assert refused.value.reason is Reason.BAD_JSON


async def test_a_small_poll_with_too_many_values_is_refused(serving: Serve) -> None:
    async with serving(MemoryStore(), capture_max_poll_bytes=MIB) as collector:
        body = zstandard.compress(BOMB)
        assert len(body) < 1000
        refused = await collector.ask("POST", POLL, body, ZSTD)
        assert (refused.status, refused.reason) == (413, "too_large")
        assert "--capture-max-poll-bytes" in refused.json["hint"]
        assert await collector.metric("sidelight_capture_pending_bytes") == 0


@pytest.mark.parametrize("size", [MAX_LOOP_BYTES, MAX_LOOP_BYTES + 1])
async def test_a_poll_parsed_on_or_off_the_event_loop_is_answered(serving: Serve, size: int) -> None:
    body = json.dumps({"agent": "a", "labels": {"service": "s"}, "x": ""}).encode()
    body = body.replace(b'""', b'"' + b"x" * (size - len(body)) + b'"')
    assert len(body) == size
    async with serving(MemoryStore()) as collector:
        assert (await collector.ask("POST", POLL, body, JSON)).status == 200
        assert (await collector.ask("POST", POLL, b"[" * 9 + body, JSON)).reason == "bad_json"


async def test_a_link_and_a_capture_request_with_too_many_values_are_refused(serving: Serve) -> None:
    values = b'{"path":[' + b"[]," * 20_000 + b"[]]}"
    async with serving(MemoryStore()) as collector:
        for path in ("/api/v1/links", "/api/v1/captures"):
            refused = await collector.ask("POST", path, values, JSON)
            assert (refused.status, refused.reason) == (413, "too_large"), path


async def test_a_recording_with_too_many_values_is_refused(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        raw = json.dumps(recording(made["id"], sidecar.agent, sidecar.labels, 12)).encode()
        bomb = raw[:-1] + b',"x":[' + b"[]," * (6 * MIB) + b"[]]}"
        path = f"/api/v1/captures/{made['id']}/recordings/{sidecar.agent}-12"
        refused = await collector.ask("PUT", path, zstandard.compress(bomb), ZSTD)
        assert (refused.status, refused.reason) == (413, "too_large")
        assert "--timeline-recording-max-memory-bytes" in refused.json["hint"]
        assert (await collector.ask("PUT", path, zstandard.compress(raw), ZSTD)).status == 201


async def test_a_recording_at_its_memory_limit_is_stored(serving: Serve) -> None:
    store = MemoryStore()
    async with serving(store) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        raw = json.dumps(recording(made["id"], sidecar.agent, sidecar.labels, 12)).encode()
    path = f"/api/v1/captures/{made['id']}/recordings/{sidecar.agent}-12"
    for less, status in ((0, 201), (1, 413)):
        limit = estimate_memory(raw) - less
        async with serving(store, timeline_recording_max_memory_bytes=limit) as collector:
            assert (await collector.ask("PUT", path, zstandard.compress(raw), ZSTD)).status == status


async def test_a_window_header_above_the_limit_is_refused(serving: Serve) -> None:
    header = b'# {"format":1,"id":"01M883X8HS0WFBGHX9PDRD4GHS","x":[' + b"[]," * MIB + b"[]]}\na;b 1\n"
    async with serving(MemoryStore()) as collector:
        refused = await collector.post(zstandard.compress(header), Content_Encoding="zstd")
        assert (refused.status, refused.reason) == (413, "too_large")
        assert "--max-window-header-bytes" in refused.json["hint"]


async def begin_upload(
    collector: Running, path: str, size: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send the head of an upload and nothing of its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", collector.port)
    writer.write(f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n".encode())
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_recording_without_a_part_is_refused_before_its_body_arrives(
    serving: Serve, is_known: bool
) -> None:
    async with serving(MemoryStore()) as collector:
        capture_id = "c_01M883XB1SK9Y8CVHV1VR54JHX"
        if is_known:
            capture_id = (await started(collector))["id"]
        reader, writer = await begin_upload(
            collector, f"/api/v1/captures/{capture_id}/recordings/stranger-1", 8 * MIB
        )
        async with asyncio.timeout(60):
            status = (await reader.readline()).split()[1]
        assert status == (b"400" if is_known else b"404")
        writer.close()


async def test_recordings_that_arrive_count_in_the_budget(serving: Serve) -> None:
    limits = {"timeline_recording_max_bytes": MIB, "capture_max_pending_bytes": MIB}
    async with serving(MemoryStore(), **limits) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        path = f"/api/v1/captures/{made['id']}/recordings/{sidecar.agent}-12"
        _, writer = await begin_upload(collector, path, MIB)
        writer.write(b"x" * (MIB - 1))
        await writer.drain()

        async def is_charged() -> bool:
            return await collector.metric("sidelight_capture_pending_bytes") == MIB - 1

        await until("the body is charged", is_charged)
        refused = await sidecar.record(made["id"])
        assert (refused.status, refused.reason) == (429, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        writer.close()

        async def is_free() -> bool:
            return await collector.metric("sidelight_capture_pending_bytes") == 0

        await until("the budget is free", is_free)
        assert (await sidecar.record(made["id"])).status == 201


async def test_a_poll_that_waits_holds_no_budget(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        asking = asyncio.create_task(Sidecar(collector, problem="x" * 100_000).ask(hold=240))

        async def is_waiting() -> bool:
            return await collector.metric("sidelight_pending_polls") == 1

        await until("the poll waits", is_waiting)
        assert await collector.metric("sidelight_capture_pending_bytes") == 0
        await started(collector)
        assert (await asking).status == 200


async def test_a_sidecar_adds_as_many_recordings_as_allowed_and_may_replace_one(serving: Serve) -> None:
    async with serving(MemoryStore(), timeline_recording_max_per_sidecar=2) as collector:
        sidecar, other = Sidecar(collector), Sidecar(collector, "p-2")
        other.agent = f"{sidecar.agent}-1"  # a name that begins like that of the first
        for each in (sidecar, other):
            await each.ask()
        made = await started(collector, pods="all")
        for pid in (1, 2):
            assert (await sidecar.record(made["id"], pid)).status == 201
        refused = await sidecar.record(made["id"], 3)
        assert (refused.status, refused.reason) == (413, "too_many_recordings")
        assert "--timeline-recording-max-per-sidecar" in refused.json["hint"]
        # Also before the body arrives, and for recordings that arrive at the same time.
        reader, writer = await begin_upload(
            collector, f"/api/v1/captures/{made['id']}/recordings/{sidecar.agent}-4", MIB
        )
        async with asyncio.timeout(60):
            assert (await reader.readline()).split()[1] == b"413"
        writer.close()
        assert (await sidecar.record(made["id"], 2)).status == 201
        together = await asyncio.gather(*(other.record(made["id"], pid) for pid in range(1, 7)))
        assert sorted(one.status for one in together) == [201] * 2 + [413] * 4
        stored = (await collector.get(f"captures/{made['id']}/recordings", {})).json["recordings"]
        assert len(stored) == 4
