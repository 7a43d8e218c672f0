"""The cost of queries on a real S3 server, and the savings of each cache.

    python bench/caches.py [--days 1] [--pods 4] [--minutes 60] [--window-seconds 10] [--repeats 7] …

The windows are those of bench/query.py, `--minutes` of each day, as segments and blocks in a bucket of
versitygw on this machine. Each row is the cost of a flame graph of all windows, computed with the API's own
code: wall clock from request to response, CPU of this process (all threads, without the S3 server), fetched
objects and listings. All values are medians of the repeats.

    cold      memory and disk are empty
    copying   the same, while copies are written to the disk (one run)
    disk      memory is empty, copies are on the disk: a restarted collector
    tables    tables and manifests are in memory, responses are not cached
    answer    the response is in memory
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import query
import structlog

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.http.api.answer_cache import AnswerCache, CacheableQuery
from sidelight_collector.http.api.responses import encode_json_response
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.disk_cache import DiskCachedStore
from sidelight_collector.storage.backends.open_store import open_store
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import write_segment
from sidelight_model.selectors import Selector
from sidelight_model.window import Window
from tests.collector.counting_store import Counting
from tests.processes import s3_server

DAY_NS = 86_400 * query.SECOND_NS
LIMITS = QueryLimits()
FORGETFUL = replace(LIMITS, answer_bytes=0)
Row = tuple[float, float, float, float]


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {
        "days": 1,
        "pods": 4,
        "minutes": 60,
        "window-seconds": 10,
        "windows-per-segment": 4,
        "stacks": 2000,
        "threads": 2,
        "repeats": 7,
    }.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    given = arguments.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    first = list(query.windows(random.Random(1), given))
    days = [[later(one, number) for one in first] for number in range(given.days)]
    with tempfile.TemporaryDirectory() as scratch, s3_server(Path(scratch) / "s3") as server:
        os.environ.update(server.environment)
        for kind in ("segments", "blocks"):
            bucket = server.create_bucket(kind)
            store = open_store(f"s3://{bucket}/bench", s3_endpoint=server.endpoint)
            if kind == "segments":
                for day in days:
                    for part in query.batched(day, given.windows_per_segment):
                        write_segment(store, part)
            else:
                for day in days:
                    compacted, _, _ = query.compacted(day, given.windows_per_segment)
                    for entry in compacted.list("v1/"):
                        store.put(entry.key, compacted.get(entry.key))
            print(f"{kind}: {len(list(store.list('v1/')))} objects, {sum(map(len, days))} windows")
            print(f"{'':10}{'wall ms':>9}{'CPU ms':>9}{'fetched':>9}{'listings':>10}")
            with tempfile.TemporaryDirectory() as folder:
                for name, row in measured(store, Path(folder), given.days, given.repeats):
                    print(f"{name:10}{row[0]:9.1f}{row[1]:9.1f}{row[2]:9.0f}{row[3]:10.0f}", flush=True)


def later(one: Window, days: int) -> Window:
    """Return the same window `days` days later."""
    return replace(one, id=f"{days:06d}{one.id[6:]}", start_ns=one.start_ns + days * DAY_NS)


def measured(bare: ObjectStore, folder: Path, days: int, repeats: int) -> Iterator[tuple[str, Row]]:
    """Measure a query with each state of the caches; yield the name and the cost."""
    side = WindowQuery(Selector(), query.START_NS, query.START_NS + days * DAY_NS)
    drawn = partial(
        query_flame_graph, sides=[side], kind=query.KIND, lines=False, nodes=query.NODES, max_nodes=10**6
    )
    asked = CacheableQuery(
        "the question", [side], lambda reading: encode_json_response(drawn(reading), gzip=True)
    )

    def ask(answers: AnswerCache) -> None:
        assert asyncio.run(answers.get(lambda: asked)).etag is not None

    @contextmanager
    def collector(store: ObjectStore, limits: QueryLimits = LIMITS) -> Iterator[AnswerCache]:
        engine = QueryEngine(store, limits)
        yield AnswerCache(engine)
        engine.close()

    def started_anew(store: ObjectStore) -> None:
        with collector(store) as answers:
            ask(answers)

    counting = Counting(bare)
    yield "cold", medians(counting, repeats, lambda: started_anew(counting))
    disk = DiskCachedStore(counting, folder, 1 << 30, Metrics())
    yield "copying", medians(counting, 1, lambda: started_anew(disk))
    disk.close()
    disk = DiskCachedStore(counting, folder, 1 << 30, Metrics())
    yield "disk", medians(counting, repeats, lambda: started_anew(disk))
    disk.close()
    for name, limits in (("tables", FORGETFUL), ("answer", LIMITS)):
        with collector(counting, limits) as answers:
            ask(answers)
            yield name, medians(counting, repeats, lambda: ask(answers))


def medians(counting: Counting, repeats: int, run: Callable[[], None]) -> Row:
    """Return the medians of wall clock and CPU (ms), fetched objects and listings."""
    rows: list[Row] = []
    for _ in range(repeats):
        counting.gets, counting.lists = Counter(), Counter()
        start = time.perf_counter()
        cpu = query.cpu_ms(run)
        wall = (time.perf_counter() - start) * 1000
        rows.append((wall, cpu, sum(counting.gets.values()), sum(counting.lists.values())))
    columns: Sequence[Sequence[float]] = list(zip(*rows, strict=True))
    wall, cpu, gets, lists = map(statistics.median, columns)
    return wall, cpu, gets, lists


if __name__ == "__main__":
    main()
