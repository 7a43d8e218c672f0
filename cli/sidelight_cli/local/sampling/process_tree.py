"""Find the descendants of a process, and describe processes."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight_model.terminal_width import truncate_to_width
from sidelight_sidecar.discovery.processes import Proc

_MAX_CELLS = 80
_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def find_descendants(procs: Iterable[Proc], roots: Iterable[int]) -> list[Proc]:
    """Return the live descendants of `roots` in order of pid, without `roots`."""
    children: dict[int, list[Proc]] = {}
    for proc in procs:
        if proc.is_alive:
            children.setdefault(proc.ppid, []).append(proc)
    descendants: dict[int, Proc] = {}
    todo = list(roots)
    visited = set(todo)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.pid not in visited:
                visited.add(child.pid)
                descendants[child.pid] = child
                todo.append(child.pid)
    return [descendants[pid] for pid in sorted(descendants)]


def describe_process(proc: Proc) -> str:
    """Describe a process by its program and, for Python, its script or module.

    Further arguments are omitted: they may hold passwords, and profiles are shared.
    """
    program, *words = proc.command_line or (proc.executable or "?",)
    program = program.rpartition("/")[2] or program
    if not program.startswith("python"):
        # A title that a process sets itself ("gunicorn: worker [shop]") is a single argument.
        return truncate_to_width(program, _MAX_CELLS)
    while words:
        word = words.pop(0)
        if word == "-m" and words:
            return truncate_to_width(f"{program} -m {words[0]}", _MAX_CELLS)
        if word in ("-c", "-"):
            return f"{program} {word}"
        if word in _OPTIONS_WITH_VALUE and words:
            words.pop(0)
        elif not word.startswith("-"):
            return truncate_to_width(f"{program} {word.rpartition('/')[2]}", _MAX_CELLS)
    return program
