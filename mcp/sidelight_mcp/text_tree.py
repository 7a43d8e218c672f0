"""A flame graph as text.

The collector sends a call tree as columns in pre-order (`sidelight_model.tree`). Here it becomes nested
nodes, because the answers are small: the tree is read as a whole, or below one function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidelight_mcp.answer_text import MICROSECONDS, format_share
from sidelight_model.terminal_width import escape_unprintable

CHAIN_SHARE: Final = 0.995
"""A frame joins the line of its caller if it has at least this share of the caller's time."""


@dataclass(slots=True)
class CallNode:
    """A frame with its callees by frame; times are in seconds."""

    name: str
    self_seconds: float = 0.0
    total_seconds: float = 0.0
    callees: dict[str, CallNode] = field(default_factory=dict)

    def sort_callees(self) -> list[CallNode]:
        """Return the callees, those with the most time first."""
        return sorted(self.callees.values(), key=lambda node: (-node.total_seconds, node.name))

    def add_below(self, path: Sequence[str], seconds: float) -> None:
        """Add time to a call path below this node."""
        node = self
        node.total_seconds += seconds
        for name in path:
            node = node.callees.setdefault(name, CallNode(name))
            node.total_seconds += seconds
        node.self_seconds += seconds


def is_function(frame: str, function: str) -> bool:
    """Whether a frame is of the function, given as `name (file)` or as the name alone."""
    return frame == function or frame.partition(" (")[0] == function


def iter_stacks(answer: Mapping[str, Any]) -> Iterator[tuple[list[str], float]]:
    """Yield the stacks of a flame graph and their own seconds.

    The root is first; the total is left out.
    """
    names = answer["names"]
    path: list[str] = []
    times = answer["sides"][0]["self_us"]
    for level, name, time in zip(answer["level"], answer["name"], times, strict=True):
        del path[level:]
        path.append(names[name])
        if time:
            yield path[1:], time / MICROSECONDS


def build_tree(answer: Mapping[str, Any], function: str = "") -> CallNode:
    """Build the tree of a flame graph, or of the outermost calls of `function`.

    Calls from different places are added up. The tree is empty if no stack has the function.
    """
    root = CallNode(function or "total")
    for stack, seconds in iter_stacks(answer):
        if not function:
            root.add_below(stack, seconds)
            continue
        start = next((at for at, frame in enumerate(stack) if is_function(frame, function)), None)
        if start is not None:
            root.name = root.name if " (" in root.name else stack[start]
            root.add_below(stack[start + 1 :], seconds)
    return root


def build_callers(answer: Mapping[str, Any], function: str) -> CallNode:
    """Build the tree of callers of a function's outermost calls.

    The `callees` of a node are the functions that called it.
    """
    root = CallNode(function)
    for stack, seconds in iter_stacks(answer):
        start = next((at for at, frame in enumerate(stack) if is_function(frame, function)), None)
        if start is not None:
            root.add_below(stack[:start][::-1], seconds)
    return root


def render_tree(
    root: CallNode, whole_seconds: float, *, min_share: float, max_depth: int, with_self: bool = True
) -> list[str]:
    """Render a head and the frames, indented by their depth.

    Frames below `min_share` of the tree's time are left out.

    A line has the share of `whole_seconds`, the share of the frame's own code, and the frame. A frame that
    passes nearly all of its time to one callee shares a line with it. Iterative, for deep stacks.
    """
    lines = ["  total    self  frame" if with_self else "  total  frame"]
    smallest = min_share * root.total_seconds
    pending = [(node, 0) for node in reversed(_select(root, smallest))]
    omitted = 0.0
    while pending:
        node, depth = pending.pop()
        chain, callees = [node.name], _select(node, smallest)
        while len(callees) == 1 and callees[0].total_seconds >= CHAIN_SHARE * node.total_seconds:
            node = callees[0]
            chain.append(node.name)
            callees = _select(node, smallest)
        own = f" {_share(node.self_seconds, whole_seconds):>7}" if with_self else ""
        frames = escape_unprintable(_join_chain(chain))
        lines.append(f"{_share(node.total_seconds, whole_seconds):>7}{own}  {'  ' * depth}{frames}")
        if depth + 1 < max_depth:
            pending += [(callee, depth + 1) for callee in reversed(callees)]
        else:
            omitted += node.total_seconds - node.self_seconds
    if omitted > smallest:
        lines.append(f"{_share(omitted, whole_seconds):>7}  below depth {max_depth}, not shown")
    return lines


def _select(node: CallNode, smallest: float) -> list[CallNode]:
    return [callee for callee in node.sort_callees() if callee.total_seconds >= smallest]


def _share(seconds: float, whole: float) -> str:
    return format_share(seconds / whole) if whole else "-"


def _join_chain(names: Sequence[str]) -> str:
    """Join frames that share a line; the middle of a long chain is only counted."""
    if len(names) > 6:
        names = [*names[:3], f"{len(names) - 5} frames", *names[-2:]]
    return " > ".join(names)
