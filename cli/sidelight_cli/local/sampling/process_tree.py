"""A process and those that descend from it, and what they are called in a file or on a screen."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight_model.terminal_width import truncate_to_width
from sidelight_sidecar.discovery.processes import Proc

_MAX_CELLS = 80
_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def find_descendants(procs: Iterable[Proc], roots: Iterable[int]) -> list[Proc]:
    """The living processes below `roots`, by pid; `roots` themselves are not among them."""
    children: dict[int, list[Proc]] = {}
    for proc in procs:
        if proc.is_alive:
            children.setdefault(proc.ppid, []).append(proc)
    found: dict[int, Proc] = {}
    todo = list(roots)
    seen = set(todo)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.pid not in seen:
                seen.add(child.pid)
                found[child.pid] = child
                todo.append(child.pid)
    return [found[pid] for pid in sorted(found)]


def describe_process(proc: Proc) -> str:
    """A short name for a process: its program and, for Python, the script or module it runs.

    The arguments after that are left out: a profile is shown around, and they hold passwords.
    """
    program, *words = proc.command_line or (proc.executable or "?",)
    program = program.rpartition("/")[2] or program
    if not program.startswith("python"):
        # A title that a process gave itself ("gunicorn: worker [shop]") is one word.
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
