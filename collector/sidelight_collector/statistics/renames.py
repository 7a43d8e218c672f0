"""Match functions that only changed their name or file.

A function that only A has (`removed`) is matched with a function that only B has (`new`) in two cases:

- Other name, same file: the same functions call both (each caller accounts for a similar part of their
  time), and both have the same body. The evidence for the body is their place among the unchanged functions
  of the file, or their callees.
- Other file, same name (a module that moved): the same functions call both, and their callees do not
  contradict the match.

Both functions must be missing from the other side beyond doubt: they have so many samples that chance does
not explain their absence (`MIN_SAMPLES`). A pair must be the best match of both functions by a margin, so
there is no guessing between two equally likely functions. If the time of a function appears in two
functions, it was split, and no match is reported. Names that many functions have (`<lambda>`, `wrapper`,
`__call__`) are no evidence: they need both callers and body. Matched functions count as one function among
the callers and callees of the others. A whole module is therefore followed from its entry points, round by
round.
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
"""The sampled lines of each function (its frame without a line), in A and in B."""

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
    """The evidence that two functions are the same."""

    SAME_PLACE = "same callers, same place in the file"
    SAME_CALLEES = "same callers, same callees"
    OTHER_FILE = "same name and callers, other file"


@dataclass(frozen=True, slots=True)
class FunctionRename:
    """A function under its old and its new name.

    `old` and `new` are frames (escaped, without lines). `score` is the confidence, from 0 to 1.
    """

    old: str
    new: str
    score: float
    reason: RenameReason


@dataclass(frozen=True, slots=True)
class UnmatchedFunctions:
    """Functions that only one side has, beyond doubt: removed from A, new in B."""

    removed: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def files(self) -> frozenset[str]:
        """The files of these functions, for which line numbers are needed."""
        return frozenset(Frame.parse(unescape_frame(text)).file for text in (*self.removed, *self.new))

    def __bool__(self) -> bool:
        return bool(self.removed) and bool(self.new)


def find_unmatched(
    names: Sequence[str], samples: tuple[F64, F64], samples_per_rate: tuple[float, float]
) -> UnmatchedFunctions:
    """Find functions whose absence from one side is not chance.

    `samples` are the samples of each name on each side. `samples_per_rate` is the number of samples for a
    rate of 1 (a second per pod-second) on each side.
    """
    by_side = []
    for side, other in ((0, 1), (1, 0)):
        expected = (
            samples[side] * samples_per_rate[other] / samples_per_rate[side]
            if samples_per_rate[side] > 0
            else samples[side] * 0
        )
        is_unmatched = (samples[other] == 0) & (np.minimum(samples[side], expected) >= MIN_SAMPLES)
        codes = [int(at) for at in np.argsort(-samples[side], kind="stable") if is_unmatched[at]]
        by_side.append(
            tuple(names[at] for at in codes if Frame.parse(unescape_frame(names[at])).file)[:MAX_CANDIDATES]
        )
    return UnmatchedFunctions(*by_side)


def match_functions(
    names: Sequence[str],
    level: I64,
    name: I64,
    rates: tuple[F64, F64],
    unmatched: UnmatchedFunctions,
    lines: LinesByFunction | None = None,
) -> list[FunctionRename]:
    """Match removed and new functions of a tree of two sides, best match first.

    The tree is in pre-order. `rates` are the totals of each node on each side, in one unit (seconds per
    pod-second). `names` may include lines.
    """
    if not unmatched:
        return []
    matcher = _FunctionMatcher.build(names, level, name, rates, unmatched, lines or {})
    matches: list[FunctionRename] = []
    while best := matcher.find_best_candidates():
        matches += [FunctionRename(pair.old, pair.new, pair.score, pair.reason) for pair in best]
        matcher = matcher.exclude_matches(best)
    return sorted(matches, key=lambda match: (-match.score, match.new))


def compute_canonical_ids(names: Sequence[str], function_renames: Sequence[FunctionRename]) -> list[int]:
    """Return the id of each name, with the id of the new name for an old name."""
    ids = {text: code for code, text in enumerate(names)}
    new_ids = {
        rename.old: ids[rename.new] for rename in function_renames if rename.old in ids and rename.new in ids
    }
    return [new_ids.get(text, code) for code, text in enumerate(names)]


def merge_siblings(names: Sequence[str], level: I64, name: I64) -> tuple[I64, I64, I64]:
    """Merge siblings with equal names in a pre-order tree, including their subtrees.

    Returns the levels and the names of the new tree, and for each old node its index in the new tree.
    Quantities by node are added up by that index. Siblings are ordered by the texts of their names.
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
    order, level = sort_preorder(parent.tolist(), [names[name_id] for name_id in code.tolist()])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.array(level, np.int64), code[order], place[merged]


class _RenameCandidate(NamedTuple):
    """A removed and a new function, with the evidence that they are the same."""

    old: str
    new: str
    score: float
    reason: RenameReason


@dataclass(frozen=True, slots=True)
class _FunctionProfile:
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
        return self.frame.function.rpartition(".")[2] in _GENERIC_NAMES

    @property
    def has_callees(self) -> bool:
        """Whether the share of its time in callees is large enough as evidence."""
        return sum(self.callees.values()) > _MIN_CALLEE_SHARE * self.rate


@dataclass(frozen=True, slots=True)
class _FunctionMatcher:
    """The functions that are not matched yet.

    `new_names` maps the old names of matched functions to the new ones.
    """

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
        node_functions = code[name]
        caller = np.where(above >= 0, node_functions[np.maximum(above, 0)], -1)
        removed, new = (
            _build_profiles(texts, node_functions, caller, rate, functions, lines, side)
            for side, (rate, functions) in enumerate(
                zip(rates, (unmatched.removed, unmatched.new), strict=True)
            )
        )
        line_index = _LineIndex(
            {text: by_side for text, by_side in lines.items() if by_side[0] and by_side[1]}
        )
        return cls(removed, new, line_index, {})

    def find_best_candidates(self) -> list[_RenameCandidate]:
        """Return the pairs that are the best match of both functions by the margin.

        Pairs that a split or a merge explains are left out.
        """
        slots = self.line_index.find_slots(self.removed, self.new)
        pairs = [
            pair
            for old, removed in self.removed.items()
            for new, added in self.new.items()
            if removed.frame.file == added.frame.file or removed.frame.function == added.frame.function
            if (pair := self._score_pair(old, removed, new, added, slots)) is not None
        ]
        best = [pair for pair in pairs if not any(_is_rival(pair, other) for other in pairs)]
        return [pair for pair in best if not self._is_split_or_merge(pair)]

    def exclude_matches(self, matches: Sequence[_RenameCandidate]) -> _FunctionMatcher:
        """Return a matcher of the other functions that uses these matches."""
        old, new = {pair.old for pair in matches}, {pair.new for pair in matches}
        return _FunctionMatcher(
            {text: function for text, function in self.removed.items() if text not in old},
            {text: function for text, function in self.new.items() if text not in new},
            self.line_index,
            {**self.new_names, **{pair.old: pair.new for pair in matches}},
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
            scores = [callers] if callees is None else [callers, callees]
            return _RenameCandidate(old, new, sum(scores) / len(scores), RenameReason.OTHER_FILE)
        place = self.line_index.compute_line_similarity(slots.get(old), slots.get(new))
        at_place = place is not None and place >= (_GENERIC_NAME_SIMILARITY if generic else _MIN_SIMILARITY)
        if not at_place and not same_body:
            return None
        scores = [callers, *(score for score in (callees, place) if score is not None)]
        return _RenameCandidate(
            old,
            new,
            sum(scores) / len(scores),
            RenameReason.SAME_PLACE if at_place else RenameReason.SAME_CALLEES,
        )

    def _compute_similarity(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        """Return the common part of two distributions, from 0 to 1 (0 if one is empty)."""
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
        """Return the name by which callers and callees are compared.

        A function that may have moved and is not matched yet is compared without its file.
        """
        unmatched = self.removed.get(text) or self.new.get(text)
        return f"{unmatched.frame.function} (?)" if unmatched else text

    def _is_split_or_merge(self, pair: _RenameCandidate) -> bool:
        """Return whether a split or a merge explains a pair better.

        In that case the time of one function is found in two functions of the file.
        """
        removed, added = self.removed[pair.old], self.new[pair.new]
        halves = [
            (added, [function for text, function in self.new.items() if text != pair.new], removed),
            (removed, [function for text, function in self.removed.items() if text != pair.old], added),
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
            max(self._compute_similarity(other.callers, profile.callers) for profile in (half, whole))
            >= _MIN_SIMILARITY
        )


def _is_rival(pair: _RenameCandidate, other: _RenameCandidate) -> bool:
    """Return whether another pair has one of the two functions and is as likely."""
    shares = (pair.old == other.old) != (pair.new == other.new)
    return shares and other.score > pair.score - MIN_SCORE_MARGIN


def _strip_lines(names: Sequence[str]) -> tuple[I64, list[str]]:
    """Return names without lines: the id of each name, and the texts by id."""
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
    """The place of a function among those of its file that both sides have.

    `previous_function` and `next_function` are its neighbours there. `rank` is its position among the
    functions to match in the same place, or None if the sides have different numbers of them.
    """

    file: str
    previous_function: str
    next_function: str
    first_line: int
    last_line: int
    rank: int | None


@dataclass(frozen=True, slots=True)
class _LineIndex:
    """The lines of the functions that both sides have."""

    lines: LinesByFunction

    def find_slots(
        self, removed: Mapping[str, _FunctionProfile], new: Mapping[str, _FunctionProfile]
    ) -> dict[str, _LineSlot]:
        """Return the slot of each function whose lines are available."""
        common_functions: defaultdict[str, list[str]] = defaultdict(list)
        for text in self.lines:
            common_functions[Frame.parse(unescape_frame(text)).file].append(text)
        slots_by_side = [
            {
                text: self._build_slot(function, common_functions[function.frame.file], side)
                for text, function in functions.items()
                if function.lines
            }
            for side, functions in enumerate((removed, new))
        ]
        groups: defaultdict[tuple[str, str, str], tuple[list[str], list[str]]]
        groups = defaultdict(lambda: ([], []))
        for side, slots in enumerate(slots_by_side):
            for text in sorted(slots, key=lambda text: slots[text].first_line):
                groups[slots[text][:3]][side].append(text)
        ranked: dict[str, _LineSlot] = {}
        for side, slots in enumerate(slots_by_side):
            for text, slot in slots.items():
                group = groups[slot[:3]]
                rank = group[side].index(text) if len(group[0]) == len(group[1]) else None
                ranked[text] = slot._replace(rank=rank)
        return ranked

    def compute_line_similarity(self, old: _LineSlot | None, new: _LineSlot | None) -> float | None:
        """Return how close the lines of two functions are, from 0 to 1.

        It is 1 where they meet and decreases with each line between them. It is None where lines are not
        available. Lines are compared after the shift of a neighbour that both sides have. Two functions of
        a file never meet: a definition and a blank line lie between them.
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
        preceding = [text for line, text in starts if line <= first]
        following = [text for line, text in starts if line > first]
        return _LineSlot(
            function.frame.file,
            preceding[-1] if preceding else "",
            following[0] if following else "",
            first,
            last,
            None,
        )
