"""The time of the services page's queries with very many services.

    python bench/services.py [--services 30000] [--windows 4] [--view 40] [--repeats 5] [--blocks]

The queries list all services, and the trends of the `--view` visible ones. A store in memory has
`--windows` windows of each service over a day, in two versions. With `--blocks` they are compacted, and
queries read them by the hour. For `cold` nothing is decoded yet; `warm` queries another range, so that no
cached response is used. Values are medians of the repeats: wall clock, and CPU of all threads. Trust the
CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from ulid import ULID

from sidelight_collector.answers.catalog import list_services
from sidelight_collector.answers.heatmap import HeatmapLimits, query_heatmap
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.http.api.responses import encode_json_response
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import Deadline, QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import event_day, write_segment
from sidelight_model.counts import ProfileType
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window

SECOND_NS = 10**9
DAY_NS = 86_400 * SECOND_NS
START_NS = 1_795_219_200 * SECOND_NS
"""2026-11-21T00:00:00Z."""
WELL = Quality(attempts=6000, mode="gil", sampler="sidelight 0.1.0", reader="own", python="3.11.7")


def filled(count: int, turns: int) -> ObjectStore:
    """Fill a store with windows of each service, spread evenly over a day."""
    store = MemoryStore()
    stacks = [parse_folded(f"main (a.py:1);f{at} (b.py:2) {20 * at}\n") for at in range(1, 40)]
    for turn in range(turns):
        version = "v1" if turn < turns // 2 else "v2"
        first_ns = START_NS + turn * (DAY_NS // turns)
        made = [
            Window(
                id=str(ULID.from_timestamp(start_ns // 10**6)),
                labels=Labels(
                    {"service": f"svc-{at:05d}", "version": version, "pod": f"svc-{at:05d}-{version}"}
                ),
                start_ns=start_ns,
                duration_ns=60 * SECOND_NS,
                period_ns=10_000_000,
                counts=stacks[(7 * at + turn) % len(stacks)],
                quality=WELL,
            )
            for at, start_ns in enumerate(range(first_ns, first_ns + count))
        ]
        for day in {event_day(one.start_ns) for one in made}:
            write_segment(store, [one for one in made if event_day(one.start_ns) == day])
    return store


def asks(view: int) -> Mapping[str, Callable[[QueryContext, WindowQuery], Mapping[str, object]]]:
    names = "|".join(f"svc-{at:05d}" for at in range(100, 100 + view))
    some = parse_re2_selector(f'{{service=~"{names}"}}')
    bounds = HeatmapLimits(max_columns=5000, max_rows=view, max_cells=100_000)

    def trends(reading: QueryContext, whole: WindowQuery) -> Mapping[str, object]:
        of = WindowQuery(some, whole.from_ns, whole.until_ns)
        step = 1800 * SECOND_NS
        return query_heatmap(
            reading, of, ProfileType.CPU, rows="service", step_ns=step, zone="UTC", limits=bounds
        )

    return {
        "overview": lambda reading, whole: query_service_overview(
            reading, whole, ProfileType.CPU, max_services=100_000
        ),
        "services": list_services,
        f"trends of {view}": trends,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, default=30_000)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--view", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--blocks", action="store_true")
    given = parser.parse_args()
    store = filled(given.services, given.windows)
    if given.blocks:
        Compaction(store, Metrics(), CompactionPolicy(min_segments=1), interval_seconds=1).run_once()
    print(f"{given.services} services, {given.services * given.windows} windows")
    limits = QueryLimits(timeout_seconds=600, cache_bytes=1 << 30)
    for name, ask in asks(given.view).items():
        cold, warm, body = [], [], b""
        for _ in range(given.repeats):
            with closing(QueryEngine(store, limits)) as engine:
                for turn, into in enumerate((cold, warm)):
                    whole = WindowQuery(parse_re2_selector(""), START_NS - turn, START_NS + DAY_NS)
                    wall, cpu = time.perf_counter(), time.process_time()
                    reading = QueryContext(store, engine.cache, engine._read_executor, Deadline(600))
                    body = encode_json_response(ask(reading, whole), gzip=True).body
                    into.append((time.perf_counter() - wall, time.process_time() - cpu))
        said = (
            f"{word} {1000 * statistics.median(each[0] for each in of):.0f} ms "
            f"(CPU {1000 * statistics.median(each[1] for each in of):.0f})"
            for word, of in (("cold", cold), ("warm", warm))
        )
        print(f"{name}: {', '.join(said)}; {len(body)} bytes gz", flush=True)


if __name__ == "__main__":
    main()
