"""Cgroups of version 2 for real: a Linux kernel that runs as a program boots with them, and runs tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.programs import ROOT

KERNEL = "linux.uml"
INIT = f"""#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup /sys/fs/cgroup
echo "+cpu +memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
export PATH={os.environ["PATH"]} HOME=/run TMPDIR=/run PYTHONDONTWRITEBYTECODE=1
cd {ROOT} && {sys.executable} -m pytest -n 0 -p no:cacheprovider $TESTS
echo "pytest: $?"
echo o > /proc/sysrq-trigger
read -r forever
"""
SIDECAR = (
    "tests/sidecar/test_cgroup.py",
    "tests/sidecar/test_pod_cgroup.py",
    "tests/sidecar/test_trigger_monitor.py::test_a_container_that_is_throttled_is_looked_at_closer_with_both_reasons",
    "tests/sidecar/test_trigger_monitor.py::test_a_container_that_grows_is_looked_at_closer_by_its_working_set",
)


@pytest.mark.parametrize(
    "tests", [SIDECAR, pytest.param(("tests/cluster/test_agent.py",), marks=pytest.mark.long)]
)
def test_these_tests_pass_with_cgroups_of_version_2(tests: tuple[str, ...], tmp_path: Path) -> None:
    if not shutil.which(KERNEL):
        pytest.skip(f"NO CGROUPS OF VERSION 2 HERE: {KERNEL} is missing, run `make cluster-tools`")
    init = tmp_path / "init"
    init.write_text(INIT)
    init.chmod(0o755)
    # The kernel takes this machine's files for its own, and cannot write them.
    root = ("root=none", "rootfstype=hostfs", "hostfs=/", "ro", f"init={init}")
    console = ("con=null", "con0=null,fd:1", "quiet")
    argv = (KERNEL, "mem=3G", *root, *console, f"TESTS={' '.join(tests)}")
    with (tmp_path / "log").open("wb") as log:
        kernel = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        kernel.wait(900)
    finally:
        if kernel.poll() is None:
            os.killpg(kernel.pid, signal.SIGKILL)
        said = (tmp_path / "log").read_text(errors="replace")
        print(said)
    assert "pytest: 0" in said
    assert "skipped" not in said
