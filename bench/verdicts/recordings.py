"""Recordings of the windows of real services, small enough for git.

A recording has all samples of all windows: a call tree of functions (without lines), and for each window
and node the number of samples that ended there. An experiment can derive rates of functions, depths and
whole stacks from it, for any part of the pods and of the time.

`python -m bench.verdicts.record` makes a recording; `load` reads it. The recordings in git were made with
`--load 0.35`, on two cores without other work that were half idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from sidelight_model.counts import ZERO
from sidelight_model.folded import split_stack
from sidelight_model.frames import strip_line_number
from sidelight_model.window import Window

RECORDED: Final = Path(__file__).parent / "recorded"
SECOND_NS: Final = 10**9

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Kind = Literal["cpu", "wall"]


@dataclass(frozen=True)
class Recording:
    """One service: W windows, N nodes of the call tree, E pairs of window and node.

    Arrays of windows: `start` (seconds since the start of the recording), `duration` and `watched`
    (seconds; `watched` is the time covered by ticks with stacks), `pod` (an index into `pods`), `requests`
    (answered during the window), `clock` (CPU seconds by the process's own clock), and `period` (the
    seconds that a sample stands for).

    Arrays of nodes: `parent` (-1 without one; parents come first) and `function` (an index into
    `functions`).

    Arrays of pairs: `window`, `node`, `cpu` (samples on the CPU) and `idle`.
    """

    pods: tuple[str, ...]
    functions: tuple[str, ...]
    start: F64
    duration: F64
    watched: F64
    pod: I64
    requests: F64
    clock: F64
    period: F64
    parent: I64
    function: I64
    window: I64
    node: I64
    cpu: I64
    idle: I64

    def samples(self, kind: Kind = "cpu") -> F64:
        """Return the samples of each window (W)."""
        return np.bincount(self.window, self._counts(kind), len(self.start))

    def seconds(self, kind: Kind = "cpu") -> F64:
        """Return the seconds that the samples of each window stand for (W)."""
        return self.samples(kind) * self.period

    def self_samples(self, kind: Kind = "cpu") -> F64:
        """Return the samples with each function innermost (W, functions)."""
        return self._spread(self.window, self.function[self.node], self._counts(kind))

    def total_samples(self, kind: Kind = "cpu") -> F64:
        """Return the samples with each function anywhere in the stack (W, functions).

        A stack counts once.
        """
        first, functions = self._paths
        many = first[self.node + 1] - first[self.node]
        pair = np.repeat(np.arange(len(self.node)), many)
        within = np.arange(many.sum()) - np.repeat(many.cumsum() - many, many)
        function = functions[first[self.node[pair]] + within]
        return self._spread(self.window[pair], function, self._counts(kind)[pair])

    def depth_samples(self, kind: Kind = "cpu") -> F64:
        """Return the samples of each depth, from depth 0 on (W, depths)."""
        depth = self.depths[self.node]
        flat = np.bincount(
            self.window * (self.depths.max() + 1) + depth,
            self._counts(kind),
            len(self.start) * (self.depths.max() + 1),
        )
        return flat.reshape(len(self.start), -1)

    @cached_property
    def depths(self) -> I64:
        """Return the number of frames in the stack of each node (N)."""
        depth = np.ones(len(self.parent), np.int64)
        for node, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                depth[node] = depth[parent] + 1
        return depth

    @cached_property
    def _paths(self) -> tuple[I64, I64]:
        """Return the distinct functions on the path of each node.

        The first array has the start of each node's functions in the second array, which lists them node by
        node.
        """
        paths: list[frozenset[int]] = []
        for parent, function in zip(self.parent.tolist(), self.function.tolist(), strict=True):
            above = paths[parent] if parent >= 0 else frozenset()
            paths.append(above if function in above else above | {function})
        first = np.cumsum([0, *map(len, paths)])
        return first, np.fromiter((one for path in paths for one in path), np.int64, int(first[-1]))

    def _counts(self, kind: Kind) -> I64:
        return self.cpu if kind == "cpu" else self.cpu + self.idle

    def _spread(self, window: I64, function: I64, counts: I64) -> F64:
        wide = len(self.functions)
        flat = np.bincount(window * wide + function, counts, len(self.start) * wide)
        return flat.reshape(len(self.start), wide)


def names() -> list[str]:
    """List the recordings in git."""
    return sorted(path.stem for path in RECORDED.glob("*.npz"))


def load(name: str) -> Recording:
    """Read a recording from bench/verdicts/recorded, or from a path that ends in .npz."""
    path = Path(name) if name.endswith(".npz") else RECORDED / f"{name}.npz"
    with np.load(path) as held:
        node = undo_steps(held["node"], held["window"])
        return Recording(
            pods=tuple(bytes(held["pods"]).decode().split("\n")),
            functions=tuple(bytes(held["functions"]).decode().split("\n")),
            **{name: held[name].astype(np.float64) for name in _TIMES},
            pod=held["pod"].astype(np.int64),
            parent=np.arange(len(held["up"])) - held["up"].astype(np.int64),
            function=held["function"].astype(np.int64),
            window=np.cumsum(held["window"].astype(np.int64)),
            node=node,
            cpu=held["cpu"].astype(np.int64),
            idle=held["idle"].astype(np.int64),
        )


_TIMES: Final = ("start", "duration", "watched", "requests", "clock", "period")


def save(recording: Recording, path: Path) -> None:
    """Write a recording for `load`.

    Neighbours are stored as differences, and every array in the smallest sufficient type.
    """
    order = np.lexsort((recording.node, recording.window))
    window, node = recording.window[order], recording.node[order]
    kept = {
        "pods": np.frombuffer("\n".join(recording.pods).encode(), np.uint8),
        "functions": np.frombuffer("\n".join(recording.functions).encode(), np.uint8),
        **{name: getattr(recording, name).astype(np.float32) for name in _TIMES},
        "pod": smallest(recording.pod),
        "up": smallest(np.arange(len(recording.parent)) - recording.parent),
        "function": smallest(recording.function),
        "window": smallest(np.diff(window, prepend=0)),
        "node": smallest(steps(node, np.diff(window, prepend=0))),
        "cpu": smallest(recording.cpu[order]),
        "idle": smallest(recording.idle[order]),
    }
    np.savez_compressed(path, allow_pickle=False, **kept)


def steps(node: I64, new_window: I64) -> I64:
    """Encode the nodes of each window as differences; the first node stays as it is."""
    out = np.diff(node, prepend=0)
    first = (new_window > 0) | (np.arange(len(node)) == 0)
    out[first] = node[first]
    return out


def undo_steps(step: npt.NDArray[np.integer], new_window: npt.NDArray[np.integer]) -> I64:
    added = np.cumsum(step.astype(np.int64))
    first = np.flatnonzero((new_window > 0) | (np.arange(len(step)) == 0))
    before = added[first] - step[first]
    return added - np.repeat(before, np.diff(first, append=len(step)))


def smallest(values: I64) -> npt.NDArray[np.integer]:
    """Convert non-negative numbers to the smallest sufficient integer type."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def recording_of(windows: Sequence[Window], requests: Mapping[str, Mapping[int, int]]) -> Recording:
    """Build a recording of windows.

    `requests` has the number of answered requests by pod and second (Unix time).
    """
    windows = whole(windows)
    pods = sorted({window.labels["pod"] for window in windows})
    tree = Tree()
    pairs = [
        (at, node, cpu, idle)
        for at, window in enumerate(windows)
        for node, (cpu, idle) in tree.added(window).items()
    ]
    parent, function, moved = tree.in_order()
    first = windows[0].start_ns
    columns = np.array(pairs, np.int64).T
    node = moved[columns[1]]
    return Recording(
        pods=tuple(pods),
        functions=tuple(tree.functions),
        start=np.array([(window.start_ns - first) / SECOND_NS for window in windows]),
        duration=np.array([window.duration_ns / SECOND_NS for window in windows]),
        watched=np.array([watched(window) for window in windows]),
        pod=np.array([pods.index(window.labels["pod"]) for window in windows]),
        requests=np.array([answered(window, requests[window.labels["pod"]]) for window in windows]),
        clock=np.array([window.quality.target_cpu_ns / SECOND_NS for window in windows]),
        period=np.array([window.period_ns / SECOND_NS for window in windows]),
        parent=parent,
        function=function,
        window=columns[0],
        node=node,
        cpu=columns[2],
        idle=columns[3],
    )


def whole(windows: Iterable[Window]) -> list[Window]:
    """Merge the windows by kind of thread of each span of a process; sort the result."""
    found: dict[tuple[int, str, int], Window] = {}
    for window in sorted(windows, key=lambda window: window.labels["thread"] != "main"):
        key = window.start_ns, window.labels["pod"], window.quality.pid
        if key in found:
            counts = dict(found[key].counts)
            for stack, more in window.counts.items():
                counts[stack] = counts.get(stack, ZERO).plus(more)
            found[key] = replace(found[key], counts=counts)
        else:
            found[key] = window
    return [found[key] for key in sorted(found)]


def watched(window: Window) -> float:
    """Return the seconds covered by ticks with stacks, as the collector counts them."""
    quality = window.quality
    if not quality.attempts:
        return window.duration_ns / SECOND_NS
    return (quality.attempts - quality.failed_attempts) * window.period_ns / SECOND_NS


def answered(window: Window, seconds: Mapping[int, int]) -> float:
    """Estimate the requests answered during a window.

    The requests of a second are spread evenly over it.
    """
    start = window.start_ns / SECOND_NS
    until = start + window.duration_ns / SECOND_NS
    whole = range(int(start), int(until) + 1)
    return sum(seconds.get(at, 0) * max(0.0, min(until, at + 1) - max(start, at)) for at in whole)


class Tree:
    """A growing call tree of functions; nodes are numbered in order of appearance."""

    def __init__(self) -> None:
        self.functions: dict[str, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def added(self, window: Window) -> Mapping[int, tuple[int, int]]:
        """Add a window; return the (CPU, idle) samples by the node where they end."""
        found: dict[int, tuple[int, int]] = {}
        for stack, counts in window.counts.items():
            node = self._node(strip_line_number(frame) for frame in split_stack(stack))
            cpu, idle = found.get(node, (0, 0))
            found[node] = cpu + counts.cpu, idle + counts.off_cpu
        return found

    def _node(self, frames: Iterable[str]) -> int:
        node = -1
        for frame in frames:
            function = self.functions.setdefault(frame, len(self.functions))
            node = self._nodes.setdefault((node, function), len(self._nodes))
        return node

    def in_order(self) -> tuple[I64, I64, I64]:
        """Return parents and functions in pre-order, and the new index of each node."""
        below: dict[int, list[int]] = {}
        for number, (parent, _) in enumerate(self._nodes):
            below.setdefault(parent, []).append(number)
        moved = np.full(len(self._nodes), -1, np.int64)
        waiting, place = list(reversed(below[-1])), 0
        while waiting:
            number = waiting.pop()
            moved[number] = place
            place += 1
            waiting.extend(reversed(below.get(number, ())))
        parent = np.empty(len(self._nodes), np.int64)
        function = np.empty(len(self._nodes), np.int64)
        for number, (above, named) in enumerate(self._nodes):
            parent[moved[number]] = moved[above] if above >= 0 else -1
            function[moved[number]] = named
        return parent, function, moved
