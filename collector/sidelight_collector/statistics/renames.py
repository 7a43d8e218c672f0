"""Functions that only changed their name or file: one that is gone and one that is new, which are the same.

A function that is gone from A's side is matched with one that is new in B's where

- the name is other and the file the same: it is called by the same functions (as much of its time comes from
  each), and its body is the same, by its place among the functions of the file that did not change, or by
  what it calls;
- the file is other and the name the same (a module that moved): it is called by the same functions, and what
  it calls does not speak against it.

Matched are only those that are gone and new beyond doubt: seen so often that chance would not leave them out
on the other side (`FEWEST_SAMPLES`). A pair has to be the best of both by a margin, so one of two that are as
likely is never guessed at; where a function's time is found again in two, it was split, and no match is told.
Names that many functions have (`<lambda>`, `wrapper`, `__call__`) are no evidence: they need callers and body
both. Who was matched counts as one among callers and callees of the others, so that a whole module is
followed from where it is entered, round by round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.fdr import parents
from sidelight_model.frames import Frame, unescape, without_line
from sidelight_model.tree import preorder

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Lines = Mapping[str, tuple[Collection[int], Collection[int]]]
"""The lines that were seen of a function (its frame without a line), in A and in B."""

FEWEST_SAMPLES: Final = 10.0
CANDIDATES: Final = 200
MARGIN: Final = 0.2
_ALIKE: Final = 0.5
_SAME: Final = 0.7
_SURE: Final = 0.9
_OTHER: Final = 0.3
_CALLEES: Final = 0.2
_APART_LINES: Final = 5
_GENERIC: Final = frozenset([
    "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>", "wrapper", "_wrapper",
    "wrapped", "inner", "_inner", "decorator", "decorated", "func", "f", "fn", "run", "_run", "main",
    "call", "_call", "__call__", "__init__", "__new__", "__enter__", "__exit__", "__iter__", "__next__",
    "__get__", "__getattr__", "get", "handle",
])  # fmt: skip


class Reason(StrEnum):
    """Why two functions are one."""

    PLACE = "same callers, same place in the file"
    CALLEES = "same callers, same callees"
    MOVED = "same name and callers, other file"


@dataclass(frozen=True, slots=True)
class Rename:
    """The frame that it was, the frame that it is (escaped, without lines), from 0 to 1 how sure, and why."""

    old: str
    new: str
    score: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class Apart:
    """Functions that one side alone has, beyond doubt: gone from A, and new in B."""

    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def files(self) -> frozenset[str]:
        """Their files, in which lines are worth knowing."""
        return frozenset(Frame.parse(unescape(text)).file for text in (*self.gone, *self.new))

    def __bool__(self) -> bool:
        return bool(self.gone) and bool(self.new)


def apart(names: Sequence[str], samples: tuple[F64, F64], per_rate: tuple[float, float]) -> Apart:
    """Functions with samples on one side only, so many that chance does not do it.

    `per_rate` is how many samples each side has of what takes 1 (a second per pod-second) there.
    """
    found = []
    for side, other in ((0, 1), (1, 0)):
        expected = (
            samples[side] * per_rate[other] / per_rate[side] if per_rate[side] > 0 else samples[side] * 0
        )
        sure = (samples[other] == 0) & (np.minimum(samples[side], expected) >= FEWEST_SAMPLES)
        codes = [int(at) for at in np.argsort(-samples[side], kind="stable") if sure[at]]
        found.append(tuple(names[at] for at in codes if Frame.parse(unescape(names[at])).file)[:CANDIDATES])
    return Apart(*found)


def renames(
    names: Sequence[str],
    level: I64,
    name: I64,
    rates: tuple[F64, F64],
    between: Apart,
    lines: Lines | None = None,
) -> list[Rename]:
    """Matched functions of a pre-order tree of two sides, best first.

    `rates` are each node's total on each side, on one scale (seconds per pod-second). Names may come with
    lines.
    """
    if not between:
        return []
    found = _Functions.of(names, level, name, rates, between, lines or {})
    told: list[Rename] = []
    while chosen := found.surest():
        told += [Rename(pair.old, pair.new, pair.score, pair.reason) for pair in chosen]
        found = found.matched(chosen)
    return sorted(told, key=lambda one: (-one.score, one.new))


def is_one(names: Sequence[str], matched: Sequence[Rename]) -> list[int]:
    """For each name the number of the one that it counts as: an old name as the new one."""
    number = {text: code for code, text in enumerate(names)}
    new = {one.old: number[one.new] for one in matched if one.old in number and one.new in number}
    return [new.get(text, code) for code, text in enumerate(names)]


def joined(names: Sequence[str], level: I64, name: I64) -> tuple[I64, I64, I64]:
    """A pre-order tree in which siblings of one name are one node, with all that is below them.

    Levels and names of the new tree, and the new place of each node of the old: what is counted by node is
    added up by place. Children stand in the order of their names' texts.
    """
    above = parents(level)
    merged = np.zeros(len(level), np.int64)
    parent, code = [np.array([-1])], [name[:1]]
    count = 1
    for depth in range(1, int(level.max(initial=0)) + 1):
        nodes = np.flatnonzero(level == depth)
        keys, back = np.unique(
            np.column_stack([merged[above[nodes]], name[nodes]]), axis=0, return_inverse=True
        )
        merged[nodes] = count + back.ravel()
        parent.append(keys[:, 0])
        code.append(keys[:, 1])
        count += len(keys)
    return _preorder(names, np.concatenate(parent), np.concatenate(code), merged)


def _preorder(names: Sequence[str], parent: I64, code: I64, merged: I64) -> tuple[I64, I64, I64]:
    order, level = preorder(parent.tolist(), [names[one] for one in code.tolist()])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.array(level, np.int64), code[order], place[merged]


class _Pair(NamedTuple):
    """A function that is gone, one that is new, and what speaks for their being one."""

    old: str
    new: str
    score: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class _Function:
    """One side's function: what it takes, how much of that from each caller and in each callee, its lines."""

    frame: Frame
    rate: float
    callers: Mapping[str, float]
    callees: Mapping[str, float]
    lines: tuple[int, ...]

    @property
    def generic(self) -> bool:
        return self.frame.function.rpartition(".")[2] in _GENERIC

    @property
    def calls(self) -> bool:
        """Whether so much of it is in what it calls that this says something."""
        return sum(self.callees.values()) > _CALLEES * self.rate


@dataclass(frozen=True, slots=True)
class _Functions:
    """Those that are gone and new, and which are known to be one (an old name by the new)."""

    gone: Mapping[str, _Function]
    new: Mapping[str, _Function]
    places: _Places
    one: Mapping[str, str]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        level: I64,
        name: I64,
        rates: tuple[F64, F64],
        between: Apart,
        lines: Lines,
    ) -> _Functions:
        above = parents(level)
        code, texts = _folded(names)
        own = code[name]
        caller = np.where(above >= 0, own[np.maximum(above, 0)], -1)
        gone, new = (
            _of_side(texts, own, caller, rate, wanted, lines, side)
            for side, (rate, wanted) in enumerate(zip(rates, (between.gone, between.new), strict=True))
        )
        places = _Places({text: one for text, one in lines.items() if one[0] and one[1]})
        return cls(gone, new, places, {})

    def surest(self) -> list[_Pair]:
        """Pairs that are the best of both by the margin, and that no split or merge explains."""
        slots = self.places.slots(self.gone, self.new)
        pairs = [
            pair
            for old, gone in self.gone.items()
            for new, made in self.new.items()
            if gone.frame.file == made.frame.file or gone.frame.function == made.frame.function
            if (pair := self._judged(old, gone, new, made, slots)) is not None
        ]
        best = [pair for pair in pairs if not any(_rivals(pair, other) for other in pairs)]
        return [pair for pair in best if not self._divided(pair)]

    def matched(self, chosen: Sequence[_Pair]) -> _Functions:
        """What is left to match, knowing these."""
        old, new = {pair.old for pair in chosen}, {pair.new for pair in chosen}
        return _Functions(
            {text: one for text, one in self.gone.items() if text not in old},
            {text: one for text, one in self.new.items() if text not in new},
            self.places,
            {**self.one, **{pair.old: pair.new for pair in chosen}},
        )

    def _judged(
        self, old: str, gone: _Function, new: str, made: _Function, slots: Mapping[str, _Slot]
    ) -> _Pair | None:
        callers = self._alike(gone.callers, made.callers)
        if callers < _ALIKE:
            return None
        callees = self._alike(gone.callees, made.callees) if gone.calls or made.calls else None
        if callees is not None and callees < _OTHER:
            return None
        generic = gone.generic or made.generic
        if generic and callers < _SURE:
            return None
        same_body = callees is not None and callees >= _SAME
        if gone.frame.file != made.frame.file:
            if generic and not same_body:
                return None
            known = [callers] if callees is None else [callers, callees]
            return _Pair(old, new, sum(known) / len(known), Reason.MOVED)
        place = self.places.alike(slots.get(old), slots.get(new))
        at_place = place is not None and place >= (_SURE if generic else _ALIKE)
        if not at_place and not same_body:
            return None
        known = [callers, *(one for one in (callees, place) if one is not None)]
        return _Pair(old, new, sum(known) / len(known), Reason.PLACE if at_place else Reason.CALLEES)

    def _alike(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        """How much of two distributions is common, from 0 to 1; of which one is empty, nothing."""
        whole_a, whole_b = sum(a.values()), sum(b.values())
        if not whole_a or not whole_b:
            return 0.0
        merged: defaultdict[str, float] = defaultdict(float)
        for text, rate in a.items():
            merged[self._key(self.one.get(text, text))] += rate / whole_a
        shares: defaultdict[str, float] = defaultdict(float)
        for text, rate in b.items():
            shares[self._key(text)] += rate / whole_b
        return sum(min(share, merged.get(key, 0.0)) for key, share in shares.items())

    def _key(self, text: str) -> str:
        """Who may have moved, and is not matched yet, is known by name."""
        known = self.gone.get(text) or self.new.get(text)
        return f"{known.frame.function} (?)" if known else text

    def _divided(self, pair: _Pair) -> bool:
        """Whether its time is rather found in two functions of the file: one was split, or two became one."""
        gone, made = self.gone[pair.old], self.new[pair.new]
        halves = [
            (made, [one for text, one in self.new.items() if text != pair.new], gone),
            (gone, [one for text, one in self.gone.items() if text != pair.old], made),
        ]
        return any(
            half.rate < 0.8 * whole.rate
            and other.rate > half.rate / 3
            and other.frame.file == half.frame.file
            and self._called_alike(other, half, whole)
            for half, others, whole in halves
            for other in others
        )

    def _called_alike(self, other: _Function, half: _Function, whole: _Function) -> bool:
        return max(self._alike(other.callers, one.callers) for one in (half, whole)) >= _ALIKE


def _rivals(pair: _Pair, other: _Pair) -> bool:
    """Whether another pair has one of the two, and is as likely."""
    shares = (pair.old == other.old) != (pair.new == other.new)
    return shares and other.score > pair.score - MARGIN


def _folded(names: Sequence[str]) -> tuple[I64, list[str]]:
    """Names without lines: the number of each name's, and their texts."""
    number: dict[str, int] = {}
    codes = [number.setdefault(without_line(text), len(number)) for text in names]
    return np.array(codes, np.int64), list(number)


def _of_side(
    names: Sequence[str], name: I64, caller: I64, rate: F64, texts: Sequence[str], lines: Lines, side: int
) -> dict[str, _Function]:
    those = set(texts)
    wanted = np.array([text in those for text in names], bool)
    # A function that calls itself counts once.
    outer = (rate > 0) & (caller >= 0) & (caller != name)
    callers: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    callees: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for node in np.flatnonzero(outer & wanted[name]).tolist():
        callers[names[name[node]]][names[caller[node]]] += float(rate[node])
    for node in np.flatnonzero(outer & wanted[np.maximum(caller, 0)]).tolist():
        callees[names[caller[node]]][names[name[node]]] += float(rate[node])
    return {
        text: _Function(
            Frame.parse(unescape(text)),
            sum(callers[text].values()),
            callers[text],
            callees[text],
            tuple(sorted(lines.get(text, ((), ()))[side])),
        )
        for text in texts
    }


class _Slot(NamedTuple):
    """Between which functions of its file that both sides have a function stands, and its lines.

    `rank` is its place among those that are to be matched there, where there are as many on both sides.
    """

    file: str
    before: str
    after: str
    first: int
    last: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class _Places:
    """The lines of functions that both sides have."""

    lines: Lines

    def slots(self, gone: Mapping[str, _Function], new: Mapping[str, _Function]) -> dict[str, _Slot]:
        """The slot of each function whose lines are known."""
        kept: defaultdict[str, list[str]] = defaultdict(list)
        for text in self.lines:
            kept[Frame.parse(unescape(text)).file].append(text)
        found = [
            {
                text: self._slot(one, kept[one.frame.file], side)
                for text, one in functions.items()
                if one.lines
            }
            for side, functions in enumerate((gone, new))
        ]
        groups: defaultdict[tuple[str, str, str], tuple[list[str], list[str]]]
        groups = defaultdict(lambda: ([], []))
        for side, slots in enumerate(found):
            for text in sorted(slots, key=lambda text: slots[text].first):
                groups[slots[text][:3]][side].append(text)
        ranked: dict[str, _Slot] = {}
        for side, slots in enumerate(found):
            for text, slot in slots.items():
                group = groups[slot[:3]]
                rank = group[side].index(text) if len(group[0]) == len(group[1]) else None
                ranked[text] = slot._replace(rank=rank)
        return ranked

    def alike(self, old: _Slot | None, new: _Slot | None) -> float | None:
        """1 where their lines meet, less for each line between them; None where lines are not known.

        Lines are compared as far as those of a neighbour moved that both sides have. Two functions of a file
        never meet, and a definition and a blank line lie between them.
        """
        if old is None or new is None:
            return None
        if old[:3] != new[:3] or old.rank != new.rank:
            return 0.0
        shifts = {
            edge(self.lines[text][1]) - edge(self.lines[text][0])
            for text in (old.before, old.after)
            if text
            for edge in (min, max)
        }
        between = min(
            max(new.first - old.last - shift, old.first + shift - new.last, 0) for shift in shifts or {0}
        )
        return max(0.0, 1 - between / _APART_LINES)

    def _slot(self, function: _Function, kept: Sequence[str], side: int) -> _Slot:
        first, last = function.lines[0], function.lines[-1]
        starts = sorted((min(self.lines[text][side]), text) for text in kept)
        before = [text for line, text in starts if line <= first]
        after = [text for line, text in starts if line > first]
        return _Slot(
            function.frame.file, before[-1] if before else "", after[0] if after else "", first, last, None
        )
