"""What only ClickHouse has: parameters, named collections and clusters; test_engine_answers has the answers.

s3Cluster() needs nodes that speak ClickHouse's own protocol, which chdb does not: its statement is planned by
the engine against a configured cluster, and sent to a node that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import chdb
import pyarrow as pa
import pytest

from sidelight_collector.query.engine.window_sums import Scan, plan_scans
from sidelight_collector.query.engines.clickhouse import sql
from sidelight_collector.query.engines.clickhouse.clickhouse_client import ClickHouseClient
from sidelight_collector.query.engines.sum_statements import batch_scans
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.settings.engine import ClickHouseUrl
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.tables import SAMPLES, STATES
from tests.collector.clickhouse import clickhouse
from tests.collector.engines import build_stage1
from tests.collector.stored_windows import asked, question
from tests.collector.test_engine_answers import mixed, table
from tests.processes import S3Server


@pytest.fixture(scope="module")
def corpus(s3_server: S3Server, new_bucket: Callable[[], str]) -> tuple[str, S3Store]:
    bucket = new_bucket()
    store = S3Store(bucket, "some/prefix", endpoint=s3_server.endpoint)
    mixed(store)
    return f"s3://{bucket}/some/prefix", store


def test_a_statement_holds_no_value_that_it_was_given(corpus: tuple[str, S3Store]) -> None:
    _, store = corpus
    texts = set()
    given: set[str] = set()

    def collect(reading: QueryContext) -> None:
        for selector in ('{pod="shop-1"}', '{pod="shop-2"}'):
            scans = plan_scans(reading, select_windows(reading, question(selector, end=7200)))
            for one in sql.build_statements(
                ClickHouseUrl("there", cluster="c1", collection="c2"), "some/prefix/", scans
            ):
                texts.add(one.text)
                given.update(one.parameters.values())

    asked(store, collect)
    assert len(texts) == 1
    assert not [value for value in given if value in next(iter(texts))]


def test_batches_are_full_and_have_every_row_once() -> None:
    batch = partial(batch_scans, max_objects=sql.MAX_OBJECTS, max_keys=sql.MAX_KEYS)
    ref = manifest.parse_key_prefix("v1/raw/2026-11-21/1795252800000-1795256399000-0123456789abcdef/")
    scan = Scan(ref, "sums", pa.array(range(2 * sql.MAX_KEYS + 1), pa.int32()))
    most = [Scan(ref, "samples")] * sql.MAX_OBJECTS
    for scans, sizes in (
        ([], []),
        ([scan], [sql.MAX_KEYS, sql.MAX_KEYS, 1]),
        (
            [Scan(ref, "sums", scan.keys.slice(0, sql.MAX_KEYS - 1)), Scan(ref, "sums", scan.keys[:1])],
            [sql.MAX_KEYS],
        ),
        (
            [Scan(ref, "sums", scan.keys.slice(0, sql.MAX_KEYS)), Scan(ref, "sums", scan.keys[:1])],
            [sql.MAX_KEYS, 1],
        ),
    ):
        assert [sum(len(one.keys) for one in piece) for piece in batch(scans)] == sizes
    assert [len(piece) for piece in batch([*most, Scan(ref, "samples")])] == [len(most), 1]
    kinds = [*most[:1], Scan(ref, "sums"), Scan(ref, "samples", scan.keys), *most[:1]]
    assert [len(piece) for piece in batch(kinds)] == [2, 1, 1, 1, 1]


CONFIGURED = """<clickhouse>
<named_collections><profiles><url>{url}</url>
<access_key_id>{key}</access_key_id><secret_access_key>{secret}</secret_access_key></profiles></named_collections>
<remote_servers><one><shard><replica><host>127.0.0.1</host><port>1</port></replica></shard></one></remote_servers>
</clickhouse>"""


def configured(name: str, server: S3Server) -> str:
    bucket = name.removeprefix("s3://").partition("/")[0]
    keys: Mapping[str, str] = server.environment
    return CONFIGURED.format(
        url=f"{server.endpoint}/{bucket}/",
        key=keys["AWS_ACCESS_KEY_ID"],
        secret=keys["AWS_SECRET_ACCESS_KEY"],
    )


def test_a_named_collection_has_the_address_and_the_keys(
    corpus: tuple[str, S3Store], s3_server: S3Server, tmp_path: Path
) -> None:
    name, store = corpus
    with clickhouse(tmp_path, {}, configured(name, s3_server)) as server:
        there = build_stage1(server.with_(collection="profiles"), name, "http://nowhere.invalid")
        for selector in ("", '{pod="shop-1"}'):
            assert table(store, selector, there) == table(store, selector)


@pytest.mark.parametrize("collection", ["", "profiles"])
def test_a_cluster_is_asked_with_every_object_and_all_parameters(
    collection: str, corpus: tuple[str, S3Store], s3_server: S3Server, tmp_path: Path
) -> None:
    name, store = corpus
    config = tmp_path / "config.xml"
    config.write_text(configured(name, s3_server))
    url = ClickHouseUrl("there", cluster="one", collection=collection)
    there = build_stage1(url, name, s3_server.endpoint)
    options = {"config-file": str(config)}

    def explained(reading: QueryContext) -> None:
        scans = plan_scans(reading, select_windows(reading, question('{pod="shop-1"}', end=7200)))
        for one in there.build_statements(scans):
            plain = one.text.removesuffix("FORMAT Arrow")
            planned = str(
                chdb.query(f"EXPLAIN {plain}", "LineAsString", params=one.parameters, options=options)
            )
            assert "ReadFromCluster" in planned
            text = str(
                chdb.query(f"EXPLAIN SYNTAX {plain}", "LineAsString", params=one.parameters, options=options)
            )
            assert "s3Cluster('one'" in text
            assert all(each in text for each in one.parameters["names"][2:-2].split("','"))
            with pytest.raises(Exception, match="ALL_CONNECTION_TRIES_FAILED"):
                chdb.query(one.text, params=one.parameters, options=options)

    asked(store, explained)


def test_the_columns_that_are_asked_for_are_of_the_stored_types() -> None:
    assert {SAMPLES.field(name).type for name in STATES} == {pa.int64()}
    assert SAMPLES.field("h").type == pa.uint64()
    assert ClickHouseClient(ClickHouseUrl("there")).server.port == 8123
