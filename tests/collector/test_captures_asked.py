"""How captures may be asked for: by a selector, again by their id, and followed as they go on."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import ClientSession
from ulid import ULID

from sidelight.collector.captures.asked import BadBody, read_id, read_wish
from sidelight.collector.captures.capture import Attached, Capture, Claim, Rules, Wish
from sidelight.collector.captures.keeping import decode, encode
from sidelight.collector.captures.onetime import OneTime, attached_name, issue
from sidelight.collector.captures.shelf import Shelf, new_id
from sidelight.collector.door import Guard, Tokens
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.writers import AttachedWriter, NotKnown, NotYours
from sidelight.stacks.errors import BadLabel
from sidelight.stacks.selectors import Selector
from tests.collector.capturing import JSON, Sidecar, started, until, wished
from tests.collector.conftest import Serve

RULES = Rules()


def test_a_selector_names_the_service_and_the_rest() -> None:
    by_name = read_wish({"service": "shop", "query": 'version="2", pod!="x"'}, RULES)
    assert read_wish({"selector": '{service="shop", version="2", pod!="x"}'}, RULES) == by_name
    assert read_wish({"service": "shop", "pods": "one"}, RULES).pods == 1
    assert read_wish({"service": "shop", "native": True}, RULES).mode == "native"


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"selector": 'version="2"'}, "does not name one service"),
        ({"selector": 'service=~"a|b"'}, "does not name one service"),
        ({"selector": '{service="a"}', "service": "a"}, "stands beside"),
        ({"selector": 7}, "not text"),
        ({"service": "a", "native": True, "mode": "gil"}, "native is true"),
        ({"service": "a", "native": 1}, "native is not"),
        ({"service": "a", "attach": "yes"}, "attach is not"),
        ({"service": "a", "container": "app"}, "for captures that attach"),
        ({"service": "a", "attach": True, "container": "a b"}, "container is not"),
    ],
)
def test_a_wish_that_means_nothing_is_refused(wish: dict[str, Any], says: str) -> None:
    with pytest.raises(BadBody, match=says):
        read_wish(wish, RULES)


def test_an_id_is_a_ulid_of_now() -> None:
    now = time.time()
    name = new_id(now)
    assert (read_id({"id": name}), read_id({})) == (name, "")
    for bad in ("c_1", 7, new_id(now - 3600), new_id(now + 3600)):
        with pytest.raises(BadBody):
            read_id({"id": bad})


async def test_a_request_that_is_sent_again_starts_nothing_new(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:
        name = new_id(time.time())
        first = await wished(collector, id=name, seconds=3)
        again = await wished(collector, id=name, seconds=3)
        other = await wished(collector, id=name, seconds=4)
        assert (first.status, again.status, other.status) == (201, 200, 409)
        assert first.json["id"] == again.json["id"] == name
        assert other.json["error"] == "duplicate_id"
        kept = await collector.ask("GET", "/api/v1/captures")
        assert len(kept.json["captures"]) == 1


async def test_a_capture_is_told_as_it_goes_on_until_it_has_ended(serving: Serve) -> None:
    async with serving(MemoryStore(), capture_look_seconds=0.1) as collector:
        sidecar = Sidecar(collector)
        await sidecar.ask()
        made = await started(collector)
        states: list[str] = []

        async def follow() -> None:
            url = f"http://127.0.0.1:{collector.port}/api/v1/captures/{made['id']}/events"
            async with ClientSession() as session, session.get(url) as answer:
                assert answer.content_type == "text/event-stream"
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        states.append(json.loads(line[6:])["state"])  # noqa: PERF401 - it is read meanwhile

        following = asyncio.create_task(follow())
        await sidecar.ask()
        await sidecar.told(made["id"], "sampling", samples=3)

        async def sampling() -> bool:
            return "sampling" in states

        await until("sampling is told", sampling)
        await sidecar.ship(made["id"])
        await sidecar.told(made["id"], "done", samples=5, windows=1)
        await asyncio.wait_for(following, 30)
        assert states[-1] == "ready"
        assert states == sorted(states, key=["queued", "scheduled", "sampling", "uploading", "ready"].index)
        gone = await collector.ask("GET", f"/api/v1/captures/{new_id(time.time())}/events")
        assert gone.status == 404


def ticket(store: MemoryStore, until_unix: float) -> tuple[str, str, str]:
    """A capture with an attached sidecar; its id, the sidecar's name and its token."""
    capture_id, agent = new_id(time.time()), str(ULID())
    token, secret = issue(capture_id, agent)
    attached = Attached("sidelight-x", agent, "uid-1", secret, until_unix)
    labels = {"service": "shop", "namespace": "ns", "pod": "p-1", "version": "2"}
    wish = Wish("shop", "", Selector(), 1, 2.0, 100, "auto", True, True)
    claim = Claim(attached_name(attached), labels, 1.0, attached)
    capture = Capture(capture_id, wish, 1.0, claims=(claim,))
    assert decode("key", encode(capture)) == capture
    Shelf(store).create(capture)
    return capture_id, agent, token


async def test_a_one_time_token_is_good_for_one_pod_and_one_capture() -> None:
    store = MemoryStore()
    capture_id, agent, token = ticket(store, time.time() + 60)
    writer = await OneTime(Shelf(store)).writer(token)
    assert isinstance(writer, AttachedWriter)
    assert (writer.namespace, writer.pod, writer.service, writer.capture) == ("ns", "p-1", "shop", capture_id)
    assert writer.bound({"service": "shop"})["capture"] == capture_id
    for wrong in ({"pod": "p-2"}, {"service": "cart"}, {"namespace": "x"}, {"capture": "c_other"}):
        with pytest.raises((NotYours, BadLabel)):
            writer.bound({"service": "shop", **wrong})
    writer.agent(agent)
    with pytest.raises(NotYours):
        writer.agent("another")


async def test_a_one_time_token_counts_as_such_where_anybody_may_write() -> None:
    store = MemoryStore()
    _, _, token = ticket(store, time.time() + 60)
    guard = Guard(Tokens(), attached=OneTime(Shelf(store)))
    assert isinstance(await guard._writer(f"Bearer {token}"), AttachedWriter)
    assert await guard._writer("Bearer of a file") is None


async def test_a_token_that_is_old_changed_or_of_no_capture_is_refused() -> None:
    store = MemoryStore()
    shelf = Shelf(store)
    _, _, token = ticket(store, time.time() + 60)
    _, _, old = ticket(store, time.time() - 1)
    gone, _ = issue(new_id(time.time()), str(ULID()))
    last = "A" if token[-1] != "A" else "B"
    for bad in (old, gone, token[:-1] + last, token[:-1], "slat_", "other"):
        with pytest.raises(NotKnown):
            await OneTime(shelf).writer(bad)


async def test_a_token_reads_nothing_and_starts_nothing(serving: Serve) -> None:
    store = MemoryStore()
    _, _, token = ticket(store, time.time() + 60)
    bearer = {"Authorization": f"Bearer {token}", **JSON}
    async with serving(store, tokens=Tokens(write=(), read=("reader",), capture=("reader",))) as collector:
        for method, path in (
            ("GET", "/api/v1/services"),
            ("GET", "/api/v1/captures"),
            ("POST", "/api/v1/captures"),
        ):
            body = b'{"service": "shop"}' if method == "POST" else b""
            assert (await collector.ask(method, path, body, bearer)).status == 401
