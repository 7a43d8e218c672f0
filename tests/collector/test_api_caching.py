"""An answer that was made once is made again only when it would be another one."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from sidelight_collector.answers.export import export_folded
from sidelight_collector.http.api.answer_cache import (
    OVERHEAD_BYTES,
    AnswerCache,
    AnswerOrigin,
    CacheableQuery,
)
from sidelight_collector.http.api.responses import EncodedResponse, encode_json_response
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from tests.collector.api_client import NOW_NS, Client, serving
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import SECOND_NS, asked, question, stored, window

PLAIN = {"Accept-Encoding": "identity"}
NO_CACHE = QueryLimits(cache_bytes=0)


@dataclass(frozen=True)
class Answer:
    """What a client was sent, but for the date; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def basis(self) -> Any:
        return json.loads(self.body)["basis"]


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name != "Date"}


@dataclass
class Asking:
    """A client of a collector, its store, and where its answers came from."""

    client: Client
    store: Counting
    origins: Counter[str]

    async def get(self, path: str = "flamegraph", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.get(f"/api/v1/{path}", headers={**PLAIN, **named}) as response:
            return Answer(response.status, _named(response.headers), await response.read())


@asynccontextmanager
async def collector(
    store: ObjectStore | None = None, limits: QueryLimits = NO_CACHE
) -> AsyncIterator[Asking]:
    counting = Counting(store or stored([window("main;f 3"), window("main;g 1", version="2")]))
    origins: Counter[str] = Counter()
    async with serving(counting, limits, told=lambda origin: origins.update([origin])) as client:
        yield Asking(client, counting, origins)


def compact(store: ObjectStore) -> None:
    Compaction(
        store, Metrics(), CompactionPolicy(min_segments=1, deletion_delay_seconds=1e9), interval_seconds=1
    ).run_once()


EVERY = [
    "services",
    "labels",
    "labels/version/values",
    "timeline",
    "flamegraph",
    'compare?baseline=version="1"&comparison=version="2"',
    "depth",
    "top",
    "lines?function=f",
    "export",
    "export?format=speedscope",
    "export?format=svg",
    "export/shop.speedscope.json",
]


@pytest.mark.parametrize("path", EVERY)
async def test_a_question_asked_again_is_answered_with_the_same_bytes_and_reads_no_object(path: str) -> None:
    async with collector() as asking:
        first = await asking.get(path)
        asking.store.gets.clear()
        assert await asking.get(path) == first
        assert first.status == 200
        assert (await asking.get(path, If_None_Match=first.headers["etag"])).status == 304
        assert not asking.store.gets
        assert asking.origins == {"miss": 1, "hit": 2}


@pytest.mark.parametrize("written", ["{}", "W/{}", '"other", {}', "*"])
async def test_who_has_the_answer_is_told_so_and_is_sent_no_bytes(written: str) -> None:
    async with collector() as asking:
        etag = (await asking.get()).headers["etag"]
        held = await asking.get(If_None_Match=written.format(etag))
        assert (held.status, held.body, held.headers["etag"]) == (304, b"", etag)
        assert held.headers["cache-control"] == "private, no-cache"
        assert held.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("written", ['"other"', "not an etag", ""])
async def test_who_has_another_answer_is_sent_this_one(written: str) -> None:
    async with collector() as asking:
        assert (await asking.get(If_None_Match=written)).status == 200


async def test_who_has_the_answer_is_told_so_by_a_collector_that_never_made_it() -> None:
    store = stored([window("main;f 3")])
    async with collector(store) as first:
        etag = (await first.get()).headers["etag"]
    async with collector(store) as second:
        assert (await second.get(If_None_Match=etag)).status == 304
        assert second.origins == {"miss": 1}


async def test_compressed_and_plain_bytes_have_etags_of_their_own() -> None:
    async with collector(stored([window(" | ".join(f"main;f{n} 1" for n in range(200)))])) as asking:
        plain, packed = await asking.get(), await asking.get(Accept_Encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["etag"] != packed.headers["etag"]
        for etag, encoding in ((plain.headers["etag"], "gzip"), (packed.headers["etag"], "identity")):
            assert (await asking.get(If_None_Match=etag, Accept_Encoding=encoding)).status == 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("flamegraph", "flamegraph?type=wall&lines=0&nodes=50000"),
        (f"top?from={NOW_NS // SECOND_NS - 900}", "top?from=-15m&until=now&by=self&limit=100"),
        ('depth?query=version="1"', 'depth?query={ version = "1" }'),
    ],
)
async def test_questions_that_mean_the_same_are_one(one: str, other: str) -> None:
    async with collector() as asking:
        assert (await asking.get(one)).body == (await asking.get(other)).body
        assert asking.origins == {"miss": 1, "hit": 1}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("flamegraph", "flamegraph?type=cpu"),
        ("flamegraph", "flamegraph?nodes=all"),
        ("flamegraph", "flamegraph?lines=1"),
        ("flamegraph", "flamegraph?states=1"),
        ("flamegraph", "flamegraph?from=-3601s"),
        ("flamegraph", 'flamegraph?query=version="1"'),
        ('flamegraph?query=version="1"', 'flamegraph?query=version=~"1"'),
        ("labels/pod/values", "labels/service/values"),
        ("timeline", "timeline?step=1m"),
        ("top", "top?by=total"),
        ("top", "top?limit=1"),
        ("lines", "lines?function=f"),
        ("lines", "lines?file=a.py"),
        ("lines", "lines?limit=1"),
        ("depth", 'depth?comparison=version="2"'),
        ('compare?baseline=version="1"', 'compare?comparison=version="2"'),
        ("export", "export?states=0"),
        ("export/a.speedscope.json", "export/b.speedscope.json"),
    ],
)
async def test_questions_that_differ_in_anything_are_two(one: str, other: str) -> None:
    async with collector() as asking:
        for path in (one, other):
            assert (await asking.get(path)).status == 200
        assert asking.origins == {"miss": 2}


async def test_an_answer_is_made_anew_when_there_is_something_new_in_its_range() -> None:
    async with collector() as asking:
        await asking.get("services")
        stored([window("main;late 5", at=20)], store=asking.store)
        assert (await asking.get("services")).basis["windows"] == 3
        stored([window("main;elsewhen 5", at=-86_400)], store=asking.store)
        await asking.get("services")
        assert asking.origins == {"miss": 2, "hit": 1}


async def test_an_answer_that_lacks_something_is_not_kept_and_has_no_etag() -> None:
    async with collector() as asking:
        key = next(entry.key for entry in asking.store.list("v1/l0/") if "samples" in entry.key)
        whole = asking.store.get(key)
        asking.store.put(key, whole[:-5])
        for _ in range(2):
            lacking = await asking.get("flamegraph", If_None_Match="*")
            assert lacking.basis["unreadable_segments"] == 1
            assert "etag" not in lacking.headers
        asking.store.put(key, whole)
        assert (await asking.get()).basis["unreadable_segments"] == 0
        assert asking.origins == {"miss": 3}


async def test_a_manifest_that_cannot_be_read_any_longer_makes_another_answer() -> None:
    async with collector() as asking:
        assert "etag" in (await asking.get()).headers
        asking.store.put("v1/manifest/2026-11-21.json", b"{")
        lacking = await asking.get()
        assert lacking.basis["unreadable_segments"] == 1
        assert "etag" not in lacking.headers


@pytest.mark.parametrize(("short", "origins"), [(0, {"miss": 1, "hit": 1}), (1, {"miss": 2})])
async def test_what_is_kept_is_bounded(short: int, origins: dict[str, int]) -> None:
    store = stored([window("main;f 3")])
    async with collector(store) as asking:
        size = len((await asking.get()).body) + OVERHEAD_BYTES
    async with collector(store, replace(NO_CACHE, answer_bytes=size - short)) as asking:
        for _ in range(2):
            await asking.get()
        assert asking.origins == origins


def damaged(store: ObjectStore, luck: random.Random) -> None:
    """Cut an object short, of a segment, a block or a manifest."""
    entry = luck.choice(list(store.list("v1/")))
    store.put(entry.key, store.get(entry.key)[:-1])


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 30))]
)
async def test_whatever_happens_in_the_store_answers_are_what_they_would_be_without_a_memory(
    seed: int,
) -> None:
    luck = random.Random(seed)
    sides = [question('version="1"', end=100), question('version="1"'), question(), question(start=50)]
    whole = partial(export_folded, kind=ProfileType.WALL, lines=True, states=True)

    def made(side: WindowQuery, reading: QueryContext) -> EncodedResponse:
        exported = whole(reading, [side])
        # How finely windows were read is no part of what they add up to.
        basis = {name: value for name, value in exported.basis.items() if name != "resolutions"}
        return encode_json_response({"text": exported.content.decode(), **basis}, gzip=False)

    store, origins, unharmed = MemoryStore(), Counter[AnswerOrigin](), MemoryStore()
    copies: dict[str, bytes] = {}
    limits = QueryLimits(cache_bytes=0, answer_bytes=luck.choice([3_000, 1 << 20]))
    with closing(QueryEngine(store, limits)) as engine:
        answers = AnswerCache(engine, lambda origin: origins.update([origin]))
        for _ in range(40):
            happens = luck.random()
            if happens < 0.3:
                one = window(
                    f"main;f{luck.randrange(5)} 2", at=luck.randrange(900), version=luck.choice("12")
                )
                for each in (store, unharmed):
                    stored([one], store=each)
            elif happens < 0.4:
                compact(store)
            elif happens < 0.45 and list(store.list("v1/")):
                copies |= {entry.key: store.get(entry.key) for entry in store.list("v1/")}
                damaged(store, luck)
            elif happens < 0.5:
                for key, content in copies.items():
                    store.put(key, content)
            elif happens < 0.53:
                for entry in list(store.list(manifest.BLOCK_ROOT))[:1]:
                    store.delete(entry.key)
            side = luck.choice(sides)
            query = CacheableQuery(repr(side), [side], partial(made, side))
            answer = await answers.get(lambda _, query=query: query)  # type: ignore[misc]
            complete = answer.etag is not None
            assert complete == (b'"unreadable_segments":0' in answer.body)
            expected = unharmed if complete else store
            assert answer.body == (await asyncio.to_thread(asked, expected, partial(made, side), limits)).body
    assert origins[AnswerOrigin.CACHED]


class Slow(MemoryStore):
    """A store whose samples are read once the gate is opened; `reads` has how often profiles were read."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.reads = 0

    def get(self, key: str) -> bytes:
        self.reads += key.endswith("profiles.parquet")
        if key.endswith("samples.parquet"):
            assert self.opened.wait(30)
        return super().get(key)


class Slowly:
    """One question, asked of a slow store with a window as often as one likes."""

    def __init__(self, answers: AnswerCache, store: Slow) -> None:
        self._answers = answers
        self.store = store
        self.worked_on: list[QueryContext] = []
        self.asked: list[asyncio.Task[EncodedResponse]] = []

    def ask(self) -> asyncio.Task[EncodedResponse]:
        side = question()
        folds = partial(export_folded, sides=[side], kind=ProfileType.WALL, lines=True, states=True)

        def made(reading: QueryContext) -> EncodedResponse:
            self.worked_on.append(reading)
            return EncodedResponse(folds(reading).content, "text/plain")

        asked = CacheableQuery("the question", [side], made)
        self.asked.append(asyncio.create_task(self._answers.get(lambda _: asked), name="asked"))
        return self.asked[-1]

    async def wait_for(self, *waiting: int) -> None:
        """Until so many wait for each answer that is, or was, worked on."""
        async with asyncio.timeout(30):
            while [reading.deadline.waiters for reading in self.worked_on] != [*waiting]:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def slow(**limits: float) -> AsyncIterator[tuple[Slowly, Counter[str]]]:
    store, origins = Slow(), Counter[str]()
    stored([window("main;f 3")], store=store)
    with closing(QueryEngine(store, replace(QueryLimits(), **limits))) as engine:  # type: ignore[arg-type]
        one = Slowly(AnswerCache(engine, lambda origin: origins.update([origin])), store)
        try:
            yield one, origins
        finally:
            store.opened.set()
            await asyncio.wait(one.asked)


async def test_equal_questions_at_once_are_worked_on_once_and_all_get_the_answer() -> None:
    async with slow() as (one, origins):
        tasks = [one.ask() for _ in range(20)]
        await one.wait_for(20)
        one.store.opened.set()
        assert {(await task).body for task in tasks} == {b"main;f 3\n"}
        assert one.store.reads == 1
        assert origins == {"miss": 1, "coalesced": 19}


async def test_one_that_goes_away_does_not_cancel_the_others() -> None:
    async with slow() as (one, _):
        first = one.ask()
        await one.wait_for(1)
        second, third = one.ask(), one.ask()
        await one.wait_for(3)
        for task in (first, third):
            task.cancel()
        await asyncio.wait([first, third])
        await one.wait_for(1)
        one.store.opened.set()
        assert (await second).body == b"main;f 3\n"
        assert [task.cancelled() for task in (first, second, third)] == [True, False, True]


async def test_what_nobody_waits_for_any_longer_is_given_up_and_begun_anew_for_the_next() -> None:
    async with slow() as (one, origins):
        first = one.ask()
        await one.wait_for(1)
        first.cancel()
        await one.wait_for(0)
        second = one.ask()
        await one.wait_for(0, 1)
        one.store.opened.set()
        assert (await second).body == b"main;f 3\n"
        assert origins == {"miss": 1}


async def test_a_window_stored_since_is_in_the_answer_though_one_without_it_is_in_the_making() -> None:
    async with slow() as (one, _):
        first = one.ask()
        await one.wait_for(1)
        stored([window("main;new 4", at=10)], store=one.store)
        second = one.ask()
        await one.wait_for(1, 1)
        one.store.opened.set()
        assert (await first).body == b"main;f 3\n"
        assert (await second).body == b"main;f 3\nmain;new 4\n"


async def test_who_waits_for_the_answer_of_another_is_told_when_that_takes_too_long() -> None:
    async with slow(timeout_seconds=0.5) as (one, _):
        both = [one.ask(), one.ask()]
        await asyncio.wait(both)
        assert [type(task.exception()) for task in both] == [QueryTimeout] * 2


async def test_who_waits_for_the_answer_of_another_is_told_why_it_cannot_be_made() -> None:
    async with slow() as (one, _):
        both = [one.ask(), one.ask()]
        await one.wait_for(2)
        one.worked_on[0].deadline.waiters = 0
        one.store.opened.set()
        await asyncio.wait(both)
        assert [type(task.exception()) for task in both] == [QueryTimeout] * 2


async def test_those_who_wait_for_the_answer_of_another_leave_the_places_to_others() -> None:
    async with slow(running=2, waiting=0) as (one, origins):
        tasks = []
        for number in range(1, 6):
            tasks.append(one.ask())
            await one.wait_for(number)
        one.store.opened.set()
        await asyncio.wait(tasks)
        assert origins == {"miss": 1, "coalesced": 4}
