"""Functions that changed their name or file are one: in the functions of a comparison, and in its tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from sidelight_collector.arrow_ops import (
    F64,
    I64,
)
from sidelight_collector.comparison.cost_tables import Functions, Table
from sidelight_collector.query.call_tree import Drawn, Flags, costs
from sidelight_collector.query.engine.stack_text import Weights
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.statistics.renames import Lines, Rename, apart, is_one, joined, renames
from sidelight_model.frames import Frame, unescape, without_line


def renamed(
    reading: Reading,
    pairs: Sequence[tuple[Windows, Weights]],
    tree: Drawn,
    functions: Functions,
    watched: tuple[float, float],
) -> list[Rename]:
    """The functions of these two sides that are one, best first; `watched` are the pod-seconds of each."""
    of = functions.total
    if min(watched) <= 0:
        return []
    per_rate = tuple(
        float(sum(samples)) / (sum(us) / whole) if sum(us) else 0.0
        for samples, us, whole in zip(tree.samples[:2], tree.microseconds[:2], watched, strict=True)
    )
    between = apart(functions.names, (of.samples_a, of.samples_b), (per_rate[0], per_rate[1]))
    if not between:
        return []
    level, name = np.array(tree.level, np.int64), np.array(tree.name, np.int64)
    rates = [
        _totals(level, np.array(us, np.float64)) / whole
        for us, whole in zip(tree.microseconds[:2], watched, strict=True)
    ]
    lines = _lines(reading, pairs, between.files)
    return renames(tree.names, level, name, (rates[0], rates[1]), between, lines)


def merged(of: Functions, matched: Sequence[Rename]) -> tuple[Functions, list[str | None]]:
    """The functions with each pair as one, under its new name, and for each what it was before, if anything.

    No stack of B has the old name and none of A the new one, so that what one side took is what both did.
    """
    at = {text: place for place, text in enumerate(of.names)}
    known = [one for one in matched if one.old in at and one.new in at]
    old, new = (np.array([at[text] for text in texts], np.int64) for texts in (
        [one.old for one in known], [one.new for one in known]
    ))  # fmt: skip
    kept = np.setdiff1d(np.arange(len(of.names)), old)
    was = {one.new: one.old for one in known}
    names = [of.names[place] for place in kept.tolist()]
    own, total = (_moved(table, old, new).take(kept) for table in (of.own, of.total))
    return Functions(names, own, total, of.in_all - len(known)), [was.get(text) for text in names]


def relabelled(tree: Drawn, matched: Sequence[Rename]) -> Drawn:
    """The tree with old names as new ones, and call paths that then are one as one."""
    if not matched:
        return tree
    level, code = np.array(tree.level, np.int64), np.array(tree.name, np.int64)
    levels, codes, place = joined(tree.names, level, np.array(is_one(tree.names, matched), np.int64)[code])
    number = {old: new for new, old in enumerate(dict.fromkeys(codes.tolist()))}
    samples, microseconds = (
        [_added(place, side, len(levels)) for side in sides] for sides in (tree.samples, tree.microseconds)
    )
    return replace(
        tree,
        names=[tree.names[old] for old in number],
        level=levels.tolist(),
        name=[number[old] for old in codes.tolist()],
        samples=samples,
        microseconds=microseconds,
        node=[int(place[node]) if node >= 0 else -1 for node in tree.node],
    )


def with_old_names(wanted: Flags, words: Sequence[str], matched: Sequence[Rename]) -> Flags:
    """Of these words those wanted, and what they were called before."""
    at = {word: place for place, word in enumerate(words)}
    found = wanted.copy()
    for one in matched:
        if one.old in at and one.new in at and wanted[at[one.new]]:
            found[at[one.old]] = True
    return found


def _lines(reading: Reading, pairs: Sequence[tuple[Windows, Weights]], files: Collection[str]) -> Lines:
    """The lines of the functions of these files that either side was seen in."""
    found: defaultdict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for text, cost in costs(reading, pairs, lines=True).items():
        frame = Frame.parse(unescape(text))
        if frame.line and frame.file in files:
            for lines, own in zip(found[without_line(text)], cost, strict=True):
                if own.total_samples:
                    lines.add(frame.line)
    return found


def _moved(table: Table, old: I64, new: I64) -> Table:
    """What A took under the old names, under the new ones."""
    a, samples = table.a.copy(), table.samples_a.copy()
    a[new] += a[old]
    samples[new] += samples[old]
    return replace(table, a=a, samples_a=samples)


def _totals(level: I64, own: F64) -> F64:
    """Each node's own and all below it."""
    sums = np.concatenate([[0.0], np.cumsum(own)])
    ends = np.full(len(level), len(level), np.int64)
    path: list[int] = []
    for node, depth in enumerate(level.tolist()):
        while path and level[path[-1]] >= depth:
            ends[path.pop()] = node
        path.append(node)
    totals: F64 = sums[ends] - sums[:-1]
    return totals


def _added(place: I64, values: Sequence[int], count: int) -> list[int]:
    """Whole numbers added up by place; they may be larger than a float holds."""
    sums = np.zeros(count, object if max(values, default=0) >= 2**62 else np.int64)
    np.add.at(sums, place, np.array(values, sums.dtype))
    added: list[int] = sums.tolist()
    return added
