"""Find the descendants of a process."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight_sidecar.discovery.processes import Proc


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
