"""The time to sum samples in this process and on a coordinator and two workers of Trino.

    make test-trino; python -m bench.trino [--pods 4 16] [--minutes 60] [--repeats 3]

Both read the same blocks from a real S3 server on this machine, and give the same sums. In this process
nothing is decoded yet (`cold`). Values are medians of the repeats: wall clock, and CPU of this process or of
all nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pyarrow as pa

from bench.query import START_NS, batched, windows
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext, Stage1
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.segments import write_segment
from sidelight_model.selectors import Selector
from tests.collector.engines import build_stage1
from tests.collector.trino_cluster import trino_cluster
from tests.processes import s3_server


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--pods", type=int, nargs="+", default=[4, 16])
    for name, default in {"minutes": 60, "repeats": 3, "window-seconds": 10, "stacks": 2000}.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    given = arguments.parse_args()
    given.threads = 2
    print("|rows|MB read|here, s (CPU s)|Trino, s (CPU s)|\n|-|-|-|-|")
    with tempfile.TemporaryDirectory() as folder, s3_server(Path(folder) / "s3") as server:
        os.environ.update(server.environment)
        with trino_cluster(Path(folder) / "trino", server) as cluster:
            nodes = [psutil.Process(node.pid) for node in cluster.nodes]

            def used_there() -> float:
                return sum(sum(node.cpu_times()[:2]) for node in nodes)

            for pods in given.pods:
                bucket = server.create_bucket(f"bench-{pods}")
                store = S3Store(bucket, endpoint=server.endpoint)
                rows = _write(store, argparse.Namespace(**{**vars(given), "pods": pods}))
                stage1 = build_stage1(cluster.url_of(f"s3://{bucket}"), f"s3://{bucket}", server.endpoint)
                query = WindowQuery(Selector(), START_NS + 1, START_NS + given.minutes * 60 * 10**9)
                # One nanosecond less than whole hours: their sums would be read instead of the samples.
                here, here_cpu, sums = _measure(given.repeats, store, query, None, _used_here)
                there, there_cpu, others = _measure(given.repeats, store, query, stage1, used_there)
                assert sums == others
                size = sum(entry.size for entry in store.list("v1/") if entry.key.endswith("samples.parquet"))
                print(
                    f"|{rows:,}|{size / 1e6:.1f}|{here:.1f} ({here_cpu:.1f})|{there:.1f} ({there_cpu:.1f})|",
                    flush=True,
                )


def _write(store: S3Store, given: argparse.Namespace) -> int:
    rows = 0
    for part in batched(list(windows(random.Random(1), given)), 400):
        write_segment(store, part)
        rows += sum(len(one.counts) for one in part)
    policy = CompactionPolicy(min_segments=1, deletion_delay_seconds=0)
    Compaction(store, Metrics(), policy, interval_seconds=1).run_once()
    return rows


def _used_here() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _measure(
    repeats: int, store: S3Store, query: WindowQuery, stage1: Stage1 | None, used: Callable[[], float]
) -> tuple[float, float, list[object]]:
    """Return the median seconds and CPU seconds of a cold query, and its sums in order."""

    def answer(context: QueryContext) -> pa.Table:
        selected = select_windows(context, query)
        start, cpu = time.perf_counter(), used()
        sums = sum_stacks(context, selected)
        spent.append((time.perf_counter() - start, used() - cpu))
        assert (context.engine == "trino") == (stage1 is not None)
        return sums.sort_by([("h", "ascending"), ("period_ns", "ascending")])

    spent: list[tuple[float, float]] = []
    for _ in range(repeats):
        with closing(QueryEngine(store, QueryLimits(timeout_seconds=600), stage1=stage1)) as engine:
            sums = asyncio.run(engine.run(answer))
    wall, cpu = (statistics.median(values) for values in zip(*spent, strict=True))
    return wall, cpu, sums.to_pylist()


if __name__ == "__main__":
    main()
