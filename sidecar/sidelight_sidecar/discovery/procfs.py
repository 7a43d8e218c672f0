"""Reads processes from /proc: the only module that does, besides what the guard signals.

A Python process is known by its executable's name or by a libpython mapped into it, never by its
arguments: uwsgi and other embedders carry Python under another name, and `vim x.py` does not. One
with the interpreter linked into it maps no libpython, but the extension modules of its version.
Where the executable may not be read (another user's process without SYS_PTRACE), the name the
kernel shows to everybody is taken instead, so that the process is found and the refusal reported.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sidelight_sidecar.discovery.processes import Proc, ProcessKey

_PYTHON_EXECUTABLE = re.compile(r"python(?P<version>[0-9]+(?:\.[0-9]+)?)?[a-z]*(?: \(deleted\))?")
_LIBPYTHON = re.compile(r"/libpython(?P<version>[0-9]\.[0-9]+)[a-z]*\.so")
_EXTENSION_MODULE = re.compile(r"/[\w.]+\.cpython-(?P<major>[0-9])(?P<minor>[0-9]+)[a-z]*-[\w-]+\.so")
UNKNOWN_VERSION = "unknown"
# Of each container the kubelet mounts a file for its last words: the mount's root names the container.
_CONTAINER_MOUNT = re.compile(
    r"^\S+ \S+ \S+ \S*/pods/[^/ ]+/containers/([^/ ]+)/[0-9a-f]+(?://deleted)? ", re.MULTILINE
)
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_RECHECK_SCANS = 32
_REREAD_SCANS = 8
_ACTIVE_STATES = frozenset("RSDI")
"""States between which processes change all the time; no look at all of them tells one from the other."""
# From fork to exec takes a millisecond, some more where the parent is large.
_STARTING_NS = 100_000_000
_PF_KTHREAD = 0x00200000


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """What /proc/PID/stat says that matters here; times in nanoseconds."""

    name: str
    state: str
    ppid: int
    cpu_ns: int
    threads: int
    start_ticks: int
    is_kernel_thread: bool = False
    stack_start: int = 0
    rss_bytes: int = 0


def parse_stat(text: str) -> ProcessStat:
    """Read one stat line; the name in parentheses may hold spaces and parentheses of its own."""
    _, _, rest = text.partition("(")
    name, _, tail = rest.rpartition(") ")
    fields = tail.split()
    # Fields of proc(5) from 3 on: state 3, ppid 4, flags 9, utime 14, stime 15, threads 20, starttime 22,
    # rss 24 (pages), startstack 28 (0 for those who may not trace the process).
    cpu = int(fields[11]) + int(fields[12])
    kernel_thread = bool(int(fields[6]) & _PF_KTHREAD)
    return ProcessStat(
        name,
        fields[0],
        int(fields[1]),
        cpu * _TICK_NS,
        int(fields[17]),
        int(fields[19]),
        kernel_thread,
        int(fields[25]) if len(fields) > 25 else 0,
        int(fields[21]) * _PAGE_BYTES if len(fields) > 21 else 0,
    )


def find_libpython_version(maps: str) -> str | None:
    """The version of the Python that a /proc/PID/maps shows, or None."""
    if found := _LIBPYTHON.search(maps):
        return found["version"]
    found = _EXTENSION_MODULE.search(maps)
    return f"{found['major']}.{found['minor']}" if found else None


def parse_container_name(mountinfo: str) -> str:
    """The name of the pod's container whose /proc/PID/mountinfo this is; empty outside Kubernetes."""
    found = _CONTAINER_MOUNT.search(mountinfo)
    return found[1] if found else ""


def parse_interpreter_version(executable: str) -> str | None:
    """The version that an executable's name tells, UNKNOWN for a Python without one, None for no Python."""
    found = _PYTHON_EXECUTABLE.fullmatch(executable.rpartition("/")[2])
    return (found["version"] or UNKNOWN_VERSION) if found else None


@dataclass(slots=True)
class _PythonDetection:
    executable: str
    python_version: str | None
    recheck_scans: int = 1
    next_check: int = 0


class ProcessUsage(NamedTuple):
    """CPU time so far, and bytes of memory now."""

    cpu_ns: int
    rss_bytes: int


@dataclass(slots=True)
class _CachedProcess:
    """A process as it was read, and the look at which it is read anew."""

    proc: Proc
    is_kernel_thread: bool
    name: str
    reread_at: int


class ProcFs:
    """/proc, with what was found out about each process remembered while it lives.

    A process that is Python stays so until it runs another executable. One that is not may still
    load libpython later, so it is looked at again, after longer and longer rests.
    """

    def __init__(
        self,
        root: Path = Path("/proc"),
        now_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        *,
        read_containers: bool = False,
    ) -> None:
        self._root = root
        self._now_ns = now_ns
        self._reads_containers = read_containers
        self._detections: dict[ProcessKey, _PythonDetection] = {}
        self._containers: dict[ProcessKey, str] = {}
        self._scan = 0
        self._cache: dict[int, _CachedProcess] = {}
        self.usage: dict[ProcessKey, ProcessUsage] = {}
        """What Python processes had taken at the last look."""

    def list_processes(self) -> list[Proc]:
        """Every process now; those that end while being read are left out.

        What cannot have changed unseen is not read again: a process is the same object as long as it is
        known to be as it was.
        """
        self._scan += 1
        previous, self._cache = self._cache, {}
        usage: dict[ProcessKey, ProcessUsage] = {}
        has_new = False
        for pid in self._list_pids():
            cached = previous.get(pid)
            proc = None if cached is None else self._reuse_cached(cached, usage)
            if cached is None or proc is None:
                stat = self.read_stat(pid)
                proc = None if stat is None else self._build_process(pid, stat)
                has_new = True
                if stat is None or proc is None:
                    continue
                cached = _CachedProcess(
                    proc,
                    stat.is_kernel_thread,
                    stat.name,
                    self._scan + _REREAD_SCANS - (self._scan + pid) % _REREAD_SCANS,
                )
                if proc.python_version is not None:
                    usage[proc.key] = ProcessUsage(stat.cpu_ns, stat.rss_bytes)
            self._cache[pid] = cached
        self.usage = usage
        if not has_new and len(previous) == len(self._cache):
            return [known.proc for known in self._cache.values()]
        alive = {known.proc.key for known in self._cache.values()}
        self._detections = {key: verdict for key, verdict in self._detections.items() if key in alive}
        self._containers = {key: name for key, name in self._containers.items() if key in alive}
        return [known.proc for known in self._cache.values()]

    def read_process(self, pid: int) -> Proc | None:
        """One process, or None when there is none of this pid."""
        stat = self.read_stat(pid)
        return None if stat is None else self._build_process(pid, stat)

    def read_stat(self, pid: int) -> ProcessStat | None:
        """The stat of a process, or None when it is gone."""
        try:
            return parse_stat(_read_file(f"{self._root}/{pid}/stat"))
        except (OSError, IndexError, ValueError):
            return None

    def read_thread_states(self, pid: int) -> list[tuple[str, int]]:
        """State letter and tracer's pid of each thread; empty when the process is gone."""
        states = []
        try:
            with os.scandir(f"{self._root}/{pid}/task") as entries:
                threads = [entry.path for entry in entries]
        except OSError:
            return []
        for thread in threads:
            try:
                fields = _parse_status(_read_file(f"{thread}/status"))
                states.append((fields["State"][:1], int(fields["TracerPid"])))
            except (OSError, KeyError, ValueError):
                continue  # the thread ended between being listed and being read
        return states

    def read_uid(self, pid: int) -> int | None:
        """The effective user of a process."""
        try:
            return (self._root / str(pid)).stat().st_uid
        except OSError:
            return None

    def _list_pids(self) -> list[int]:
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]  # noqa: PTH208 - a third of iterdir

    def _reuse_cached(self, cached: _CachedProcess, usage: dict[ProcessKey, ProcessUsage]) -> Proc | None:
        """A process as it was at the last look, or None where it has to be read anew.

        exec is what changes a process: it gives another executable, and always another stack. All else
        that may change (a title, another parent) is read anew every few looks, and so is a process of
        which the stack may not be seen, or one that is young.
        """
        proc = cached.proc
        if (
            self._scan >= cached.reread_at
            or proc.is_starting
            or (proc.python_version is not None and not proc.stack_start)
        ):
            return None
        if cached.is_kernel_thread:
            return proc
        if proc.python_version is None:
            verdict = self._detections.get(proc.key)
            rests = verdict is not None and self._scan < verdict.next_check
            return proc if rests and _read_link(f"{self._root}/{proc.pid}/exe") == proc.executable else None
        stat = self.read_stat(proc.pid)
        if stat is None or (stat.start_ticks, stat.stack_start, stat.name) != (
            proc.key.start_ticks,
            proc.stack_start,
            cached.name,
        ):
            return None
        usage[proc.key] = ProcessUsage(stat.cpu_ns, stat.rss_bytes)
        moves = stat.state != proc.state and not {stat.state, proc.state} <= _ACTIVE_STATES
        if moves or stat.ppid != proc.ppid:
            cached.proc = replace(proc, state=stat.state, ppid=stat.ppid)
        return cached.proc

    def _build_process(self, pid: int, stat: ProcessStat) -> Proc | None:
        key, folder = ProcessKey(pid, stat.start_ticks), self._root / str(pid)
        if stat.is_kernel_thread or stat.state in "ZX":
            return Proc(key, stat.ppid, stat.state)
        executable = _read_link(f"{self._root}/{pid}/exe")
        try:
            python = self._detect_python(key, folder, executable)
            if executable is not None and python is None:
                # Nothing more is asked about it, so nothing more is read: this is most processes.
                return Proc(key, stat.ppid, stat.state, executable=executable)
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            status = _parse_status((folder / "status").read_text(errors="replace"))
        except OSError:
            return None
        if executable is None:
            python = parse_interpreter_version(words[0] or stat.name)
        nested = len(status.get("NSpid", "").split()) > 1
        fresh = 0 <= self._now_ns() - stat.start_ticks * _TICK_NS < _STARTING_NS
        return Proc(
            key,
            stat.ppid,
            stat.state,
            tuple(words[:-1]),
            executable or "",
            python,
            nested,
            stat.stack_start,
            fresh,
            self._find_container(key, folder) if self._reads_containers else "",
        )

    def _find_container(self, key: ProcessKey, folder: Path) -> str:
        name = self._containers.get(key)
        if name is None:
            try:
                name = parse_container_name((folder / "mountinfo").read_text(errors="replace"))
            except OSError:
                return ""
            self._containers[key] = name
        return name

    def _detect_python(self, key: ProcessKey, folder: Path, executable: str | None) -> str | None:
        if executable is None:
            return None
        verdict = self._detections.get(key)
        if verdict is not None and verdict.executable == executable:
            if verdict.python_version is not None or self._scan < verdict.next_check:
                return verdict.python_version
            recheck_scans = min(verdict.recheck_scans * 2, _MAX_RECHECK_SCANS)
        else:
            recheck_scans = 1
        python = self._find_mapped_python(folder) or parse_interpreter_version(executable)
        self._detections[key] = _PythonDetection(
            executable, python, recheck_scans, self._scan + recheck_scans
        )
        return python

    def _find_mapped_python(self, folder: Path) -> str | None:
        try:
            return find_libpython_version((folder / "maps").read_text(errors="replace"))
        except OSError:
            return None


def _read_file(path: str) -> str:
    # Every process is read at every look: this is a third of what Path.read_text costs.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - half of what Path.readlink costs, at every look
    except OSError:
        return None


def _parse_status(status: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in status.split("\n"))}
