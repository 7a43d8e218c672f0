"""Processes as values, and the selection of those to sample.

The selection is a pure function over values that `procfs` reads, so that a test can write down any process
tree.

A role says what the process tree shows, not what a process does. A process that started others to share its
work is a master, and the others are its workers; a process that did neither is main. Three facts show
shared work, and none of them is a name that setproctitle may overwrite. A fork has its parent's executable
and the same address of its stack (exec gives another one). multiprocessing and similar libraries name in
the command line what they spawn. A program that runs itself again names the same script or module. Any
other child is a program of its own: under supervisord, gunicorn is a master and is not supervisord's
worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sidelight_model.regular_expressions.pattern import Pattern
from sidelight_sidecar.discovery.pod_cgroup import PodContainer

# Command lines of multiprocessing, billiard (Celery) and loky (joblib): workers started by exec, and the
# processes that support them.
_SPAWNED_WORKER = re.compile(r"from (multiprocessing|billiard)\.spawn import |\.popen_loky_posix\b")
_SUPPORT_PROCESS = re.compile(r"from [\w.]+\.(resource_tracker|semaphore_tracker|forkserver) import main\b")
_CODE_OPTION = re.compile(r"-[bBdEhiIOPqsSuvx]*[mc]")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class ProcessKey(NamedTuple):
    """Identity of a process: a pid can be reused, a pid with its start time cannot."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Proc:
    """A process as /proc shows it.

    `state` is the letter of /proc/PID/stat. `python_version` is its interpreter's version ("3.11", or
    "unknown" if only the name shows that it is Python), or None. `is_nested` is true if it belongs to a PID
    namespace below the one that /proc shows. `stack_start` is where its main thread's stack begins, 0 if
    that may not be read. `container` is the name of the pod's container that it runs in, and `pod` its pod
    and container by their ids, if requested and known. `is_starting` is true for the short time in which it
    may be a fork that is about to exec something else.
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
    pod: PodContainer | None = None

    @property
    def pid(self) -> int:
        return self.key.pid

    @property
    def is_pypy(self) -> bool:
        return self.executable.rpartition("/")[2].startswith("pypy")

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZXx"


@dataclass(frozen=True, slots=True)
class ProcessFilter:
    """The processes to sample: by pid, by a command line pattern, or all Python ones.

    Exactly one of the three is set. `container` restricts the selection to that container of the pod.
    `match_all` takes processes of PID namespaces below only with `include_nested`.
    """

    pids: frozenset[int] = frozenset()
    pattern: Pattern | None = None
    match_all: bool = False
    include_children: bool = True
    container: str = ""
    include_nested: bool = False


@dataclass(frozen=True, slots=True)
class SelectedProcess:
    """A selected process and its role: "main", "master" or "worker"."""

    proc: Proc
    role: str


def select_processes(
    procs: Iterable[Proc],
    process_filter: ProcessFilter,
    *,
    own_pid: int,
    previous_roles: Mapping[ProcessKey, str] | None = None,
) -> dict[ProcessKey, SelectedProcess]:
    """Return the Python processes to sample, by key.

    `own_pid` and its descendants are never selected. With children included, a process in `previous_roles`
    (the last selection and its roles) stays selected while it lives: a worker whose master has ended (a
    daemon, an upgrade in place) has no selected ancestor any more.
    """
    last_roles = previous_roles or {}
    by_pid = {proc.pid: proc for proc in procs if proc.is_alive}
    own = _add_descendants({own_pid}, by_pid)
    pythons = {
        pid: proc for pid, proc in by_pid.items() if pid not in own and _is_sampleable(proc, process_filter)
    }
    worker_groups = _WorkerGroups(pythons)
    matching = {pid for pid, proc in pythons.items() if _matches_filter(proc, process_filter)}
    if process_filter.include_children and not process_filter.match_all:
        matching |= {pid for pid, proc in pythons.items() if proc.key in last_roles}
        # A pid may belong to a shell or supervisor: then only its Python descendants are selected.
        roots = matching | (process_filter.pids & by_pid.keys())
        matching = _add_descendants(roots, by_pid) & pythons.keys()
    selected = {
        pid for pid in matching if pid in process_filter.pids or not worker_groups.is_support_process(pid)
    }
    return {
        pythons[pid].key: SelectedProcess(
            pythons[pid], worker_groups.find_role(pid, last_roles.get(pythons[pid].key))
        )
        for pid in sorted(selected)
    }


def sees_only_itself(procs: Iterable[Proc], own_pid: int) -> bool:
    """Return whether only this process, its descendants and ancestors are visible."""
    by_pid = {proc.pid: proc for proc in procs}
    own, ancestor = _add_descendants({own_pid}, by_pid), by_pid.get(own_pid)
    while ancestor is not None:
        ancestor = by_pid.get(ancestor.ppid)
        if ancestor is None or ancestor.pid in own:
            break
        own.add(ancestor.pid)
    return by_pid.keys() <= own


class _WorkerGroups:
    """Groups of Python processes that share work with one another."""

    def __init__(self, pythons: Mapping[int, Proc]) -> None:
        self._pythons = pythons
        self._masters = {master for pid in pythons if (master := self._find_master(pid)) is not None}

    def is_support_process(self, pid: int) -> bool:
        """Return whether it only helps to start others: resource tracker or forkserver.

        A process that the forkserver forks shows the same command line, and is a worker.
        """
        proc = self._pythons[pid]
        return any(map(_SUPPORT_PROCESS.search, proc.command_line)) and not self._is_fork(proc)

    def find_role(self, pid: int, previous_role: str | None) -> str:
        """Return the role of a process, given its role in the last scan.

        A worker that forks stays a worker. A master keeps its role while it has no worker, and a worker
        keeps its role after its master has ended.
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
    """Return the script, module or code that a command line names, without arguments."""
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
    # A process that was selected by pid is tried even if it cannot be read, so that the refusal is reported.
    hidden = bool(proc.command_line) and not proc.executable
    if proc.is_starting and proc.pid not in process_filter.pids:
        return False
    if process_filter.container and proc.container != process_filter.container:
        return False
    return proc.python_version is not None or (hidden and proc.pid in process_filter.pids)


def _matches_filter(proc: Proc, process_filter: ProcessFilter) -> bool:
    if process_filter.match_all:
        return process_filter.include_nested or not proc.is_nested
    if process_filter.pattern is not None:
        return process_filter.pattern.search(" ".join(proc.command_line))
    return proc.pid in process_filter.pids


def _add_descendants(roots: set[int] | frozenset[int], by_pid: Mapping[int, Proc]) -> set[int]:
    children: dict[int, list[int]] = {}
    for proc in by_pid.values():
        children.setdefault(proc.ppid, []).append(proc.pid)
    reached, pending = set(roots), list(roots)
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in reached:
                reached.add(child)
                pending.append(child)
    return reached
