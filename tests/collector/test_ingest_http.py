"""The whole collector, served on a free port and spoken to over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
import zstandard
from aiohttp import ClientConnectionError, ClientSession

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.ingest.memory_budget import MIN_REQUEST_BYTES
from sidelight_collector.ingest.validation import ParsedRequest, parse_request
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import StoreUnavailable
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.window import Window, encode_windows

Make = Callable[..., Window]
SECONDS = 120.0


class Troubled(MemoryStore):
    """A store in memory that holds or fails its writes for as long as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()
        self.reached = threading.Event()
        self.broken = False

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self.reached.set()
        assert self.go.wait(SECONDS)
        if self.broken:
            raise StoreUnavailable("the disk is gone", hint="Find it.")
        return super().put(key, content, if_absent=if_absent, if_match=if_match)


def stored(store: MemoryStore) -> list[str]:
    """Ids of every window in a store, one for each time it is there."""
    refs = list_segments(store, 0, 2**63 - 1)
    return [wid for ref in refs for wid in read_segment(store, ref, "profiles")["wid"].to_pylist()]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


async def test_an_acknowledged_window_is_in_the_store(serving: Any, make_window: Make) -> None:
    store, window = MemoryStore(), make_window("main;f 3", pod="p1")
    async with serving(store) as collector:
        answer = await collector.post(encode_windows([window]))
        assert stored(store) == [window.id]
        assert answer.status == 200
        assert answer.json == {"accepted": [window.id], "duplicates": []}
        status = (await collector.ask("GET", "/api/v1/status")).json
    assert status["windows_acknowledged"] == 1
    assert [(one["pod"], one["service"]) for one in status["sidecars"]] == [("p1", "shop")]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("zstd", zstandard.ZstdCompressor().compress),
        ("gzip", gzip.compress),
        ("identity", bytes),
        ("", bytes),
    ],
)
async def test_windows_may_come_compressed(
    serving: Any, make_window: Make, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    window = make_window("main;é 1 | main;[odd] name (a b.py:3);[gil] 2")
    headers = {"Content-Encoding": encoding} if encoding else {}
    async with serving(MemoryStore()) as collector:
        answer = await collector.post(pack(encode_windows([window])), **headers)
    assert answer.json["accepted"] == [window.id]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "application/x-new",
    ],
)
async def test_folded_text_may_come_from_curl(serving: Any, content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    store = MemoryStore()
    async with serving(store) as collector:
        body = b"main (a.py:1);f (a.py:2) 3\n"
        answer = await collector.post(body, "?service=shop&version=2&rate=50", **headers)
        assert answer.status == 200
    assert stored(store) == answer.json["accepted"]


async def test_an_upload_with_a_damaged_line_is_stored_and_names_it(serving: Any) -> None:
    store = MemoryStore()
    async with serving(store) as collector:
        answer = await collector.post(b"main 1\n" * 99 + b"main one\n", "?service=shop")
        assert answer.status == 200
        lines = answer.json["unreadable_lines"]
        assert lines == {"count": 1, "first": ["line 100: the count 'one' is not a whole number below 10^15"]}
        assert await collector.metric("sidelight_unreadable_lines_total") == 1
    assert stored(store) == answer.json["accepted"]


@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data; boundary=x", "image/png"])
async def test_what_cannot_be_folded_text_is_refused_by_its_type(serving: Any, content_type: str) -> None:
    async with serving(MemoryStore()) as collector:
        answer = await collector.post(b"main 1\n", "?service=shop", Content_Type=content_type)
        assert (answer.status, answer.reason) == (415, "unsupported_type")


async def test_a_window_sent_twice_is_stored_once(serving: Any, make_window: Make) -> None:
    store, window = MemoryStore(), make_window()
    async with serving(store) as collector:
        await collector.post(encode_windows([window]))
        again = await collector.post(encode_windows([window, window]))
        assert again.json["accepted"] == []
        assert again.json["duplicates"] == [window.id]
        both = await collector.post(encode_windows([other := make_window(), window, other]))
        assert both.json == {"accepted": [other.id], "duplicates": [window.id]}
    assert sorted(stored(store)) == sorted([window.id, other.id])


async def test_a_window_sent_twice_at_once_is_stored_once_and_answered_when_durable(
    serving: Any, make_window: Make
) -> None:
    store, body = Troubled(), encode_windows([make_window()])
    async with serving(store) as collector, asyncio.TaskGroup() as group:
        store.go.clear()
        sent = [group.create_task(collector.post(body)) for _ in range(5)]
        await until(store.reached.is_set)
        await until(lambda: True)
        assert not any(one.done() for one in sent)
        store.go.set()
    answers = [one.result().json for one in sent]
    assert sum(len(answer["accepted"]) for answer in answers) == 1
    assert sum(len(answer["duplicates"]) for answer in answers) == 4
    assert len(stored(store)) == 1


async def test_an_id_that_comes_again_with_other_content_is_refused_and_nothing_is_lost(
    serving: Any, make_window: Make
) -> None:
    store, first = MemoryStore(), make_window("a 1")
    clash = make_window("b 1", window_id=first.id, start_ns=first.start_ns)
    fresh = make_window("c 1")
    async with serving(store) as collector:
        await collector.post(encode_windows([first]))
        answer = await collector.post(encode_windows([fresh, clash]))
        assert (answer.status, answer.reason) == (409, "duplicate_id")
        assert first.id in answer.json["message"]
        other = make_window("a 1")
        pair = [other, make_window("b 1", window_id=other.id, start_ns=other.start_ns)]
        assert (await collector.post(encode_windows(pair))).reason == "duplicate_id"
        assert (await collector.post(encode_windows([fresh]))).json["accepted"] == [fresh.id]
    assert sorted(stored(store)) == sorted([first.id, fresh.id])


async def test_a_collector_that_starts_again_remembers_what_is_stored(
    serving: Any, make_window: Make
) -> None:
    store, window = MemoryStore(), make_window("a 1")
    async with serving(store) as collector:
        await collector.post(encode_windows([window]))
    async with serving(store) as collector:
        clash = encode_windows([make_window("b 1", window_id=window.id)])
        async with asyncio.timeout(SECONDS):
            while (answer := await collector.post(encode_windows([window]))).json["accepted"]:
                pass  # what comes before the recall is done is stored again, and counted once at read
        assert answer.json["duplicates"] == [window.id]
        assert (await collector.post(clash)).reason == "duplicate_id"


REFUSALS = {
    "bad_folded": (400, b"# %s\nmain f\n", {}),
    "bad_header": (400, b"# {}\nmain 1\n", {}),
    "bad_encoding": (415, b"main 1\n", {"Content-Encoding": "br"}),
    "unsupported_type": (415, b"{}", {"Content-Type": "application/json"}),
    "too_large": (413, b"m" * 200_001, {}),
}


@pytest.mark.parametrize("reason", REFUSALS)
async def test_every_refusal_has_one_word_and_is_counted_under_it(
    serving: Any, make_window: Make, reason: str
) -> None:
    status, body, headers = REFUSALS[reason]
    header = encode_windows([make_window()]).split(b"\n")[0][2:]
    async with serving(MemoryStore(), max_body_bytes=200_000) as collector:
        answer = await collector.post(body.replace(b"%s", header), **headers)
        assert (answer.status, answer.reason) == (status, reason)
        assert set(answer.json) == {"error", "message", "hint"}
        assert answer.json["hint"]
        assert await collector.metric(f'sidelight_refusals_total{{reason="{reason}"}}') == 1
        assert (await collector.post(encode_windows([make_window()]))).status == 200


async def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    serving: Any, make_window: Make
) -> None:
    body = encode_windows([make_window("main;f 1")])
    async with serving(MemoryStore(), max_body_bytes=len(body)) as collector:
        assert (await collector.post(body)).status == 200
        assert (await collector.post(body + b"\n")).reason == "too_large"
        packed = zstandard.ZstdCompressor().compress(body + b"\n" * 5000)
        assert (await collector.post(packed, Content_Encoding="zstd")).reason == "too_large"


async def test_a_body_of_unknown_length_is_stopped_at_the_limit(serving: Any) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 65_536
            yield b"m" * 65_536

    async with serving(MemoryStore(), max_body_bytes=1 << 20) as collector, ClientSession() as session:
        try:
            async with session.post(collector.url("/api/v1/windows"), data=endless()) as answer:
                assert answer.status == 413
        except ClientConnectionError:
            pass  # the server closed while the client was still writing, as it may
        assert await collector.metric('sidelight_refusals_total{reason="too_large"}') == 1
        assert sent < 64 << 20


async def test_nothing_at_a_path_and_a_wrong_method_are_json_too(serving: Any) -> None:
    async with serving(MemoryStore()) as collector:
        nothing = await collector.ask("GET", "/api/v2/windows")
        assert (nothing.status, nothing.reason) == (404, "not_found")
        wrong = await collector.ask("DELETE", "/api/v1/windows")
        assert (wrong.status, wrong.reason, wrong.headers["allow"]) == (405, "method_not_allowed", "POST")


async def test_a_failing_store_is_answered_503_and_the_window_arrives_when_sent_again(
    serving: Any, make_window: Make
) -> None:
    store, window = Troubled(), make_window()
    async with serving(store) as collector:
        store.broken = True
        answer = await collector.post(encode_windows([window]))
        assert (answer.status, answer.reason) == (503, "store_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json["message"] == "the disk is gone"
        assert await collector.metric('sidelight_store_errors_total{operation="put"}') == 1
        store.broken = False
        assert (await collector.post(encode_windows([window]))).json["accepted"] == [window.id]
    assert stored(store) == [window.id]


async def test_overload_is_answered_429_before_memory_grows(serving: Any, make_window: Make) -> None:
    store = Troubled()
    room = 3
    limit = room * MIN_REQUEST_BYTES + MIN_REQUEST_BYTES - 1
    limits = {"max_body_bytes": 1000, "max_pending_bytes": limit, "max_queue_seconds": 0}
    async with serving(store, **limits) as collector:
        store.go.clear()
        async with asyncio.TaskGroup() as group:
            held = [group.create_task(collector.post(encode_windows([make_window()]))) for _ in range(room)]
            pending = 0.0
            async with asyncio.timeout(SECONDS):
                while pending < room * MIN_REQUEST_BYTES:
                    pending = await collector.metric("sidelight_ingest_pending_bytes")
            refused = await collector.post(encode_windows([make_window()]))
            assert (refused.status, refused.reason) == (429, "overloaded")
            assert int(refused.headers["retry-after"]) > 0
            store.go.set()
        assert [one.result().status for one in held] == [200] * room
        assert await collector.metric("sidelight_ingest_pending_bytes") == 0
        assert (await collector.post(encode_windows([make_window()]))).status == 200


@pytest.mark.parametrize("seconds", [600, 0.2])
async def test_who_finds_no_room_waits_for_those_before(
    serving: Any, make_window: Make, seconds: float
) -> None:
    """A small request does not overtake a large one; who has waited long enough is refused."""
    store, large = Troubled(), encode_windows([make_window(f"main;{'f' * 100_000} 1")])
    other = encode_windows([make_window(f"main;{'g' * 100_000} 1")])
    limits = {"max_body_bytes": len(large), "max_pending_bytes": 2 * len(large) - 1}
    async with (
        serving(store, max_queue_seconds=seconds, **limits) as collector,
        asyncio.timeout(SECONDS),
        asyncio.TaskGroup() as group,
    ):

        async def count(name: str, least: float) -> float:
            while (value := await collector.metric(name)) < least:
                await asyncio.sleep(0.01)
            return value

        store.go.clear()
        held = group.create_task(collector.post(large))
        await count("sidelight_ingest_decompressed_bytes_total", 1)
        pending = await count("sidelight_ingest_pending_bytes", 1)
        packed = zstandard.ZstdCompressor().compress(other)
        second = group.create_task(collector.post(packed, Content_Encoding="zstd"))
        if seconds < 1:
            assert ((await second).status, second.result().reason) == (429, "overloaded")
        else:
            await count("sidelight_ingest_pending_bytes", pending + MIN_REQUEST_BYTES)
            third = group.create_task(collector.post(encode_windows([make_window()])))
            await count("sidelight_ingest_pending_bytes", pending + 2 * MIN_REQUEST_BYTES)
            assert not any(one.done() for one in (held, second, third))
            store.go.set()
            assert [(await one).status for one in (second, third)] == [200] * 2
        store.go.set()
        assert (await held).status == 200


async def test_what_there_is_no_room_for_once_it_is_unpacked_is_refused_before_that(
    serving: Any, make_window: Make
) -> None:
    store, text = Troubled(), encode_windows([make_window(f"main;{'f' * 100_000} 1")])
    packed = zstandard.ZstdCompressor().compress(text)
    damaged = packed[: zstandard.frame_header_size(packed)] + b"?" * 99
    limits = {
        "max_body_bytes": len(text),
        "max_pending_bytes": 2 * len(text) - 1,
        "max_queue_seconds": 0,
    }
    async with serving(store, **limits) as collector:
        assert (await collector.post(damaged, Content_Encoding="zstd")).reason == "bad_encoding"
        store.go.clear()
        held = asyncio.create_task(collector.post(packed, Content_Encoding="zstd"))
        async with asyncio.timeout(SECONDS):
            while not await collector.metric("sidelight_ingest_decompressed_bytes_total"):
                pass
        refused = await collector.post(damaged, Content_Encoding="zstd")
        assert (refused.status, refused.reason) == (429, "overloaded")
        store.go.set()
        assert (await held).status == 200


async def test_what_its_sender_no_longer_waits_for_is_not_read(
    serving: Any, make_window: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def parse(*given: Any) -> ParsedRequest:
        assert go.wait(SECONDS)
        return parse_request(*given)

    monkeypatch.setattr("sidelight_collector.ingest.handler.parse_request", parse)
    lines = "".join(f"main;handle_{n};query_{n % 97} (db/pool.py:{n}) {n + 1}\n" for n in range(60_000))
    bodies = [encode_windows([make_window("main 1")]) + lines.encode() for _ in range(4)]
    path = "/api/v1/windows"
    pending = sum(map(len, bodies))
    gone = f'sidelight_http_request_duration_seconds_count{{method="POST",route="{path}",status="499"}}'
    async with serving(MemoryStore(), decode_threads=1) as collector, asyncio.timeout(SECONDS):
        sent = [asyncio.create_task(collector.post(body)) for body in bodies[:3]]
        while await collector.metric("sidelight_ingest_pending_bytes") < sum(map(len, bodies[:3])):
            pass
        _, writer = await asyncio.open_connection("127.0.0.1", collector.port)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(bodies[3])}\r\n\r\n"
        writer.write(head.encode() + bodies[3])
        while await collector.metric("sidelight_ingest_pending_bytes") < pending:
            pass
        writer.transport.abort()
        await collector.ask("GET", "/livez")  # by its answer the collector has seen the end of the connection
        go.set()
        assert [(await one).status for one in sent] == [200] * 3
        while not await collector.metric(gone):
            pass
        assert await collector.metric("sidelight_ingest_decompressed_bytes_total") == sum(
            map(len, bodies[:3])
        )
        assert await collector.metric("sidelight_ingest_pending_bytes") == 0


async def test_a_slow_sender_is_given_up(serving: Any) -> None:
    never = asyncio.Event()

    async def stuck() -> Any:
        yield b"main;f "
        await never.wait()

    async with serving(MemoryStore(), max_receive_seconds=0.05) as collector, ClientSession() as session:
        async with session.post(collector.url("/api/v1/windows?service=s"), data=stuck()) as answer:
            assert (answer.status, (await answer.json())["error"]) == (408, "request_timeout")
        assert await collector.metric("sidelight_ingest_pending_bytes") == 0


async def test_the_loop_goes_on_while_a_large_body_is_read(serving: Any, make_window: Make) -> None:
    lines = "".join(f"main;handle_{n};query_{n % 97} (db/pool.py:{n}) {n + 1}\n" for n in range(90_000))
    body = encode_windows([make_window("main 1")]) + lines.encode()
    async with serving(MemoryStore(), decode_threads=1) as collector:
        sent = asyncio.create_task(collector.post(body))
        # CPU time of the process: while it stands still, nobody has a turn.
        began = last = time.process_time()
        longest, beats = 0.0, 0
        while not sent.done():
            await asyncio.sleep(0)
            now = time.process_time()
            longest, beats, last = max(longest, now - last), beats + 1, now
        whole = last - began
    assert sent.result().status == 200
    assert beats > 20
    assert longest < whole / 2, f"the loop stood still for {longest:.3f} s of {whole:.3f} s"


async def test_stopping_stores_and_answers_what_is_waiting(serving: Any, make_window: Make) -> None:
    store, window = MemoryStore(), make_window()
    async with serving(store, flush_seconds=3600.0) as collector:
        sent = asyncio.create_task(collector.post(encode_windows([window])))
        async with asyncio.timeout(SECONDS):
            while not await collector.metric("sidelight_ingest_decompressed_bytes_total"):
                pass
        collector.stop.set()
        answer = await sent
    assert answer.json["accepted"] == [window.id]
    assert stored(store) == [window.id]


async def test_a_stopping_collector_is_not_ready_and_takes_nothing_new(
    serving: Any, make_window: Make
) -> None:
    store = Troubled()
    async with serving(store) as collector:
        assert (await collector.ask("GET", "/readyz")).status == 200
        store.go.clear()
        held = asyncio.create_task(collector.post(encode_windows([make_window()])))
        await until(store.reached.is_set)
        collector.stop.set()
        async with asyncio.timeout(SECONDS):
            while (ready := await collector.ask("GET", "/readyz")).status == 200:
                pass
        assert (ready.status, ready.reason) == (503, "shutting_down")
        refused = await collector.post(encode_windows([make_window()]))
        assert (refused.status, refused.reason) == (503, "shutting_down")
        assert (await collector.ask("GET", "/livez")).status == 200
        store.go.set()
        assert (await held).status == 200


async def test_windows_need_a_token_where_tokens_are_set(serving: Any, make_window: Make) -> None:
    tokens = BearerTokens(write=("writer", "second"), read=("reader",))
    body = encode_windows([make_window()])
    async with serving(MemoryStore(), tokens) as collector:
        for authorization in ("", "Bearer", "Bearer x", "Bearer reader", "Basic writer", "writer"):
            answer = await collector.post(body, Authorization=authorization)
            assert (answer.status, answer.reason) == (401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await collector.post(body, Authorization="Bearer second")).status == 200
        assert (await collector.ask("GET", "/api/v1/services")).status == 401
        read = await collector.ask("GET", "/api/v1/services", headers={"Authorization": "bearer reader"})
        assert read.status == 200
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await collector.ask("GET", path)).status == 200
        for path in ("/api/v1/%77indows", "/api/v1/./windows", "//api/v1/windows", "/api/v1/windows/"):
            assert (await collector.ask("POST", path, body)).status in (401, 404, 405)


async def test_everything_is_served_below_a_path_prefix(serving: Any, make_window: Make) -> None:
    body = encode_windows([make_window()])
    async with serving(MemoryStore(), BearerTokens(write=("w",)), path_prefix="/profiles") as collector:
        assert (await collector.ask("POST", "/profiles/api/v1/windows", body)).status == 401
        authorized = {"Authorization": "Bearer w"}
        assert (await collector.ask("POST", "/profiles/api/v1/windows", body, authorized)).status == 200
        assert (await collector.ask("GET", "/profiles/api/v1/services")).status == 200
        assert (await collector.ask("GET", "/profiles/metrics")).status == 200
        assert (await collector.ask("GET", "/livez")).status == 200
        assert (await collector.ask("POST", "/api/v1/windows", body)).status in (404, 405)


async def test_a_defect_is_answered_500_as_json_and_the_collector_goes_on(
    serving: Any, make_window: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    async with serving(MemoryStore()) as collector:
        with monkeypatch.context() as patch:
            patch.setattr("sidelight_collector.ingest.handler.parse_request", broken)
            answer = await collector.post(encode_windows([make_window()]))
        assert (answer.status, answer.reason) == (500, "internal")
        assert "a defect" not in json.dumps(answer.json)
        assert (await collector.post(encode_windows([make_window()]))).status == 200


async def test_a_request_as_large_as_all_that_may_wait_is_taken(serving: Any, make_window: Make) -> None:
    body = encode_windows([make_window("main;" + "f" * 100_000 + " 1")])
    limits = {"max_body_bytes": len(body), "max_pending_bytes": len(body)}
    async with serving(MemoryStore(), **limits) as collector:
        assert (await collector.post(body)).status == 200


@pytest.mark.parametrize("quoted", [rb"\ud800", b"x" * 60_000])
async def test_whatever_a_refusal_quotes_it_is_short_json(serving: Any, quoted: bytes) -> None:
    async with serving(MemoryStore()) as collector:
        body = (
            b'# {"format":1,"id":"01M7YQVZYKSX6KCDH95ZVGXJS6","labels":{"service":"s"},"start_ns":1,'
            b'"duration_ns":1,"period_ns":1,"quality":{"%s":1}}\nmain 1\n' % quoted
        )
        answer = await collector.post(body)
        assert (answer.status, answer.reason) == (400, "bad_header")
        assert "unknown field" in answer.json["message"]
        assert len(answer.body) < 2000
        assert await collector.metric('sidelight_refusals_total{reason="bad_header"}') == 1


async def test_a_token_that_is_no_text_is_unknown_and_one_of_any_letters_is_known(serving: Any) -> None:
    async with serving(MemoryStore(), BearerTokens(read=("schlüssel",))) as collector:
        for given, status in ((b"schl\xff", 401), ("schlüssel".encode(), 200)):
            reader, writer = await asyncio.open_connection("127.0.0.1", collector.port)
            writer.write(
                b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Authorization: Bearer " + given + b"\r\n\r\n"
            )
            assert (await reader.readline()).split()[1] == str(status).encode()
            writer.close()


async def test_what_is_no_http_is_counted_and_leaves_no_traceback(
    serving: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(MemoryStore()) as collector:
        for sent in (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", collector.port)
            writer.write(sent)
            assert b" 400 " in await reader.readline()
            writer.close()
        assert await collector.metric('sidelight_refusals_total{reason="bad_request"}') >= 1
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_a_comparison_may_have_three_selectors_of_the_longest_kind(serving: Any) -> None:
    longest = quote('{service="' + "😀" * 4084 + '"}')
    async with serving(MemoryStore()) as collector:
        path = f"/api/v1/compare?query={longest}&baseline={longest}&comparison={longest}"
        answer = await collector.ask("GET", path)
    assert answer.status == 200
