"""The event loop does no work: what takes long is done in threads, and nobody waits for it but who asked.

What is measured is CPU time, that of each callback of the loop against all that the process spent on a
request: a machine that is slow or busy does not change the share.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import threading
import time
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

import pyarrow as pa
import pytest
import zstandard
from ulid import ULID

from sidelight_collector.ingest.dedup import DedupCache
from sidelight_collector.main import RECENT_IDS_BATCH, load_recent_ids
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.runtime.loop_lag import measure_loop_lag
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectEntry
from sidelight_collector.storage.segments import encode_parquet, write_segment
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Serve

Make = Callable[..., Window]
Answer = TypeVar("Answer")
SECONDS = 60.0
MOST_OF_A_BODY = 1 / 25
MOST_OF_AN_ANSWER = 1 / 50
"""The largest share a callback may have in the CPU time of a request. Encoding an answer has twice that."""


class Watch:
    """The callback of the loop that took most CPU time since `begin`, and what the process took."""

    def __init__(self) -> None:
        self._began = 0.0
        self.longest = 0.0
        self.what = ""

    async def begin(self) -> None:
        """The test itself is a callback too, up to here."""
        await asyncio.sleep(0)
        self.longest, self.what = 0.0, ""
        self._began = time.process_time()

    def ran(self, handle: Handle, seconds: float) -> None:
        if seconds > self.longest:
            self.longest, self.what = seconds, repr(handle)

    @property
    def share(self) -> float:
        return self.longest / (time.process_time() - self._began)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Sees every callback that an event loop of this process runs."""
    watch, run = Watch(), Handle._run

    def watched(handle: Handle) -> None:
        began = time.thread_time()
        run(handle)
        watch.ran(handle, time.thread_time() - began)

    monkeypatch.setattr(Handle, "_run", watched)
    # What the tests before left behind is no work of the collector's.
    gc.collect()
    gc.freeze()
    yield watch
    gc.unfreeze()


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """A request from a thread, which takes nothing from the loop."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def folded(stacks: int, width: int) -> str:
    """Stacks that are all different, with a last frame so wide."""
    return " | ".join(
        f"main (app.py:1);handle{at % 97} (app.py:{at % 97});f{at} (lib/m{at % 1000}.py:{at});{'x' * width} 3"
        for at in range(stacks)
    )


def one_large(make: Make) -> bytes:
    """Nearly as much text as a request may have, in one window with as many stacks as it may have."""
    return encode_windows([make(folded(100_000, 220))])


def many_small(make: Make) -> bytes:
    """As many windows as a request may have, in nearly as much text."""
    text = folded(300, 20)
    return encode_windows([make(text, pod=f"pod-{number}") for number in range(1000)])


@pytest.mark.parametrize(("body", "encoding"), [(one_large, "identity"), (many_small, "zstd")])
async def test_the_largest_bodies_hold_nobody_up(
    serving: Serve, make_window: Make, watch: Watch, body: Callable[[Make], bytes], encoding: str
) -> None:
    text = body(make_window)
    assert 20 << 20 < len(text) <= 32 << 20
    sent = zstandard.compress(text) if encoding == "zstd" else text
    async with serving(MemoryStore()) as collector:
        for _ in range(2):  # the second time all of it is known
            await watch.begin()
            status, said = await asyncio.to_thread(
                ask, collector.port, "POST", "/api/v1/windows", sent, Content_Encoding=encoding
            )
            assert status == 200, said
        assert watch.share < MOST_OF_A_BODY, (watch.share, watch.what)


async def test_work_on_the_loop_is_seen(
    serving: Serve, make_window: Make, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = encode_windows([make_window(folded(20_000, 220))])

    async def at_once(_: object, work: Callable[..., Answer], *given: object) -> Answer:
        return work(*given)

    async with serving(MemoryStore()) as collector:
        loop = asyncio.get_running_loop()
        run = loop.run_in_executor
        monkeypatch.setattr(
            loop,
            "run_in_executor",
            lambda threads, work, *given: (
                at_once(threads, work, *given)
                if work.__name__ == "parse_request"
                else run(threads, work, *given)
            ),
        )
        await watch.begin()
        port = collector.port
        await loop.run_in_executor(None, ask, port, "POST", "/api/v1/windows", text)
        assert watch.share > MOST_OF_A_BODY


WIDE = quote('{service="shop",pod=~"' + "a{1,900}" * 10 + '|"}')


@pytest.fixture(scope="module")
def large() -> MemoryStore:
    """One window of many stacks."""
    store = MemoryStore()
    counts = parse_folded(folded(50_000, 10).replace(" | ", "\n"))
    labels = Labels({"service": "shop"})
    write_segment(store, [Window(str(ULID()), labels, time.time_ns() - 10**9, 10**9, 10**7, counts)])
    return store


@pytest.mark.parametrize(
    ("path", "encoding"),
    [
        ("flamegraph?nodes=all", "gzip"),
        ("flamegraph?nodes=all&lines=1", "identity"),
        ("compare?nodes=all&baseline={}&comparison={}", "gzip"),
        ("top?limit=100000", "gzip"),
        ("export?format=folded", "identity"),
        ("export?format=speedscope", "gzip"),
        ("export?format=svg", "gzip"),
        (f"labels?query={WIDE}", "identity"),
        (f"compare?baseline={WIDE}&comparison={WIDE}", "gzip"),
        (f"export?query={WIDE}", "gzip"),
    ],
)
async def test_the_largest_answers_hold_nobody_up(
    serving: Serve, large: MemoryStore, watch: Watch, path: str, encoding: str
) -> None:
    async with serving(large) as collector:
        await watch.begin()
        status, said = await asyncio.to_thread(
            ask, collector.port, "GET", f"/api/v1/{path}", Accept_Encoding=encoding
        )
        assert status == 200, said
        assert watch.share < MOST_OF_AN_ANSWER, (watch.share, watch.what)


def test_there_are_selectors_that_take_long() -> None:
    began = time.thread_time()
    parse_re2_selector("{}")
    short = time.thread_time() - began
    parse_re2_selector('{pod=~"' + "a{1,900}" * 10 + '"}')
    assert time.thread_time() - began > 100 * short


async def test_windows_of_the_day_before_are_recalled_a_few_at_a_time() -> None:
    store, count = MemoryStore(), 20_000
    now_ms = time.time_ns() // 10**6
    day = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    ids = pa.table(
        {"wid": [f"{at:026d}" for at in range(count)], "digest": pa.array(range(count), pa.uint64())}
    )
    for part in ("profiles", "stacks", "samples"):
        store.put(f"v1/l0/{day}/{now_ms}-{now_ms}-0123456789abcdef/{part}.parquet", encode_parquet(ids))
    recent, known = DedupCache(count), set[int]()

    async def somebody_else() -> None:
        while len(recent) < count:
            known.add(len(recent))
            await asyncio.sleep(0)

    async with asyncio.timeout(SECONDS):
        other = asyncio.create_task(somebody_else())
        await load_recent_ids(recent, store, asyncio.Event())
        await other
    assert known == set(range(0, count, RECENT_IDS_BATCH)), "in between, others had their turn"
    assert [recent.get_digest(f"{at:026d}") for at in (0, 1, count - 1)] == [0, 1, count - 1]


class Slow(MemoryStore):
    """A store that does nothing until it may, and that must not be called by `thread`."""

    def __init__(self, thread: int) -> None:
        super().__init__()
        self.may = threading.Event()
        self.waiting = threading.Semaphore(0)
        self._thread = thread
        self.called_by_the_loop: list[str] = []

    def _wait(self, operation: str) -> None:
        if threading.get_ident() == self._thread:
            self.called_by_the_loop.append(operation)
            return
        self.waiting.release()
        assert self.may.wait(SECONDS)

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        self._wait(f"get {key}")
        return super().get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self._wait(f"put {key}")
        return super().put(key, content, if_absent=if_absent, if_match=if_match)

    def delete(self, key: str) -> None:
        self._wait(f"delete {key}")
        super().delete(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        self._wait(f"list {prefix}")
        yield from super().list(prefix, start_after)


async def test_a_store_that_does_not_answer_holds_nobody_up(serving: Serve, make_window: Make) -> None:
    store = Slow(threading.get_ident())
    paths = ["/api/v1/services", "/api/v1/flamegraph", "/api/v1/timeline"]
    async with serving(
        store, max_queries=len(paths), compact_interval_seconds=0.01, retention_interval_seconds=0.01
    ) as collector:
        waiting = [asyncio.create_task(collector.ask("GET", path)) for path in paths]
        waiting.append(asyncio.create_task(collector.post(encode_windows([make_window()]))))
        # The queries wait for one listing; compaction, retention and the ids of earlier windows wait too.
        for _ in range(5):
            assert await asyncio.to_thread(store.waiting.acquire, timeout=SECONDS)
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await collector.ask("GET", path)).status == 200
        assert not any(one.done() for one in waiting)
        store.may.set()
        assert [(await one).status for one in waiting] == [200] * len(waiting)
        assert store.called_by_the_loop == []


async def test_a_loop_that_is_held_up_is_seen_in_a_metric(serving: Serve) -> None:
    async with serving(MemoryStore()) as collector:

        async def count() -> float:
            return await collector.metric("sidelight_event_loop_lag_seconds_count")

        async with asyncio.timeout(SECONDS):
            while not await count():
                await asyncio.sleep(0.01)
    stop, late = asyncio.Event(), list[float]()
    beating = asyncio.create_task(measure_loop_lag(stop, late.append))
    await asyncio.sleep(0)
    time.sleep(0.8)
    async with asyncio.timeout(SECONDS):
        while not late:
            await asyncio.sleep(0.01)
    stop.set()
    await beating
    assert late[0] >= 0.25
