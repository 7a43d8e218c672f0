"""Real cgroups, of the version that this machine has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import eventually

ROOT = Path("/sys/fs/cgroup")
VERSION = 2 if (ROOT / "cgroup.controllers").exists() else 1


@contextmanager
def limited(cores: float) -> Iterator[list[Path]]:
    """A cgroup with a CPU limit."""
    with made("cpu", "cpuacct") as folders:
        if VERSION == 2:
            (folders[0] / "cpu.max").write_text(f"{round(cores * 100_000)} 100000")
        else:
            (folders[0] / "cpu.cfs_quota_us").write_text(str(round(cores * 100_000)))
        yield folders


@contextmanager
def made(*controllers: str) -> Iterator[list[Path]]:
    """A cgroup: a folder, or in version 1 one for each controller."""
    places = [ROOT] if VERSION == 2 else [ROOT / controller for controller in controllers]
    folders = [place / f"sidelight-test-{os.getpid()}" for place in places]
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
    except OSError as error:
        pytest.skip(f"NO CGROUPS HERE: {error}")
    try:
        yield folders
    finally:
        for folder in {one.resolve() for one in folders}:
            eventually("the cgroup is empty", lambda folder=folder: not (folder / "cgroup.procs").read_text())
            folder.rmdir()
