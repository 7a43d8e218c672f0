"""The CPU limit of the sidecar's own cgroup: found in both versions' files, and judged."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_sidecar.discovery.cgroup import (
    CgroupLevel,
    Cgroups,
    CgroupStats,
    LimitProximity,
    classify_proximity,
)
from sidelight_sidecar.discovery.pod_cgroup import PodContainer
from sidelight_sidecar.discovery.procfs import ProcFs
from tests.processes import eventually, running
from tests.sidecar.cgroups import VERSION, limited

V2_MOUNT = "31 23 0:28 {top} {mount} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNT = "32 23 0:29 {top} {mount} rw - cgroup cgroup rw,{controllers}"


@dataclass
class Tree:
    """A fixture of /proc and the cgroup mounts."""

    root: Path

    def proc(self, mountinfo: list[str], own: str, **targets: str) -> None:
        for name, lines in {"self": own, **targets}.items():
            folder = self.root / "proc" / name.removeprefix("pid")
            folder.mkdir(parents=True)
            (folder / "cgroup").write_text(lines)
        (self.root / "proc/self/mountinfo").write_text("\n".join(["1 2 0:1 / / rw - ext4 x rw", *mountinfo]))

    def target(self, pid: int, cgroup: str, mountinfo: str) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cgroup").write_text(cgroup)
        (folder / "mountinfo").write_text(mountinfo)
        (folder / "root").symlink_to(self.root)

    def put(self, folder: str, **files: str) -> None:
        path = self.root / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name.replace("_", ".", 1)).write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def limits(levels: list[CgroupLevel]) -> list[float | None]:
    return [level.read().limit_cores for level in levels]


def test_a_limit_of_version_2_is_read_with_its_counters(tree: Tree) -> None:
    tree.proc([V2_MOUNT.format(top="/", mount="/sys/fs/cgroup")], own="0::/\n")
    stat = "usage_usec 2500000\nuser_usec 1\nnr_periods 9\nnr_throttled 4\nthrottled_usec 300000"
    tree.put("sys/fs/cgroup", cpu_max="5000 100000", cpu_stat=stat)
    (level,) = Cgroups(tree.root).find_levels()
    assert level.read() == CgroupStats(
        limit_cores=0.05, cpu_seconds=2.5, throttled_periods=4, throttled_seconds=0.3, periods=9
    )


@pytest.mark.parametrize("max_", ["max 100000", "", "nonsense", "5 0"])
def test_no_limit_is_no_limit(tree: Tree, max_: str) -> None:
    tree.proc([V2_MOUNT.format(top="/", mount="/sys/fs/cgroup")], own="0::/\n")
    tree.put("sys/fs/cgroup", cpu_max=max_)
    (level,) = Cgroups(tree.root).find_levels()
    assert level.read() == CgroupStats(None)


def test_the_working_set_of_a_container_is_its_memory_without_inactive_page_cache(tree: Tree) -> None:
    tree.proc([], own="4:memory:/own\n0::/\n")
    mount, container = "/sys/fs/cgroup", "/../cri-containerd-x.scope"
    tree.target(7, f"0::{container}\n", V2_MOUNT.format(top=container, mount=mount))
    tree.put(mount[1:], memory_current="1000", memory_stat="active_file 5\ninactive_file 300")
    memory = Cgroups(tree.root).find_memory(7)
    assert memory is not None
    assert memory.read_working_set() == 700
    tree.target(
        8, "4:memory:/kubepods/c\n", V1_MOUNT.format(top="/kubepods/c", mount="/m", controllers="memory")
    )
    tree.put("m", memory_usage_in_bytes="2000", memory_stat="inactive_file 1\ntotal_inactive_file 1500")
    memory = Cgroups(tree.root).find_memory(8)
    assert memory is not None
    assert memory.read_working_set() == 500


@pytest.mark.parametrize("cgroup", ["/own", "/", "/other"])
def test_without_a_cgroup_of_its_own_that_can_be_read_a_process_has_no_working_set(
    tree: Tree, cgroup: str
) -> None:
    tree.proc([], own="4:memory:/own\n")
    tree.target(8, f"4:memory:{cgroup}\n", V1_MOUNT.format(top="/", mount="/m", controllers="memory"))
    for name in ("m", "m/own"):
        tree.put(name, memory_usage_in_bytes="2000", memory_stat="")
    assert Cgroups(tree.root).find_memory(8) is None


def test_limits_above_the_own_cgroup_count_too(tree: Tree) -> None:
    tree.proc([V2_MOUNT.format(top="/", mount="/sys/fs/cgroup")], own="0::/pod/sidecar\n")
    tree.put("sys/fs/cgroup/pod/sidecar", cpu_max="max 100000")
    tree.put("sys/fs/cgroup/pod", cpu_max="50000 100000")
    levels = Cgroups(tree.root).find_levels()
    assert limits(levels) == [None, 0.5, None]
    assert [str(level.path) for level in levels] == ["/pod/sidecar", "/pod", "/"]


def test_a_limit_of_version_1_is_read_with_its_counters(tree: Tree) -> None:
    mounts = [
        V1_MOUNT.format(top="/", mount="/sys/fs/cgroup/cpu", controllers="cpu"),
        V1_MOUNT.format(top="/", mount="/sys/fs/cgroup/cpuacct", controllers="cpuacct"),
        V1_MOUNT.format(top="/", mount="/sys/fs/cgroup/memory", controllers="memory"),
    ]
    tree.proc(mounts, own="3:cpu:/a\n2:cpuacct:/a\n1:memory:/b\n0::/\n")
    stat = "nr_periods 9\nnr_throttled 4\nthrottled_time 300000000"
    tree.put("sys/fs/cgroup/cpu/a", cpu_cfs_quota_us="2000", cpu_cfs_period_us="100000", cpu_stat=stat)
    tree.put("sys/fs/cgroup/cpu", cpu_cfs_quota_us="-1", cpu_cfs_period_us="100000")
    tree.put("sys/fs/cgroup/cpuacct/a", cpuacct_usage="1500000000")
    own, top = Cgroups(tree.root).find_levels()
    assert own.read() == CgroupStats(
        limit_cores=0.02, cpu_seconds=1.5, throttled_periods=4, throttled_seconds=0.3, periods=9
    )
    assert top.read() == CgroupStats(None)


def test_both_controllers_of_version_1_may_lie_in_one_mount_that_shows_only_the_own_cgroup(
    tree: Tree,
) -> None:
    mount = V1_MOUNT.format(top="/docker/x", mount="/sys/fs/cgroup/cpu,cpuacct", controllers="cpu,cpuacct")
    tree.proc([mount], own="3:cpu,cpuacct:/docker/x\n")
    tree.put(
        "sys/fs/cgroup/cpu,cpuacct",
        cpu_cfs_quota_us="10000", cpu_cfs_period_us="100000", cpu_stat="nr_throttled 0",
        cpuacct_usage="7000000000",
    )  # fmt: skip
    (level,) = Cgroups(tree.root).find_levels()
    assert level.read() == CgroupStats(limit_cores=0.1, cpu_seconds=7.0)
    assert level.path == PurePosixPath("/docker/x")


def test_another_containers_limit_is_read_through_the_eyes_of_its_process(tree: Tree) -> None:
    """As in a pod: each container's mounts show its own cgroup alone, which the sidecar's do not show."""
    tree.proc([V2_MOUNT.format(top="/", mount="/sys/fs/cgroup")], own="0::/\n", pid7="0::/../service\n")
    mount = V2_MOUNT.format(top="/../service", mount="/sys/fs/cgroup")
    (tree.root / "proc/7/mountinfo").write_text(mount)
    tree.put("sys/fs/cgroup", cpu_max="max 100000")
    tree.put("proc/7/root/sys/fs/cgroup", cpu_max="50000 100000", cpu_stat="usage_usec 1000000\nnr_periods 3")
    cgroups = Cgroups(tree.root)
    (level,) = cgroups.find_levels(7)
    assert level.read() == CgroupStats(limit_cores=0.5, cpu_seconds=1.0, periods=3)
    assert str(level.path) == "/../service"
    assert cgroups.identify_container(7) == ("/../service",)
    assert cgroups.find_levels(8) == []
    assert cgroups.identify_container(8) == ()


def test_where_nothing_can_be_read_there_is_no_limit(tmp_path: Path) -> None:
    assert Cgroups(tmp_path).find_levels() == []


@pytest.mark.parametrize(
    ("own", "target", "shared"),
    [
        ("/", "/", True),
        ("/", "/../other-container", False),
        ("/pod", "/pod/service", True),
        ("/pod/sidecar", "/pod/service", False),
        ("/pod/side", "/pod/sidecar", False),
    ],
)
def test_who_is_under_the_same_limit_freezes_together(
    tree: Tree, own: str, target: str, shared: bool
) -> None:
    mount = V2_MOUNT.format(top="/", mount="/sys/fs/cgroup")
    tree.proc([mount], own=f"0::{own}\n", pid7=f"0::{target}\n")
    cgroups = Cgroups(tree.root)
    assert cgroups.find_levels()[0].contains(cgroups.find_path(7, 2)) is shared
    assert not cgroups.find_levels()[0].contains(cgroups.find_path(8, 2))


def at(
    second: int, *, throttles: int = 0, used: float = 0.0, limit: float | None = 0.1
) -> tuple[CgroupStats, float]:
    return CgroupStats(limit, used, throttles, throttles / 100), float(second)


def judge(*looks: tuple[CgroupStats, float]) -> LimitProximity:
    pressure = LimitProximity()
    for reading, now in looks:
        pressure = classify_proximity(pressure, reading, now)
    return pressure


def test_what_was_throttled_before_the_first_look_does_not_count() -> None:
    assert not judge(at(0, throttles=50), at(1, throttles=50)).is_near_limit(1)


def test_throttling_counts_for_ten_seconds_after_it_was_last_seen() -> None:
    pressure = judge(at(0), at(1, throttles=1), at(2, throttles=2))
    assert pressure.is_near_limit(11.9)
    assert not pressure.is_near_limit(12)


def test_throttling_that_comes_again_counts_for_longer_up_to_five_minutes() -> None:
    looks, now, waits = [at(0)], 0, []
    for throttles in range(1, 9):
        looks.append(at(now + 1, throttles=throttles))
        pressure = judge(*looks)
        waits.append(round(pressure.near_until) - now - 1)
        now = round(pressure.near_until)
        looks.append(at(now, throttles=throttles))
    assert waits == [10, 20, 40, 80, 160, 320, 320, 320]


def test_a_limit_that_is_nearly_used_up_is_near() -> None:
    assert not judge(at(0), at(1, used=0.06)).is_near_limit(1)
    assert judge(at(0), at(1, used=0.08)).is_near_limit(1)
    assert not judge(at(0), at(1, used=0.08), at(11, used=0.1)).is_near_limit(11)


def test_a_limit_that_is_taken_away_is_not_near() -> None:
    assert not judge(at(0), at(1, throttles=9), at(2, throttles=9, limit=None)).is_near_limit(2)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.floats(0, 1)), max_size=50))
def test_a_limit_is_always_near_within_ten_seconds_of_throttling(steps: list[tuple[int, int, float]]) -> None:
    pressure, now, throttles, used = classify_proximity(LimitProximity(), CgroupStats(0.1), 0.0), 0, 0, 0.0
    for seconds, more, share in steps:
        now, throttles, used = now + seconds + 1, throttles + more, used + share
        pressure = classify_proximity(
            pressure, CgroupStats(0.1, used, throttles, float(throttles)), float(now)
        )
        if more:
            assert pressure.is_near_limit(now + 9.9)
        assert pressure.near_until <= now + 320


def test_a_busy_process_under_a_limit_is_seen_to_be_throttled(tmp_path: Path) -> None:
    spin = "print('ready', flush=True)\nwhile True: pass"
    with limited(0.02) as folders, running(tmp_path / "log", sys.executable, "-c", spin) as spinning:
        level = CgroupLevel(VERSION, PurePosixPath("/") / folders[0].name, folders[0])
        before = classify_proximity(LimitProximity(), level.read(), 0.0)
        assert before.stats is not None
        assert before.stats.limit_cores == pytest.approx(0.02)
        (folders[0] / "cgroup.procs").write_text(str(spinning.pid))
        eventually(
            "it is throttled", lambda: classify_proximity(before, level.read(), 1.0).is_near_limit(1.0)
        )
        spinning.end()


def test_the_pod_of_a_process_is_found_by_its_real_cgroup(tmp_path: Path) -> None:
    uid, container = "0b6f2a9e-6c1d-4d0a-9c3e-5a7f1e2d3c4b", "4c0ffee" * 9 + "a"
    with limited(1) as (top, *_):
        pod = top / f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        own = pod / f"cri-containerd-{container}.scope"
        own.mkdir(parents=True)
        join = f"echo $$ > {own}/cgroup.procs; echo ready; exec sleep 600"
        with running(tmp_path / "log", "sh", "-c", join) as target:
            eventually("it has joined", lambda: "ready" in target.said())
            found = {one.pid: one.pod for one in ProcFs(read_pods=True).list_processes()}
            assert found[target.pid] == PodContainer(uid, container)
            target.end()
        for folder in (own, pod):
            eventually("the cgroup is empty", lambda folder=folder: not (folder / "cgroup.procs").read_text())
            folder.rmdir()
