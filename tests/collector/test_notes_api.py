"""Notes over HTTP: as the document describes them, at their limits, and with several collectors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sidelight_collector.auth.authorizer import BearerTokens
from sidelight_collector.notes.note import MAX_TEXT_CHARACTERS, BadNote, NoteRequest, parse_note_request
from sidelight_collector.notes.note_repository import (
    NotePolicy,
    NoteRepository,
    TooManyNotes,
    decode_notes,
    encode_notes,
)
from sidelight_collector.notes.note_routes import PATH
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore
from sidelight_model.errors import SidelightError
from tests.collector.conftest import Answer, Running, Serve
from tests.collector.fake_sidecars import JSON
from tests.collector.test_api_document import DOCUMENT, check, resolved

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"
NOW = 1_795_300_000.0
DAY = 86_400.0


def schema(path: str, method: str, status: str) -> Any:
    response = resolved(DOCUMENT["paths"][path][method]["responses"][status])
    return response["content"]["application/json"]["schema"]


async def write(collector: Running, wish: Mapping[str, object], **headers: str) -> Answer:
    return await collector.ask("POST", PATH, json.dumps(wish).encode(), {**JSON, **headers})


async def texts(collector: Running, **parameters: str) -> list[str]:
    answer = await collector.get("notes", {"service": "shop", **parameters})
    check(answer.json, schema(PATH, "get", "200"))
    return [note["text"] for note in answer.json["notes"]]


async def test_notes_are_written_listed_changed_and_deleted(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        made = await write(collector, {"service": "shop", "text": "b", "from": "-10m", "until": "now"})
        assert made.status == 201
        check(made.json, schema(PATH, "post", "201"))
        for wish in (
            {"text": "a", "from": "2026-11-21T09:30:00Z"},
            {"text": "c", "function": "f (a.py)"},
            {"text": "d", "from": "+1m"},
        ):
            assert (await write(collector, {"service": "shop", **wish})).status == 201
        moment = (await write(collector, {"service": "cart", "text": "elsewhere"})).json
        assert moment["from"] == moment["until"] == moment["created"]
        assert await texts(collector) == ["a", "b", "c", "d"]
        assert await texts(collector, **{"from": "-1m"}) == ["b", "c", "d"]
        assert await texts(collector, until="2026-11-21T10:00:00Z") == ["a", "c"]
        assert await texts(collector, namespace="none") == []
        path = f"{PATH}/{made.json['id']}"
        changed = await collector.ask("PATCH", path, b'{"text": "B"}', JSON)
        check(changed.json, schema(f"{PATH}/{{id}}", "patch", "200"))
        assert (changed.status, changed.json["text"]) == (200, "B")
        assert {**changed.json, "text": "b", "changed": made.json["changed"]} == made.json
        assert (await collector.ask("DELETE", path)).status == 204
        assert await texts(collector) == ["a", "c", "d"]
        for method, body in (("PATCH", b'{"text": "B"}'), ("DELETE", b"")):
            for gone in (path, f"{PATH}/x", f"{PATH}/{'a' * 16}-{'a' * 16}-{'a' * 8}"):
                assert (await collector.ask(method, gone, body, JSON)).reason == "not_found"


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"text": "x"}, "bad_parameter"),
        ({"service": "", "text": "x"}, "bad_parameter"),
        ({"service": "x" * 257, "text": "x"}, "bad_parameter"),
        ({"service": "shop"}, "bad_parameter"),
        ({"service": "shop", "text": " \n"}, "bad_parameter"),
        ({"service": "shop", "text": 1}, "bad_parameter"),
        ({"service": "shop", "text": "x", "until": "now"}, "bad_parameter"),
        ({"service": "shop", "text": "x", "from": "now", "until": "-1m"}, "bad_parameter"),
        ({"service": "shop", "text": "x", "from": "now", "until": "+8d"}, "bad_parameter"),
        ({"service": "shop", "text": "x", "from": True}, "bad_parameter"),
        ({"service": "shop", "text": "x", "from": "x"}, "bad_time"),
        ({"service": "shop", "text": "x", "from": -1}, "bad_time"),
        ({"service": "shop", "text": "x", "from": 1e300}, "bad_time"),
        ({"service": "shop", "text": "x", "function": "f" * 4001}, "bad_parameter"),
        ({"service": "shop", "text": "x", "heading": "x"}, "bad_parameter"),
    ],
)
def test_a_bad_note_is_refused_with_what_to_send(wish: Mapping[str, object], reason: str) -> None:
    with pytest.raises(SidelightError) as refused:
        parse_note_request(wish, NOW)
    assert refused.value.reason == reason
    assert refused.value.hint


def test_a_text_is_plain_and_bounded_after_its_control_characters_are_escaped() -> None:
    def text_of(text: str) -> str:
        return parse_note_request({"service": "shop", "text": text}, NOW).text

    assert text_of(" one\r\ntwo\t\x1b[2J\u202e<b> ") == "one\ntwo \\x1b[2J\\u202e<b>"
    assert len(text_of("x" * MAX_TEXT_CHARACTERS)) == MAX_TEXT_CHARACTERS
    for text in ("x" * (MAX_TEXT_CHARACTERS + 1), "\x1b" * MAX_TEXT_CHARACTERS):
        with pytest.raises(BadNote, match="a note may have 1,000"):
            text_of(text)


async def test_requests_that_are_not_json_or_come_from_other_sites_are_refused(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        made = await write(collector, {"service": "shop", "text": "x"})
        body = b'{"service": "shop", "text": "x"}'
        for method, path in (("POST", PATH), ("PATCH", f"{PATH}/{made.json['id']}")):
            form = await collector.ask(method, path, body, {"Content-Type": "text/plain"})
            assert (form.status, form.reason) == (415, "unsupported_type")
        for method, path in (
            ("POST", PATH),
            ("PATCH", f"{PATH}/{made.json['id']}"),
            ("DELETE", f"{PATH}/{made.json['id']}"),
        ):
            foreign = await collector.ask(method, path, body, {**JSON, "Origin": "https://evil.example"})
            assert (foreign.status, foreign.reason) == (403, "forbidden")
        assert (await collector.get("notes", {})).reason == "bad_parameter"
        assert await texts(collector) == ["x"]


async def test_notes_are_written_by_those_who_may_start_captures(serving: Serve) -> None:
    tokens = BearerTokens(read=("reader", "ci"), capture=("ci",), token_names={"ci": "pipeline"})
    wish = {"service": "shop", "text": "x"}
    async with serving(MemoryStore(), tokens) as collector:
        assert (await write(collector, wish)).status == 401
        assert (await write(collector, wish, Authorization="Bearer reader")).status == 401
        made = await write(collector, wish, Authorization="Bearer ci")
        assert (made.status, made.json["author"]) == (201, "pipeline")
        path, reader = f"{PATH}/{made.json['id']}", {**JSON, "Authorization": "Bearer reader"}
        assert (await collector.ask("PATCH", path, b'{"text": "y"}', reader)).status == 401
        assert (await collector.ask("DELETE", path, b"", reader)).status == 401
        listed = await collector.ask("GET", f"{PATH}?service=shop", None, reader)
        assert len(listed.json["notes"]) == 1
    async with serving(MemoryStore(), BearerTokens(capture=())) as collector:
        refused = await write(collector, wish)
        assert (refused.status, refused.reason) == (403, "forbidden")
        assert "write notes" in refused.json["message"]


async def test_a_service_has_at_most_as_many_notes_as_the_setting_says(serving: Serve) -> None:
    async with serving(MemoryStore(), max_notes_per_service=2) as collector:
        for text in ("a", "b"):
            made = await write(collector, {"service": "shop", "text": text})
            assert made.status == 201
        refused = await write(collector, {"service": "shop", "text": "c"})
        assert (refused.status, refused.reason) == (413, "too_many_notes")
        assert "--max-notes-per-service" in refused.json["hint"]
        for other in ({"service": "shop", "namespace": "b"}, {"service": "cart"}):
            assert (await write(collector, {"text": "c", **other})).status == 201
        assert (await collector.ask("DELETE", f"{PATH}/{made.json['id']}")).status == 204
        assert (await write(collector, {"service": "shop", "text": "c"})).status == 201
        assert sorted(await texts(collector, namespace="")) == ["a", "c"]


def request(text: str, service: str = "shop") -> NoteRequest:
    return parse_note_request({"service": service, "text": text, "from": NOW}, NOW)


def test_a_note_is_deleted_so_many_days_after_its_last_change() -> None:
    store = MemoryStore()
    with closing(NoteRepository(store, NotePolicy(max_per_service=2, retention_days=10))) as notes:
        old, new = (
            notes.create(request(text), "", "", NOW + at) for text, at in (("old", 0.0), ("new", DAY))
        )
        notes.change(old.id, lambda _: True, "renewed", "", NOW + 5 * DAY)
        day = NOW + 11 * DAY + 1
        assert [note.text for note in notes.list_notes("shop", lambda _: True, day)] == ["renewed"]
        # An expired note takes no room, also before retention runs.
        notes.create(request("third"), "", "", day)
        assert notes.delete_expired(day) == 0
        assert notes.delete_expired(day + 5 * DAY) == 1
        with pytest.raises(SidelightError, match=f"there is no note '{new.id}'"):
            notes.delete(new.id, lambda _: True, day)
        (key,) = [entry.key for entry in store.list("v1/notes/")]
        assert [note.text for note in decode_notes(key, store.get(key))] == ["third"]


async def test_collectors_that_write_at_the_same_time_lose_no_note_and_keep_the_limit(
    store: ObjectStore,
) -> None:
    policy = NotePolicy(max_per_service=7)
    repositories = [NoteRepository(store, policy) for _ in range(3)]

    def write_note(number: int) -> str:
        try:
            return repositories[number % 3].create(request(str(number)), "", "", NOW).text
        except TooManyNotes:
            return ""

    written = await asyncio.gather(*(asyncio.to_thread(write_note, number) for number in range(9)))
    kept = repositories[0].list_notes("shop", lambda _: True, NOW)
    assert len(kept) == 7
    assert sorted(note.text for note in kept) == sorted(filter(None, written))
    for repository in repositories:
        repository.close()


def test_golden_notes_are_read_by_every_later_version_and_newer_ones_are_not_replaced() -> None:
    content = (GOLDEN / "notes-1.json").read_bytes()
    ranged, framed = decode_notes("golden", content)
    assert (ranged.text, ranged.start, ranged.until, ranged.author) == ("Cache on", NOW, NOW + 60, "alice")
    assert (framed.function, framed.start, framed.namespace) == ("render (shop/views.py)", None, "shop")
    assert json.loads(encode_notes((ranged, framed))) == json.loads(content)
    store = MemoryStore()
    with closing(NoteRepository(store, NotePolicy())) as notes:
        notes.create(request("x"), "", "", NOW)
        (key,) = [entry.key for entry in store.list("v1/notes/")]
        newer = b'{"format": 2, "notes": {}}'
        store.put(key, newer)
        with pytest.raises(ObjectDamaged, match="format 2"):
            notes.create(request("y"), "", "", NOW)
        assert notes.delete_expired(NOW + 999 * DAY) == 0
        assert store.get(key) == newer
