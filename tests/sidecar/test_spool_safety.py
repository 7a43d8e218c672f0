"""A spool where another user prepares links, pipes, notes and folders."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.shipping import atomic_file
from sidelight_sidecar.shipping.spool import Spool, SpoolUnwritable
from tests.sidecar.windows import make_id, window

ROOM = 400_000
OTHER_USER = 12345
OLDER, NEWER = window(1), window(2)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


def open_spool(folder: Path) -> Spool:
    return Spool(folder, ROOM, SidecarMetrics(), make_id)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_folders_have_mode_0700_and_files_0600_whatever_the_umask(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        spool = open_spool(tmp_path / "state" / "sidelight" / "spool")
        spool.put(OLDER)
        (entry,) = spool.list_oldest(1)
        spool.quarantine_refused(entry, "bad_label", "not allowed")
        spool.put(NEWER)
        spool.close()
    finally:
        os.umask(earlier)
    modes = {(path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in (tmp_path / "state").rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(SpoolUnwritable, match="other users may write") as raised:
        open_spool(folder)
    assert "--spool-dir" in raised.value.hint
    assert not list(folder.iterdir())


def test_a_folder_that_others_may_read_is_accepted(folder: Path) -> None:
    folder.chmod(0o755)
    open_spool(folder).close()


@needs_root
@pytest.mark.parametrize("owned", ["spool", "."])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, folder: Path, owned: str) -> None:
    os.chown(tmp_path / owned, OTHER_USER, OTHER_USER)
    with pytest.raises(SpoolUnwritable, match=f"belongs to user {OTHER_USER}"):
        open_spool(folder)


def test_a_folder_below_one_that_others_may_write_is_refused(tmp_path: Path, folder: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(SpoolUnwritable, match="other users may write"):
        open_spool(folder)
    tmp_path.chmod(0o1777)
    open_spool(folder).close()


@needs_root
def test_a_volume_that_every_user_may_write_is_accepted(folder: Path) -> None:
    """Kubernetes mounts a folder of the node, often of the file system that is the root's as well."""
    folder.chmod(0o2777)
    check = f"{sys.executable} -c 'from tests.sidecar import test_spool_safety as here; here.open_there()'"
    mount = f"mount --bind {shlex.quote(str(folder))} {shlex.quote(str(folder))} && exec {check}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPOOL": str(folder)}
    for command, accepted in ((f"exec {check}", False), (mount, True)):
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", command], env=environment, capture_output=True, text=True
        )
        assert (done.returncode == 0) is accepted, done.stderr


def open_there() -> None:
    open_spool(Path(os.environ["SPOOL"])).close()


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(SpoolUnwritable, match="symbolic link"):
        open_spool(tmp_path / "link")


def test_a_link_in_place_of_the_lock_is_not_followed(folder: Path, victim: Path) -> None:
    (folder / "lock").symlink_to(victim)
    with pytest.raises(SpoolUnwritable):
        open_spool(folder)
    assert victim.read_text() == "precious"


def test_a_pipe_in_place_of_the_lock_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "lock")
    with pytest.raises(SpoolUnwritable, match="cannot be written"):
        open_spool(folder)


def test_a_link_in_place_of_a_temporary_file_is_replaced(folder: Path, victim: Path) -> None:
    spool = open_spool(folder)
    (folder / f"{OLDER.id}.zst.tmp").symlink_to(victim)
    assert spool.put(OLDER)
    spool.close()
    assert victim.read_text() == "precious"
    assert stat.S_ISREG((folder / f"{OLDER.id}.zst").lstat().st_mode)


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_a_window_that_is_no_regular_file_is_quarantined(folder: Path, victim: Path, kind: str) -> None:
    path = folder / f"{OLDER.id}.zst"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim if kind == "link" else "/does/not/exist")
    spool = open_spool(folder)
    assert len(spool) == 0
    spool.close()
    assert [file.name for file in (folder / "corrupt").iterdir()] == [path.name]
    assert victim.read_text() == "precious"


def test_a_window_that_becomes_a_pipe_is_quarantined(folder: Path) -> None:
    spool = open_spool(folder)
    spool.put(OLDER)
    (entry,) = spool.list_oldest(1)
    (folder / entry.name).unlink()
    os.mkfifo(folder / entry.name)
    assert spool.read(entry) is None
    spool.close()


@pytest.mark.parametrize("quarantine", ["refused", "corrupt"])
def test_a_link_in_place_of_a_quarantine_folder_is_replaced(
    tmp_path: Path, folder: Path, quarantine: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / quarantine).symlink_to(tmp_path / "elsewhere")
    (folder / f"{NEWER.id}.bad.zst").write_bytes(b"garbage")
    spool = open_spool(folder)
    spool.put(OLDER)
    (entry,) = spool.list_oldest(1)
    spool.quarantine_refused(entry, "bad_label", "not allowed")
    spool.close()
    assert not list((tmp_path / "elsewhere").iterdir())
    assert len(list((folder / quarantine).glob("*.zst"))) == 1


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(["../victim"]),
        json.dumps(["VICTIM"]),
        json.dumps(["WINDOW.zst", "VICTIM"]),
        json.dumps(["../WINDOW.zst"]),
        json.dumps([7]),
        json.dumps({"a": 1}),
        "7",
        "[" * 5000,
        '["' + 'WINDOW.zst", "' * 1000 + 'WINDOW.zst"]',
    ],
)
def test_a_note_deletes_only_windows_of_the_spool(folder: Path, victim: Path, content: str) -> None:
    for one in (OLDER, NEWER):
        atomic_file.write_file(folder / f"{one.id}.zst", atomic_file.compress_window(one))
    (folder / f"{OLDER.id}.merge").write_text(
        content.replace("VICTIM", str(victim)).replace("WINDOW", NEWER.id)
    )
    spool = open_spool(folder)
    assert len(spool) == 2
    spool.close()
    assert victim.read_text() == "precious"
    assert not list(folder.glob("*.merge"))


def test_a_file_is_read_up_to_its_limit(folder: Path) -> None:
    (folder / "file").write_bytes(b"12345")
    assert atomic_file.read_file(folder / "file", 5) == b"12345"
    with pytest.raises(OSError, match="too large"):
        atomic_file.read_file(folder / "file", 4)
