"""The CPU limit this sidecar runs under, and how near it is.

A cgroup that has used up its allowance is frozen until the next period, up to a tenth of a second,
and with it a sampler in the middle of a stop: the thread it holds stands still as long (with a limit
of 2 % of a core a target lost half its time). So a sidecar under a limit keeps well below it, and
stops nobody while the limit is near: `judged` decides that from two readings of the counters.

Version 2 has `cpu.max` and `cpu.stat`, version 1 `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.stat`
and, in another hierarchy, `cpuacct.usage`. A limit of any cgroup from the sidecar's own up to what
its mount shows counts, but for processes that are under the same limit: they freeze together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

SHARE_OF_LIMIT = 0.25
"""What sampling may use of the limit; the rest is for sending windows and looking at processes."""
_NEAR = 0.7
_NEAR_SECONDS = 10.0
_FIRST_HOLD = 10.0
_LONGEST_HOLD = 320.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A cgroup's limit in cores (None: no limit) and its counters, times in seconds; 0 where unknown."""

    limit: float | None
    used: float = 0.0
    throttles: int = 0
    throttled: float = 0.0
    periods: int = 0


@dataclass(frozen=True, slots=True)
class Pressure:
    """How near a limit is: near until `until`; `hold` is how long the last throttling counted."""

    reading: Reading | None = None
    at: float = -math.inf
    until: float = -math.inf
    hold: float = _FIRST_HOLD

    def near(self, now: float) -> bool:
        return now < self.until


def judged(before: Pressure, reading: Reading, now: float) -> Pressure:
    """The pressure at `now`: throttling counts for ten seconds, twice as long if it comes again soon."""
    after = replace(before, reading=reading, at=now)
    if reading.limit is None:
        return replace(after, until=-math.inf)
    if before.reading is None or now <= before.at:
        return after
    if reading.throttles > before.reading.throttles or reading.throttled > before.reading.throttled:
        # Period after period may be throttled: that is one time, as long as it lasts.
        hold = before.hold
        if not before.near(now):
            again = now - before.until < _LONGEST_HOLD
            hold = min(_LONGEST_HOLD, 2 * before.hold) if again else _FIRST_HOLD
        return replace(after, until=max(before.until, now + hold), hold=hold)
    share = (reading.used - before.reading.used) / (now - before.at) / reading.limit
    if share > _NEAR:
        return replace(after, until=max(before.until, now + _NEAR_SECONDS))
    return after


@dataclass(frozen=True, slots=True)
class Level:
    """One cgroup: its path, its folder with the CPU controller's files, and the one with its usage."""

    version: int
    path: PurePosixPath
    folder: Path
    usage: Path | None = None

    def read(self) -> Reading:
        """Its limit and counters now; without a limit where the files say none or are not there."""
        limit = self._limit()
        if limit is None:
            return Reading(None)
        stat = _table(self.folder / "cpu.stat")
        if self.version == 2:
            used, throttled = stat.get("usage_usec", 0) / 1e6, stat.get("throttled_usec", 0) / 1e6
        else:
            used, throttled = _whole(self.usage) / 1e9, stat.get("throttled_time", 0) / 1e9
        return Reading(limit, used, stat.get("nr_throttled", 0), throttled, stat.get("nr_periods", 0))

    def _limit(self) -> float | None:
        if self.version == 2:
            quota, _, period = _text(self.folder / "cpu.max").partition(" ")
        else:
            quota, period = _text(self.folder / "cpu.cfs_quota_us"), _text(self.folder / "cpu.cfs_period_us")
        if not quota.isdigit() or not period.isdigit() or not int(period):
            return None
        return int(quota) / int(period)

    def holds(self, path: PurePosixPath | None) -> bool:
        """Whether a process in the cgroup `path` is under this limit as well."""
        return path is not None and ".." not in path.parts and path.is_relative_to(self.path)


_Mount = tuple[int, str, PurePosixPath, PurePosixPath]


class Cgroups:
    """Reads /proc and the cgroup mounts below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def levels(self, pid: int | str = "self") -> list[Level]:
        """The cgroups that may limit a process, its own first, as far as its own mounts show them.

        In a pod a container's mounts show its own cgroup alone. Another process's are read through
        /proc/PID/root, which takes the right to read its memory.
        """
        found: list[Level] = []
        mounts = self._mounts(pid)
        for version, controller, mount, top in mounts:
            path = self.path(pid, version)
            if path is None or controller == "cpuacct":
                continue
            below = path.relative_to(top) if path.is_relative_to(top) else PurePosixPath(".")
            for part in (below, *below.parents):
                folder = self._seen_by(pid) / mount.relative_to("/") / part
                found.append(Level(version, top / part, folder, self._usage(pid, mounts, version, part)))
        return found

    def container(self, pid: int) -> tuple[str, ...]:
        """What tells the processes of one container from those of another; empty for one that is gone."""
        return tuple(str(path) for version in (2, 1) if (path := self.path(pid, version)) is not None)

    def path(self, pid: int | str, version: int) -> PurePosixPath | None:
        """The cgroup of a process; None when it is gone."""
        for line in _text(self._root / "proc" / str(pid) / "cgroup").split("\n"):
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if (number == "0" and not controllers) if version == 2 else "cpu" in controllers.split(","):
                return PurePosixPath(path)
        return None

    def _seen_by(self, pid: int | str) -> Path:
        return self._root if pid == "self" else self._root / "proc" / str(pid) / "root"

    def _usage(
        self, pid: int | str, mounts: Sequence[_Mount], version: int, part: PurePosixPath
    ) -> Path | None:
        for _, controller, mount, _ in mounts:
            if version == 1 and controller in ("cpuacct", "cpu,cpuacct"):
                return self._seen_by(pid) / mount.relative_to("/") / part / "cpuacct.usage"
        return None

    def _mounts(self, pid: int | str) -> list[_Mount]:
        """(version, controllers, mount point, cgroup at the mount point); fields of proc_pid_mountinfo(5)."""
        found = []
        for line in _text(self._root / "proc" / str(pid) / "mountinfo").split("\n"):
            before, _, after = line.partition(" - ")
            kind, _, options = after.partition(" ")
            fields = before.split(" ")
            if len(fields) < 5 or kind not in ("cgroup", "cgroup2"):
                continue
            names = [name for name in ("cpu", "cpuacct") if name in options.split(" ")[-1].split(",")]
            if kind == "cgroup2" or names:
                version = 2 if kind == "cgroup2" else 1
                found.append((version, ",".join(names), PurePosixPath(fields[4]), PurePosixPath(fields[3])))
        return found


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _whole(path: Path | None) -> int:
    text = "" if path is None else _text(path)
    return int(text) if text.isdigit() else 0


def _table(path: Path) -> dict[str, int]:
    words = (line.split() for line in _text(path).split("\n"))
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}
