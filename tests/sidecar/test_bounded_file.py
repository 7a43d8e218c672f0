"""Reading files that a target may have put there."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from sidelight_sidecar.discovery.bounded_file import read_bounded, read_lines
from sidelight_sidecar.discovery.cgroup import CgroupLevel


def test_a_fifo_a_device_and_a_folder_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_bounded(path, 100)
        with pytest.raises(OSError, match="not a regular file"):
            list(read_lines(path, 100))


def test_only_the_first_bytes_of_a_file_are_read(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    sparse.touch()
    os.truncate(sparse, 4 << 30)
    assert read_bounded(sparse, 200_000) == "\0" * 200_000
    assert sum(map(len, read_lines(sparse, 1 << 20))) == 1 << 20
    (tmp_path / "text").write_bytes("ü\n".encode() + b"\xff")
    assert read_bounded(tmp_path / "text", 100) == "ü\n\ufffd"


def test_lines_are_whole_whatever_their_number(tmp_path: Path) -> None:
    lines = [f"{n} {'x' * (n % 300)}\n" for n in range(3000)]
    (tmp_path / "text").write_text("".join(lines) + "last")
    groups = list(read_lines(tmp_path / "text", 64 << 20))
    assert "".join(groups) == "".join(lines) + "last"
    assert len(groups) > 3
    assert all(group.endswith("\n") for group in groups[:-1])


def test_a_target_whose_limit_is_a_fifo_has_no_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cpu.max")
    assert CgroupLevel(2, PurePosixPath("/"), tmp_path).read().limit_cores is None
