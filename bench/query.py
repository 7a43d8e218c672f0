"""The time from stored windows to flame graph JSON, compared with a plain dict.

    python bench/query.py [--pods 4] [--minutes 60] [--window-seconds 10] [--windows-per-segment 4] …

The plain implementation stores each window as zstd-compressed folded text and adds up windows in a dict.
Both read the same windows from memory, in the same run, and produce the same nodes. For `cold` nothing is
decoded yet; `warm` repeats the same query. `blocks` is the same after compaction, whose own cost is
printed, followed by other queries on the same windows, warm. Values are medians of the repeats: wall clock,
and CPU of all threads. Trust the ratios of CPU time, because a busy machine changes them least.

To measure without the native kernel, hide it:

    mkdir hidden; echo "raise ImportError" > hidden/sidelight_native.py
    PYTHONPATH=hidden python bench/query.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import zstandard
from ulid import ULID

from sidelight_collector.answers.endpoints import query_endpoints
from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
from sidelight_collector.answers.heatmap import HeatmapLimits, query_heatmap
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.http.api.responses import EncodedResponse, encode_json_response
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.engine.stack_endpoints import find_endpoints
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.stack_filter import NO_FILTER
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.segments import event_day, write_segment
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.folded import Stack, join_frames, split_stack
from sidelight_model.labels import Labels
from sidelight_model.selectors import Selector
from sidelight_model.tree import compute_totals, prune_tree
from sidelight_model.window import Quality, Window, decode_windows, encode_windows
from tests.model.reference_profiles import build_profile_tree, merge_windows

START_NS = 1_795_219_200 * 10**9  # 2026-11-21T00:00:00Z
SECOND_NS = 10**9
PERIOD_NS = 10_000_000
NODES = 50_000
KIND = ProfileType.WALL
HEATMAP_LIMITS = HeatmapLimits(5_000, 100, 100_000)
FRAMES = pa.list_(pa.dictionary(pa.int32(), pa.string()))

Answer = Callable[[QueryContext], Mapping[str, object]]


def stacks(luck: random.Random, unique: int) -> list[Stack]:
    """Generate distinct stacks of a web service.

    They share a trunk, which ends in a framework and is followed by branches of 10 to 60 frames.
    """
    modules = [f"site-packages/framework/part_{number}.py" for number in range(120)]
    functions = [
        f"Handler{number % 40}.step_{number} ({luck.choice(modules)}:{number})" for number in range(3000)
    ]
    trunk = [f"<module> (app.py:{line})" for line in range(3)] + [
        *(f"run (asyncio/base_events.py:{n})" for n in range(3)),
        "Route.handle (starlette/routing.py:1)",
        "request_response.<locals>.app (starlette/routing.py:2)",
    ]
    found: dict[Stack, None] = {}
    branches: list[list[str]] = [trunk]
    while len(found) < unique:
        start = luck.choice(branches)
        branch = start[: luck.randint(len(trunk), len(start))] + luck.choices(
            functions, k=luck.randint(2, 12)
        )
        if len(branch) < 60:
            branches.append(branch)
            found[join_frames(branch)] = None
    return list(found)


def windows(luck: random.Random, given: argparse.Namespace) -> Iterator[Window]:
    """Generate the windows of every pod in time order.

    A few stacks are hot and most are rare, as in real services.
    """
    known = stacks(luck, given.stacks)
    weights = [1 / (rank + 1) for rank in range(len(known))]
    samples = given.window_seconds * 100 * given.threads
    for number in range(given.minutes * 60 // given.window_seconds):
        for pod in range(given.pods):
            counts: dict[Stack, Counts] = {}
            for stack in luck.choices(known, weights, k=samples):
                state = luck.random()
                one = Counts(state < 0.8, 0.8 <= state < 0.9, state >= 0.9)
                counts[stack] = counts.get(stack, Counts()).plus(Counts(*map(int, one)))
            start_ns = START_NS + number * given.window_seconds * SECOND_NS
            yield Window(
                f"{str(ULID.from_timestamp(start_ns // 10**6))[:10]}{number * given.pods + pod:016d}",
                Labels({"service": "shop", "version": "1", "pod": f"shop-{pod}"}),
                start_ns,
                given.window_seconds * SECOND_NS,
                PERIOD_NS,
                counts,
                Quality(attempts=given.window_seconds * 100, samples=samples, mode="blocking"),
            )


def plain(bodies: Sequence[bytes]) -> bytes:
    """Turn text into a dict, a tree and JSON."""
    unpack = zstandard.ZstdDecompressor()
    merged = merge_windows(one for body in bodies for one in decode_windows(unpack.decompress(body)))
    drawn, _ = prune_tree(build_profile_tree(merged, kind=KIND), NODES)
    answer = {
        "frames": [drawn.names[code] for code in drawn.name_index],
        "level": drawn.level,
        "self_samples": drawn.self_samples[0],
        "self_us": [ns // 1000 for ns in drawn.self_ns[0]],
        "total": compute_totals(drawn, 0)[0],
    }
    return json.dumps(answer, separators=(",", ":")).encode()


def median_ms(repeats: int, run: Callable[[], object]) -> tuple[float, float]:
    """Return the median wall clock and CPU milliseconds of a run."""
    wall, cpu = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        cpu.append(cpu_ms(run))
        wall.append((time.perf_counter() - start) * 1000)
    return statistics.median(wall), statistics.median(cpu)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in {
        "pods": 4,
        "minutes": 60,
        "window-seconds": 10,
        "windows-per-segment": 4,
        "stacks": 2000,
        "threads": 2,
        "repeats": 5,
    }.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    given = arguments.parse_args()
    made = list(windows(random.Random(1), given))
    compress = zstandard.ZstdCompressor(level=3)
    bodies = [compress.compress(encode_windows([one])) for one in made]
    store, segments = MemoryStore(), 0
    for part in batched(made, given.windows_per_segment):
        write_segment(store, part)
        segments += 1
    stored = sum(entry.size for entry in store.list("v1/"))
    rows = sum(len(one.counts) for one in made)
    question = WindowQuery(Selector(), START_NS, START_NS + given.minutes * 60 * SECOND_NS)

    def merged(reading: QueryContext, sides: int = 1, grouped: bool = False) -> FlameGraph:
        asked = [replace(question, group_by_endpoint=grouped)] * sides
        return query_flame_graph(reading, asked, KIND, lines=False, nodes=NODES, max_nodes=10**6)

    questions: dict[str, Answer] = {
        "compare": lambda reading: merged(reading, 2),
        "depth": lambda reading: query_depth(reading, [question], KIND),
        "top": lambda reading: query_top(reading, [question], KIND, by=CostOrder.SELF, limit=100),
        "endpoints": lambda reading: query_endpoints(
            reading, question, KIND, stack_filter=NO_FILTER, limit=20, max_rows=100_000
        ),
        "by endpoint": lambda reading: merged(reading, grouped=True),
        "endpoints' heatmap": lambda reading: query_heatmap(
            reading, question, KIND, rows="endpoint", step_ns=None, zone="UTC", limits=HEATMAP_LIMITS
        ),
    }

    def ask(engine: QueryEngine, answer: Answer = merged) -> EncodedResponse:
        return asyncio.run(engine.run(lambda reading: encode_json_response(answer(reading), gzip=False)))

    def cold() -> EncodedResponse:
        with closing(QueryEngine(store, QueryLimits())) as engine:
            return ask(engine)

    by_text, by_query = json.loads(plain(bodies)), json.loads(cold().body)
    side = by_query["sides"][0]
    assert [by_query["names"][code] for code in by_query["name"]] == by_text["frames"]
    assert (side["self_samples"], side["samples"]) == (by_text["self_samples"], by_text["total"])

    def warm(answer: Answer = merged) -> tuple[tuple[float, float], int]:
        with closing(QueryEngine(store, QueryLimits())) as engine:
            ask(engine, answer)
            return median_ms(given.repeats, lambda: ask(engine, answer)), engine.cache.size_bytes

    plain_ms = median_ms(given.repeats, lambda: plain(bodies))
    taken = {"zstd text + dict": (plain_ms, sum(map(len, bodies)))}
    taken["segments, cold"] = median_ms(given.repeats, cold), stored
    taken["segments, warm"] = warm()
    store, compacting_ms, blocks = compacted(made, given.windows_per_segment)
    assert json.loads(cold().body)["sides"] == by_query["sides"]
    taken["blocks, cold"] = median_ms(given.repeats, cold), sum(block.bytes for block in blocks)
    taken["blocks, warm"] = warm()
    taken |= {f"blocks, {name}": warm(answer) for name, answer in questions.items()}
    print(f"{len(made)} windows, {rows} stack rows, {given.stacks} stacks, {segments} segments")
    print(f"{len(by_query['level'])} nodes; equal answers")
    print(f"{'':26}{'wall ms':>9}{'CPU ms':>9}{'ratio':>8}{'bytes a window':>16}")
    for name, ((wall, cpu), size) in taken.items():
        print(f"{name:26}{wall:9.0f}{cpu:9.0f}{plain_ms[1] / cpu:8.1f}{size / len(made):16.0f}")
    frames = pa.array(list(map(split_stack, stacks(random.Random(1), given.stacks))), FRAMES)
    _, cpu = median_ms(given.repeats, lambda: find_endpoints(frames))
    print(f"endpoints of {given.stacks} stacks, not cached: {cpu:.0f} CPU ms")
    print(f"compaction to {len(blocks)} blocks: {compacting_ms / len(made):.2f} CPU ms a window (limit 0.4)")


def compacted(made: Sequence[Window], windows_per_segment: int) -> tuple[MemoryStore, float, Sequence[Block]]:
    """Store the windows, compacted as they arrive and after the end of the day.

    Returns the store, the CPU milliseconds of compaction, and the blocks of the day.
    """
    store, rest, now, used = MemoryStore(), iter(made), START_NS / 1e9, 0.0
    compaction = Compaction(
        store, Metrics(), CompactionPolicy(deletion_delay_seconds=0), interval_seconds=1, clock=lambda: now
    )
    rules = CompactionPolicy()
    while coming := list(islice(rest, rules.min_segments * windows_per_segment)):
        for part in batched(coming, windows_per_segment):
            write_segment(store, part)
        now = coming[-1].start_ns / 1e9
        used += cpu_ms(compaction.run_once)
    now += 2 * 86_400
    used += cpu_ms(compaction.run_once)
    return store, used, manifest.read(store, event_day(START_NS)).document.blocks


def batched(windows: Sequence[Window], size: int) -> Iterator[Sequence[Window]]:
    for start in range(0, len(windows), size):
        yield windows[start : start + size]


def cpu_ms(run: Callable[[], object]) -> float:
    """Measure the CPU milliseconds of a call, for all threads."""
    used = time.process_time()
    run()
    return (time.process_time() - used) * 1000


if __name__ == "__main__":
    main()
