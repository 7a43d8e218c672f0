"""The lifecycle rule on Ceph, which has lifecycles: it expires segments left behind, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from tests.collector.ceph_server import ceph_server
from tests.collector.stored_windows import asked, question, stored, window
from tests.collector.test_query_blocks import compacted
from tests.collector.test_storage_command import run
from tests.processes import S3Server, eventually

pytestmark = pytest.mark.long

BUCKET = "profiles"
OTHER: Any = {
    "ID": "logs",
    "Status": "Enabled",
    "Filter": {"Prefix": "logs/"},
    "Expiration": {"Days": 3650},
}
EXPIRE_SECONDS = 300.0


@pytest.fixture(scope="module")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One Ceph for these tests, its credentials in the environment."""
    with ceph_server(tmp_path_factory.mktemp("ceph")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


def fill(store: ObjectStore) -> None:
    """A block with its sums and manifest, segments that nobody compacted, and what is not of windows."""
    made = compacted(stored([window("main;f 3 | main;g 1", at=at) for at in range(0, 7200, 60)]))
    stored([window("main;left 9", at=86_400)], store=made)
    for entry in made.list(""):
        store.put(entry.key, made.get(entry.key))
    for key in ("v1/lease/2026-11-21.json", "v1/notes/shop.json", "v1/pins/inc-42.json"):
        store.put(key, b"{}")


def contents(store: ObjectStore, *, segments: bool) -> Mapping[str, bytes]:
    """The objects that are segments, or all others."""
    keys = [entry.key for entry in store.list("")]
    return {key: store.get(key) for key in keys if key.startswith("v1/l0/") is segments}


def flame_graph(store: ObjectStore) -> Any:
    """What a query says of the day of the block."""
    day = question(start=-9.5 * 3600, end=14.5 * 3600)
    return asked(
        store,
        lambda reading: query_flame_graph(
            reading, [day], ProfileType.WALL, lines=False, nodes=None, max_nodes=1000
        ),
    )


def test_a_bucket_expires_segments_left_behind_and_never_what_is_live(ceph: S3Server) -> None:
    client = boto3.client(
        "s3", endpoint_url=ceph.endpoint, config=Config(s3={"addressing_style": "path"})
    )  # fmt: skip
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": [OTHER]})
    short, long = (S3Store(BUCKET, name, endpoint=ceph.endpoint) for name in ("short", "long"))
    for store in (short, long):
        fill(store)
    client.put_object(Bucket=BUCKET, Key="logs/v1/l0/a", Body=b"not ours")
    live, kept, before = contents(short, segments=False), contents(long, segments=True), flame_graph(short)
    assert len(live) > 6
    assert len(kept) == len(contents(short, segments=True)) == 3

    for name, days in (("short", 30), ("short", 2), ("long", 3650)):
        given = ["--store", f"s3://{BUCKET}/{name}", "--s3-endpoint", ceph.endpoint, "--days", str(days)]
        done = run("lifecycle", *given, "--apply")
        assert (done.returncode, done.stderr) == (0, "")
        put = json.loads(done.stdout)
        rules = client.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]
        assert put in rules
    # The rule of the first command was replaced, and whoever's rule there was stays.
    assert {rule["ID"] for rule in rules} == {
        "logs",
        "sidelight segments short/v1/l0/",
        "sidelight segments long/v1/l0/",
    }
    assert len(rules) == 3
    assert OTHER in rules

    for at in range(2):
        eventually("segments expire", lambda: not contents(short, segments=True), EXPIRE_SECONDS)
        assert contents(short, segments=False) == live
        assert contents(long, segments=True) == kept
        assert client.get_object(Bucket=BUCKET, Key="logs/v1/l0/a")["Body"].read() == b"not ours"
        # By now all is older than the days of the rule. Once this expires, all was looked through again.
        short.put(f"v1/l0/2026-11-21/witness-{at}/samples.parquet", b"x")
    assert flame_graph(short) == before
