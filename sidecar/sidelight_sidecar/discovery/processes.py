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
_SPAWNED = re.compile(r"from (multiprocessing|billiard)\.spawn import |\.popen_loky_posix\b")
_AID = re.compile(r"from [\w.]+\.(resource_tracker|semaphore_tracker|forkserver) import main\b")
_RUNS = re.compile(r"-[bBdEhiIOPqsSuvx]*[mc]")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class Key(NamedTuple):
    """One process and no other: a pid is used again, a pid with its start time is not."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Proc:
    """A process as /proc shows it.

    `state` is the letter of /proc/PID/stat; `python` is the interpreter found in it ("3.11", or
    "unknown" where only the name says so) or None; `nested` is true when it belongs to a PID
    namespace below the one that /proc shows; `stack` is where its main thread's stack begins, 0
    where that may not be read; `container` is the pod's container it runs in, where that was asked for and
    is known; `fresh` is true for the moment in which it may be a fork that is about to run something
    else.
    """

    key: Key
    ppid: int
    state: str = "S"
    command_line: tuple[str, ...] = ()
    executable: str = ""
    python: str | None = None
    nested: bool = False
    stack: int = 0
    fresh: bool = False
    container: str = ""

    @property
    def pid(self) -> int:
        return self.key.pid

    @property
    def alive(self) -> bool:
        return self.state not in "ZXx"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to watch: exactly one of pids, a pattern over the command line, or every Python process.

    With `container`, of those only what runs in this container of the pod.
    """

    pids: frozenset[int] = frozenset()
    pattern: re.Pattern[str] | None = None
    every: bool = False
    include_children: bool = True
    container: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """A chosen process and its role: "main", "master" or "worker"."""

    proc: Proc
    role: str


def watched(
    procs: Iterable[Proc], choice: Choice, *, own_pid: int, until_now: Mapping[Key, str] | None = None
) -> dict[Key, Watched]:
    """The Python processes to watch, by key; never `own_pid` nor anything it started.

    With children included, what was watched `until_now` (with its role) stays so while it lives: a
    worker whose master has ended (a daemon, an upgrade in place) descends from nobody known any more.
    """
    before = until_now or {}
    by_pid = {proc.pid: proc for proc in procs if proc.alive}
    own = _with_descendants({own_pid}, by_pid)
    pythons = {pid: proc for pid, proc in by_pid.items() if pid not in own and _sampleable(proc, choice)}
    family = _Family(pythons)
    chosen = {pid for pid, proc in pythons.items() if _is_root(proc, choice)}
    if choice.include_children and not choice.every:
        chosen |= {pid for pid, proc in pythons.items() if proc.key in before}
        # A pid may be that of a shell or supervisor: its Python descendants count, itself does not.
        chosen = _with_descendants(chosen | (choice.pids & by_pid.keys()), by_pid) & pythons.keys()
    wanted = {pid for pid in chosen if pid in choice.pids or not family.aids(pid)}
    return {
        pythons[pid].key: Watched(pythons[pid], family.role(pid, before.get(pythons[pid].key)))
        for pid in sorted(wanted)
    }


def alone(procs: Iterable[Proc], own_pid: int) -> bool:
    """Whether no process is to be seen but this one, what it started and what started it."""
    by_pid = {proc.pid: proc for proc in procs}
    own, above = _with_descendants({own_pid}, by_pid), by_pid.get(own_pid)
    while above is not None and (above := by_pid.get(above.ppid)) is not None and above.pid not in own:
        own.add(above.pid)
    return by_pid.keys() <= own


class _Family:
    """Python processes that share work with one another."""

    def __init__(self, pythons: Mapping[int, Proc]) -> None:
        self._pythons = pythons
        self._masters = {master for pid in pythons if (master := self._master_of(pid)) is not None}

    def aids(self, pid: int) -> bool:
        """Whether it only serves others' start: a resource tracker, or the forkserver itself.

        What the forkserver forks shows the same command line and is a worker.
        """
        proc = self._pythons[pid]
        return any(map(_AID.search, proc.command_line)) and not self._is_fork(proc)

    def role(self, pid: int, before: str | None) -> str:
        """What it is now, given what it was at the last look.

        A worker that forks is a worker still. A master between two workers, and a worker whose master
        is gone, stay what they were.
        """
        proc = self._pythons[pid]
        if pid in self._masters and not self._is_fork(proc):
            return "master"
        if self._master_of(pid) is not None:
            return "worker"
        return before or "main"

    def _master_of(self, pid: int) -> int | None:
        proc = self._pythons[pid]
        parent = self._pythons.get(proc.ppid)
        if parent is None or self.aids(pid):
            return None
        if self.aids(parent.pid):
            # The forkserver stands between a worker and the process it works for.
            return parent.ppid if parent.ppid in self._pythons and parent.ppid != pid else None
        if _forked(proc, parent) or any(map(_SPAWNED.search, proc.command_line)):
            return parent.pid
        script = _program(proc)
        return parent.pid if script and script == _program(parent) else None

    def _is_fork(self, proc: Proc) -> bool:
        parent = self._pythons.get(proc.ppid)
        return parent is not None and _forked(proc, parent)


def _forked(proc: Proc, parent: Proc) -> bool:
    return proc.stack != 0 and (proc.stack, proc.executable) == (parent.stack, parent.executable)


def _program(proc: Proc) -> tuple[str, ...]:
    """The script, module or code that a command line names, apart from its options and arguments."""
    words = iter(proc.command_line[1:])
    for word in words:
        if _RUNS.fullmatch(word):
            return (word, next(words, ""))
        if word in _WITH_VALUE:
            next(words, None)
        elif not word.startswith("-"):
            return (word,)
    return ()


def _sampleable(proc: Proc, choice: Choice) -> bool:
    # What was named by its pid and cannot be looked into is tried, so that the refusal is reported.
    hidden = bool(proc.command_line) and not proc.executable
    if proc.fresh and proc.pid not in choice.pids:
        return False
    if choice.container and proc.container != choice.container:
        return False
    return proc.python is not None or (hidden and proc.pid in choice.pids)


def _is_root(proc: Proc, choice: Choice) -> bool:
    if choice.every:
        return not proc.nested
    if choice.pattern is not None:
        return choice.pattern.search(" ".join(proc.command_line)) is not None
    return proc.pid in choice.pids


def _with_descendants(roots: set[int] | frozenset[int], by_pid: Mapping[int, Proc]) -> set[int]:
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
