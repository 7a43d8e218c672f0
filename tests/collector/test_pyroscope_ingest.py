"""Profiles as Pyroscope's clients send them, to a whole collector over HTTP."""

from __future__ import annotations

import gzip
import json
import time
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.ingest.memory_budget import MIN_REQUEST_BYTES
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.counts import FURTHER_STATES
from sidelight_model.window import Quality, encode_windows
from tests.collector.pyroscope_bodies import MS, SECOND_NS, message, number, pprof, push, sample

PUSH = "/push.v1.PusherService/Push"
PROTO = {"Content-Type": "application/proto"}
STACKS = (sample("main;f", 70 * MS), sample("main;g", 30 * MS))


def stored(store: MemoryStore) -> list[dict[str, Any]]:
    """The windows of a store, with their stacks."""
    windows: list[dict[str, Any]] = []
    for ref in list_segments(store, 0, 2**63 - 1):
        texts = {row["h"]: ";".join(row["frames"]) for row in read_segment(store, ref, "stacks").to_pylist()}
        rows = read_segment(store, ref, "samples").to_pylist()
        for window in read_segment(store, ref, "profiles").to_pylist():
            own = [row for row in rows if row["wid"] == window["wid"]]
            window["stacks"] = {texts[row["h"]]: row["running"] + row["idle"] for row in own}
            windows.append(window)
    return sorted(windows, key=lambda window: window["wid"])


def now_ns(seconds_ago: int = 20) -> int:
    return time.time_ns() - seconds_ago * SECOND_NS


@pytest.mark.parametrize("form", ["proto", "gzip", "nested gzip", "json"])
async def test_a_push_is_stored_in_every_encoding_and_once(serving: Any, form: str) -> None:
    profile = pprof(STACKS, start_ns=now_ns())
    body, headers = push(profile, packed=form == "nested gzip"), dict(PROTO)
    if form.endswith("gzip"):
        body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
    if form == "json":
        labels = [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": "shop"}]
        samples = [{"rawProfile": b64encode(profile).decode(), "ID": "id-0"}]
        body = json.dumps({"series": [{"labels": labels, "samples": samples}]}).encode()
        headers["Content-Type"] = "application/json"
    store = MemoryStore()
    async with serving(store) as collector:
        for _ in range(2):
            answer = await collector.ask("POST", PUSH, body, headers)
            assert (answer.status, answer.body) == (200, b"{}" if form == "json" else b"")
            assert answer.headers["content-type"].startswith(headers["Content-Type"])
        assert await collector.metric("sidelight_windows_duplicate_total") == 1
    [window] = stored(store)
    assert (window["service"], window["running"], window["period_ns"]) == ("shop", 10, 10 * MS)
    assert window["stacks"] == {"main (a.py:1);f (a.py:2)": 7, "main (a.py:1);g (a.py:2)": 3}
    assert window["missing_states"] == ["idle", "gil", *FURTHER_STATES]
    assert (window["attempts"], window["mode"]) == (0, "")


async def test_labels_become_those_of_windows(serving: Any) -> None:
    labels = {
        "__name__": "process_cpu",
        "service_name": "shop.checkout",
        "service.name": "ignored",
        "k8s.pod.name": "shop-1",
        "otel.scope.name": "com.grafana.pyroscope/python",
        "otel.scope.version": "1.4.0",
        "process.runtime.name": "cpython",
        "process.runtime.version": "3.11.7",
        "__session_id__": "5",
    }
    profile = pprof(
        [
            sample("main", 10 * MS, endpoint="/cart", span_id="1", thread_id="7"),
            sample("main", 20 * MS, endpoint="/cart", span_id="2", thread_id="8"),
            sample("main", 40 * MS, endpoint="/pay", span_id="3"),
            sample("", 30 * MS, bytes=5),
        ],
        start_ns=now_ns(),
    )
    store = MemoryStore()
    async with serving(store, pyroscope_tenant_label="namespace") as collector:
        headers = {**PROTO, "X-Scope-OrgID": "team-a"}
        assert (await collector.ask("POST", PUSH, push(profile, labels=labels), headers)).status == 200
        dropped = [
            await collector.metric(f'sidelight_pyroscope_labels_dropped_total{{label="{name}"}}')
            for name in ("span_id", "thread_id", "__session_id__", "(other)", "pid")
        ]
    assert dropped == [1, 1, 1, 1, 0]
    windows = stored(store)
    assert {(dict(window["labels"]).get("endpoint"), window["running"]) for window in windows} == {
        ("/cart", 3),
        ("/pay", 4),
        (None, 3),
    }
    assert {(w["service"], w["pod"], w["namespace"], w["sampler"], w["python"]) for w in windows} == {
        ("shop.checkout", "shop-1", "team-a", "com.grafana.pyroscope/python 1.4.0", "3.11.7")
    }
    assert dict(windows[0]["labels"])["process_runtime_name"] == "cpython"


async def test_other_values_than_time_are_counted_and_break_no_client(serving: Any) -> None:
    memory = pprof([sample("f", 5, 9)], [("alloc_objects", "count"), ("alloc_space", "bytes")])
    store, labels = MemoryStore(), {"__name__": "memory", "service_name": "shop"}
    async with serving(store) as collector:
        both = push(memory, labels=labels) + push(pprof(STACKS, start_ns=now_ns()))
        answer = await collector.ask("POST", PUSH, both, PROTO)
        assert (answer.status, answer.headers["sidelight-not-stored"]) == (200, "memory")
        assert (await collector.ask("POST", PUSH, push(memory, labels=labels), PROTO)).status == 200
        query = "?name=shop.alloc_space&units=bytes"
        assert (await collector.ask("POST", f"/ingest{query}", b"f;g 12\n")).status == 200
        name = 'sidelight_pyroscope_profiles_not_stored_total{type="memory"}'
        assert await collector.metric(name) == 3
        assert (await collector.ask("POST", PUSH, b"", PROTO)).status == 200
    assert [window["running"] for window in stored(store)] == [10]


async def upload(collector: Any, query: str, body: bytes, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    begin = int(time.time()) - 20
    return await collector.ask("POST", f"{query}&from={begin}&until={begin + 10}", body, named)


def form(*fields: tuple[str, bytes]) -> bytes:
    parts = [
        b'--sep\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n'
        % (name.encode(), content)
        for name, content in fields
    ]
    return b"".join(parts) + b"--sep--\r\n"


SPEEDSCOPE = {
    "shared": {
        "frames": [{"name": "main", "file": "a.py", "line": 1}, {"name": "f", "file": "a.py", "line": 2}]
    },
    "profiles": [
        {"type": "sampled", "unit": "seconds", "name": "x", "samples": [[0, 1], []], "weights": [0.07, 0.01]},
        {
            "type": "evented",
            "unit": "milliseconds",
            "name": "y",
            "startValue": 0,
            "endValue": 40,
            "events": [
                {"type": "O", "at": 5, "frame": 0},
                {"type": "O", "at": 35, "frame": 1},
                {"type": "C", "at": 35, "frame": 1},
                {"type": "C", "at": 35, "frame": 0},
            ],
        },
    ],
}


@pytest.mark.parametrize(
    ("query", "content", "headers", "stacks"),
    [
        ("/ingest?name=shop&format=pprof", pprof(STACKS), {}, {"f (a.py:2)": 7, "g (a.py:2)": 3}),
        (
            "/pyroscope/ingest?name=shop",
            form(("sample_type_config", b"{}"), ("profile", gzip.compress(pprof(STACKS), mtime=0))),
            {"Content_Type": "multipart/form-data; boundary=sep"},
            {"f (a.py:2)": 7, "g (a.py:2)": 3},
        ),
        ("/ingest?name=shop.cpu", b"main (a.py:1);f 7\n 3\r\n", {}, {"f": 7, "(no frames)": 3}),
        ("/ingest?name=shop&format=lines", b"main (a.py:1);f\nmain (a.py:1);f\r\n", {}, {"f": 2}),
        (
            "/ingest?name=shop&format=speedscope",
            json.dumps(SPEEDSCOPE).encode(),
            {},
            {"f (a.py:2)": 7, "main (a.py:1)": 3},
        ),
        (
            "/ingest?name=shop",
            gzip.compress(b"main (a.py:1);f 7\n", mtime=0),
            {"Content_Encoding": "gzip"},
            {"f": 7},
        ),
    ],
)
async def test_an_upload_is_stored_in_every_format_and_once(
    serving: Any, query: str, content: bytes, headers: dict[str, str], stacks: dict[str, int]
) -> None:
    store = MemoryStore()
    query += "&spyName=pyspy&sampleRate=100"
    async with serving(store) as collector:
        first = await upload(collector, query, content, **headers)
        assert (first.status, first.body) == (200, b""), first.body
        assert await collector.metric("sidelight_windows_accepted_total") == 1
    [window] = stored(store)
    assert {
        stack.removeprefix("main (a.py:1);"): count for stack, count in window["stacks"].items()
    } == stacks
    assert (window["service"], window["sampler"], window["duration_ns"]) == ("shop", "pyspy", 10 * SECOND_NS)


async def test_a_repeated_upload_counts_once_and_another_range_twice(serving: Any) -> None:
    store, begin = MemoryStore(), int(time.time()) - 60
    async with serving(store) as collector:
        for start in (begin, begin, begin + 10):
            query = f'/ingest?name=shop{{region=eu,zone="a"}}&from={start}&until={start + 10}'
            assert (await collector.ask("POST", query, b"main;f 3\n")).status == 200
    windows = stored(store)
    assert [(window["running"], dict(window["labels"])["zone"]) for window in windows] == [(3, "a"), (3, "a")]


async def test_wall_time_is_no_cpu_time(serving: Any) -> None:
    store = MemoryStore()
    types = [("sample", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")]
    both = pprof([sample("f", 5, 50 * MS, 20 * MS)], types, start_ns=now_ns())
    wall = pprof([sample("f", 9, 50 * MS)], types[:2], start_ns=now_ns(40))
    off = [types[2], ("off_cpu", "nanoseconds")]
    apart = pprof([sample("f", 20 * MS, 50 * MS)], off, start_ns=now_ns(80))
    async with serving(store) as collector:
        assert (await collector.ask("POST", PUSH, push(wall, both, apart), PROTO)).status == 200
    assert [(window["running"], window["idle"], window["missing_states"]) for window in stored(store)] == [
        (2, 5, ["gil", *FURTHER_STATES]),
        (0, 9, ["running", "gil", *FURTHER_STATES]),
        (2, 3, ["gil", *FURTHER_STATES]),
    ]


TOKENS = BearerTokens(write=("s3cret",), read=("reader",))


def basic(password: str) -> str:
    return "Basic " + b64encode(f"user:{password}".encode()).decode()


@pytest.mark.parametrize("path", [PUSH, "/ingest?name=shop", "/pyroscope/ingest?name=shop"])
async def test_profiles_need_a_token_for_writing(serving: Any, path: str) -> None:
    body = push(pprof(STACKS, start_ns=now_ns())) if path == PUSH else b"f 1\n"
    async with serving(MemoryStore(), tokens=TOKENS) as collector:
        for authorization, status in (
            ("", 401),
            ("Bearer reader", 401),
            ("Bearer s3cret", 200),
            (basic("s3cret"), 200),
            (basic("reader"), 401),
            ("Basic ???", 401),
            ("Basic", 401),
        ):
            headers = {**(PROTO if path == PUSH else {}), "Authorization": authorization}
            answer = await collector.ask("POST", path, body, headers)
            assert answer.status == status, (authorization, answer.body)
            if status == 401:
                assert answer.reason == "unauthorized"
                assert answer.json.get("code") == ("unauthenticated" if path == PUSH else None)


BOMB = gzip.compress(bytes(4 << 20), mtime=0)
LONG = pprof([sample(";".join(["f" * 2000] * 200), 10 * MS)])


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        (push(pprof(STACKS)), {"Content-Type": "text/plain"}, 415, "unsupported_type"),
        (b"\x0a\xff", PROTO, 400, "bad_profile"),
        (push(b"\x0a\xff"), PROTO, 400, "bad_profile"),
        (push(pprof(STACKS), labels={"__name__": "process_cpu"}), PROTO, 422, "bad_label"),
        (push(pprof(STACKS, start_ns=1)), PROTO, 422, "too_old"),
        (push(pprof(STACKS, duration_ns=10**13)), PROTO, 400, "bad_profile"),
        (push(*[b""] * 1001), PROTO, 413, "too_many_windows"),
        (BOMB, {**PROTO, "Content-Encoding": "gzip"}, 413, "too_large"),
        (push(BOMB), PROTO, 413, "too_large"),
        (push(BOMB[:100]), PROTO, 415, "bad_encoding"),
        (push(*[gzip.compress(bytes(700_000), mtime=0)] * 2), PROTO, 413, "too_large"),
        (push(LONG), PROTO, 200, ""),
        (push(LONG, LONG + number(12, 11 * MS)), PROTO, 413, "too_large"),
        (push(message(2, b"") * 20_000), PROTO, 413, "too_large"),
        (push(pprof([sample("f", 2**62)])), PROTO, 413, "too_large"),
        (b"{", {"Content-Type": "application/json"}, 400, "bad_json"),
        (b'{"series":[1]}', {"Content-Type": "application/json"}, 400, "bad_profile"),
        (b'{"series":[' + b"[]," * 200_000 + b"1]}", {"Content-Type": "application/json"}, 413, "too_large"),
    ],
)
async def test_what_is_wrong_with_a_push_is_told_in_the_words_of_connect(
    serving: Any, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    store = MemoryStore()
    async with serving(store, max_body_bytes=1 << 20) as collector:
        answer = await collector.ask("POST", PUSH, body, headers)
        assert answer.status == status, answer.body
        if status != 200:
            assert answer.reason == reason, answer.body
            assert answer.json["code"] == "invalid_argument"
            assert stored(store) == []


@pytest.mark.parametrize(
    ("query", "body", "headers", "status", "word"),
    [
        ("name=shop&format=jfr", b"x", {}, 415, "format=pprof"),
        ("name=shop&format=trie", b"x", {}, 415, "format=pprof"),
        ("name=shop", b"x", {"Content-Type": "binary/octet-stream+tree"}, 415, "format=pprof"),
        ("name=", b"f 1", {}, 400, "names no application"),
        ("name=shop{a}", b"f 1", {}, 400, "labels"),
        ("name=shop&from=yesterday", b"f 1", {}, 400, "from"),
        ("name=shop", b"f;g one\n", {}, 400, "count"),
        ("name=shop&format=pprof", b"f;g 1\n", {}, 400, "cannot be read"),
        ("name=shop", b"--x", {"Content-Type": "multipart/form-data; boundary=x"}, 400, "form"),
        (
            "name=shop",
            form(("other", b"")),
            {"Content-Type": "multipart/form-data; boundary=sep"},
            400,
            "profile",
        ),
        ("name=shop", b"\n" * 20_000, {}, 413, "lines"),
        ("name=shop&format=speedscope", b"[" * 5000, {}, 400, "deep"),
        ("name=shop&format=speedscope", b'{"profiles":[]}', {}, 400, "speedscope"),
    ],
)
async def test_what_is_wrong_with_an_upload_is_told(
    serving: Any, query: str, body: bytes, headers: dict[str, str], status: int, word: str
) -> None:
    async with serving(MemoryStore(), max_body_bytes=1 << 20) as collector:
        answer = await collector.ask("POST", f"/ingest?{query}", body, headers)
    assert answer.status == status, answer.body
    assert word in answer.json["message"] + answer.json["hint"]


async def test_profiles_share_the_memory_budget_of_windows(serving: Any) -> None:
    async with serving(
        MemoryStore(), max_body_bytes=1000, max_pending_bytes=MIN_REQUEST_BYTES - 1
    ) as collector:
        answer = await collector.ask("POST", PUSH, push(pprof(STACKS)), PROTO)
        assert (answer.status, answer.json["code"]) == (429, "resource_exhausted")
        assert "retry-after" in answer.headers


async def test_the_routes_can_be_turned_off(serving: Any) -> None:
    async with serving(MemoryStore(), pyroscope_ingest=False) as collector:
        assert (await collector.ask("POST", "/ingest?name=shop", b"", PROTO)).status == 404
        push = await collector.ask("POST", PUSH, b"", PROTO)
        assert (push.status, push.json["code"]) == (501, "unimplemented")


async def test_a_comparison_with_a_sidecar_warns_that_the_samplers_differ(
    serving: Any, make_window: Any
) -> None:
    quality = Quality(attempts=1000, mode="gil", sampler="sidelight 0.1.0")
    ours = [
        replace(make_window("main;f 40 | main;[gil] 30", version="1", start_ns=now_ns(at)), quality=quality)
        for at in (60, 50, 40)
    ]
    spy = {"otel.scope.name": "com.grafana.pyroscope/python"}
    labels = {"__name__": "process_cpu", "service_name": "shop", "version": "2", **spy}
    pushed = [pprof(STACKS, start_ns=now_ns(at)) for at in (60, 50, 40)]
    wall = [pprof(STACKS, [("wall", "nanoseconds")], start_ns=now_ns(at)) for at in (60, 50, 40)]
    async with serving(MemoryStore()) as collector:
        assert (await collector.post(encode_windows(ours))).status == 200
        assert (await collector.ask("POST", PUSH, push(*pushed, labels=labels), PROTO)).status == 200
        sides = {
            "baseline": 'version="1"',
            "comparison": 'version="2"',
            "query": 'service="shop"',
            "from": "-10m",
        }
        answer = await collector.get("verdict", {**sides, "type": "cpu"})
        assert answer.status == 200, answer.body
        found = {check["name"]: check for check in answer.json["verdict"]["checks"]}
        assert (found["sampler"]["severity"], found["states"]["severity"]) == ("warn", "warn")
        assert "pyroscope" in found["sampler"]["text"]
        assert found["coverage"]["state"] == "unknown"
        body = push(*wall, labels={**labels, "version": "3"})
        assert (await collector.ask("POST", PUSH, body, PROTO)).status == 200
        sides["comparison"] = 'version="3"'
        answer = await collector.get("verdict", {**sides, "type": "cpu"})
        found = {check["name"]: check for check in answer.json["verdict"]["checks"]}
        assert (found["states"]["severity"], found["states"]["reason"]) == ("blocking", "states_missing")
