"""Functions that only changed their name or file: one that is gone and one that is new, which are the same.

A function that is gone from A's side is matched with one that is new in B's where

- the name is other and the file the same: it is called by the same functions (as much of its time comes from
  each), and its body is the same, by its place among the functions of the file that did not change, or by
  what it calls;
- the file is other and the name the same (a module that moved): it is called by the same functions, and what
  it calls does not speak against it.

Matched are only those that are gone and new beyond doubt: seen so often that chance would not leave them out
on the other side (`MIN_SAMPLES`). A pair has to be the best of both by a margin, so one of two that are as
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

from sidelight_collector.statistics.inference.fdr import compute_parents
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.tree import sort_preorder

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
LinesByFunction = Mapping[str, tuple[Collection[int], Collection[int]]]
"""The lines that were seen of a function (its frame without a line), in A and in B."""

MIN_SAMPLES: Final = 10.0
MAX_CANDIDATES: Final = 200
MIN_SCORE_MARGIN: Final = 0.2
_MIN_SIMILARITY: Final = 0.5
_SAME_BODY_SIMILARITY: Final = 0.7
_GENERIC_NAME_SIMILARITY: Final = 0.9
_DIFFERENT_BODY_SIMILARITY: Final = 0.3
_MIN_CALLEE_SHARE: Final = 0.2
_MAX_LINE_DISTANCE: Final = 5
_GENERIC_NAMES: Final = frozenset([
    "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>", "wrapper", "_wrapper",
    "wrapped", "inner", "_inner", "decorator", "decorated", "func", "f", "fn", "run", "_run", "main",
    "call", "_call", "__call__", "__init__", "__new__", "__enter__", "__exit__", "__iter__", "__next__",
    "__get__", "__getattr__", "get", "handle",
])  # fmt: skip


class RenameReason(StrEnum):
    """Why two functions are one."""

    SAME_PLACE = "same callers, same place in the file"
    SAME_CALLEES = "same callers, same callees"
    OTHER_FILE = "same name and callers, other file"


@dataclass(frozen=True, slots=True)
class FunctionRename:
    """The frame that it was, the frame that it is (escaped, without lines), from 0 to 1 how sure, and why."""

    old: str
    new: str
    score: float
    reason: RenameReason


@dataclass(frozen=True, slots=True)
class UnmatchedFunctions:
    """Functions that one side alone has, beyond doubt: gone from A, and new in B."""

    removed: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def files(self) -> frozenset[str]:
        """Their files, in which lines are worth knowing."""
        return frozenset(Frame.parse(unescape_frame(text)).file for text in (*self.removed, *self.new))

    def __bool__(self) -> bool:
        return bool(self.removed) and bool(self.new)


def find_unmatched(
    names: Sequence[str], samples: tuple[F64, F64], samples_per_rate: tuple[float, float]
) -> UnmatchedFunctions:
    """Functions with samples on one side only, so many that chance does not do it.

    `samples_per_rate` is how many samples each side has of what takes 1 (a second per pod-second) there.
    """
    found = []
    for side, other in ((0, 1), (1, 0)):
        expected = (
            samples[side] * samples_per_rate[other] / samples_per_rate[side]
            if samples_per_rate[side] > 0
            else samples[side] * 0
        )
        sure = (samples[other] == 0) & (np.minimum(samples[side], expected) >= MIN_SAMPLES)
        codes = [int(at) for at in np.argsort(-samples[side], kind="stable") if sure[at]]
        found.append(
            tuple(names[at] for at in codes if Frame.parse(unescape_frame(names[at])).file)[:MAX_CANDIDATES]
        )
    return UnmatchedFunctions(*found)


def match_functions(
    names: Sequence[str],
    level: I64,
    name: I64,
    rates: tuple[F64, F64],
    unmatched: UnmatchedFunctions,
    lines: LinesByFunction | None = None,
) -> list[FunctionRename]:
    """Matched functions of a pre-order tree of two sides, best first.

    `rates` are each node's total on each side, on one scale (seconds per pod-second). Names may come with
    lines.
    """
    if not unmatched:
        return []
    matcher = _FunctionMatcher.build(names, level, name, rates, unmatched, lines or {})
    matches: list[FunctionRename] = []
    while chosen := matcher.find_best_candidates():
        matches += [FunctionRename(pair.old, pair.new, pair.score, pair.reason) for pair in chosen]
        matcher = matcher.exclude_matches(chosen)
    return sorted(matches, key=lambda one: (-one.score, one.new))


def compute_canonical_ids(names: Sequence[str], function_renames: Sequence[FunctionRename]) -> list[int]:
    """For each name the number of the one that it counts as: an old name as the new one."""
    number = {text: code for code, text in enumerate(names)}
    new = {one.old: number[one.new] for one in function_renames if one.old in number and one.new in number}
    return [new.get(text, code) for code, text in enumerate(names)]


def merge_siblings(names: Sequence[str], level: I64, name: I64) -> tuple[I64, I64, I64]:
    """A pre-order tree in which siblings of one name are one node, with all that is below them.

    Levels and names of the new tree, and the new place of each node of the old: what is counted by node is
    added up by place. Children stand in the order of their names' texts.
    """
    above = compute_parents(level)
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
    return _build_preorder(names, np.concatenate(parent), np.concatenate(code), merged)


def _build_preorder(names: Sequence[str], parent: I64, code: I64, merged: I64) -> tuple[I64, I64, I64]:
    order, level = sort_preorder(parent.tolist(), [names[one] for one in code.tolist()])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.array(level, np.int64), code[order], place[merged]


class _RenameCandidate(NamedTuple):
    """A function that is gone, one that is new, and what speaks for their being one."""

    old: str
    new: str
    score: float
    reason: RenameReason


@dataclass(frozen=True, slots=True)
class _FunctionProfile:
    """One side's function: what it takes, how much of that from each caller and in each callee, its lines."""

    frame: Frame
    rate: float
    callers: Mapping[str, float]
    callees: Mapping[str, float]
    lines: tuple[int, ...]

    @property
    def is_generic(self) -> bool:
        return self.frame.function.rpartition(".")[2] in _GENERIC_NAMES

    @property
    def has_callees(self) -> bool:
        """Whether so much of it is in what it calls that this says something."""
        return sum(self.callees.values()) > _MIN_CALLEE_SHARE * self.rate


@dataclass(frozen=True, slots=True)
class _FunctionMatcher:
    """Those that are gone and new, and which are known to be one (an old name by the new)."""

    removed: Mapping[str, _FunctionProfile]
    new: Mapping[str, _FunctionProfile]
    line_index: _LineIndex
    new_names: Mapping[str, str]

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        level: I64,
        name: I64,
        rates: tuple[F64, F64],
        unmatched: UnmatchedFunctions,
        lines: LinesByFunction,
    ) -> _FunctionMatcher:
        above = compute_parents(level)
        code, texts = _strip_lines(names)
        own = code[name]
        caller = np.where(above >= 0, own[np.maximum(above, 0)], -1)
        gone, new = (
            _build_profiles(texts, own, caller, rate, wanted, lines, side)
            for side, (rate, wanted) in enumerate(zip(rates, (unmatched.removed, unmatched.new), strict=True))
        )
        places = _LineIndex({text: one for text, one in lines.items() if one[0] and one[1]})
        return cls(gone, new, places, {})

    def find_best_candidates(self) -> list[_RenameCandidate]:
        """Pairs that are the best of both by the margin, and that no split or merge explains."""
        slots = self.line_index.find_slots(self.removed, self.new)
        pairs = [
            pair
            for old, gone in self.removed.items()
            for new, made in self.new.items()
            if gone.frame.file == made.frame.file or gone.frame.function == made.frame.function
            if (pair := self._score_pair(old, gone, new, made, slots)) is not None
        ]
        best = [pair for pair in pairs if not any(_is_rival(pair, other) for other in pairs)]
        return [pair for pair in best if not self._is_split_or_merge(pair)]

    def exclude_matches(self, chosen: Sequence[_RenameCandidate]) -> _FunctionMatcher:
        """What is left to match, knowing these."""
        old, new = {pair.old for pair in chosen}, {pair.new for pair in chosen}
        return _FunctionMatcher(
            {text: one for text, one in self.removed.items() if text not in old},
            {text: one for text, one in self.new.items() if text not in new},
            self.line_index,
            {**self.new_names, **{pair.old: pair.new for pair in chosen}},
        )

    def _score_pair(
        self,
        old: str,
        removed: _FunctionProfile,
        new: str,
        added: _FunctionProfile,
        slots: Mapping[str, _LineSlot],
    ) -> _RenameCandidate | None:
        callers = self._compute_similarity(removed.callers, added.callers)
        if callers < _MIN_SIMILARITY:
            return None
        callees = (
            self._compute_similarity(removed.callees, added.callees)
            if removed.has_callees or added.has_callees
            else None
        )
        if callees is not None and callees < _DIFFERENT_BODY_SIMILARITY:
            return None
        generic = removed.is_generic or added.is_generic
        if generic and callers < _GENERIC_NAME_SIMILARITY:
            return None
        same_body = callees is not None and callees >= _SAME_BODY_SIMILARITY
        if removed.frame.file != added.frame.file:
            if generic and not same_body:
                return None
            known = [callers] if callees is None else [callers, callees]
            return _RenameCandidate(old, new, sum(known) / len(known), RenameReason.OTHER_FILE)
        place = self.line_index.compute_line_similarity(slots.get(old), slots.get(new))
        at_place = place is not None and place >= (_GENERIC_NAME_SIMILARITY if generic else _MIN_SIMILARITY)
        if not at_place and not same_body:
            return None
        known = [callers, *(one for one in (callees, place) if one is not None)]
        return _RenameCandidate(
            old,
            new,
            sum(known) / len(known),
            RenameReason.SAME_PLACE if at_place else RenameReason.SAME_CALLEES,
        )

    def _compute_similarity(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        """How much of two distributions is common, from 0 to 1; of which one is empty, nothing."""
        whole_a, whole_b = sum(a.values()), sum(b.values())
        if not whole_a or not whole_b:
            return 0.0
        merged: defaultdict[str, float] = defaultdict(float)
        for text, rate in a.items():
            merged[self._canonical_name(self.new_names.get(text, text))] += rate / whole_a
        shares: defaultdict[str, float] = defaultdict(float)
        for text, rate in b.items():
            shares[self._canonical_name(text)] += rate / whole_b
        return sum(min(share, merged.get(key, 0.0)) for key, share in shares.items())

    def _canonical_name(self, text: str) -> str:
        """Who may have moved, and is not matched yet, is known by name."""
        known = self.removed.get(text) or self.new.get(text)
        return f"{known.frame.function} (?)" if known else text

    def _is_split_or_merge(self, pair: _RenameCandidate) -> bool:
        """Whether its time is rather found in two functions of the file: one was split, or two became one."""
        gone, made = self.removed[pair.old], self.new[pair.new]
        halves = [
            (made, [one for text, one in self.new.items() if text != pair.new], gone),
            (gone, [one for text, one in self.removed.items() if text != pair.old], made),
        ]
        return any(
            half.rate < 0.8 * whole.rate
            and other.rate > half.rate / 3
            and other.frame.file == half.frame.file
            and self._has_similar_callers(other, half, whole)
            for half, others, whole in halves
            for other in others
        )

    def _has_similar_callers(
        self, other: _FunctionProfile, half: _FunctionProfile, whole: _FunctionProfile
    ) -> bool:
        return (
            max(self._compute_similarity(other.callers, one.callers) for one in (half, whole))
            >= _MIN_SIMILARITY
        )


def _is_rival(pair: _RenameCandidate, other: _RenameCandidate) -> bool:
    """Whether another pair has one of the two, and is as likely."""
    shares = (pair.old == other.old) != (pair.new == other.new)
    return shares and other.score > pair.score - MIN_SCORE_MARGIN


def _strip_lines(names: Sequence[str]) -> tuple[I64, list[str]]:
    """Names without lines: the number of each name's, and their texts."""
    number: dict[str, int] = {}
    codes = [number.setdefault(strip_line_number(text), len(number)) for text in names]
    return np.array(codes, np.int64), list(number)


def _build_profiles(
    names: Sequence[str],
    name: I64,
    caller: I64,
    rate: F64,
    texts: Sequence[str],
    lines: LinesByFunction,
    side: int,
) -> dict[str, _FunctionProfile]:
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
        text: _FunctionProfile(
            Frame.parse(unescape_frame(text)),
            sum(callers[text].values()),
            callers[text],
            callees[text],
            tuple(sorted(lines.get(text, ((), ()))[side])),
        )
        for text in texts
    }


class _LineSlot(NamedTuple):
    """Between which functions of its file that both sides have a function stands, and its lines.

    `rank` is its place among those that are to be matched there, where there are as many on both sides.
    """

    file: str
    previous_function: str
    next_function: str
    first_line: int
    last_line: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class _LineIndex:
    """The lines of functions that both sides have."""

    lines: LinesByFunction

    def find_slots(
        self, removed: Mapping[str, _FunctionProfile], new: Mapping[str, _FunctionProfile]
    ) -> dict[str, _LineSlot]:
        """The slot of each function whose lines are known."""
        common_functions: defaultdict[str, list[str]] = defaultdict(list)
        for text in self.lines:
            common_functions[Frame.parse(unescape_frame(text)).file].append(text)
        found = [
            {
                text: self._build_slot(one, common_functions[one.frame.file], side)
                for text, one in functions.items()
                if one.lines
            }
            for side, functions in enumerate((removed, new))
        ]
        groups: defaultdict[tuple[str, str, str], tuple[list[str], list[str]]]
        groups = defaultdict(lambda: ([], []))
        for side, slots in enumerate(found):
            for text in sorted(slots, key=lambda text: slots[text].first_line):
                groups[slots[text][:3]][side].append(text)
        ranked: dict[str, _LineSlot] = {}
        for side, slots in enumerate(found):
            for text, slot in slots.items():
                group = groups[slot[:3]]
                rank = group[side].index(text) if len(group[0]) == len(group[1]) else None
                ranked[text] = slot._replace(rank=rank)
        return ranked

    def compute_line_similarity(self, old: _LineSlot | None, new: _LineSlot | None) -> float | None:
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
            for text in (old.previous_function, old.next_function)
            if text
            for edge in (min, max)
        }
        between = min(
            max(new.first_line - old.last_line - shift, old.first_line + shift - new.last_line, 0)
            for shift in shifts or {0}
        )
        return max(0.0, 1 - between / _MAX_LINE_DISTANCE)

    def _build_slot(
        self, function: _FunctionProfile, common_functions: Sequence[str], side: int
    ) -> _LineSlot:
        first, last = function.lines[0], function.lines[-1]
        starts = sorted((min(self.lines[text][side]), text) for text in common_functions)
        before = [text for line, text in starts if line <= first]
        after = [text for line, text in starts if line > first]
        return _LineSlot(
            function.frame.file, before[-1] if before else "", after[0] if after else "", first, last, None
        )
