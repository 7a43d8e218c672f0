"""Stage 1 on an engine gives the answers that the collector gives, over the objects of a real S3 server.

ClickHouse is its own engine (chdb) behind a small server: clickhouse_server says what that leaves untested.
Trino is a cluster of three nodes, and takes part in `make test-trino`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidelight_collector.query.engine.window_sums import Scan, sum_stacks
from sidelight_collector.query.engines.clickhouse import sql
from sidelight_collector.query.engines.external_stage1 import ExternalStage1
from sidelight_collector.query.engines.trino import trino_sql
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.lifecycle.compaction import CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import encode_parquet, read_segment
from sidelight_collector.storage.tables import STATES
from sidelight_model.window import Window
from tests.collector.conftest import Serve
from tests.collector.engines import KEPT, EngineServer, build_stage1, record_tables
from tests.collector.stored_windows import START_NS, asked, question, stored, window
from tests.collector.test_query_blocks import compacted, fleet, near
from tests.processes import S3Server

NewStore = Callable[[], tuple[str, S3Store]]
GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


@pytest.fixture(scope="module")
def new_store(s3_server: S3Server, new_bucket: Callable[[], str]) -> NewStore:
    """Makes an empty store in a bucket of its own, below a prefix; gives its name too."""

    def make() -> tuple[str, S3Store]:
        bucket = new_bucket()
        return f"s3://{bucket}/some/prefix", S3Store(bucket, "some/prefix", endpoint=s3_server.endpoint)

    return make


def mixed(store: ObjectStore) -> None:
    """A block, segments that no block has yet, and windows that are in both."""
    windows = fleet()
    half = len(windows) // 2
    compacted(
        stored(*(windows[at : at + 5] for at in range(0, half, 5)), store=store),
        CompactionPolicy(min_segments=4),
    )
    stored(*(windows[at : at + 5] for at in range(half - 10, len(windows), 5)), store=store)
    (day,) = manifest.list_days(store)
    assert any("sums" in block.parts for block in manifest.read(store, day).document.blocks)


def table(
    store: ObjectStore,
    selector: str = "",
    stage1: ExternalStage1 | None = None,
    where: str | None = None,
    **range_: float,
) -> list[Any]:
    """What stage 1 makes of a question, in order, and where."""

    def rows(reading: QueryContext) -> tuple[list[Any], str]:
        found = sum_stacks(reading, select_windows(reading, question(selector, **{"end": 7200, **range_})))
        assert found.schema.names == ["service", "h", "period_ns", *STATES]
        return sorted(tuple(row.values()) for row in found.to_pylist()), reading.engine

    made, actual = asked(store, rows, stage1=stage1)
    # Nobody is asked to add up no windows at all; windows without stacks add up to nothing there.
    expected = where or (stage1.client.server.engine if stage1 else "")
    assert actual == expected or (not made and not actual)
    return made


ASKED: list[tuple[str, dict[str, str]]] = [
    ("flamegraph", {"lines": "1", "nodes": "all"}),
    ("compare", {"baseline": 'version="1"', "comparison": 'version="2"', "verdict": "0"}),
    ("compare", {"baseline": 'version="1"', "comparison": 'version="2"'}),
    ("depth", {"baseline": 'version="1"', "comparison": 'version="2"'}),
    ("top", {"by": "total"}),
    ("flamegraph", {"min_depth": "2", "max_depth": "3"}),
    ("top", {"max_depth": "2"}),
    ("depth", {"function": "handle (a.py)", "min_depth": "2"}),
    ("stack-composition", {"baseline": 'version="1"', "comparison": 'version="2"'}),
    ("timeline", {"step": "10m"}),
    ("export", {"states": "1"}),
]
SELECTORS = [
    "",
    '{service="shop"}',
    '{service=~"a.*", version="2"}',
    '{pod="shop-1"}',
    '{thread="other"}',
    '{pod=~"shop-[12]", thread="main"}',
    '{region="r1"}',
    '{service="nobody"}',
]
RANGES = [(-4000, 8000), (-900, 4321), (-4000, 8000), (-900, 4321), (1800, 1801)]


async def test_every_answer_is_that_of_a_collector_that_adds_up_itself(
    serving: Serve, s3_server: S3Server, engine: EngineServer, new_store: NewStore
) -> None:
    name, store = new_store()
    mixed(store)
    own: dict[str, Any] = {
        "store": name,
        "s3_endpoint": s3_server.endpoint,
        "compact_interval_seconds": 0.0,
        **KEPT,
    }
    kinds, ranges = cycle(["wall", "cpu", "gil"]), cycle(RANGES)
    async with (
        serving(store, **own) as plain,
        serving(
            store,
            **own,
            engine=engine.url_of(name),
            engine_fallback=False,
            engine_timeout_seconds=200.0,
            query_timeout_seconds=200.0,
        ) as other,
    ):
        for selector, (path, more) in zip(cycle(SELECTORS), ASKED * 3, strict=False):
            start, end = next(ranges)
            span = {"from": str(START_NS // 10**9 + start), "until": str(START_NS // 10**9 + end)}
            given = {"query": selector, **span, "type": next(kinds), **more}
            expected = await plain.get(path, given)
            answer = await other.get(path, given)
            assert answer.status == expected.status == 200, answer.body
            assert answer.body == expected.body, (path, given)
            # A verdict is made of pods and blocks of time, which are read here.
            here = path == "timeline" or (path == "compare" and "verdict" not in more)
            somewhere = not here and has_windows(expected)
            assert answer.headers.get("sidelight-engine") == (
                engine.url_of(name).engine if somewhere else None
            )
            assert "sidelight-engine" not in expected.headers
        assert await other.metric("sidelight_engine_query_seconds_count") > 10
        assert await other.metric("sidelight_query_unreadable_segments_total") == 0


def has_windows(answer: Any) -> bool:
    if "sidelight-windows" in answer.headers:
        return bool(int(answer.headers["sidelight-windows"]))
    return bool(answer.json["basis"]["windows"])


@pytest.fixture(scope="module")
def corpus(new_store: NewStore) -> tuple[str, S3Store]:
    name, store = new_store()
    mixed(store)
    return name, store


@pytest.mark.parametrize(
    ("edges", "count"),
    [((2, 3, 1), range(30, 100)), ((5, 7, 2), range(14, 30)), ((500, 50_000, 2_500), range(3, 13))],
)
def test_many_statements_add_up_to_what_one_does(
    edges: tuple[int, int, int],
    count: range,
    corpus: tuple[str, S3Store],
    s3_server: S3Server,
    engine: EngineServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, store = corpus
    monkeypatch.setattr(sql, "MAX_KEYS_PER_FIELD", edges[2])
    for module in (sql, trino_sql):
        monkeypatch.setattr(module, "MAX_OBJECTS", edges[0])
        monkeypatch.setattr(module, "MAX_KEYS", edges[1])
    there, tables = record_tables(build_stage1(engine.url_of(name), name, s3_server.endpoint))
    for selector in ("", '{pod="shop-1"}', '{thread="main"}'):
        expected = table(store, selector, start=-900, end=1500)
        assert table(store, selector, there, start=-900, end=1500) == expected
    assert len(tables) in count


def test_every_table_of_a_block_is_added_up_there(
    new_store: NewStore, s3_server: S3Server, engine: EngineServer
) -> None:
    name, store = new_store()
    compacted(stored(fleet(), store=store))
    there, tables = record_tables(build_stage1(engine.url_of(name), name, s3_server.endpoint))
    for selector, span, expected in (
        ("", {"start": -36_000, "end": 50_000}, ["daily"]),
        ('{version="1", thread="main"}', {"start": -36_000, "end": 50_000}, ["daily"]),
        ("", {"start": -1800, "end": 50_000}, ["daily", "sums"]),
        ('{version="1"}', {"start": -1800, "end": 50_000}, ["sums"]),
        ('{version="1"}', {"start": -900, "end": 50_000}, ["samples", "sums"]),
        ('{pod="shop-1"}', {"start": -36_000, "end": 50_000}, ["samples"]),
    ):
        tables.clear()
        assert table(store, selector, there, **span) == table(store, selector, **span)
        assert sorted(tables) == expected


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(near, min_size=1, max_size=8, unique_by=lambda one: one.id), st.data())
def test_any_windows_add_up_to_the_same(
    s3_server: S3Server,
    engine: EngineServer,
    new_store: NewStore,
    windows: list[Window],
    data: st.DataObject,
) -> None:
    name, store = new_store()
    pieces = [[one for one in windows if data.draw(st.booleans())] for _ in range(2)] + [windows]
    stored(*pieces, store=store)
    start, end = sorted(data.draw(st.integers(-20_000, 20_000)) for _ in range(2))
    selector = data.draw(st.sampled_from(["", '{pod=~".*[a-m].*"}', '{thread!=""}', '{version=""}']))
    there = build_stage1(engine.url_of(name), name, s3_server.endpoint)
    assert table(store, selector, there, start=start, end=end) == table(store, selector, start=start, end=end)


def test_sums_wrap_around_as_they_do_here_and_hashes_keep_all_their_bits(
    new_store: NewStore, s3_server: S3Server, engine: EngineServer
) -> None:
    name, store = new_store()
    stored([window("a 1 | a;[idle] 1", pod="p1"), window("a 1 | a;[idle] 1", pod="p2")], store=store)
    (ref,) = refs(store)
    most = 2**63 - 1
    for part in ("samples", "profiles"):
        whole = read_segment(store, ref, part)
        for state, values in (("idle", [most, most - 5]), ("running", [most, 0]), ("gil", [0, 0])):
            whole = whole.set_column(whole.schema.get_field_index(state), state, pa.array(values, pa.int64()))
        if part == "samples":
            at = whole.schema.get_field_index("h")
            whole = whole.set_column(at, "h", pa.array([2**64 - 1] * 2, pa.uint64()))
        store.put(ref.key(part), encode_parquet(whole))
    expected = [("shop", 2**64 - 1, 10**7, -7, most, *(0,) * (len(STATES) - 2))]
    assert table(store) == expected
    there = build_stage1(engine.url_of(name), name, s3_server.endpoint, fallback=True)
    # Trino refuses such a sum.
    where = {"trino": "fallback"}.get(there.client.server.engine)
    assert table(store, stage1=there, where=where) == expected


@pytest.mark.parametrize("golden", ["store-1", "store-1-stops", "store-1-blocks", "store-1-cpu-wait"])
def test_objects_of_earlier_versions_add_up_to_the_same(
    golden: str, new_store: NewStore, s3_server: S3Server, engine: EngineServer
) -> None:
    name, store = new_store()
    for file in sorted((GOLDEN / golden).rglob("*")):
        if file.is_file():
            store.put(file.relative_to(GOLDEN / golden).as_posix(), file.read_bytes())
    there = build_stage1(engine.url_of(name), name, s3_server.endpoint)
    year = 366 * 86_400.0
    expected = table(store, start=-year, end=year)
    assert expected
    assert table(store, stage1=there, start=-year, end=year) == expected


def test_an_object_that_lacks_a_column_is_left_out_as_it_is_here(
    new_store: NewStore, s3_server: S3Server, engine: EngineServer
) -> None:
    name, store = new_store()
    stored([window("a 1")], [window("b 2", at=20)], store=store)
    first, _ = refs(store)
    there = build_stage1(engine.url_of(name), name, s3_server.endpoint, fallback=True)
    for column in ("h", "period_ns", "service", "running"):
        whole = read_segment(store, first, "samples")
        store.put(first.key("samples"), encode_parquet(whole.drop_columns([column])))

        def left(reading: QueryContext) -> tuple[int, int, str]:
            found = sum_stacks(reading, select_windows(reading, question()))
            return reading.unreadable_count, pc.sum(found["running"]).as_py(), reading.engine

        assert asked(store, left) == (1, 2, "")
        assert asked(store, left, stage1=there) == (1, 2, "fallback")
        store.put(first.key("samples"), encode_parquet(whole))
    assert asked(store, left, stage1=there) == (0, 3, there.client.server.engine)


def test_one_statement_takes_as_many_objects_and_ids_as_it_may(
    new_store: NewStore, s3_server: S3Server, engine: EngineServer
) -> None:
    name, store = new_store()
    there = build_stage1(engine.url_of(name), name, s3_server.endpoint)
    limits = trino_sql if there.client.server.engine == "trino" else sql
    ids = [f"{at:026d}" for at in range(limits.MAX_KEYS // limits.MAX_OBJECTS)]
    stored([window(f"f{number} 1") for number in range(3)], store=store)
    (ref,) = refs(store)
    place = s3_server.buckets / name.removeprefix("s3://")
    scans = []
    for number in range(limits.MAX_OBJECTS):
        key = f"{ref.key_prefix[:-17]}{number:016x}/"
        (place / key).mkdir()
        shutil.copy(place / ref.key("samples"), place / key)
        scans.append(Scan(manifest.parse_key_prefix(key), "samples", pa.array(ids)))
    ours = read_segment(store, ref, "samples")["wid"].unique().to_pylist()
    scans[7] = Scan(scans[7].ref, "samples", pa.array([*ids[:-2], *ours[:2]]))
    for wanted, expected in (
        (scans, 2),
        ([Scan(one.ref, "samples") for one in scans], 3 * limits.MAX_OBJECTS),
    ):
        (one,) = there.build_statements(wanted)
        answer = there.client.query(one, 300, lambda: 300.0)
        assert pc.sum(answer.column(4)).as_py() == expected
        assert max(map(len, one.parameters.values()), default=0) < 128 << 10


def refs(store: ObjectStore) -> list[Any]:
    return asked(store, lambda reading: reading.list_segments(START_NS - 10**15, START_NS + 10**15))
