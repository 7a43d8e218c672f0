"""What is particular to a directory: files, temporary files, and several processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidelight_collector.storage.backends.directory import STALE_TEMP_FILE_SECONDS, DirectoryStore
from sidelight_collector.storage.objects import StoreError, StoreUnavailable

COUNTING = """
import sys
from pathlib import Path
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.objects import ObjectChanged

store = DirectoryStore(Path(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    while True:
        content, etag = store.get_with_etag("v1/count")
        try:
            store.put("v1/count", b"%d" % (int(content) + 1), if_match=etag)
            break
        except ObjectChanged:
            continue
"""


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_an_object_is_a_file_of_the_same_name(tmp_path: Path) -> None:
    DirectoryStore(tmp_path).put("v1/l0/2026-11-21/a.parquet", b"content")
    assert (tmp_path / "v1/l0/2026-11-21/a.parquet").read_bytes() == b"content"


@pytest.mark.parametrize("key", [".lock", ".writing/x", "a/..b", "%2E%2E", "..%2Fescape", "a\\..\\b"])
def test_no_key_reaches_a_file_of_the_store_itself_or_outside_it(tmp_path: Path, key: str) -> None:
    root = tmp_path / "store"
    store = DirectoryStore(root)
    before = files(tmp_path)
    store.put(key, b"mine")
    assert store.get(key) == b"mine"
    assert [entry.key for entry in store.list("")] == [key]
    store.delete(key)
    assert files(tmp_path) == before


def test_a_new_store_is_private_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store = DirectoryStore(tmp_path / "new" / "store")
        store.put("v1/a/b", b"1")
        store.put_all({"v1/c/d": b"2", "v1/c/e": b"3"})
    finally:
        os.umask(previous)
    modes = {
        stat.S_IMODE(path.stat().st_mode)
        for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]
        if path.is_dir()
    }
    assert modes == {0o700}
    assert {
        stat.S_IMODE((tmp_path / "new/store" / name).stat().st_mode) for name in files(tmp_path / "new/store")
    } == {0o600}
    assert store.describe_shared_directory() == ""


@pytest.mark.parametrize(
    ("mode", "is_shared"), [(0o755, False), (0o775, True), (0o757, True), (0o1777, True)]
)
def test_the_mode_of_an_existing_directory_stays_and_is_reported(
    tmp_path: Path, mode: int, is_shared: bool
) -> None:
    tmp_path.chmod(mode)
    problem = DirectoryStore(tmp_path).describe_shared_directory()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == mode
    assert bool(problem) is is_shared
    assert not is_shared or f"{tmp_path} (mode {mode:04o})" in problem


def test_a_file_that_is_being_written_is_no_object(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    (tmp_path / ".writing" / "half").write_bytes(b"ha")
    assert list(store.list("")) == []


def test_nothing_is_left_behind_by_writes_that_won_lost_or_failed(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("v1/a", b"", if_absent=True)
    for conditions in ({"if_absent": True}, {"if_match": "other"}):
        with pytest.raises(StoreError):
            store.put("v1/a", b"", **conditions)
    with pytest.raises(StoreError):
        store.put("v1/a/below-a-file", b"")
    assert files(tmp_path) == [".lock", "v1/a"]


def test_what_a_killed_process_left_half_written_is_removed_once_it_is_old(tmp_path: Path) -> None:
    DirectoryStore(tmp_path)
    old, young = tmp_path / ".writing" / "old", tmp_path / ".writing" / "young"
    for path in (old, young):
        path.write_bytes(b"ha")
    then = time.time() - STALE_TEMP_FILE_SECONDS - 1
    os.utime(old, (then, then))
    DirectoryStore(tmp_path)
    assert files(tmp_path) == [".lock", ".writing/young"]


def test_directories_go_with_their_last_object(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("v1/l0/day/segment/a", b"")
    store.put("v1/l0/day/other/a", b"")
    store.delete("v1/l0/day/segment/a")
    assert not (tmp_path / "v1/l0/day/segment").exists()
    store.delete("v1/l0/day/other/a")
    assert not (tmp_path / "v1").exists()


def test_processes_that_count_by_compare_and_swap_lose_no_step(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.put("v1/count", b"0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTING, str(tmp_path), "25"]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert store.get("v1/count") == b"100"


def test_a_path_that_is_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot create") as refused:
        DirectoryStore(tmp_path / "file")
    assert "--store" in refused.value.hint


def test_a_directory_that_is_taken_away_fails_until_it_is_back(tmp_path: Path) -> None:
    root = tmp_path / "store"
    store = DirectoryStore(root)
    store.put("v1/a", b"content")
    root.rename(tmp_path / "away")
    with pytest.raises(StoreUnavailable):
        store.put("v1/b", b"")
    (tmp_path / "away").rename(root)
    store.put("v1/b", b"")
    assert store.get("v1/a") == b"content"


def test_a_write_that_does_not_fit_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.objects import StoreError
store = DirectoryStore(Path(sys.argv[1]))
store.put("v1/a", b"first")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    store.put("v1/a", b"x" * 10_000)
except StoreError as error:
    print(error.message)
"""
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "File too large" in said.stdout
    assert DirectoryStore(tmp_path).get("v1/a") == b"first"
    assert files(tmp_path) == [".lock", "v1/a"]
