"""The queries that docs/scaling.md shows give the collector's answers, taken from the page as they stand.

Polars and ClickHouse's engine read a real S3 server. DuckDB reads a copy in a directory: its extension for S3
is not in the package.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from chdb.session import Session

from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.lifecycle.compaction import CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import write_segment
from sidelight_collector.storage.tables import SEGMENT_PARTS
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame
from sidelight_model.window import Window
from tests.collector.stored_windows import asked, question, stored, window
from tests.collector.test_query_blocks import compacted
from tests.processes import ROOT, S3Server

PAGE = (ROOT / "docs" / "scaling.md").read_text()
Top = list[tuple[str, float]]
Depths = list[tuple[int, int]]


def queries(engine: str) -> list[str]:
    """The four parts of an engine's section: the simple form, the current objects, functions, depths."""
    section = PAGE.partition(f"\n### {engine}\n")[2].partition("\n### ")[0]
    found = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    assert len(found) == 4
    return list(found)


def corpus() -> list[Window]:
    """Two services on three pods for three hours of one day, at two rates."""
    luck = random.Random(3)
    made = []
    for at in range(-3600, 7200, 300):
        for pod in range(3):
            stacks = (
                ";".join(
                    [f"main (app.py:{luck.randrange(1, 3)})", "a b (app.py:7)"]
                    + [
                        f"f{luck.randrange(3)} (lib/db.py:{luck.randrange(1, 30)})"
                        for _ in range(luck.randrange(5))
                    ]
                )
                + f"{state} {luck.randrange(1, 50)}"
                for state in ("", ";[idle]", ";[gil]")
            )
            service, period = luck.choice(["shop", "shop", "ads"]), luck.choice([10**7, 2 * 10**7])
            made.append(
                window(" | ".join(stacks), at=at + pod, service=service, pod=f"p{pod}", period_ns=period)
            )
    return made


def closed(store: ObjectStore) -> None:
    """A day that is over: one block."""
    windows = corpus()
    compacted(stored(*(windows[at : at + 5] for at in range(0, len(windows), 5)), store=store))


def current(store: ObjectStore) -> None:
    """A block, segments with its windows and others, and what does not count: one gone, one stray."""
    windows = corpus()
    half = len(windows) // 2
    early = [windows[at : at + 5] for at in range(0, half, 5)]
    compacted(stored(*early, store=store), CompactionPolicy(min_segments=4))
    stored(*(windows[at : at + 5] for at in range(half - 10, len(windows), 5)), store=store)
    gone = write_segment(store, [window("not (counted.py:1) 1000", at=-5)])
    for part in SEGMENT_PARTS:
        stray = gone.key(part).replace("v1/l0/", "v1/raw/")
        store.put(stray, store.get(gone.key(part)))
    (day,) = manifest.list_days(store)
    base = manifest.read(store, day)
    told = replace(base.document, tombstones=base.document.tombstones | {gone.key_prefix})
    assert manifest.commit(store, day, base, told)


FORMS: list[tuple[int, Callable[[ObjectStore], None]]] = [(0, closed), (1, current)]


def answers(store: ObjectStore) -> tuple[Top, Depths]:
    """What the collector says to the same questions."""

    def ask(reading: QueryContext) -> tuple[Top, Depths]:
        whole = question('{service="shop"}', start=-9 * 3600, end=14 * 3600)
        told = query_top(reading, [whole], ProfileType.CPU, by=CostOrder.SELF, limit=100)
        deep = query_depth(reading, [whole], ProfileType.CPU)["sides"][0]
        names = map(Frame, told["rows"]["function"], told["rows"]["file"])
        top = [
            (name.text, us / 1e6) for name, us in zip(names, told["sides"][0]["self_us"], strict=True) if us
        ]
        return rounded(top[:10]), list(zip(deep["depth"], deep["samples_at"], strict=True))

    top, depths = asked(store, ask)
    assert len(top) == 4
    assert len(depths) > 4
    return top, depths


def rounded(top: Iterable[tuple[str, float]]) -> Top:
    """To the microsecond: engines multiply and divide in another order."""
    return [(name, round(seconds, 6)) for name, seconds in top]


def statements(text: str) -> Iterator[str]:
    return (one for one in text.split(";") if one.strip())


@pytest.mark.parametrize(
    ("form", "fill", "samples"), [(*one, "samples") for one in FORMS] + [(0, closed, "daily")]
)
def test_duckdb_says_the_same(
    form: int, fill: Callable[[ObjectStore], None], samples: str, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "store")
    fill(store)
    parts = [part.replace("'store/", f"'{tmp_path}/store/") for part in queries("DuckDB")]
    with duckdb.connect() as connection:
        connection.execute(parts[form].replace("samples.parquet", f"{samples}.parquet"))
        top, depths = (connection.execute(part).fetchall() for part in parts[2:])
    assert (rounded(top), depths) == answers(store)


@pytest.fixture
def place(s3_server: S3Server, new_bucket: Callable[[], str]) -> tuple[S3Store, str]:
    bucket = new_bucket()
    return S3Store(bucket, endpoint=s3_server.endpoint), bucket


@pytest.mark.parametrize(("form", "fill"), FORMS)
def test_clickhouse_says_the_same(
    form: int, fill: Callable[[ObjectStore], None], place: tuple[S3Store, str], s3_server: S3Server
) -> None:
    store, bucket = place
    fill(store)
    address = f"{s3_server.endpoint}/{bucket}/"
    parts = [part.replace("https://s3.example.com/profiles/", address) for part in queries("ClickHouse")]
    with Session() as session:
        for statement in statements(parts[form]):
            session.query(statement)
        top, depths = (str(session.query(next(statements(part)), "TSV")) for part in parts[2:])
    found = [line.split("\t") for line in top.splitlines()]
    wanted = answers(store)
    assert rounded((name, float(seconds)) for name, seconds in found) == wanted[0]
    assert [tuple(map(int, line.split("\t"))) for line in depths.splitlines()] == wanted[1]


@pytest.mark.parametrize(("form", "fill"), FORMS)
def test_polars_says_the_same(
    form: int,
    fill: Callable[[ObjectStore], None],
    place: tuple[S3Store, str],
    s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, bucket = place
    fill(store)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    parts = [part.replace("s3://profiles/", f"s3://{bucket}/") for part in queries("Polars")]
    names: dict[str, object] = {}
    for part in (parts[form], *parts[2:]):
        exec(part, names)
    top, depths = (names[name].rows() for name in ("top", "depth"))  # type: ignore[attr-defined]
    assert (rounded(top), depths) == answers(store)
