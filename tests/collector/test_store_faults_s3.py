"""The same on a real S3 server, behind a proxy that fails as networks and services do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Barrier, Thread

import pytest
from botocore import handlers

from sidelight_collector.storage.backends.open_store import open_store, verify_store
from sidelight_collector.storage.backends.s3 import S3Store
from sidelight_collector.storage.objects import (
    ObjectEntry,
    ObjectStore,
    StoreRefused,
    StoreUnavailable,
    put_all,
)
from sidelight_collector.storage.segments import ObjectDamaged, list_segments, read_segment, write_segment
from tests.collector.failing_proxy import FailingProxy, Mishap
from tests.collector.simulation import World, played
from tests.collector.stored_windows import window
from tests.processes import S3Server

RUNS = int(os.environ.get("SIDELIGHT_TEST_FAULT_S3_RUNS", "3"))
EVER = (0, 2**63 - 1)
TIMEOUT = 0.5
"""Of a client that is to give up: others have time for a busy machine."""


@pytest.mark.parametrize("seed", range(RUNS))
def test_on_a_real_server_too(seed: int, s3_server: S3Server, new_bucket: Callable[[], str]) -> None:
    with FailingProxy(s3_server.endpoint, seed=seed).serving() as proxy:
        bucket = new_bucket()
        world = World(seed, S3Store(bucket, endpoint=s3_server.endpoint), operations=100)
        world.network(
            opened(proxy, bucket, TIMEOUT), lambda bad: setattr(proxy, "mishaps", list(Mishap) if bad else ())
        )
        played(world)
    assert proxy.happened


def opened(proxy: FailingProxy, bucket: str, timeout: float = 60.0) -> ObjectStore:
    return S3Store(bucket, endpoint=proxy.endpoint, timeout=timeout)


@pytest.mark.parametrize(
    "mishap", [Mishap.SLOW_DOWN, Mishap.BROKEN, Mishap.REFUSED, Mishap.UNTOLD, Mishap.LATE]
)
def test_trouble_that_lasts_is_a_store_that_is_not_available(
    mishap: Mishap, s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    with FailingProxy(s3_server.endpoint).serving() as proxy:
        bucket = new_bucket()
        opened(proxy, bucket).put("v1/a", b"content")
        store = opened(proxy, bucket, TIMEOUT) if mishap is Mishap.LATE else opened(proxy, bucket)
        proxy.mishaps, proxy.rate = [mishap], 1.0
        for ask in (
            lambda: store.get("v1/a"),
            lambda: store.put("v1/a", b"again"),
            lambda: store.delete("v1/a"),
            lambda: list(store.list("v1/")),
        ):
            with pytest.raises(StoreUnavailable):
                ask()


def test_half_an_object_is_never_taken_for_it(s3_server: S3Server, new_bucket: Callable[[], str]) -> None:
    with FailingProxy(s3_server.endpoint).serving() as proxy:
        store = opened(proxy, new_bucket())
        store.put("v1/a", b"content" * 1000)
        proxy.mishaps, proxy.rate = [Mishap.CUT], 1.0
        with pytest.raises(StoreUnavailable):
            store.get("v1/a")
        with pytest.raises(StoreUnavailable):
            list(store.list("v1/"))


def test_a_bit_that_changed_on_its_way_is_noticed_and_read_again(
    s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    with FailingProxy(s3_server.endpoint).serving() as proxy:
        store = opened(proxy, new_bucket())
        ref = write_segment(store, [window("main;f 3")])
        whole = read_segment(store, ref, "samples")
        content = store.get(ref.key("samples"))
        proxy.mishaps, proxy.rate = [Mishap.FLIPPED], 1.0
        # Nothing on the way notices it: not the SDK, nor the server's etag.
        assert store.get(ref.key("samples")) != content
        with pytest.raises(ObjectDamaged):
            read_segment(store, ref, "samples")
        turns = count()
        proxy.drawn = lambda _: Mishap.FLIPPED if next(turns) == 0 else None  # type: ignore[method-assign]
        assert read_segment(store, ref, "samples").equals(whole)
        assert next(turns) == 2


def test_a_server_that_ignores_conditions_is_found_out(
    s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    bucket = new_bucket()
    with FailingProxy(s3_server.endpoint, unconditional=True).serving() as proxy:
        assert not verify_store(open_store(f"s3://{bucket}", s3_endpoint=proxy.endpoint)).conditional_writes
        proxy.unconditional = False
        store = open_store(f"s3://{bucket}", s3_endpoint=proxy.endpoint)
        assert verify_store(store).conditional_writes
        assert list_segments(store, *EVER) == []


@pytest.mark.parametrize("failing", ["", "v1/a", "v1/b", "v1/c"])
def test_objects_of_a_group_are_written_at_once_and_the_last_one_after_all_of_them(
    failing: str, s3_server: S3Server, new_bucket: Callable[[], str]
) -> None:
    both_begun, written = Barrier(2), list[str]()

    class Watched(S3Store):
        def put(
            self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> str:
            if key != "v1/c":
                both_begun.wait(60)
            if key == failing:
                raise StoreUnavailable(key)
            etag = super().put(key, content, if_absent=if_absent, if_match=if_match)
            written.append(key)
            return etag

    store = Watched(new_bucket(), endpoint=s3_server.endpoint)
    group = {"v1/a": b"1", "v1/b": b"2", "v1/c": b"3"}
    with pytest.raises(StoreUnavailable, match=failing) if failing else nullcontext():
        put_all(store, group, last_if_absent=True)
    expected = {"": ["v1/a", "v1/b", "v1/c"], "v1/a": ["v1/b"], "v1/b": ["v1/a"], "v1/c": ["v1/a", "v1/b"]}
    assert sorted(written) == expected[failing]
    assert [entry.key for entry in store.list("v1/")] == expected[failing]
    assert failing or written[-1] == "v1/c"


LISTING = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult{namespace}><Name>b</Name><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>
<Contents><Key>p/v1/l0/a%2Bb/</Key><LastModified>2026-11-28T03:51:37.000Z</LastModified><Size>0</Size></Contents>
<Contents><Key>p/v1/l0/a%2Bb/samples.parquet</Key><LastModified>2026-11-28T03:51:37.000Z</LastModified>
<ETag>&quot;0a&quot;</ETag><Size>42</Size><Owner><ID>x</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>
<Contents><Key>p/v1/l0/c</Key><LastModified>2026-11-28T03:51:37+00:00</LastModified><Size>7</Size></Contents>
</ListBucketResult>"""
ERROR = "<Error><Code>InternalError</Code><Message>later</Message></Error>"


@contextmanager
def listing_store(answers: list[str]) -> Iterator[S3Store]:
    """Serve these answers, which are removed, one after the other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answers.pop(0).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with pytest.MonkeyPatch.context() as patch, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        patch.setenv("AWS_ACCESS_KEY_ID", "a")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        Thread(target=server.serve_forever, daemon=True).start()
        yield S3Store("b", "p", endpoint=f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
def test_listings_of_servers_are_understood_and_cut_or_failed_ones_are_asked_for_again(
    namespace: str,
) -> None:
    listing = LISTING.format(namespace=namespace)
    answers = [listing[:300], ERROR, listing]
    with listing_store(answers) as store:
        at = datetime(2026, 11, 28, 3, 51, 37, tzinfo=UTC).timestamp()
        assert list(store.list("v1/")) == [
            ObjectEntry("v1/l0/a+b/samples.parquet", 42, at, '"0a"'),
            ObjectEntry("v1/l0/c", 7, at, None),
        ]
    assert answers == []


@pytest.mark.parametrize(
    ("old", "problem"),
    [
        ("<Size>42</Size>", "gives an answer without 'Size'"),
        ("<Key>p/v1/l0/c</Key>", "gives an answer without 'Key'"),
        ("<LastModified>2026-11-28T03:51:37+00:00</LastModified>", "gives an answer without 'LastModified'"),
    ],
)
def test_a_listing_that_no_s3_server_gives_is_refused(old: str, problem: str) -> None:
    listing = LISTING.format(namespace="")
    assert old in listing
    with listing_store([listing.replace(old, "")]) as store, pytest.raises(StoreRefused, match=problem):
        list(store.list("v1/"))


def test_an_object_without_an_etag_is_refused() -> None:
    with (
        listing_store(["content"]) as store,
        pytest.raises(StoreRefused, match="gives an answer without 'ETag'"),
    ):
        store.get("v1/a")


def test_objects_of_a_listing_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def find_error(_: int, body: bytes) -> bool:
        parsed.append(body)
        return False

    monkeypatch.setattr(handlers, "_looks_like_special_case_error", find_error)
    with listing_store([LISTING.format(namespace="")]) as store:
        assert len(list(store.list("v1/"))) == 2
    assert [b"Contents" in body for body in parsed] == [False]


def test_a_server_that_ignores_ranges_gives_the_range_all_the_same() -> None:
    with listing_store(["0123456789"]) as store:
        assert store.get_range("v1/a", 2, 5) == b"234"
