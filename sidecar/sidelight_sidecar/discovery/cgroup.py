"""The CPU limit of this sidecar, how near it is, and memory of containers.

The kernel freezes a cgroup that has used up its quota until the next period, for up to a tenth of a second.
If that happens to a sampler in the middle of a stop, the stopped thread waits as long: with a limit of 2 %
of a core, a target lost half its time. So a sidecar under a limit keeps well below it, and stops no thread
while the limit is near. `classify_proximity` decides that from two readings of the counters.

Version 2 has `cpu.max` and `cpu.stat`. Version 1 has `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.stat`
and, in another hierarchy, `cpuacct.usage`. The limits of all cgroups count, from the sidecar's own up to
the top of its mount. A limit does not matter for processes under the same limit: they freeze together with
the sidecar.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from sidelight_sidecar.descriptors import reraise_if_out_of_descriptors
from sidelight_sidecar.discovery.bounded_file import read_bounded

SHARE_OF_LIMIT = 0.25
"""Share of the limit for sampling; the rest is for sending windows and scanning processes."""
_NEAR_LIMIT_SHARE = 0.7
_NEAR_LIMIT_SECONDS = 10.0
_MIN_HOLD_SECONDS = 10.0
_MAX_HOLD_SECONDS = 320.0
_MAX_BYTES = 4 << 20
"""Most bytes of a file that are read; a node with thousands of mounts has a mountinfo of a megabyte."""


@dataclass(frozen=True, slots=True)
class CgroupStats:
    """A cgroup's CPU limit and counters.

    `limit_cores` is in cores, None without a limit. Times are in seconds. Unknown counters are 0.
    """

    limit_cores: float | None
    cpu_seconds: float = 0.0
    throttled_periods: int = 0
    throttled_seconds: float = 0.0
    periods: int = 0


@dataclass(frozen=True, slots=True)
class LimitProximity:
    """Whether the CPU limit is near, which it is until `near_until`.

    `hold_seconds` is how long the limit counted as near after the last throttling.
    """

    stats: CgroupStats | None = None
    read_at: float = -math.inf
    near_until: float = -math.inf
    hold_seconds: float = _MIN_HOLD_SECONDS

    def is_near_limit(self, now: float) -> bool:
        return now < self.near_until


def classify_proximity(previous: LimitProximity, stats: CgroupStats, now: float) -> LimitProximity:
    """Return the proximity at `now` from the previous one and new counters.

    Throttling counts for ten seconds, and for twice as long each time it comes again soon.
    """
    updated = replace(previous, stats=stats, read_at=now)
    if stats.limit_cores is None:
        return replace(updated, near_until=-math.inf)
    if previous.stats is None or now <= previous.read_at:
        return updated
    if (
        stats.throttled_periods > previous.stats.throttled_periods
        or stats.throttled_seconds > previous.stats.throttled_seconds
    ):
        # Throttling in successive periods counts once, for as long as it lasts.
        hold = previous.hold_seconds
        if not previous.is_near_limit(now):
            is_repeated = now - previous.near_until < _MAX_HOLD_SECONDS
            hold = min(_MAX_HOLD_SECONDS, 2 * previous.hold_seconds) if is_repeated else _MIN_HOLD_SECONDS
        return replace(updated, near_until=max(previous.near_until, now + hold), hold_seconds=hold)
    share = (stats.cpu_seconds - previous.stats.cpu_seconds) / (now - previous.read_at) / stats.limit_cores
    if share > _NEAR_LIMIT_SHARE:
        return replace(updated, near_until=max(previous.near_until, now + _NEAR_LIMIT_SECONDS))
    return updated


@dataclass(frozen=True, slots=True)
class CgroupLevel:
    """One cgroup: its path and where its files are.

    `directory` holds the files of the CPU controller. `usage_file` is the usage file of version 1.
    """

    version: int
    path: PurePosixPath
    directory: Path
    usage_file: Path | None = None

    def read(self) -> CgroupStats:
        """Read its current limit and counters; missing files mean no limit."""
        limit = self._read_limit()
        if limit is None:
            return CgroupStats(None)
        stat = _read_table(self.directory / "cpu.stat")
        if self.version == 2:
            cpu_seconds, throttled = stat.get("usage_usec", 0) / 1e6, stat.get("throttled_usec", 0) / 1e6
        else:
            cpu_seconds, throttled = _read_int(self.usage_file) / 1e9, stat.get("throttled_time", 0) / 1e9
        return CgroupStats(
            limit, cpu_seconds, stat.get("nr_throttled", 0), throttled, stat.get("nr_periods", 0)
        )

    def _read_limit(self) -> float | None:
        if self.version == 2:
            quota, _, period = _read_text(self.directory / "cpu.max").partition(" ")
        else:
            quota, period = (
                _read_text(self.directory / "cpu.cfs_quota_us"),
                _read_text(self.directory / "cpu.cfs_period_us"),
            )
        if not quota.isdigit() or not period.isdigit() or not int(period):
            return None
        return int(quota) / int(period)

    def contains(self, path: PurePosixPath | None) -> bool:
        """Return whether a process in the cgroup `path` is under this limit as well."""
        return path is not None and ".." not in path.parts and path.is_relative_to(self.path)


@dataclass(frozen=True, slots=True)
class MemoryCgroup:
    """The memory cgroup of a container; `directory` holds its files."""

    version: int
    directory: Path

    def read_working_set(self) -> int | None:
        """Return its memory without inactive page cache, in bytes.

        None if it cannot be read. It is what the kubelet calls the working set.
        """
        usage, inactive = (
            ("memory.current", "inactive_file")
            if self.version == 2
            else ("memory.usage_in_bytes", "total_inactive_file")
        )
        size = _read_int(self.directory / usage)
        return max(0, size - _read_table(self.directory / "memory.stat").get(inactive, 0)) if size else None


_Mount = tuple[int, str, PurePosixPath, PurePosixPath]


class Cgroups:
    """Reads /proc and the cgroup mounts below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def find_levels(self, pid: int | str = "self") -> list[CgroupLevel]:
        """Return the cgroups that may limit a process and that its mounts show.

        The process's own cgroup comes first. In a pod, a container's mounts show its own cgroup alone. The
        cgroups of another process are read through /proc/PID/root, which needs the right to read its
        memory.
        """
        levels: list[CgroupLevel] = []
        mounts = self._read_mounts(pid)
        for version, controller, mount, top in mounts:
            path = self.find_path(pid, version)
            if path is None or controller == "cpuacct":
                continue
            below = path.relative_to(top) if path.is_relative_to(top) else PurePosixPath(".")
            for part in (below, *below.parents):
                folder = self._root_for(pid) / mount.relative_to("/") / part
                levels.append(
                    CgroupLevel(
                        version, top / part, folder, self._find_usage_file(pid, mounts, version, part)
                    )
                )
        return levels

    def find_memory(self, pid: int) -> MemoryCgroup | None:
        """Return the memory cgroup of a process's container.

        None if it cannot be read, or if this process is in the same one: it says nothing of a container.
        """
        for version, _, mount, top in self._read_mounts(pid, ("memory",)):
            path = self.find_path(pid, version, "memory")
            is_own = path == self.find_path("self", version, "memory")
            if path is None or is_own or path == PurePosixPath("/"):
                continue
            below = path.relative_to(top) if path.is_relative_to(top) else PurePosixPath(".")
            cgroup = MemoryCgroup(version, self._root_for(pid) / mount.relative_to("/") / below)
            if cgroup.read_working_set() is not None:
                return cgroup
        return None

    def identify_container(self, pid: int) -> tuple[str, ...]:
        """Return a key that the processes of one container share; empty if it is gone.

        Processes that share one controller of version 1 may differ in another.
        """
        kinds = ((2, ""), (1, "cpu"), (1, "memory"))
        return tuple(str(path) for kind in kinds if (path := self.find_path(pid, *kind)) is not None)

    def find_path(self, pid: int | str, version: int, controller: str = "cpu") -> PurePosixPath | None:
        """Return the cgroup of a process, or None if it is gone.

        Version 1 has one for each controller.
        """
        for line in _read_text(self._root / "proc" / str(pid) / "cgroup").split("\n"):
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if (number == "0" and not controllers) if version == 2 else controller in controllers.split(","):
                return PurePosixPath(path)
        return None

    def _root_for(self, pid: int | str) -> Path:
        return self._root if pid == "self" else self._root / "proc" / str(pid) / "root"

    def _find_usage_file(
        self, pid: int | str, mounts: Sequence[_Mount], version: int, part: PurePosixPath
    ) -> Path | None:
        for _, controller, mount, _ in mounts:
            if version == 1 and controller in ("cpuacct", "cpu,cpuacct"):
                return self._root_for(pid) / mount.relative_to("/") / part / "cpuacct.usage"
        return None

    def _read_mounts(self, pid: int | str, controllers: Sequence[str] = ("cpu", "cpuacct")) -> list[_Mount]:
        """Return version, controllers, mount point, and cgroup at the mount point.

        The fields are those of proc_pid_mountinfo(5).
        """
        mounts = []
        for line in _read_text(self._root / "proc" / str(pid) / "mountinfo").split("\n"):
            head, _, tail = line.partition(" - ")
            kind, _, options = tail.partition(" ")
            fields = head.split(" ")
            if len(fields) < 5 or kind not in ("cgroup", "cgroup2"):
                continue
            names = [name for name in controllers if name in options.split(" ")[-1].split(",")]
            if kind == "cgroup2" or names:
                version = 2 if kind == "cgroup2" else 1
                mounts.append((version, ",".join(names), PurePosixPath(fields[4]), PurePosixPath(fields[3])))
        return mounts


def _read_text(path: Path) -> str:
    try:
        return read_bounded(path, _MAX_BYTES).strip()
    except OSError as error:
        reraise_if_out_of_descriptors(error)
        return ""


def _read_int(path: Path | None) -> int:
    text = "" if path is None else _read_text(path)
    return int(text) if text.isdigit() else 0


def _read_table(path: Path) -> dict[str, int]:
    words = (line.split() for line in _read_text(path).split("\n"))
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}
