"""How the cost of queries grows with services and pods, and the cost of a month in an object store.

    python -m bench.scale [--only services,pods,timeline,memory,overview,month] [--services 1,100,1000]
        [--pods 4,40,400] [--repeats 5] [--put-price 0.005] [--get-price 0.0004] [--gigabyte-price 0.023]

All data is of closed days, compacted as it arrived and after the end of the day, in files of a directory.
Requests and bytes are counted where the queries read the store. CPU is that of all threads from the store
to the JSON of the response, the median of the repeats; `cold`: no table is decoded yet.

services  one service with 4 pods and a window a minute, alone and among many others, which have one pod,
          `--windows` windows a day of 100 stacks, and 500 stacks in all
pods      4, 40 and 400 pods of one service with a window of 60 s every 10 minutes
timeline  24 hours of the first service in steps of 10 minutes
memory    7 days of the first service, window by window, as in bench/store.py
overview  the list of 1,000 and of 30,000 services with `--windows` windows a day, from closed days
month     storage and requests of 1,000 services with 20 pods for 30 days, from the bytes and requests that
          a collector caused which wrote a segment for each flush; prices are dollars for 1,000 requests and
          for a gigabyte a month
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Final

import structlog
from ulid import ULID

from bench import store as one_service
from bench.corpus import START_NS, Corpus, Shape
from bench.services import filled
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import event_day
from sidelight_model.counts import ProfileType
from sidelight_model.labels import Labels
from sidelight_model.selectors import Selector
from tests.collector.counting_store import Counting

PARTS: Final = ("services", "pods", "timeline", "memory", "overview", "month")
DAY_SECONDS: Final = 86_400
MONTH_DAYS: Final = 30
FLEET_WINDOWS_A_DAY: Final = 1000 * 20 * 1440
PODS_EVERY: Final = 10
MAX_SEGMENT_WINDOWS: Final = 240

WHOLE: Final = one_service.span(0, 1)
QUESTIONS: Final[dict[str, one_service.Ask]] = {
    "flame graph": one_service.flames(WHOLE),
    "timeline": lambda reading: query_timeline(
        reading, WHOLE, ProfileType.WALL, step_ns=None, max_steps=5000
    ),
    "depth": lambda reading: query_depth(reading, [WHOLE], ProfileType.WALL),
    "comparison": one_service.flames(one_service.span(0, 0.5), one_service.span(0.5, 0.5)),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query costs: CPU milliseconds, and requests and bytes at the store."""

    cold: float
    warm: float
    gets: int
    lists: int
    read_bytes: int


def measure(store: ObjectStore, repeats: int, make: one_service.Ask) -> Cost:
    """Measure the cost of a query from a store."""
    counting = Counting(store)
    with closing(QueryEngine(counting, one_service.LIMITS)) as engine:
        one_service.ask(engine, make)
    cold, warm = one_service.cold_and_warm(store, repeats, make)
    gets, lists = sum(counting.gets.values()), sum(counting.lists.values())
    return Cost(cold, warm, gets, lists, counting.read_bytes)


def renamed(row: HashedWindow, start_ns: int, luck: random.Random, **labels: str) -> HashedWindow:
    """Return a window with the same stacks, of another time and other labels."""
    window_id = str(ULID.from_bytes((start_ns // 10**6).to_bytes(6, "big") + luck.randbytes(10)))
    named = Labels(dict(sorted((dict(row.window.labels) | labels).items())))
    return replace(row, window=replace(row.window, id=window_id, labels=named, start_ns=start_ns))


def others(services: int, windows: int) -> Iterator[HashedWindow]:
    """Yield windows of small services in time order."""
    shape = Shape(pods=1, days=1 / 4, versions=1, stacks=100, distinct=500, seed=2)
    pool, luck = list(Corpus(shape).windows()), random.Random("others")
    step_ns = DAY_SECONDS * 10**9 // windows
    for turn in range(windows):
        for number in range(services):
            start_ns = START_NS + turn * step_ns + number * (step_ns // max(services, 1))
            name = f"svc-{number:05d}"
            yield renamed(luck.choice(pool), start_ns, luck, service=name, pod=f"{name}-0")


def in_segments(rows: Iterable[HashedWindow], most: int, seed: int) -> Iterator[list[HashedWindow]]:
    """Group windows of one day as flushes do."""
    luck, part = random.Random(f"segments {seed}"), list[HashedWindow]()
    wanted = luck.randint(4, most)
    for row in rows:
        part.append(row)
        if len(part) == wanted:
            yield part
            part, wanted = [], luck.randint(4, most)
    if part:
        yield part


@contextmanager
def in_files(store: MemoryStore) -> Iterator[DirectoryStore]:
    """Copy a store to files of a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="sidelight-scale-") as folder:
        directory = DirectoryStore(Path(folder))
        for entry in store.list("v1/"):
            directory.put(entry.key, store.get(entry.key))
        yield directory


def describe(store: ObjectStore) -> str:
    """Describe the closed day: blocks, services, objects and the size of the manifest."""
    version = manifest.read(store, event_day(START_NS))
    blocks = version.document.blocks
    objects, size = sum(len(block.parts) for block in blocks), sum(block.bytes for block in blocks)
    return f"{len(blocks)} blocks, {objects} objects, {size / 1e6:.1f} MB, manifest {version.size:,} bytes"


def grow(stores: Iterable[tuple[int, MemoryStore]], what: str, repeats: int, limit: float) -> None:
    """Measure all questions in stores of growing size, and print the ratios to the first or previous."""
    before: dict[str, Cost] = {}
    for number, store in stores:
        with in_files(store) as files:
            print(f"{number} {what}: {describe(files)}")
            for name, make in QUESTIONS.items():
                cost = measure(files, repeats, make)
                text = f"  {name:12} cold {cost.cold:7.1f} ms, warm {cost.warm:7.1f} ms"
                text += f", {cost.gets:3} gets, {cost.lists} lists, {cost.read_bytes / 1e3:9,.0f} kB"
                if old := before.get(name):
                    text += f"   x {cost.cold / old.cold:.2f} cold, {cost.warm / old.warm:.2f} warm"
                    text += f", {cost.read_bytes / old.read_bytes:.2f} bytes (asked {limit})"
                if what == "pods" or name not in before:
                    before[name] = cost
                print(text, flush=True)


def service_stores(given: argparse.Namespace) -> Iterator[tuple[int, MemoryStore]]:
    own = list(Corpus(Shape(days=1, versions=1)).windows())
    for number in given.services:
        store = MemoryStore()
        rows = merge(own, others(number - 1, given.windows), key=attrgetter("window.start_ns"))
        windows, _, compaction = one_service.fill(
            store, in_segments(rows, 60 if number < 10 else MAX_SEGMENT_WINDOWS, 1)
        )
        print(f"{windows} windows, compaction {compaction:.2f} CPU ms a window")
        yield number, store


def pod_stores(given: argparse.Namespace) -> Iterator[tuple[int, MemoryStore]]:
    own = list(Corpus(Shape(days=1, versions=1)).windows())
    for pods in given.pods:
        store, luck = MemoryStore(), random.Random("pods")

        def rows(pods: int = pods, luck: random.Random = luck) -> Iterator[HashedWindow]:
            step_ns = PODS_EVERY * 60 * 10**9
            for turn in range(DAY_SECONDS * 10**9 // step_ns):
                for pod in range(pods):
                    start_ns = START_NS + turn * step_ns + pod * (step_ns // pods)
                    node = f"node-{pod % 20}"  # a pod stays on its node
                    yield renamed(luck.choice(own), start_ns, luck, pod=f"shop-{pod}", node=node)

        windows, _, compaction = one_service.fill(store, in_segments(rows(), max(8, pods), 1))
        print(f"{windows} windows, compaction {compaction:.2f} CPU ms a window")
        yield pods, store


def overview(services: Sequence[int], windows: int, repeats: int) -> None:
    """Measure the list of all services, cold and for another range."""
    for number in services:
        store = filled(number, windows)
        later = START_NS / 1e9 + 3 * DAY_SECONDS
        compaction = Compaction(
            store,
            Metrics(),
            CompactionPolicy(deletion_delay_seconds=0),
            interval_seconds=1,
            clock=lambda later=later: later,
        )
        compaction.run_once()
        asked = WindowQuery(Selector(), START_NS, START_NS + DAY_SECONDS * 10**9)
        with in_files(store) as files:
            cost = measure(
                files,
                repeats,
                lambda reading, asked=asked: query_service_overview(
                    reading, asked, ProfileType.CPU, max_services=100_000
                ),
            )
            print(
                f"overview of {number} services: {describe(files)}\n  cold {cost.cold:.0f} ms, "
                f"warm {cost.warm:.0f} ms, {cost.gets} gets, {cost.read_bytes / 1e3:,.0f} kB "
                f"(asked {50 if number <= 1000 else 500} ms)",
                flush=True,
            )


def month(given: argparse.Namespace) -> None:
    """Print what a fleet of 1,000 services with 20 pods costs in a month."""
    counting = Counting(MemoryStore())
    flushes, per_flush = given.flushes, math.ceil(FLEET_WINDOWS_A_DAY / DAY_SECONDS * given.flush_seconds)
    own = list(Corpus(Shape(days=1, versions=1, pods=1)).windows())
    luck, span = random.Random("month"), flushes * per_flush
    start = [START_NS + at * int(given.flush_seconds * 1e9) // per_flush for at in range(span)]
    rows = (
        renamed(luck.choice(own), at, luck, service=f"svc-{number % 1000:04d}", pod=f"pod-{number % 20000}")
        for number, at in enumerate(start)
    )
    batches = ([next(rows) for _ in range(per_flush)] for _ in range(flushes))
    windows, segments, _ = one_service.fill(counting, batches)
    stored = sum(entry.size for entry in counting.list("v1/")) / windows
    writes = (sum(counting.puts.values()) + sum(counting.lists.values())) / segments
    reads = sum(counting.gets.values()) / segments
    of_month = MONTH_DAYS * DAY_SECONDS / given.flush_seconds
    puts, gets = writes * of_month, reads * of_month
    gigabytes = FLEET_WINDOWS_A_DAY * MONTH_DAYS * stored / 1e9
    print(f"month: {per_flush} windows a flush of {given.flush_seconds:g} s, {stored:.0f} bytes a window")
    print(f"  {writes:.1f} writes and listings and {reads:.1f} reads a flush, compaction included")
    print(f"  storage of {MONTH_DAYS} days: {gigabytes:,.0f} GB, ${gigabytes * given.gigabyte_price:,.0f}")
    print(f"  {puts / 1e6:.1f} million writes and listings, ${puts / 1000 * given.put_price:,.0f}")
    print(f"  {gets / 1e6:.1f} million reads, ${gets / 1000 * given.get_price:,.2f}", flush=True)


def timeline(repeats: int) -> None:
    with in_files(one_service.build(Shape(days=1, versions=1)).store) as files:
        cost = measure(files, repeats, QUESTIONS["timeline"])
    print(f"timeline of 24 h: cold {cost.cold:.1f} ms, warm {cost.warm:.1f} ms (asked 5, 3)", flush=True)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--services", type=numbers, default=[1, 100, 1000])
    parser.add_argument("--pods", type=numbers, default=[4, 40, 400])
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--flush-seconds", type=float, default=1.0)
    parser.add_argument("--flushes", type=int, default=400)
    parser.add_argument("--put-price", type=float, default=0.005)
    parser.add_argument("--get-price", type=float, default=0.0004)
    parser.add_argument("--gigabyte-price", type=float, default=0.023)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    wanted = given.only.split(",")
    if "services" in wanted:
        grow(service_stores(given), "services", given.repeats, 1.2)
    if "pods" in wanted:
        grow(pod_stores(given), "pods", given.repeats, 1.5)
    if "timeline" in wanted:
        timeline(given.repeats)
    if "memory" in wanted:
        shape = Shape()
        built = one_service.build(shape)
        one_service.tell(one_service.memory(built, shape, min(given.repeats, 3)))
    if "overview" in wanted:
        overview([1000, 30_000], 4, given.repeats)
    if "month" in wanted:
        month(given)


if __name__ == "__main__":
    main()
