"""What every object store promises, asked of each of them; the S3 server is a real one."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.instrumented import InstrumentedStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreError,
    put_all,
)

WRITERS = 16


def keys(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [entry.key for entry in store.list(prefix, start_after)]


def race(count: int, write: Callable[[int], str]) -> list[str | StoreError]:
    """What each of so many writers, let go at the same moment, was told."""
    barrier = Barrier(count)

    def run(number: int) -> str | StoreError:
        barrier.wait()
        try:
            return write(number)
        except StoreError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_what_was_put_is_read_back(store: ObjectStore) -> None:
    store.put("v1/a", b"first")
    assert store.get("v1/a") == b"first"


@pytest.mark.parametrize("content", [b"", b"\0\r\n\xff", b"x" * 3_000_000], ids=["empty", "binary", "3 MB"])
def test_any_bytes_come_back_as_they_were(store: ObjectStore, content: bytes) -> None:
    store.put("v1/a", content)
    assert store.get("v1/a") == content
    assert [entry.size for entry in store.list("v1/")] == [len(content)]


@pytest.mark.parametrize("wrap", [lambda store: store, lambda store: InstrumentedStore(store, Metrics())])
def test_a_range_has_its_bytes_up_to_the_end_of_the_object(
    store: ObjectStore, wrap: Callable[[ObjectStore], ObjectStore]
) -> None:
    store.put("v1/a", b"0123456789")
    ranges = ((0, 10), (0, 1), (2, 5), (8, 20), (9, 10), (10, 11), (20, 30))
    assert [wrap(store).get_range("v1/a", start, end) for start, end in ranges] == [
        b"0123456789"[start:end] for start, end in ranges
    ]
    for start, end in ((3, 3), (4, 3), (-1, 3)):
        with pytest.raises(ValueError, match="a range"):
            store.get_range("v1/a", start, end)
    with pytest.raises(ObjectMissing):
        store.get_range("v1/b", 0, 1)


def test_a_put_replaces_the_whole_object_and_changes_its_etag(store: ObjectStore) -> None:
    first = store.put("v1/a", b"a longer first")
    second = store.put("v1/a", b"second")
    assert first != second
    assert store.get_with_etag("v1/a") == (b"second", second)


@pytest.mark.parametrize("wrap", [lambda store: store, lambda store: InstrumentedStore(store, Metrics())])
def test_a_group_is_written_in_order_and_its_last_object_only_once(
    store: ObjectStore, wrap: Callable[[ObjectStore], ObjectStore]
) -> None:
    put_all(wrap(store), {"g/a": b"1", "g/b": b"2"}, last_if_absent=True)
    with pytest.raises(ObjectExists):
        put_all(wrap(store), {"g/a": b"3", "g/b": b"4"}, last_if_absent=True)
    assert (store.get("g/a"), store.get("g/b")) == (b"3", b"2")
    put_all(wrap(store), {"g/a": b"5", "g/b": b"6"})
    assert (store.get("g/a"), store.get("g/b"), keys(store, "g/")) == (b"5", b"6", ["g/a", "g/b"])


def test_a_key_that_was_never_put_is_missing(store: ObjectStore) -> None:
    store.put("v1/a/b", b"")
    for key in ("v1/b", "v1/a", "v1/a/b/c"):
        with pytest.raises(ObjectMissing):
            store.get(key)


def test_a_deleted_object_is_gone(store: ObjectStore) -> None:
    store.put("v1/a/b", b"content")
    store.delete("v1/a/b")
    assert keys(store) == []
    with pytest.raises(ObjectMissing):
        store.get("v1/a/b")


def test_deleting_what_is_not_there_is_fine(store: ObjectStore) -> None:
    store.delete("v1/never/was")
    store.put("v1/a", b"")
    store.delete("v1/a/below")
    assert keys(store) == ["v1/a"]


def test_a_listing_is_in_order_of_key_bytes_and_below_its_prefix(store: ObjectStore) -> None:
    written = ["b/a.x", "b/a/x", "b/a-x", "b/a0", "b/é", "b/%", "b/A", "a", "c/1", "b/a b/+x", "b/.x", "b/a~"]
    for key in written:
        store.put(key, b"1")
    assert keys(store) == sorted(written)
    assert keys(store, "b/") == sorted(key for key in written if key.startswith("b/"))
    assert keys(store, "b/a") == sorted(key for key in written if key.startswith("b/a"))
    assert keys(store, "d") == []


def test_a_listing_has_the_etag_of_each_object_or_none_at_all(store: ObjectStore) -> None:
    told = [store.put("v1/a", b"first"), store.put("v1/b", b"second"), store.put("v1/a", b"third")][1:]
    etags = [entry.etag for entry in store.list("v1/")]
    assert etags == ([None, None] if store.kind == "directory" else told[::-1])


def test_a_listing_has_the_time_of_each_object(store: ObjectStore) -> None:
    before = time.time()
    store.put("v1/a", b"content")
    (entry,) = store.list("v1/")
    # Stores give whole seconds, or round to the next one.
    assert before - 1 <= entry.modified <= time.time() + 1


def test_a_listing_begins_after_the_key_it_is_told(store: ObjectStore) -> None:
    for key in ("v1/a/1", "v1/a/2", "v1/b/1", "v1/c"):
        store.put(key, b"")
    assert keys(store, "v1/", start_after="v1/a/1") == ["v1/a/2", "v1/b/1", "v1/c"]
    assert keys(store, "v1/", start_after="v1/a/") == ["v1/a/1", "v1/a/2", "v1/b/1", "v1/c"]
    assert keys(store, "v1/", start_after="v1/a0") == ["v1/b/1", "v1/c"]
    assert keys(store, "v1/", start_after="v1/c") == []


def test_a_listing_of_more_than_one_page_is_whole(store: ObjectStore) -> None:
    written = [f"v1/{number:05d}" for number in range(1_050)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: store.put(key, b""), written))
    assert keys(store, "v1/") == written


def test_if_absent_creates_and_never_replaces(store: ObjectStore) -> None:
    store.put("v1/a", b"first", if_absent=True)
    with pytest.raises(ObjectExists):
        store.put("v1/a", b"second", if_absent=True)
    assert store.get("v1/a") == b"first"


def test_if_match_replaces_only_what_was_read(store: ObjectStore) -> None:
    first = store.put("v1/a", b"first")
    second = store.put("v1/a", b"second", if_match=first)
    with pytest.raises(ObjectChanged):
        store.put("v1/a", b"third", if_match=first)
    assert store.get_with_etag("v1/a") == (b"second", second)


def test_if_match_never_creates(store: ObjectStore) -> None:
    etag = store.put("v1/a", b"first")
    store.delete("v1/a")
    with pytest.raises(ObjectChanged):
        store.put("v1/a", b"second", if_match=etag)
    assert keys(store) == []


def test_of_many_writers_with_if_absent_exactly_one_wins(store: ObjectStore) -> None:
    for turn in range(10):
        key = f"v1/race/{turn}/samples"
        told = race(WRITERS, lambda number, key=key: store.put(key, b"%d" % number, if_absent=True))
        winners = [number for number, answer in enumerate(told) if isinstance(answer, str)]
        assert len(winners) == 1
        assert store.get(key) == b"%d" % winners[0]
        assert all(isinstance(answer, ObjectExists) for answer in told if not isinstance(answer, str))


def test_of_many_writers_with_one_etag_exactly_one_wins(store: ObjectStore) -> None:
    etag = store.put("v1/race", b"start")
    for turn in range(10):
        told = race(
            WRITERS,
            lambda number, etag=etag, turn=turn: store.put(
                "v1/race", b"%d %d" % (turn, number), if_match=etag
            ),
        )
        winners = [number for number, answer in enumerate(told) if isinstance(answer, str)]
        assert len(winners) == 1
        assert all(isinstance(answer, ObjectChanged) for answer in told if not isinstance(answer, str))
        content, etag = store.get_with_etag("v1/race")
        assert content == b"%d %d" % (turn, winners[0])


def test_counting_by_compare_and_swap_loses_no_step(store: ObjectStore) -> None:
    store.put("v1/count", b"0")

    def step(_: int) -> str:
        while True:
            content, etag = store.get_with_etag("v1/count")
            try:
                return store.put("v1/count", b"%d" % (int(content) + 1), if_match=etag)
            except ObjectChanged:
                continue

    told = race(8, step)
    assert [answer for answer in told if isinstance(answer, StoreError)] == []
    assert store.get("v1/count") == b"8"


def test_a_reader_sees_an_object_whole(store: ObjectStore) -> None:
    bodies = [bytes([65 + number]) * (200_000 + number) for number in range(8)]
    store.put("v1/a", bodies[0])

    def write_or_read(number: int) -> str:
        if number % 2:
            store.put("v1/a", bodies[number])
        else:
            for _ in range(5):
                assert store.get("v1/a") in bodies
        return ""

    assert race(8, write_or_read) == [""] * 8


def test_writing_into_a_folder_while_it_is_emptied_works(store: ObjectStore) -> None:
    def write_and_delete(number: int) -> str:
        for turn in range(10):
            store.put(f"v1/folder/{number}-{turn}", b"", if_absent=True)
            store.delete(f"v1/folder/{number}-{turn}")
        return ""

    assert race(8, write_and_delete) == [""] * 8
    assert keys(store) == []


@pytest.mark.parametrize(
    "key", ["", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "a\0b", "k" * 1025, "é" * 513]
)
def test_what_is_not_a_key_is_refused_before_anything_is_touched(store: ObjectStore, key: str) -> None:
    for act in (store.get, store.delete, lambda key: store.put(key, b"")):
        with pytest.raises(ValueError, match="key"):
            act(key)
    assert keys(store) == []


def test_a_put_has_one_condition_at_most(store: ObjectStore) -> None:
    with pytest.raises(ValueError, match="not both"):
        store.put("v1/a", b"", if_absent=True, if_match="x")


parts = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12
)
good_keys = st.lists(parts.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4).map("/".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=st.dictionaries(good_keys, st.binary(max_size=50), max_size=8), prefix=parts)
def test_every_store_holds_what_a_dict_would_hold(
    store: ObjectStore, objects: dict[str, bytes], prefix: str
) -> None:
    for key in keys(store):
        store.delete(key)
    model = MemoryStore()
    for key, content in objects.items():
        if not any(other.startswith(f"{key}/") or key.startswith(f"{other}/") for other in keys(model)):
            store.put(key, content)
            model.put(key, content)
    assert [(entry.key, entry.size) for entry in store.list("")] == [
        (entry.key, entry.size) for entry in model.list("")
    ]
    assert keys(store, prefix) == keys(model, prefix)
    assert [store.get(key) for key in keys(model)] == [model.get(key) for key in keys(model)]
