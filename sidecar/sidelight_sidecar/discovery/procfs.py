"""Reads processes from /proc, as the only module besides the guard.

A Python process is recognized by its executable's name or by a libpython mapped into it, never by its
arguments: uwsgi and other embedders run Python under another name, and `vim x.py` does not run Python. A
process with the interpreter linked into its executable maps no libpython, but maps extension modules of its
version. A parent that runs the same executable may have imported none yet, as the master of uWSGI with
`lazy-apps`: it counts as Python once a child of it does. If the executable may not be read (another user's
process without SYS_PTRACE), the name that the kernel shows to everybody decides, so that the process is
found and the refusal reported.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from sidelight_sidecar.descriptors import reraise_if_out_of_descriptors
from sidelight_sidecar.discovery.bounded_file import read_bounded, read_lines
from sidelight_sidecar.discovery.pod_cgroup import PodContainer, parse_pod_container
from sidelight_sidecar.discovery.processes import Proc, ProcessKey

_PYTHON_EXECUTABLE = re.compile(r"(?:python|pypy)(?P<version>[0-9]+(?:\.[0-9]+)?)?[a-z]*(?: \(deleted\))?")
_LIBPYTHON = re.compile(r"/libpython(?P<version>[0-9]\.[0-9]+)[a-z]*\.so")
_EXTENSION_MODULE = re.compile(r"/[\w.]+\.cpython-(?P<major>[0-9])(?P<minor>[0-9]+)[a-z]*-[\w-]+\.so")
UNKNOWN_VERSION = "unknown"
# The kubelet mounts a termination message file into each container; the mount's root names the container.
_CONTAINER_MOUNT = re.compile(
    r"^\S+ \S+ \S+ \S*/pods/[^/ ]+/containers/([^/ ]+)/[0-9a-f]+(?://deleted)? ", re.MULTILINE
)
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_RECHECK_SCANS = 32
_MAX_COMMAND_LINE_BYTES = 64 << 10
"""A command line may have megabytes, and the words of each one are kept."""
_MAX_MAPS_BYTES = 64 << 20
_MAX_BYTES = 4 << 20
_REREAD_SCANS = 8
_ACTIVE_STATES = frozenset("RSDI")
"""States between which processes change all the time; a change among them does not count as one."""
# fork to exec takes a millisecond, and more if the parent is large.
_STARTING_NS = 100_000_000
_PF_KTHREAD = 0x00200000


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The used fields of /proc/PID/stat; times in nanoseconds.

    `living_tid` is 0, or a living thread of a process whose main thread has ended (pthread_exit). The files
    of an ended thread show no memory and no program, so that thread's are read.
    """

    name: str
    state: str
    ppid: int
    cpu_ns: int
    threads: int
    start_ticks: int
    is_kernel_thread: bool = False
    stack_start: int = 0
    rss_bytes: int = 0
    living_tid: int = 0


def parse_stat(text: str) -> ProcessStat:
    """Parse a stat line; the name may contain spaces and parentheses."""
    _, _, rest = text.partition("(")
    name, _, tail = rest.rpartition(") ")
    fields = tail.split()
    # Fields of proc(5) from 3 on: state 3, ppid 4, flags 9, utime 14, stime 15, threads 20, starttime 22,
    # rss 24 (pages), startstack 28 (0 for a reader that may not trace the process).
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
    """Return the Python version that /proc/PID/maps shows, or None."""
    if match := _LIBPYTHON.search(maps):
        return match["version"]
    match = _EXTENSION_MODULE.search(maps)
    return f"{match['major']}.{match['minor']}" if match else None


def parse_container_name(mountinfo: str) -> str:
    """Return the name of the pod's container from a process's /proc/PID/mountinfo.

    It is empty outside Kubernetes.
    """
    match = _CONTAINER_MOUNT.search(mountinfo)
    return match[1] if match else ""


def parse_interpreter_version(executable: str) -> str | None:
    """Return the version in an executable's name, or None if it is not Python.

    It is UNKNOWN_VERSION for a Python whose name has no version.
    """
    match = _PYTHON_EXECUTABLE.fullmatch(executable.rpartition("/")[2])
    return (match["version"] or UNKNOWN_VERSION) if match else None


@dataclass(slots=True)
class _PythonDetection:
    executable: str
    python_version: str | None
    recheck_scans: int = 1
    next_check: int = 0


class ProcessUsage(NamedTuple):
    """Total CPU time and current memory."""

    cpu_ns: int
    rss_bytes: int


@dataclass(slots=True)
class _CachedProcess:
    """A process as it was read, and the scan that must read it anew.

    Until then, one that is never sampled is not read at all: a kernel thread, or one outside pods.
    """

    proc: Proc
    is_never_sampled: bool
    name: str
    reread_at: int


class ProcFs:
    """/proc, with a cache of the findings about each process while it lives.

    A Python process remains one until it runs another executable. Any other process may still load
    libpython later, so it is checked again after longer and longer intervals. With `read_pods`, only
    processes of pods are read, with the pod of each.
    """

    def __init__(
        self,
        root: Path = Path("/proc"),
        now_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        *,
        read_containers: bool = False,
        read_pods: bool = False,
    ) -> None:
        self._root = root
        self._now_ns = now_ns
        self._reads_containers = read_containers
        self._reads_pods = read_pods
        self._detections: dict[ProcessKey, _PythonDetection] = {}
        self._containers: dict[ProcessKey, str] = {}
        self._pods: dict[ProcessKey, PodContainer] = {}
        self._scan = 0
        self._cache: dict[int, _CachedProcess] = {}
        self.usage: dict[ProcessKey, ProcessUsage] = {}
        """Usage of Python processes at the last scan."""

    def list_processes(self) -> list[Proc]:
        """Return all current processes, without those that end while they are read.

        A process that cannot have changed is not read again: the same object is returned as in the last
        scan. Raises OSError if /proc cannot be listed, or no file can be opened: then nothing is known.
        """
        self._scan += 1
        previous, self._cache = self._cache, {}
        try:
            return self._list_processes(previous)
        except OSError:
            self._cache = previous
            raise

    def _list_processes(self, previous: dict[int, _CachedProcess]) -> list[Proc]:
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
                    stat.is_kernel_thread or (self._reads_pods and proc.pod is None),
                    stat.name,
                    self._scan + _REREAD_SCANS - (self._scan + pid) % _REREAD_SCANS,
                )
                if proc.python_version is not None:
                    usage[proc.key] = ProcessUsage(stat.cpu_ns, stat.rss_bytes)
            self._cache[pid] = cached
        self.usage = usage
        self._detect_parents()
        if not has_new and len(previous) == len(self._cache):
            return [cached.proc for cached in self._cache.values()]
        alive = {cached.proc.key for cached in self._cache.values()}
        self._detections = {key: detection for key, detection in self._detections.items() if key in alive}
        self._containers = {key: name for key, name in self._containers.items() if key in alive}
        self._pods = {key: pod for key, pod in self._pods.items() if key in alive}
        return [cached.proc for cached in self._cache.values()]

    def read_process(self, pid: int) -> Proc | None:
        """Return the process with this pid, or None if there is none.

        Raises OSError if no file can be opened.
        """
        stat = self.read_stat(pid)
        return None if stat is None else self._build_process(pid, stat)

    def read_stat(self, pid: int) -> ProcessStat | None:
        """Return the stat of a process, or None if it is gone.

        If its main thread has ended before others, state, stack and memory are those of a living thread.
        Raises OSError if no file can be opened.
        """
        stat = self._read_stat(f"{self._root}/{pid}")
        if stat is None or stat.state not in "ZX" or stat.threads <= 1:
            return stat
        for tid in self._list_threads(pid):
            living = self._read_stat(f"{self._root}/{pid}/task/{tid}")
            if living is not None and living.state not in "ZX":
                return replace(
                    stat,
                    state=living.state,
                    stack_start=living.stack_start,
                    rss_bytes=living.rss_bytes,
                    living_tid=tid,
                )
        return stat

    def _read_stat(self, folder: str) -> ProcessStat | None:
        try:
            return parse_stat(_read_file(f"{folder}/stat"))
        except OSError as error:
            reraise_if_out_of_descriptors(error)
            return None
        except (IndexError, ValueError):
            return None

    def _list_threads(self, pid: int) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(f"{self._root}/{pid}/task"))  # noqa: PTH208 - as below
        except OSError as error:
            reraise_if_out_of_descriptors(error)
            return []

    def read_thread_states(self, pid: int) -> list[tuple[str, int]]:
        """Return state letter and tracer's pid of each thread.

        The list is empty if the process is gone. Raises OSError if no file can be opened.
        """
        states = []
        for tid in self._list_threads(pid):
            try:
                fields = _parse_status(_read_file(f"{self._root}/{pid}/task/{tid}/status"))
                states.append((fields["State"][:1], int(fields["TracerPid"])))
            except OSError as error:
                reraise_if_out_of_descriptors(error)
            except (KeyError, ValueError):
                continue  # the thread ended between being listed and being read
        return states

    def read_uid(self, pid: int) -> int | None:
        """Return the effective user id of a process, or None if it is gone."""
        try:
            return (self._root / str(pid)).stat().st_uid
        except OSError:
            return None

    def _list_pids(self) -> list[int]:
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]  # noqa: PTH208 - a third of iterdir

    def _reuse_cached(self, cached: _CachedProcess, usage: dict[ProcessKey, ProcessUsage]) -> Proc | None:
        """Return a process from the cache, or None if it has to be read anew.

        exec is what changes a process: it gives another executable, and always another stack. All else that
        may change (a title, another parent) is read anew every few scans. A process whose stack address is
        hidden, or that has just started, is always read anew.
        """
        proc = cached.proc
        if (
            self._scan >= cached.reread_at
            or proc.is_starting
            or (proc.python_version is not None and not proc.stack_start)
        ):
            return None
        if cached.is_never_sampled:
            return proc
        if proc.python_version is None:
            detection = self._detections.get(proc.key)
            is_current = (
                detection is not None
                and detection.python_version is None
                and self._scan < detection.next_check
            )
            has_same_executable = is_current and _read_link(f"{self._root}/{proc.pid}/exe") == proc.executable
            return proc if has_same_executable else None
        stat = self.read_stat(proc.pid)
        if stat is None or (stat.start_ticks, stat.stack_start, stat.name) != (
            proc.key.start_ticks,
            proc.stack_start,
            cached.name,
        ):
            return None
        usage[proc.key] = ProcessUsage(stat.cpu_ns, stat.rss_bytes)
        has_new_state = stat.state != proc.state and not {stat.state, proc.state} <= _ACTIVE_STATES
        if has_new_state or stat.ppid != proc.ppid:
            cached.proc = replace(proc, state=stat.state, ppid=stat.ppid)
        return cached.proc

    def _build_process(self, pid: int, stat: ProcessStat) -> Proc | None:
        key, folder = ProcessKey(pid, stat.start_ticks), self._root / str(pid)
        if stat.living_tid:
            folder = folder / "task" / str(stat.living_tid)
        if stat.is_kernel_thread or stat.state in "ZX":
            return Proc(key, stat.ppid, stat.state)
        is_starting = 0 <= self._now_ns() - stat.start_ticks * _TICK_NS < _STARTING_NS
        pod = self._find_pod(key, folder) if self._reads_pods else None
        if self._reads_pods and pod is None:
            return Proc(key, stat.ppid, stat.state, is_starting=is_starting)
        executable = _read_link(f"{folder}/exe")
        try:
            python = self._detect_python(key, folder, executable)
            if executable is not None and python is None:
                # Most processes are not Python, and nobody uses more about them.
                return Proc(key, stat.ppid, stat.state, executable=executable, pod=pod)
            words = read_bounded(folder / "cmdline", _MAX_COMMAND_LINE_BYTES).split("\0")
            status = _parse_status(read_bounded(folder / "status", _MAX_BYTES))
        except OSError as error:
            reraise_if_out_of_descriptors(error)
            return None
        if executable is None:
            python = parse_interpreter_version(words[0] or stat.name)
        nested = len(status.get("NSpid", "").split()) > 1
        return Proc(
            key,
            stat.ppid,
            stat.state,
            tuple(words[:-1]),
            executable or "",
            python,
            nested,
            stat.stack_start,
            is_starting,
            self._find_container(key, folder) if self._reads_containers else "",
            pod,
        )

    def _find_container(self, key: ProcessKey, folder: Path) -> str:
        name = self._containers.get(key)
        if name is None:
            try:
                name = parse_container_name(read_bounded(folder / "mountinfo", _MAX_BYTES))
            except OSError as error:
                reraise_if_out_of_descriptors(error)
                return ""
            self._containers[key] = name
        return name

    def _find_pod(self, key: ProcessKey, folder: Path) -> PodContainer | None:
        pod = self._pods.get(key)
        if pod is None:
            # A container's first process joins its cgroup shortly before it runs the program.
            try:
                pod = parse_pod_container(read_bounded(folder / "cgroup", _MAX_BYTES))
            except OSError as error:
                reraise_if_out_of_descriptors(error)
                return None
            if pod is not None:
                self._pods[key] = pod
        return pod

    def _detect_python(self, key: ProcessKey, folder: Path, executable: str | None) -> str | None:
        if executable is None:
            return None
        detection = self._detections.get(key)
        if detection is not None and detection.executable == executable:
            if detection.python_version is not None or self._scan < detection.next_check:
                return detection.python_version
            recheck_scans = min(detection.recheck_scans * 2, _MAX_RECHECK_SCANS)
        else:
            recheck_scans = 1
        python = self._find_mapped_python(folder) or parse_interpreter_version(executable)
        self._detections[key] = _PythonDetection(
            executable, python, recheck_scans, self._scan + recheck_scans
        )
        return python

    def _detect_parents(self) -> None:
        """Detect Python in parents whose children of the same executable run it.

        They count as Python from the next scan on.
        """
        for child in [cached.proc for cached in self._cache.values() if cached.proc.python_version]:
            parent = self._cache.get(child.ppid)
            if parent is None or parent.proc.python_version or parent.proc.executable != child.executable:
                continue
            if detection := self._detections.get(parent.proc.key):
                detection.python_version = child.python_version

    def _find_mapped_python(self, folder: Path) -> str | None:
        by_extension_module = None
        try:
            for lines in read_lines(folder / "maps", _MAX_MAPS_BYTES):
                if match := _LIBPYTHON.search(lines):
                    return match["version"]
                by_extension_module = by_extension_module or find_libpython_version(lines)
        except OSError as error:
            reraise_if_out_of_descriptors(error)
            return None
        return by_extension_module


def _read_file(path: str) -> str:
    # Every scan reads every process, and this costs a third of Path.read_text.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 4096).decode(errors="replace")
    finally:
        os.close(descriptor)


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - half of what Path.readlink costs, in every scan
    except OSError:
        return None


def _parse_status(status: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in status.split("\n"))}
