"""Which processes run, as values, and which of them are to be watched.

The choice is a pure function over values that `procfs` reads, so that any process tree can be
written down in a test.

A role says what the process tree shows, not what a process does. One that started others to share
its work is their master, they are its workers, and one that did neither is main. "To share its
work" is read off three facts, none of them a name that setproctitle may overwrite: a fork has its
parent's executable and, address for address, its parent's stack (exec gives another one);
multiprocessing and its likes say in the command line what they spawn; and a program that runs
itself again names the same script or module. What else a process runs is a program of its own:
under supervisord, gunicorn is a master and supervisord is not gunicorn's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

# The words of multiprocessing, billiard (Celery) and loky (joblib): a worker begun by exec, an aid to all.
_SPAWNED_WORKER = re.compile(r"from (multiprocessing|billiard)\.spawn import |\.popen_loky_posix\b")
_SUPPORT_PROCESS = re.compile(r"from [\w.]+\.(resource_tracker|semaphore_tracker|forkserver) import main\b")
_CODE_OPTION = re.compile(r"-[bBdEhiIOPqsSuvx]*[mc]")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class ProcessKey(NamedTuple):
    """One process and no other: a pid is used again, a pid with its start time is not."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Proc:
    """A process as /proc shows it.

    `state` is the letter of /proc/PID/stat; `python_version` is the interpreter found in it ("3.11", or
    "unknown" where only the name says so) or None; `is_nested` is true when it belongs to a PID
    namespace below the one that /proc shows; `stack_start` is where its main thread's stack begins, 0
    where that may not be read; `container` is the pod's container it runs in, where that was asked for and
    is known; `is_starting` is true for the moment in which it may be a fork that is about to run something
    else.
    """

    key: ProcessKey
    ppid: int
    state: str = "S"
    command_line: tuple[str, ...] = ()
    executable: str = ""
    python_version: str | None = None
    is_nested: bool = False
    stack_start: int = 0
    is_starting: bool = False
    container: str = ""

    @property
    def pid(self) -> int:
        return self.key.pid

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZXx"


@dataclass(frozen=True, slots=True)
class ProcessFilter:
    """What to watch: exactly one of pids, a pattern over the command line, or every Python process.

    With `container`, of those only what runs in this container of the pod.
    """

    pids: frozenset[int] = frozenset()
    pattern: re.Pattern[str] | None = None
    match_all: bool = False
    include_children: bool = True
    container: str = ""


@dataclass(frozen=True, slots=True)
class SelectedProcess:
    """A chosen process and its role: "main", "master" or "worker"."""

    proc: Proc
    role: str


def select_processes(
    procs: Iterable[Proc],
    process_filter: ProcessFilter,
    *,
    own_pid: int,
    previous_roles: Mapping[ProcessKey, str] | None = None,
) -> dict[ProcessKey, SelectedProcess]:
    """The Python processes to watch, by key; never `own_pid` nor anything it started.

    With children included, what was watched `previous_roles` (with its role) stays so while it lives: a
    worker whose master has ended (a daemon, an upgrade in place) descends from nobody known any more.
    """
    roles_before = previous_roles or {}
    by_pid = {proc.pid: proc for proc in procs if proc.is_alive}
    own = _add_descendants({own_pid}, by_pid)
    pythons = {
        pid: proc for pid, proc in by_pid.items() if pid not in own and _is_sampleable(proc, process_filter)
    }
    worker_groups = _WorkerGroups(pythons)
    chosen = {pid for pid, proc in pythons.items() if _matches_filter(proc, process_filter)}
    if process_filter.include_children and not process_filter.match_all:
        chosen |= {pid for pid, proc in pythons.items() if proc.key in roles_before}
        # A pid may be that of a shell or supervisor: its Python descendants count, itself does not.
        chosen = _add_descendants(chosen | (process_filter.pids & by_pid.keys()), by_pid) & pythons.keys()
    selected = {
        pid for pid in chosen if pid in process_filter.pids or not worker_groups.is_support_process(pid)
    }
    return {
        pythons[pid].key: SelectedProcess(
            pythons[pid], worker_groups.find_role(pid, roles_before.get(pythons[pid].key))
        )
        for pid in sorted(selected)
    }


def sees_only_itself(procs: Iterable[Proc], own_pid: int) -> bool:
    """Whether no process is to be seen but this one, what it started and what started it."""
    by_pid = {proc.pid: proc for proc in procs}
    own, above = _add_descendants({own_pid}, by_pid), by_pid.get(own_pid)
    while above is not None and (above := by_pid.get(above.ppid)) is not None and above.pid not in own:
        own.add(above.pid)
    return by_pid.keys() <= own


class _WorkerGroups:
    """Python processes that share work with one another."""

    def __init__(self, pythons: Mapping[int, Proc]) -> None:
        self._pythons = pythons
        self._masters = {master for pid in pythons if (master := self._find_master(pid)) is not None}

    def is_support_process(self, pid: int) -> bool:
        """Whether it only serves others' start: a resource tracker, or the forkserver itself.

        What the forkserver forks shows the same command line and is a worker.
        """
        proc = self._pythons[pid]
        return any(map(_SUPPORT_PROCESS.search, proc.command_line)) and not self._is_fork(proc)

    def find_role(self, pid: int, previous_role: str | None) -> str:
        """What it is now, given what it was at the last look.

        A worker that forks is a worker still. A master between two workers, and a worker whose master
        is gone, stay what they were.
        """
        proc = self._pythons[pid]
        if pid in self._masters and not self._is_fork(proc):
            return "master"
        if self._find_master(pid) is not None:
            return "worker"
        return previous_role or "main"

    def _find_master(self, pid: int) -> int | None:
        proc = self._pythons[pid]
        parent = self._pythons.get(proc.ppid)
        if parent is None or self.is_support_process(pid):
            return None
        if self.is_support_process(parent.pid):
            # The forkserver stands between a worker and the process it works for.
            return parent.ppid if parent.ppid in self._pythons and parent.ppid != pid else None
        if _is_forked(proc, parent) or any(map(_SPAWNED_WORKER.search, proc.command_line)):
            return parent.pid
        script = _find_program(proc)
        return parent.pid if script and script == _find_program(parent) else None

    def _is_fork(self, proc: Proc) -> bool:
        parent = self._pythons.get(proc.ppid)
        return parent is not None and _is_forked(proc, parent)


def _is_forked(proc: Proc, parent: Proc) -> bool:
    return proc.stack_start != 0 and (proc.stack_start, proc.executable) == (
        parent.stack_start,
        parent.executable,
    )


def _find_program(proc: Proc) -> tuple[str, ...]:
    """The script, module or code that a command line names, apart from its options and arguments."""
    words = iter(proc.command_line[1:])
    for word in words:
        if _CODE_OPTION.fullmatch(word):
            return (word, next(words, ""))
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return (word,)
    return ()


def _is_sampleable(proc: Proc, process_filter: ProcessFilter) -> bool:
    # What was named by its pid and cannot be looked into is tried, so that the refusal is reported.
    hidden = bool(proc.command_line) and not proc.executable
    if proc.is_starting and proc.pid not in process_filter.pids:
        return False
    if process_filter.container and proc.container != process_filter.container:
        return False
    return proc.python_version is not None or (hidden and proc.pid in process_filter.pids)


def _matches_filter(proc: Proc, process_filter: ProcessFilter) -> bool:
    if process_filter.match_all:
        return not proc.is_nested
    if process_filter.pattern is not None:
        return process_filter.pattern.search(" ".join(proc.command_line)) is not None
    return proc.pid in process_filter.pids


def _add_descendants(roots: set[int] | frozenset[int], by_pid: Mapping[int, Proc]) -> set[int]:
    children: dict[int, list[int]] = {}
    for proc in by_pid.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    found, todo = set(roots), list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found
