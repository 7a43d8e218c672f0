"""A full disk: whatever cannot be written is an error, and leaves no part of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidelight.file_output import replace_file, write_output_file
from tests.full_disk import run_on_small_disk

SEGMENTS = """
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.objects import StoreUnavailable
from sidelight_collector.storage.segments import list_segments, write_segment
from tests.collector.stored_windows import window

store = DirectoryStore(DISK / "store")
write_segment(store, [window()])
before = files(DISK / "store")
stacks = " | ".join(f"main;handle {os.urandom(20).hex()} 1" for _ in range(400))
for size in (0, 4096, 8192, 16384, 24576):
    leave(size)
    try:
        write_segment(store, [window(stacks)])
    except StoreUnavailable as error:
        assert "No space left" in error.message, error
        assert files(DISK / "store") == before, (size, files(DISK / "store"))
    else:
        raise AssertionError(f"{size} bytes were enough")
(DISK / "ballast").unlink()
write_segment(store, [window(stacks)])
assert len(list_segments(store, 0, 2**62)) == 2
assert len(files(DISK / "store")) == len(before) + 3
"""

BLOCKS = """
from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.blocks import write_block
from sidelight_collector.storage.objects import StoreUnavailable
from sidelight_collector.storage.segments import event_day, write_segment
from tests.collector.stored_windows import START_NS, window

store = DirectoryStore(DISK / "store")
stacks = " | ".join(f"main;handle {os.urandom(20).hex()} 1" for _ in range(400))
refs = [write_segment(store, [window(stacks)])]
before = files(DISK / "store")
for size in (0, 8192, 16384, 24576):
    leave(size)
    try:
        write_block(store, event_day(START_NS), refs)
    except StoreUnavailable:
        assert files(DISK / "store") == before, (size, files(DISK / "store"))
    else:
        raise AssertionError(f"{size} bytes were enough")
(DISK / "ballast").unlink()
assert write_block(store, event_day(START_NS), refs) is not None
"""

SPOOL = """
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.shipping.spool import Spool
from tests.sidecar.windows import make_id, window

spool = Spool(DISK / "spool", 1 << 30, SidecarMetrics(), make_id)
written = 0
leave(16384)
for number in range(20):
    try:
        spool.put(window(number))
        written += 1
    except OSError as error:
        assert error.errno == 28, error
assert 0 < written < 20, written
assert len(spool) == written
assert len([name for name in files(DISK / "spool") if name.endswith(".zst")]) == written
assert not [name for name in files(DISK / "spool") if ".tmp" in name or ".merge" in name]
"""

COMMANDS = """
from sidelight.main import run

(DISK / "a.folded").write_text("main;work 1000\\n")
(DISK / "b.folded").write_text("main;work 1000\\n")
(DISK / "old.json").write_text("old")
fill()
before = files()
for output in ("--json", "--markdown", "--junit"):
    for name in ("new.json", "old.json"):
        assert run(["compare", str(DISK / "a.folded"), str(DISK / "b.folded"), output, str(DISK / name)]) != 0
assert files() == before
assert (DISK / "old.json").read_text() == "old"
"""

PORT_FILE = """
from sidelight_collector.runtime.http_server import announce_address
from sidelight_collector.settings.collector import Settings

fill()
settings = Settings(store="x", port_file=DISK / "port")
try:
    announce_address(settings, 8080)
except OSError as error:
    assert error.errno == 28, error
else:
    raise AssertionError("there was room")
assert files() == ["ballast"]
"""


@pytest.mark.parametrize(
    "script",
    [SEGMENTS, BLOCKS, SPOOL, COMMANDS, PORT_FILE],
    ids=["segments", "blocks", "spool", "outputs of commands", "port file"],
)
def test_a_full_disk_leaves_no_part_of_a_file(script: str, tmp_path: Path) -> None:
    run_on_small_disk(tmp_path, script)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("old")
    with pytest.raises(TypeError):
        replace_file(file, "text")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert file.read_text() == "old"


def test_an_output_file_is_written_through_links_and_into_devices(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_output_file(tmp_path / "link", b"new")
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    write_output_file(Path(os.devnull), b"gone")
    with pytest.raises(OSError, match="No space left"):
        write_output_file(Path("/dev/full"), b"gone")
