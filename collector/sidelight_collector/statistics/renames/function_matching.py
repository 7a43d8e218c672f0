"""Match functions that only changed their name or file.

A function that only A has (`removed`) is matched with a function that only B has (`new`) in two cases:

- Other name, same file: the same functions call both (each caller accounts for a similar part of their
  time), and both have the same body. The evidence for the body is their place among the unchanged functions
  of the file, or their callees.
- Other file, same name (a module that moved): the same functions call both, and their callees do not
  contradict the match.

A pair must be the best match of both functions by a margin, so there is no guessing between two equally
likely functions. If the time of a function appears in two functions, it was split, and no match is reported.
Names that many functions have (`<lambda>`, `wrapper`, `__call__`) are no evidence: they need both callers
and body. Matched functions count as one function among the callers and callees of the others. A whole module
is therefore followed from its entry points, round by round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.renames.function_profiles import LinesByFunction, build_profiles
from sidelight_collector.statistics.renames.function_rename import FunctionRename, RenameReason
from sidelight_collector.statistics.renames.line_index import LineIndex, LineSlot
from sidelight_collector.statistics.renames.unmatched_functions import UnmatchedFunctions
from sidelight_collector.statistics.renames.unmatched_profiles import MIN_SIMILARITY, UnmatchedProfiles

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

MIN_SCORE_MARGIN: Final = 0.2
_SAME_BODY_SIMILARITY: Final = 0.7
_GENERIC_NAME_SIMILARITY: Final = 0.9
_DIFFERENT_BODY_SIMILARITY: Final = 0.3


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
    lines = lines or {}
    profiles = UnmatchedProfiles(*build_profiles(names, level, name, rates, unmatched, lines), {})
    line_index = LineIndex.build(lines)
    matches: list[FunctionRename] = []
    while best := _find_best_matches(profiles, line_index):
        matches += best
        profiles = profiles.exclude_matches(best)
    return sorted(matches, key=lambda match: (-match.score, match.new))


def _find_best_matches(profiles: UnmatchedProfiles, line_index: LineIndex) -> list[FunctionRename]:
    """Return the pairs that are the best match of both functions by the margin.

    Pairs that a split or a merge explains are left out.
    """
    slots = line_index.find_slots(profiles.removed, profiles.new)
    pairs = [
        pair
        for old, removed in profiles.removed.items()
        for new, added in profiles.new.items()
        if removed.frame.file == added.frame.file or removed.frame.function == added.frame.function
        if (pair := _score_pair(profiles, line_index, slots, old, new)) is not None
    ]
    best = [pair for pair in pairs if not any(_is_rival(pair, other) for other in pairs)]
    return [pair for pair in best if not profiles.is_split_or_merge(pair.old, pair.new)]


def _score_pair(
    profiles: UnmatchedProfiles, line_index: LineIndex, slots: Mapping[str, LineSlot], old: str, new: str
) -> FunctionRename | None:
    """Return the match of two functions, or None if the evidence is not sufficient."""
    removed, added = profiles.removed[old], profiles.new[new]
    callers = profiles.compute_similarity(removed.callers, added.callers)
    if callers < MIN_SIMILARITY:
        return None
    callees = (
        profiles.compute_similarity(removed.callees, added.callees)
        if removed.has_callees or added.has_callees
        else None
    )
    if callees is not None and callees < _DIFFERENT_BODY_SIMILARITY:
        return None
    generic = removed.is_generic or added.is_generic
    if generic and callers < _GENERIC_NAME_SIMILARITY:
        return None
    same_body = callees is not None and callees >= _SAME_BODY_SIMILARITY
    place = None
    if removed.frame.file != added.frame.file:
        if generic and not same_body:
            return None
        reason = RenameReason.OTHER_FILE
    else:
        place = line_index.compute_line_similarity(slots.get(old), slots.get(new))
        at_place = place is not None and place >= (_GENERIC_NAME_SIMILARITY if generic else MIN_SIMILARITY)
        if not at_place and not same_body:
            return None
        reason = RenameReason.SAME_PLACE if at_place else RenameReason.SAME_CALLEES
    scores = [score for score in (callers, callees, place) if score is not None]
    return FunctionRename(old, new, sum(scores) / len(scores), reason)


def _is_rival(pair: FunctionRename, other: FunctionRename) -> bool:
    """Return whether another pair has one of the two functions and is as likely."""
    shares = (pair.old == other.old) != (pair.new == other.new)
    return shares and other.score > pair.score - MIN_SCORE_MARGIN
