"""A target that replaces its files or fills its memory costs bounded time and memory, and only itself."""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sidelight_native import Engine

from tests.native.conftest import PYTHONS

MIB = 1 << 20


def find_libpython(python: Path) -> Path | None:
    """The shared library of a Python; None if it is linked in."""
    return next(python.parent.parent.glob("lib/libpython3.*.so.1.0"), None)


OLD = [version for version in PYTHONS if int(version.split(".")[1]) in (8, 9, 10)][-1:]
OWN = [version for version in PYTHONS if 11 <= int(version.split(".")[1]) <= 14][:1]
MAX_READER_BYTES = 100 * MIB
"""48 MiB on top of a new Python process, and the files that it has mapped."""


def list_tasks(pid: int) -> list[Path]:
    """The threads of a process; none once it has ended."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def descendants(pid: int) -> set[int]:
    """The processes that descend from this one now."""
    found: set[int] = set()
    for task in list_tasks(pid):
        try:
            children = {int(child) for child in (task / "children").read_text().split()}
        except OSError:
            continue
        found |= children | {below for child in children for below in descendants(child)}
    return found


def peak_bytes(pid: int | str = "self") -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(peak[1]) * 1024 if peak else 0


@contextmanager
def watching_readers(target: int) -> Iterator[list[int]]:
    """The largest memory of any reader process meanwhile, as the last item."""
    peaks, end = [0], threading.Event()

    def watch() -> None:
        while not end.wait(0.01):
            readers = descendants(os.getpid()) - {target}
            peaks.append(max([peaks[-1], *map(peak_bytes, readers)]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        end.set()
        watcher.join()


@contextmanager
def own_libpython(version: str, folder: Path) -> Iterator[tuple[int, Path]]:
    """A process with a libpython of its own: its pid, and that file."""
    python = PYTHONS[version]
    library = find_libpython(python)
    assert library is not None
    copy = Path(shutil.copy(library, folder))
    command = [python, "-c", "print('ready', flush=True); input()"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid, copy
        finally:
            process.kill()


def enlarge_section_names(library: Path, size: int) -> None:
    """Give the section names of an ELF file this size, which takes no space on the disk.

    A process that has mapped the file goes on: section headers are not mapped.
    """
    end = library.stat().st_size
    with library.open("r+b") as file:
        header = file.read(64)
        (sections,) = struct.unpack_from("<Q", header, 0x28)
        entry_size, _, names = struct.unpack_from("<HHH", header, 0x3A)
        file.seek(sections + names * entry_size + 24)
        file.write(struct.pack("<QQ", end, size))
        file.truncate(end + size)


WITH_LIBPYTHON = [version for version in (*OWN, *OLD) if find_libpython(PYTHONS[version])]


@pytest.mark.parametrize("replacement", ["fifo", "sparse", "device"])
@pytest.mark.parametrize(
    ("version", "reader"),
    [
        *((version, "own") for version in WITH_LIBPYTHON),
        *((version, "py-spy") for version in WITH_LIBPYTHON if version in OLD),
    ],
)
def test_a_replaced_libpython_neither_blocks_nor_fills_the_sampler(version, reader, replacement, tmp_path):
    before = peak_bytes()
    with own_libpython(version, tmp_path) as (pid, library), watching_readers(pid) as readers:
        library.unlink()
        replaced = library.with_name(f"{library.name} (deleted)")
        if replacement == "fifo":
            os.mkfifo(replaced)
        elif replacement == "sparse":
            replaced.touch()
            os.truncate(replaced, 4096 * MIB)
        else:
            replaced.symlink_to("/dev/zero")
        engine = Engine()
        if reader == "own":
            # Its symbols are read in its memory.
            session = engine.attach(pid, rate_hz=100)
            assert session.reader == "own"
            session.stop()
        else:
            with pytest.raises(ValueError, match=r"is not a regular file|bytes, and at most"):
                engine.attach(pid, rate_hz=100, reader="py-spy")
    assert peak_bytes() - before < 64 * MIB
    assert readers[-1] < 64 * MIB


@pytest.mark.parametrize("version", WITH_LIBPYTHON)
def test_a_deleted_libpython_costs_the_names_of_threads_only(version, tmp_path, wait_until):
    with own_libpython(version, tmp_path) as (pid, library):
        engine = Engine()
        assert engine.attach(pid, rate_hz=100, thread_names=True).names_problem is None
        library.unlink()
        session = engine.attach(pid, rate_hz=100, thread_names=True)
        assert f"{library} (deleted) cannot be opened" in session.names_problem
        labels: set[str] = set()

        def has_samples() -> bool:
            labels.update(label for label, *_ in session.take().counts)
            return bool(labels)

        wait_until(has_samples)
        assert (session.reader, labels) == ("own", {"main"})
        session.stop()


@pytest.mark.parametrize("version", [version for version in OLD if version in WITH_LIBPYTHON])
def test_a_symbol_table_larger_than_the_memory_ends_its_reader_process_only(version, tmp_path):
    before = peak_bytes()
    with own_libpython(version, tmp_path) as (pid, library), watching_readers(pid) as readers:
        enlarge_section_names(library, 192 * MIB)
        # It takes a second, but on a crowded machine the time may end first.
        with pytest.raises(MemoryError, match=r"more memory|longer than 10 s"):
            Engine().attach(pid, rate_hz=100, reader="py-spy")
    assert peak_bytes() - before < 64 * MIB
    assert 0 < readers[-1] < MAX_READER_BYTES


@pytest.mark.parametrize(
    ("number", "message"), [(signal.SIGKILL, "more memory"), (signal.SIGSTOP, "longer than 2 s")]
)
@pytest.mark.parametrize("version", OLD)
def test_a_reader_process_that_gives_no_reply_ends_its_session_only(
    start, wait_until, version, number, message
):
    python = str(PYTHONS[version])
    engine = Engine()
    good, session = (
        engine.attach(start("recursion", 120, depth, python=python).pid, rate_hz=100, reader="py-spy")
        for depth in (5, 7)
    )
    (parent,) = [pid for pid in descendants(os.getpid()) if len(descendants(pid)) == 2]
    readers = sorted(descendants(parent))
    os.kill(readers[-1], number)
    wait_until(lambda: session.ended is not None)
    assert session.ended.startswith(f"failed: reading it takes {message}")
    if number == signal.SIGSTOP:
        os.kill(readers[-1], signal.SIGKILL)
    good.take()
    wait_until(lambda: good.take().samples > 0)
    good.stop()
    session.stop()
    engine.close()
    wait_until(lambda: not descendants(parent))


SAMPLE = """
import sys, sidelight_native, time
session = sidelight_native.Engine().attach(int(sys.argv[1]), rate_hz=100)
samples, deadline, names = 0, time.monotonic() + 60, set()
while samples < 20 and time.monotonic() < deadline:
    batch = session.take()
    samples += batch.samples
    names |= {frame for row in batch.counts for frame in row[1].split(";")}
    time.sleep(0.02)
print(samples, len(names))
print(open("/proc/self/status").read())
"""


@pytest.mark.parametrize("version", OWN)
def test_location_tables_take_bounded_memory_together_and_all_functions_are_shown(start, version):
    target = start("expensive", "lines", 120, 150, python=str(PYTHONS[version]))
    command = [sys.executable, "-c", SAMPLE, str(target.pid)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    samples, names = map(int, output.split("\n")[0].split())
    assert samples >= 20
    assert names >= 150
    peak = re.search(r"VmHWM:\s+(\d+) kB", output)
    assert peak is not None
    assert int(peak[1]) * 1024 < 110 * MIB
