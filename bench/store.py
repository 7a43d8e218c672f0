"""The store compared with its targets: size of windows and cost of queries.

    python bench/store.py [--pods 4] [--days 7] [--repeats 5] [--only ingest,queries,pods,memory]

The data is one service of the corpus (bench/corpus): 4 pods, 7 days of 1-minute windows of about 340 KB,
with 370 stacks per window and 20,000 per version. It is stored in segments of 4 to 60 windows, and
compacted as they arrive and after the end of each day. A query is measured from the store, which is in
memory, to the JSON of the response: for `cold` nothing is decoded yet, `warm` repeats the query. Values are
the CPU of all threads, medians of the repeats.

ingest   through HTTP, as in bench/ingest.py.
queries  bytes per window of closed days, compaction, and every query on 24 hours and 7 days.
pods     the same with ten times as many pods, over a day.
memory   peak memory of a 7-day merge, window by window, in its own process, with nothing decoded before.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from bench import ingest
from bench.corpus import START_NS, Corpus, Shape, shape_arguments, shape_of
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.http.api.responses import encode_json_response
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import ROOT, event_day, write_hashed_segment
from sidelight_model.counts import ProfileType

DAY_SECONDS: Final = 86_400
HOUR_SECONDS: Final = 3600
LOOK_SECONDS: Final = 900
SEGMENT_WINDOWS: Final = (4, 60)
NODES: Final = 50_000
PARTS: Final = ("ingest", "queries", "pods", "memory")
TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Built:
    """A store of closed days: its contents and the cost of compaction.

    `compacting_ms` is in CPU milliseconds per window.
    """

    store: MemoryStore
    windows: int
    segments: int
    compacting_ms: float

    @property
    def bytes_per_window(self) -> float:
        return sum(self.bytes_by_table().values())

    def bytes_by_table(self) -> Counter[str]:
        """Return the bytes per window of each kind of object."""
        sizes = Counter[str]()
        for entry in self.store.list("v1/"):
            sizes[entry.key.rpartition("/")[2] if entry.key.endswith(".parquet") else "others"] += entry.size
        return Counter({name: size / self.windows for name, size in sizes.items()})


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the output; `limit` is the target, if there is one."""

    what: str
    value: float
    unit: str
    limit: float | None = None

    def __str__(self) -> str:
        asked = "" if self.limit is None else f"{self.limit:10.4g}{self.value / self.limit:8.2f}"
        return f"{self.what:44}{self.value:10.4g} {self.unit:14}{asked}"


def build(shape: Shape) -> Built:
    """Build a store of a shape's windows, compacted on arrival and after every day."""
    store = MemoryStore()
    return Built(store, *fill(store, _segments(Corpus(shape).windows(), shape.seed)))


def fill(store: ObjectStore, parts: Iterable[Sequence[HashedWindow]]) -> tuple[int, int, float]:
    """Write windows as segments, compacted on arrival and after every day.

    Returns the numbers of windows and segments, and the CPU milliseconds of compaction per window.
    """
    now, used, segments, windows = START_NS / 1e9, 0.0, 0, 0
    compaction = Compaction(
        store, Metrics(), CompactionPolicy(deletion_delay_seconds=0), interval_seconds=1, clock=lambda: now
    )
    looked = now
    for part in parts:
        write_hashed_segment(store, part)
        segments, windows = segments + 1, windows + len(part)
        now = (part[-1].window.start_ns + part[-1].window.duration_ns) / 1e9
        if now - looked >= LOOK_SECONDS:
            looked = now
            used += cpu_ms(compaction.run_once)
    for _ in range(3):
        now += DAY_SECONDS
        used += cpu_ms(compaction.run_once)
    if left := next(iter(store.list(ROOT)), None):
        raise SystemExit(f"{left.key} was not compacted")
    return windows, segments, used / windows


def _segments(rows: Iterator[HashedWindow], seed: int) -> Iterator[list[HashedWindow]]:
    """Group windows as flushes do: some at a time, all of one day."""
    luck, part = random.Random(f"segments {seed}"), list[HashedWindow]()
    wanted = luck.randint(*SEGMENT_WINDOWS)
    for row in rows:
        if part and (
            len(part) == wanted or event_day(row.window.start_ns) != event_day(part[0].window.start_ns)
        ):
            yield part
            part, wanted = [], luck.randint(*SEGMENT_WINDOWS)
        part.append(row)
    if part:
        yield part


Ask = Callable[[QueryContext], object]


def flames(*sides: WindowQuery) -> Ask:
    """Make a query for the flame graph of one side, or for the comparison of two."""
    return lambda reading: query_flame_graph(
        reading, sides, ProfileType.WALL, lines=False, nodes=NODES, max_nodes=10**6
    )


def span(from_day: float, days: float) -> WindowQuery:
    """Select all windows of the service in a range of days, counted from the start."""
    from_ns = START_NS + round(from_day * DAY_SECONDS) * 10**9
    return WindowQuery(
        parse_re2_selector('{service="shop"}'), from_ns, from_ns + round(days * DAY_SECONDS) * 10**9
    )


def cold_and_warm(store: ObjectStore, repeats: int, make: Ask) -> tuple[float, float]:
    """Measure the CPU milliseconds from the store to JSON, cold and warm."""
    cold = []
    for _ in range(repeats):
        with closing(QueryEngine(store, LIMITS)) as engine:
            cold.append(cpu_ms(lambda engine=engine: ask(engine, make)))
    with closing(QueryEngine(store, LIMITS)) as engine:
        ask(engine, make)
        warm = [cpu_ms(lambda: ask(engine, make)) for _ in range(repeats)]
    return statistics.median(cold), statistics.median(warm)


LIMITS: Final = replace(QueryLimits(), timeout_seconds=TIMEOUT_SECONDS)


def ask(engine: QueryEngine, make: Ask) -> bytes:
    """Return the response as it is sent, uncompressed."""
    return asyncio.run(engine.run(lambda reading: encode_json_response(make(reading), gzip=False))).body


def cpu_ms(run: Callable[[], object]) -> float:
    """Measure the CPU milliseconds of a call, for all threads."""
    used = time.process_time()
    run()
    return (time.process_time() - used) * 1000


def queries(built: Built, shape: Shape, repeats: int) -> Iterator[Figure]:
    """Measure every query."""
    last, first = shape.days - 2, 1
    asked = (
        ("merge 24 h, window by window", flames(replace(span(last, 1), by_window=True)), 105),
        ("merge 24 h of two days", flames(span(last - 0.5, 1)), 75),
        ("merge 24 h of one day", flames(span(last, 1)), 60),
        (f"merge {shape.days:g} days", flames(span(0, shape.days)), 200),
        ("merge 1 h", flames(span(last + 0.5, 1 / 24)), None),
        ("compare 24 h with 24 h", flames(span(first, 1), span(last, 1)), 160),
        ("depth of 24 h", lambda reading: query_depth(reading, [span(last, 1)], ProfileType.WALL), 30),
        (
            "timeline of 24 h",
            lambda reading: query_timeline(
                reading, span(last, 1), ProfileType.WALL, step_ns=None, max_steps=5000
            ),
            5,
        ),
    )
    yield Figure("bytes a window of closed days", built.bytes_per_window, "bytes", 1200)
    for name, size in built.bytes_by_table().most_common():
        yield Figure(f"  of them {name}", size, "bytes")
    yield Figure("compaction, a window", built.compacting_ms, "CPU ms", 0.4)
    for what, make, limit in asked:
        cold, warm = cold_and_warm(built.store, repeats, make)
        yield Figure(f"{what}, cold", cold, "CPU ms", limit)
        yield Figure(f"{what}, warm", warm, "CPU ms", limit)


def more_pods(shape: Shape, repeats: int) -> Iterator[Figure]:
    """Measure a day with ten times the pods, and the same day with the given number."""
    day = replace(shape, days=1, versions=1)
    few, many = (build(replace(day, pods=pods)) for pods in (shape.pods, 10 * shape.pods))
    yield Figure("10 x pods: bytes a window", many.bytes_per_window, "bytes", 1200)
    yield Figure("10 x pods: compaction, a window", many.compacting_ms, "CPU ms", 0.4)
    questions = {
        "merge 24 h": flames(span(0, 1)),
        "depth of 24 h": lambda reading: query_depth(reading, [span(0, 1)], ProfileType.WALL),
        "timeline of 24 h": lambda reading: query_timeline(
            reading, span(0, 1), ProfileType.WALL, step_ns=None, max_steps=5000
        ),
    }
    for what, make in questions.items():
        ours, theirs = (cold_and_warm(one.store, repeats, make) for one in (many, few))
        for how, one, other in zip(("cold", "warm"), ours, theirs, strict=True):
            yield Figure(f"10 x pods: {what}, {how}", one, "CPU ms")
            yield Figure("  against as many as asked for", one / other, "times", 1.5)


def memory(built: Built, shape: Shape, repeats: int) -> Iterator[Figure]:
    """Measure the peak memory of a merge of all days, in its own process."""
    with tempfile.TemporaryDirectory(prefix="sidelight-store-") as folder:
        directory = DirectoryStore(Path(folder))
        for entry in built.store.list("v1/"):
            directory.put(entry.key, built.store.get(entry.key))
        command = [sys.executable, "-m", "bench.store", "--days", str(shape.days), "--peak", folder]
        peaks = [float(subprocess.check_output(command, timeout=300)) for _ in range(repeats)]
    yield Figure(f"peak memory of {shape.days:g} days above base", statistics.median(peaks), "MB", 120)


def peak(folder: Path, days: float) -> float:
    """Return the peak growth of memory in MB during a merge of all days; Linux only."""
    with closing(QueryEngine(DirectoryStore(folder), LIMITS)) as engine:
        ask(
            engine,
            lambda reading: query_timeline(
                reading, span(0, 1 / 24), ProfileType.WALL, step_ns=None, max_steps=5000
            ),
        )
        base = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak is what it is now: proc(5)
        ask(engine, flames(replace(span(0, days), by_window=True)))
        return (_memory("VmHWM") - base) / 1024


def _memory(name: str) -> int:
    """Read a memory value in kilobytes from /proc/self/status."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, name
    return int(found[1])


def taken_in(shape: Shape, repeats: int) -> Iterator[Figure]:
    """Measure the cost of ingesting a window through HTTP."""
    costs = ingest.measure(replace(shape, days=1, versions=1), windows=192, repeats=repeats)
    yield Figure("ingest through HTTP, a window", statistics.median(costs), "CPU ms", 2.2)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shape_arguments(arguments)
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--only", default=",".join(PARTS))
    arguments.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    shape = shape_of(given)
    if given.peak:
        print(peak(given.peak, shape.days))
        return
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    wanted: Sequence[str] = given.only.split(",")
    print(f"{'':44}{'measured':>10} {'':14}{'asked':>10}{'of it':>8}")
    if "ingest" in wanted:
        tell(taken_in(shape, given.repeats))
    if {"queries", "memory"} & set(wanted):
        built = build(shape)
        print(f"{built.windows} windows in {built.segments} segments")
        if "queries" in wanted:
            tell(queries(built, shape, given.repeats))
        if "memory" in wanted:
            tell(memory(built, shape, min(given.repeats, 3)))
    if "pods" in wanted:
        tell(more_pods(shape, given.repeats))


def tell(figures: Iterator[Figure]) -> None:
    for figure in figures:
        print(figure, flush=True)


if __name__ == "__main__":
    main()
