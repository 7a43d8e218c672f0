"""Who lives in a small world: sidecars, collectors, compactors, retention, readers, and rot."""

from __future__ import annotations

import asyncio
import math
from asyncio import events
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sidelight_collector.ingest.batch import FlushPolicy
from sidelight_collector.ingest.dedup import DedupCache, DuplicateId, read_recent_ids
from sidelight_collector.ingest.segment_writer import SegmentWriter
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.stack_hashing import hash_window
from sidelight_collector.storage import manifest
from sidelight_collector.storage.lifecycle import retention
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import StoreError
from sidelight_collector.storage.segments import read_segment
from sidelight_collector.storage.tables import ROLLUP_PARTS
from sidelight_model.errors import Reason, SidelightError
from tests.collector.faults import Died
from tests.collector.simulated_queries import ask, drawn
from tests.collector.simulated_store import Line, Process

if TYPE_CHECKING:
    from tests.collector.simulation import Sent, World

METRICS = Metrics()


class Loop(asyncio.SelectorEventLoop):
    """An event loop on the world's clock, that has no threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        super().__init__()
        self.set_exception_handler(lambda *_: None)

    def time(self) -> float:
        return self._world.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future


@dataclass
class Request:
    """Windows on their way to a collector, and what it said: nothing is an answer that was lost."""

    windows: list[Sent]
    answer: str | None = None


RULES = CompactionPolicy(
    min_segments=2,
    max_wait_seconds=600,
    max_block_rows=16,
    max_shared_rows=6,
    deletion_delay_seconds=600,
    orphan_age_seconds=3600,
)


class Sidecar:
    """Sends windows until they are acknowledged, or refused; gives one up now and then.

    It also sends some once more, long after they were acknowledged: its disk is that of an earlier day.
    """

    def __init__(self, world: World, number: int, windows: list[Sent]) -> None:
        self.name = f"sidecar {number}"
        self._world = world
        self._todo = windows
        self._repeated: list[Sent] = []

    def body(self) -> None:
        world, luck = self._world, self._world.luck
        batch: list[Sent] = []
        while self._todo:
            if not batch or luck.random() < 0.6:
                batch = self._todo[: luck.choice((1, 1, 2, 3))]
                ids = {each.window.id: each for each in batch}
                batch = batch if len(ids) == len(batch) else batch[:1]
            to = luck.choice(world.collectors)
            request = Request(list(batch))
            for each in batch:
                each.sent = True
            to.take(request)
            patience = world.now + 60
            while request.answer is None and world.now < patience:
                world.pause(1.0)
            lost = world.storm and luck.random() < 0.2
            world.tell(self.name, [each.number for each in batch], "lost" if lost else request.answer)
            answered = request.answer in ("stored", "refused", Reason.TOO_OLD)
            if (answered or (world.storm and luck.random() < 0.02)) and not lost:
                self._todo = [each for each in self._todo if each not in batch]
                again = [each for each in batch if each not in self._repeated and luck.random() < 0.3]
                self._repeated += again
                self._todo += again
                batch = []
            world.pause(luck.choice((0.0, 1.0, 300.0, 1500.0)))


class Collector:
    """The flush path of a collector, started again when it dies."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"collector {number}"
        self.inbox: list[Request] = []
        self._world = world

    def take(self, request: Request) -> None:
        """A request arrives."""
        self.inbox.append(request)
        self._world.wake(self.name)

    def body(self) -> None:
        while True:
            process = Process(self.name)
            self._live(process)
            self.inbox.clear()
            self._world.tell(self.name, "begins anew")
            self._world.pause(5)

    def _live(self, process: Process) -> None:
        loop = Loop(self._world)
        try:
            with suppress(Died):
                loop.run_until_complete(self._serve(process))
        finally:
            process.dead = True
            events._set_running_loop(None)
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks))
            loop.close()

    async def _serve(self, process: Process) -> None:
        world = self._world
        line = Line(world, process)
        recent = DedupCache(world.luck.choice((1, 1, 50)))
        rule = FlushPolicy(world.luck.choice((0.0, 2.0)), 1 << 20)
        flusher = SegmentWriter(
            line,
            rule,
            METRICS,
            IngestStats(),
            recent,
            clock=lambda: world.now,
            wall_clock_ns=lambda: int(world.now * 1e9),
        )
        writing = asyncio.create_task(flusher.run())
        with suppress(StoreError):
            recent.load(read_recent_ids(line, recent.capacity, int(world.now * 1e9)))
        posts = set()
        while not process.dead:
            while self.inbox:
                posts.add(asyncio.create_task(self._post(flusher, self.inbox.pop(0), process)))
            await asyncio.sleep(0)
            assert not writing.done() or process.dead, writing
            posts = {each for each in posts if not each.done()}
            world.pause(0.5 if posts or self.inbox else math.inf)

    async def _post(self, flusher: SegmentWriter, request: Request, process: Process) -> None:
        try:
            await flusher.submit([hash_window(each.window) for each in request.windows], 1000)
        except DuplicateId:
            request.answer = "refused"
        except SidelightError as error:
            request.answer = "dead" if process.dead else str(error.reason)
        else:
            for each in request.windows:
                each.acknowledged = True
            request.answer = "stored"


class Compactor:
    """Looks every so often, by a clock that may jump."""

    def __init__(self, world: World, number: int) -> None:
        self._name = f"compactor {number}"
        self._world = world

    def body(self) -> None:
        world, luck = self._world, self._world.luck
        while True:
            process = Process(self._name)
            one = Compaction(
                Line(world, process),
                METRICS,
                RULES,
                interval_seconds=60,
                clock=lambda process=process: world.now + process.skew,
                timer=lambda: world.now,
            )
            try:
                while True:
                    one.run_once()
                    world.pause(luck.choice((10.0, 60.0, 700.0)))
                    if luck.random() < 0.2:
                        process.skew = luck.choice((-50.0, -2.0, 2.0, 30.0, 100.0)) * 3600
            except Died:
                if not process.dead:
                    raise
                world.tell(self._name, "begins anew")
                world.pause(5)


class Expiring:
    """Retention, that runs a few times: by age, or by size."""

    def __init__(self, world: World) -> None:
        self._world = world

    def body(self) -> None:
        world, luck = self._world, self._world.luck
        days, max_bytes = luck.choice((0, 1, 5)), luck.choice((0, 0, 1, 10_000, 30_000))
        kept = luck.choice(((days, days, days), (days, days + 1, days + 5), (days, days + 5, 400)))
        policy = retention.RetentionPolicy(RetentionDays(*kept), max_bytes=max_bytes)
        for _ in range(3):
            world.await_operation("retention")
            process, now = Process("retention"), datetime.fromtimestamp(world.now, UTC)
            # Whole days after the end of a day; by size, any day that is over.
            ages = [0, 0] if max_bytes else [kept[0], kept[2]]
            lost = [(now - timedelta(days=age + 1)).date() for age in ages]
            world.downsampled, world.deleted = map(max, (world.downsampled, world.deleted), lost)
            with suppress(Died):
                one = retention.Retention(Line(world, process), METRICS, policy=policy, interval_seconds=1)
                one.run_once(now)


class Rot:
    """Damages one object for good."""

    def __init__(self, world: World) -> None:
        self._world = world

    def body(self) -> None:
        world, luck = self._world, self._world.luck
        world.await_operation("rot")
        keys = [entry.key for entry in world.store.list("v1/")]
        if not keys:
            return
        key = luck.choice(keys)
        world.tell("rot", key)
        world.lost.update(self._held(key))
        world.store.put(key, world.spoilt(world.store.get(key), flip=luck.random() < 0.7))

    def _held(self, key: str) -> Iterable[str]:
        """The ids of the windows that cannot be known any longer."""
        world = self._world
        if key.endswith(".json"):
            known = manifest.decode(key, world.pristine[key])
            return [each for block in known.blocks for each in self._ids(block.ref.key_prefix)]
        if key.removesuffix(".parquet").rpartition("/")[2] in ROLLUP_PARTS:
            return []
        return self._ids(key[: key.rfind("/") + 1])

    def _ids(self, prefix: str) -> list[str]:
        class Pristine:
            def get(_, key: str) -> bytes:  # noqa: N805
                return self._world.pristine[key]

        table = read_segment(Pristine(), manifest.parse_key_prefix(prefix), "profiles", ["wid"])  # type: ignore[arg-type]
        return [str(each) for each in table["wid"].to_pylist()]


_INTERESTING = ("put v1/manifest", "put v1/raw", "delete v1/l0", "delete v1/raw")
"""Operations in the midst of which a query is asked."""


class Querier:
    """Asks now and then, and sees that what it is told is right."""

    def __init__(self, world: World, number: int) -> None:
        self._name = f"query {number}"
        self._world = world

    def body(self) -> None:
        world, luck = self._world, self._world.luck
        memory = TableCache(1 << 20)
        for _ in range(luck.choice((1, 2))):
            if world.storm:
                world.await_operation(self._name, luck.choice(("", *_INTERESTING)))
            process, began = Process(self._name), world.now
            acknowledged = {each.window.id for each in world.windows if each.acknowledged}
            claim = drawn(luck)
            try:
                found = ask(Line(world, process), claim, memory, lambda: world.now)
            except (StoreError, QueryTimeout) as error:
                world.tell(self._name, "fails", error)
                if not world.rate:
                    raise
            except Died:
                if not process.dead:
                    raise
            else:
                world.tell(self._name, claim, dict(found.counted), found.unreadable)
                world.check(found, acknowledged, began, self._name)
