"""Finding out at start-up whether a store can be used, and saying why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.backends.open_store import CONFIG_KEY, open_store, verify_store
from sidelight_collector.storage.objects import ObjectStore, StoreIncompatible, StoreRefused, StoreUnavailable
from sidelight_model.errors import Reason
from tests.processes import free_port


def test_a_new_store_is_marked_with_its_format(store: ObjectStore) -> None:
    assert verify_store(store).format == 1
    assert json.loads(store.get(CONFIG_KEY)) == {"format": 1}
    assert [entry.key for entry in store.list("")] == [CONFIG_KEY]


def test_every_kind_of_store_keeps_conditions(store: ObjectStore) -> None:
    assert verify_store(store).conditional_writes


def test_a_store_that_is_marked_already_is_left_as_it_is(store: ObjectStore) -> None:
    store.put(CONFIG_KEY, b'{"format": 1, "later": "addition"}')
    assert verify_store(store).format == 1
    assert store.get(CONFIG_KEY) == b'{"format": 1, "later": "addition"}'


def test_a_store_of_a_later_format_is_not_touched() -> None:
    store = MemoryStore()
    store.put(CONFIG_KEY, b'{"format": 2}')
    with pytest.raises(StoreIncompatible, match="format 2") as refused:
        verify_store(store)
    assert refused.value.reason is Reason.STORE_FORMAT
    assert "version" in refused.value.hint


@pytest.mark.parametrize("marker", [b"", b"[]", b'{"format": "1"}', b'{"format": 0}', b"\xff"])
def test_a_marker_that_cannot_be_read_is_somebody_elses(marker: bytes) -> None:
    store = MemoryStore()
    store.put(CONFIG_KEY, marker)
    with pytest.raises(StoreIncompatible, match="not a format marker"):
        verify_store(store)


def test_a_store_that_ignores_conditions_is_found_out() -> None:
    class Ignoring(MemoryStore):
        def put(self, key: str, content: bytes, **_: Any) -> str:
            return super().put(key, content)

    assert not verify_store(Ignoring()).conditional_writes


def test_a_store_that_refuses_conditions_is_found_out() -> None:
    class Refusing(MemoryStore):
        def put(
            self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> str:
            if if_absent or if_match:
                raise StoreRefused("NotImplemented")
            return super().put(key, content)

    assert not verify_store(Refusing()).conditional_writes


def test_a_store_that_gives_back_something_else_is_refused() -> None:
    class Stale(MemoryStore):
        def get_with_etag(self, key: str) -> tuple[bytes, str]:
            return b"stale", super().get_with_etag(key)[1]

    with pytest.raises(StoreRefused, match="does not give back"):
        verify_store(Stale())


def test_a_path_opens_a_directory_and_a_url_a_bucket(
    tmp_path: Path, s3_server: Any, new_bucket: Callable[[], str]
) -> None:
    assert open_store(str(tmp_path / "data")).kind == "directory"
    bucket = new_bucket()
    store = open_store(f"s3://{bucket}/some/prefix/", s3_endpoint=s3_server.endpoint)
    assert (store.kind, store.location) == ("s3", f"s3://{bucket}/some/prefix")
    verify_store(store)
    whole = open_store(f"s3://{bucket}", s3_endpoint=s3_server.endpoint)
    assert [entry.key for entry in whole.list("")] == ["some/prefix/v1/config.json"]


@pytest.mark.parametrize("location", ["gs://bucket", "s3://", "s3:///prefix", "http://host/bucket"])
def test_a_place_that_is_neither_is_refused(location: str) -> None:
    with pytest.raises(StoreRefused, match="not a store") as refused:
        open_store(location)
    assert "s3://bucket/prefix" in refused.value.hint


def test_a_bucket_that_is_not_there_is_named(s3_server: Any) -> None:
    with pytest.raises(StoreRefused, match="NoSuchBucket") as refused:
        verify_store(open_store("s3://no-such-bucket/x", s3_endpoint=s3_server.endpoint))
    assert "Create the bucket" in refused.value.hint


def test_a_wrong_secret_is_named(
    s3_server: Any, new_bucket: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreRefused, match="SignatureDoesNotMatch") as refused:
        verify_store(open_store(f"s3://{new_bucket()}", s3_endpoint=s3_server.endpoint))
    assert "secret" in refused.value.hint


def test_missing_credentials_are_named(
    s3_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(StoreRefused, match="no credentials"):
        verify_store(open_store("s3://bucket", s3_endpoint=s3_server.endpoint))


def test_a_service_that_does_not_answer_is_named(s3_server: Any) -> None:
    port = free_port()
    store = open_store("s3://bucket", s3_endpoint=f"http://127.0.0.1:{port}", timeout_seconds=1)
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port}") as refused:
        verify_store(store)
    assert "--s3-endpoint" in refused.value.hint


def test_an_endpoint_that_is_no_url_is_refused() -> None:
    with pytest.raises(StoreRefused, match="Invalid endpoint"):
        open_store("s3://bucket", s3_endpoint="somewhere")


def test_a_directory_may_be_opened_by_several_collectors(tmp_path: Path) -> None:
    for _ in range(3):
        assert verify_store(DirectoryStore(tmp_path)).format == 1
