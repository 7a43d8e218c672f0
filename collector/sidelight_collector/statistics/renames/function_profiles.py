"""Callers, callees and lines of functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.preorder import compute_parents
from sidelight_collector.statistics.renames.unmatched_functions import UnmatchedFunctions
from sidelight_model.frames import Frame, strip_line_number, unescape_frame

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
LinesByFunction = Mapping[str, tuple[Collection[int], Collection[int]]]
"""The sampled lines of each function (its frame without a line), in A and in B."""

_MIN_CALLEE_SHARE: Final = 0.2
_GENERIC_NAMES: Final = frozenset([
    "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>", "wrapper", "_wrapper",
    "wrapped", "inner", "_inner", "decorator", "decorated", "func", "f", "fn", "run", "_run", "main",
    "call", "_call", "__call__", "__init__", "__new__", "__enter__", "__exit__", "__iter__", "__next__",
    "__get__", "__getattr__", "get", "handle",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionProfile:
    """A function on one side.

    `callers` and `callees` hold the part of its rate by caller and by callee.
    """

    frame: Frame
    rate: float
    callers: Mapping[str, float]
    callees: Mapping[str, float]
    lines: tuple[int, ...]

    @property
    def is_generic(self) -> bool:
        """Whether many functions have its name."""
        return self.frame.function.rpartition(".")[2] in _GENERIC_NAMES

    @property
    def has_callees(self) -> bool:
        """Whether the share of its time in callees is large enough as evidence."""
        return sum(self.callees.values()) > _MIN_CALLEE_SHARE * self.rate


def build_profiles(
    names: Sequence[str],
    level: I64,
    name: I64,
    rates: tuple[F64, F64],
    unmatched: UnmatchedFunctions,
    lines: LinesByFunction,
) -> tuple[dict[str, FunctionProfile], dict[str, FunctionProfile]]:
    """Build the profiles of the removed and of the new functions.

    The tree is in pre-order. `names` may include lines.
    """
    above = compute_parents(level)
    code, texts = _strip_lines(names)
    node_functions = code[name]
    caller = np.where(above >= 0, node_functions[np.maximum(above, 0)], -1)
    removed, new = (
        _build_side(texts, node_functions, caller, rate, functions, lines, side)
        for side, (rate, functions) in enumerate(zip(rates, (unmatched.removed, unmatched.new), strict=True))
    )
    return removed, new


def _strip_lines(names: Sequence[str]) -> tuple[I64, list[str]]:
    """Return names without lines: the id of each name, and the texts by id."""
    number: dict[str, int] = {}
    codes = [number.setdefault(strip_line_number(text), len(number)) for text in names]
    return np.array(codes, np.int64), list(number)


def _build_side(
    names: Sequence[str],
    name: I64,
    caller: I64,
    rate: F64,
    texts: Sequence[str],
    lines: LinesByFunction,
    side: int,
) -> dict[str, FunctionProfile]:
    functions = set(texts)
    is_profiled = np.array([text in functions for text in names], bool)
    # A function that calls itself counts once.
    outer = (rate > 0) & (caller >= 0) & (caller != name)
    callers: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    callees: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for node in np.flatnonzero(outer & is_profiled[name]).tolist():
        callers[names[name[node]]][names[caller[node]]] += float(rate[node])
    for node in np.flatnonzero(outer & is_profiled[np.maximum(caller, 0)]).tolist():
        callees[names[caller[node]]][names[name[node]]] += float(rate[node])
    return {
        text: FunctionProfile(
            Frame.parse(unescape_frame(text)),
            sum(callers[text].values()),
            callers[text],
            callees[text],
            tuple(sorted(lines.get(text, ((), ()))[side])),
        )
        for text in texts
    }
