"""Copies on a local disk are what the store has, or it is asked anew; the disk is never in the way."""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidelight.settings import BadSetting
from sidelight_collector.answers.catalog import list_services
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.backends import disk_cache
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.disk_cache import BLOCK_BYTES, FOLDER, DiskCachedStore
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import ObjectExists, ObjectMissing, ObjectStore
from tests import processes
from tests.collector.counting_store import Counting
from tests.collector.engines import KEPT
from tests.collector.stored_windows import START_NS, asked, question, stored, window

KEY = "v1/l0/2026-11-21/a/samples.parquet"
MB = 1 << 20


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands still for a while with the lock of the folder makes others wait, and skip nothing."""
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_SECONDS", 60.0)


class Cached:
    """A store behind copies in a folder, what reaches it, and what is counted."""

    def __init__(self, store: ObjectStore, folder: Path, max_bytes: int = MB) -> None:
        self.behind = Counting(store)
        self.metrics = Metrics()
        self.folder = folder / FOLDER
        self.store = DiskCachedStore(self.behind, folder, max_bytes, self.metrics)

    def read(self, *keys: str) -> list[bytes]:
        """What is read under these keys, once copies are written."""
        found = [self.store.get(key) for key in keys]
        self.store.close()
        return found

    def counted(self, name: str) -> float:
        """A metric by its line without the prefix."""
        return self.metrics.registry.get_sample_value(f"sidelight_disk_cache_{name}") or 0.0

    def results(self, result: str) -> float:
        found = self.metrics.registry.get_sample_value("sidelight_disk_cache_reads_total", {"result": result})
        return found or 0.0

    def errors(self) -> float:
        families = self.metrics.registry.collect()
        return sum(
            sample.value
            for family in families
            if family.name == "sidelight_disk_cache_errors"
            for sample in family.samples
            if sample.name.endswith("_total")
        )


def copies(folder: Path) -> list[Path]:
    return [path for path in (folder / FOLDER).iterdir() if len(path.name) == 32]


def taken(folder: Path) -> int:
    """Bytes of disk that all files in the folder take, whatever they are."""
    return sum(-(-path.stat().st_size // BLOCK_BYTES) * BLOCK_BYTES for path in (folder / FOLDER).iterdir())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the one who writes, as another process would."""
    (folder / FOLDER).mkdir(exist_ok=True)
    with (folder / FOLDER / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def holding(**contents: bytes) -> MemoryStore:
    store = MemoryStore()
    for name, content in contents.items():
        store.put(f"v1/raw/{name}", content)
    return store


@pytest.mark.parametrize("key", [KEY, "v1/raw/2026-11-21/a/sums.parquet"])
@pytest.mark.parametrize("content", [b"", b"x", os.urandom(300_000)], ids=["empty", "one", "many"])
def test_what_was_read_once_is_read_from_the_disk_also_by_the_next_process(
    tmp_path: Path, key: str, content: bytes
) -> None:
    store = MemoryStore()
    store.put(key, content)
    first, second = Cached(store, tmp_path), Cached(store, tmp_path)
    assert first.read(key) == [content]
    assert second.read(key, key) == [content, content]
    assert (first.behind.gets[key], second.behind.gets[key]) == (1, 0)
    assert (first.results("miss"), second.results("hit"), second.results("miss")) == (1, 2, 0)
    assert first.counted("written_bytes_total") == len(content)
    assert first.counted("bytes") == taken(tmp_path)


def test_what_this_process_writes_is_read_from_the_disk_until_it_is_deleted(tmp_path: Path) -> None:
    first = Cached(MemoryStore(), tmp_path)
    first.store.put(KEY, b"one")
    first.store.put_all({"v1/raw/a": b"two", "v1/raw/b": b"three"}, last_if_absent=True)
    with pytest.raises(ObjectExists):
        first.store.put(KEY, b"another", if_absent=True)
    with pytest.raises(ObjectExists):
        first.store.put_all({"v1/raw/c": b"four", "v1/raw/b": b"other"}, last_if_absent=True)
    first.store.close()
    second = Cached(first.behind, tmp_path)
    assert second.read(KEY, "v1/raw/a", "v1/raw/b") == [b"one", b"two", b"three"]
    assert not second.behind.gets
    third = Cached(first.behind, tmp_path)
    third.store.delete("v1/raw/b")
    third.store.close()
    assert len(copies(tmp_path)) == 2


def test_a_range_is_read_from_the_copy_if_there_is_one(tmp_path: Path) -> None:
    content = os.urandom(1000)
    store = holding(a=content, b=content)
    Cached(store, tmp_path).read("v1/raw/a")
    cached = Cached(store, tmp_path)
    for key in ("v1/raw/a", "v1/raw/b"):
        assert cached.store.get_range(key, 10, 20) == content[10:20]
        assert cached.store.get_range(key, 990, 2000) == content[990:]
    assert cached.behind.gets == {"v1/raw/b": 2}
    assert (cached.results("hit"), cached.results("miss")) == (2, 2)
    with pytest.raises(ValueError, match="a range"):
        cached.store.get_range("v1/raw/a", 5, 5)
    cached.store.close()
    assert len(copies(tmp_path)) == 1


@pytest.mark.parametrize("key", ["v1/manifest/2026-11-21.json", "v1/config.json", "v1/probe/x", "v1/l0"])
def test_what_may_change_is_read_from_the_store_each_time(tmp_path: Path, key: str) -> None:
    store = MemoryStore()
    cached = Cached(store, tmp_path)
    for content in (b"first", b"second", b"third"):
        etag = (cached.store if content == b"third" else store).put(key, content)
        assert cached.store.get(key) == content
        assert cached.store.get_with_etag(key) == (content, etag)
    cached.store.close()
    assert copies(tmp_path) == []


def test_listings_are_those_of_the_store_and_what_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    store = stored([window(at=1)], [window(at=2)])
    cached = Cached(store, tmp_path)
    whole = asked(cached.store, partial(list_services, query=question()))
    assert whole["basis"]["windows"] == 2
    gone = [entry.key for entry in store.list("v1/l0/")][:3]
    for key in gone:
        store.delete(key)
    left = asked(cached.store, partial(list_services, query=question()))
    assert (left["basis"]["windows"], left["basis"]["unreadable_segments"]) == (1, 0)
    assert list(cached.store.list("v1/")) == list(store.list("v1/"))
    cached.store.close()


def test_who_began_to_read_an_object_before_it_was_deleted_may_go_on(tmp_path: Path) -> None:
    store = holding(a=b"content")
    Cached(store, tmp_path).read("v1/raw/a")
    store.delete("v1/raw/a")
    assert Cached(store, tmp_path).read("v1/raw/a") == [b"content"]


def test_the_copy_of_what_this_process_deletes_goes_too(tmp_path: Path) -> None:
    store = holding(a=b"content")
    cached = Cached(store, tmp_path)
    cached.store.get("v1/raw/a")
    cached.store.delete("v1/raw/a")
    cached.store.close()
    assert copies(tmp_path) == []


def test_two_stores_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    stores = [DirectoryStore(tmp_path / name) for name in ("one", "other")]
    for number, store in enumerate(stores):
        store.put(KEY, b"%d" % number)
    for _ in range(2):
        assert [Cached(store, tmp_path / "cache").read(KEY) for store in stores] == [[b"0"], [b"1"]]


@given(st.binary(min_size=1, max_size=200), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_copy_that_is_not_what_was_written_is_removed_and_the_object_fetched(
    tmp_path: Path, content: bytes, data: st.DataObject
) -> None:
    store = holding(a=content)
    Cached(store, tmp_path).read("v1/raw/a")
    (copy,) = copies(tmp_path)
    whole = copy.read_bytes()
    harmed = data.draw(
        st.one_of(
            st.integers(0, len(whole) - 1).map(lambda length: whole[:length]),
            st.tuples(st.integers(0, len(whole) - 1), st.integers(1, 255)).map(
                lambda where: whole[: where[0]] + bytes([whole[where[0]] ^ where[1]]) + whole[where[0] + 1 :]
            ),
            st.binary(min_size=1, max_size=50).map(lambda more: whole + more),
            st.just(bytes(len(whole))),
        )
    )
    copy.write_bytes(harmed)
    cached = Cached(store, tmp_path)
    assert cached.read("v1/raw/a") == [content]
    assert cached.behind.gets["v1/raw/a"] == 1
    assert (cached.results("damaged"), cached.results("miss")) == (1, 1)
    assert Cached(store, tmp_path).read("v1/raw/a") == [content]
    assert copy.read_bytes() == whole
    copy.unlink()


def test_a_copy_under_the_name_of_another_is_no_copy(tmp_path: Path) -> None:
    store = holding(a=b"one", b=b"other")
    Cached(store, tmp_path).read("v1/raw/a")
    (one,) = copies(tmp_path)
    Cached(store, tmp_path).read("v1/raw/b")
    (other,) = set(copies(tmp_path)) - {one}
    other.write_bytes(one.read_bytes())
    assert Cached(store, tmp_path).read("v1/raw/b") == [b"other"]


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_holds_for_all_who_share_the_folder(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    store = holding(**{f"o{number}": luck.randbytes(luck.randrange(40_000)) for number in range(60)})
    keys = [entry.key for entry in store.list("v1/")]
    for _ in range(12):
        most = luck.choice([30_000, 100_000, 300_000])
        sharing = [Cached(store, tmp_path, most) for _ in range(luck.randrange(1, 4))]
        for _ in range(20):
            key = luck.choice(keys)
            assert luck.choice(sharing).store.get(key) == store.get(key)
        for one in sharing:
            one.store.close()
            assert one.errors() == 0
        assert taken(tmp_path) <= most


@pytest.mark.parametrize(("most", "kept"), [(3 * BLOCK_BYTES, 1), (3 * BLOCK_BYTES - 1, 0), (0, 0)])
def test_an_object_is_kept_if_it_fits_and_not_otherwise(tmp_path: Path, most: int, kept: int) -> None:
    store = holding(a=b"x" * (2 * BLOCK_BYTES - 16))
    Cached(store, tmp_path, most).read("v1/raw/a")
    assert len(copies(tmp_path)) == kept
    assert taken(tmp_path) <= max(most, BLOCK_BYTES)


def test_what_was_used_least_recently_makes_room(tmp_path: Path) -> None:
    store = holding(**{name: name.encode() * 4000 for name in "abcd"})
    first = Cached(store, tmp_path)
    first.read("v1/raw/a", "v1/raw/b", "v1/raw/c")
    for age, name in enumerate("cba", start=1):
        os.utime(first.store._path(f"v1/raw/{name}"), (age, age))
    second = Cached(store, tmp_path, 4 * BLOCK_BYTES)
    assert second.read("v1/raw/c", "v1/raw/d") == [b"c" * 4000, b"d" * 4000]
    assert list(second.behind.gets) == ["v1/raw/d"]
    nothing = Cached(MemoryStore(), tmp_path, 4 * BLOCK_BYTES)
    assert b"".join(map(nothing.store.get, ("v1/raw/a", "v1/raw/c", "v1/raw/d")))
    with pytest.raises(ObjectMissing):
        nothing.read("v1/raw/b")


def test_at_the_start_what_a_dead_process_left_and_what_is_beyond_the_bound_goes(tmp_path: Path) -> None:
    store = holding(**{f"o{number}": bytes(BLOCK_BYTES - 16) for number in range(20)})
    Cached(store, tmp_path).read(*(f"v1/raw/o{number}" for number in range(20)))
    folder = tmp_path / FOLDER
    (folder / "writing").write_bytes(bytes(5 * MB))
    (folder / "used").write_bytes(b"1")
    (folder / "README").write_bytes(b"somebody's own")
    Cached(store, tmp_path, 10 * BLOCK_BYTES).store.close()
    assert len(copies(tmp_path)) == 8
    assert not (folder / "writing").exists()
    assert (folder / "README").exists()


def test_what_a_process_left_that_died_beside_this_one_is_in_nobodys_way(tmp_path: Path) -> None:
    cached = Cached(holding(a=b"content"), tmp_path)
    cached.store._write_executor.submit(lambda: None).result(60)  # it has cleaned
    with locked(tmp_path):
        (tmp_path / FOLDER / "writing").write_bytes(bytes(5 * MB))
    assert cached.read("v1/raw/a") == [b"content"]
    assert cached.errors() == 0
    assert Cached(MemoryStore(), tmp_path).read("v1/raw/a") == [b"content"]
    assert taken(tmp_path) <= MB


def test_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(mode=0o777)
    Cached(holding(a=b"x"), tmp_path).read("v1/raw/a")
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / FOLDER, *copies(tmp_path)]}
    assert set(modes.values()) == {0o700, 0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    os.chown(tmp_path / FOLDER, 12345, 12345)
    cached = Cached(holding(a=b"x"), tmp_path)
    assert cached.read("v1/raw/a", "v1/raw/a") == [b"x", b"x"]
    assert cached.errors() == 1
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_folder_that_cannot_be_made_fails_no_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    cached = Cached(holding(a=b"x"), tmp_path / "file" / "below")
    assert cached.read("v1/raw/a", "v1/raw/a") == [b"x", b"x"]
    assert cached.errors() == 1
    assert capsys.readouterr().out.count("trouble with the disk cache") == 1


def test_a_disk_that_fails_later_fails_no_query_and_is_told_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = Cached(holding(a=b"x", b=b"y"), tmp_path)
    (tmp_path / FOLDER).rename(tmp_path / "away")
    (tmp_path / FOLDER).touch()
    assert cached.read("v1/raw/a", "v1/raw/b", "v1/raw/a") == [b"x", b"y", b"x"]
    assert cached.errors() >= 4
    assert capsys.readouterr().out.count("trouble with the disk cache") == 1


def test_a_folder_may_be_emptied_at_any_time(tmp_path: Path) -> None:
    cached = Cached(holding(a=b"x", b=b"y"), tmp_path)
    cached.store.get("v1/raw/a")
    for path in (tmp_path / FOLDER).iterdir():
        path.unlink(missing_ok=True)
    (tmp_path / FOLDER).rename(tmp_path / "away")
    assert cached.read("v1/raw/a", "v1/raw/b") == [b"x", b"y"]
    assert Cached(MemoryStore(), tmp_path).read("v1/raw/b") == [b"y"]


def test_a_full_disk_fails_no_query_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "store")
    for number in range(5):
        store.put(f"v1/raw/{number}", bytes(100_000))
    reader = f"""
import resource
from pathlib import Path
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.disk_cache import DiskCachedStore
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # the system writes no file that is longer
metrics = Metrics()
source = DirectoryStore(Path({str(tmp_path / "store")!r}))
store = DiskCachedStore(source, Path({str(tmp_path)!r}), 1 << 20, metrics)
for turn in range(2):
    for number in range(5):
        assert store.get(f"v1/raw/{{number}}") == bytes(100_000)
store.close()
line = 'sidelight_disk_cache_errors_total{{operation="write"}} '
(found,) = [one for one in metrics.render().decode().splitlines() if one.startswith(line)]
assert float(found.removeprefix(line)) >= 5, found
"""
    subprocess.run([sys.executable, "-c", reader], check=True, timeout=60)
    assert copies(tmp_path) == []
    assert not (tmp_path / FOLDER / "writing").exists()


def test_a_process_that_is_stopped_while_it_writes_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_SECONDS", 0.05)
    with locked(tmp_path):
        cached = Cached(holding(a=b"x", b=b"y"), tmp_path)
        assert cached.read("v1/raw/a", "v1/raw/b") == [b"x", b"y"]
    assert cached.counted("skipped_total") == 2
    assert cached.errors() == 0


@pytest.mark.parametrize(("most", "kept"), [(200, 2), (199, 1)])
def test_what_waits_to_be_written_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, kept: int
) -> None:
    monkeypatch.setattr(disk_cache, "MAX_PENDING_BYTES", most)
    with locked(tmp_path):
        cached = Cached(holding(a=bytes(100), b=bytes(100)), tmp_path)
        cached.store.get("v1/raw/a")
        cached.store.get("v1/raw/b")
    cached.store.close()
    assert len(copies(tmp_path)) == kept
    assert cached.counted("skipped_total") == 2 - kept


def test_an_object_that_was_damaged_and_mended_in_the_store_is_read_anew(tmp_path: Path) -> None:
    store = stored([window()])
    key = next(entry.key for entry in store.list("v1/l0/") if "profiles" in entry.key)
    whole = store.get(key)

    def unreadable() -> int:
        cached = Cached(store, tmp_path)
        with closing(QueryEngine(cached.store, QueryLimits(), on_corrupt=cached.store.invalidate)) as engine:
            told = asyncio.run(engine.run(partial(list_services, query=question())))
        cached.store.close()
        return told["basis"]["unreadable_segments"]

    store.put(key, whole[:-1])
    assert unreadable() == 1
    assert copies(tmp_path) == []
    store.put(key, whole)
    assert unreadable() == 0
    assert len(copies(tmp_path)) == 1


READER = """
import random, sys
from pathlib import Path
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.backends.disk_cache import DiskCachedStore
where, folder, most, seed = sys.argv[1:]
source, luck = DirectoryStore(Path(where)), random.Random(seed)
keys = [entry.key for entry in source.list("v1/raw/")]
contents = {key: source.get(key) for key in keys}
store = DiskCachedStore(source, Path(folder), int(most), Metrics())
print("reads", flush=True)
while True:
    key = luck.choice(keys)
    if store.get(key) != contents[key]:
        sys.exit(f"not what is stored under {key}")
"""


def test_processes_that_share_the_folder_may_be_killed_at_any_time(tmp_path: Path) -> None:
    luck, most = random.Random(3), 400_000
    source = DirectoryStore(tmp_path / "store")
    for number in range(40):
        source.put(f"v1/raw/{number}", luck.randbytes(luck.randrange(60_000)))
    argv = [sys.executable, "-c", READER, str(tmp_path / "store"), str(tmp_path), str(most)]

    def reader(seed: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*argv, str(seed)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"reads\n"
        return process

    readers = [reader(seed) for seed in range(2)]
    try:
        for turn in range(6):
            for _ in range(luck.randrange(20)):
                with locked(tmp_path):
                    assert taken(tmp_path) <= most
            for process in readers:
                os.kill(process.pid, signal.SIGSTOP)
                os.waitpid(process.pid, os.WUNTRACED)  # it stops when it leaves the kernel, not at once
            assert taken(tmp_path) <= most
            for process in readers:
                os.kill(process.pid, signal.SIGCONT)
            assert [process.poll() for process in readers] == [None, None]
            readers[turn % 2].kill()
            readers[turn % 2].wait()
            readers[turn % 2] = reader(turn + 10)
    finally:
        for process in readers:
            process.kill()
            process.wait()
    assert taken(tmp_path) <= most
    last = Cached(source, tmp_path, most)
    keys = [entry.key for entry in source.list("v1/raw/")]
    assert last.read(*keys) == [source.get(key) for key in keys]
    assert last.results("damaged") == 0
    assert last.results("hit") > 0
    assert taken(tmp_path) <= most


def test_a_collector_started_again_reads_from_its_disk(tmp_path: Path) -> None:
    source = DirectoryStore(tmp_path / "store")
    stored([window("main;f 3")], store=source)
    options = ["--cache-dir", str(tmp_path / "cache"), "--compact-interval-seconds", "0"]
    options += [f"--{name.replace('_', '-')}={days}" for name, days in KEPT.items()]
    path = f"/api/v1/flamegraph?from={START_NS // 10**9 - 60}&until={START_NS // 10**9 + 60}"
    answers = []
    for turn in ("first", "second"):
        with processes.collector(tmp_path / turn, str(tmp_path / "store"), *options) as collector:
            answers.append(collector.get(path))
            lines = metrics_of(collector)
            assert collector.running.end() == 0
        hits, misses = (
            lines.get(f'sidelight_disk_cache_reads_total{{result="{word}"}}') for word in ("hit", "miss")
        )
        assert (hits, misses) == ((None, 3.0) if turn == "first" else (3.0, None))
    assert answers[0] == answers[1]
    assert answers[0]["basis"]["samples"] == 3


def metrics_of(collector: processes.Collector) -> dict[str, float]:
    with urllib.request.urlopen(collector.url + "/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}


def test_copies_are_not_kept_in_the_store(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with pytest.raises(BadSetting, match="cache_dir is in the store"):
        Settings(store=store, cache_dir=tmp_path / "store" / "cache")
    assert Settings(store=store, cache_dir=tmp_path).cache_dir == tmp_path
