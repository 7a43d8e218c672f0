"""The functions that are not matched yet, and what two of them have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.statistics.renames.function_profiles import FunctionProfile
from sidelight_collector.statistics.renames.function_rename import FunctionRename

MIN_SIMILARITY: Final = 0.5


@dataclass(frozen=True, slots=True)
class UnmatchedProfiles:
    """The functions that are not matched yet.

    `new_names` maps the old names of matched functions to the new ones.
    """

    removed: Mapping[str, FunctionProfile]
    new: Mapping[str, FunctionProfile]
    new_names: Mapping[str, str]

    def exclude_matches(self, matches: Sequence[FunctionRename]) -> UnmatchedProfiles:
        """Return the other functions. They use these matches."""
        new_names = {match.old: match.new for match in matches}
        matched_new = set(new_names.values())
        return UnmatchedProfiles(
            {text: function for text, function in self.removed.items() if text not in new_names},
            {text: function for text, function in self.new.items() if text not in matched_new},
            {**self.new_names, **new_names},
        )

    def compute_similarity(self, a: Mapping[str, float], b: Mapping[str, float]) -> float:
        """Return the common part of two distributions, from 0 to 1 (0 if one is empty).

        It is 1 minus their distance in total variation.
        """
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

    def is_split_or_merge(self, old: str, new: str) -> bool:
        """Return whether a split or a merge explains a pair better.

        In that case the time of one function is found in two functions of the file.
        """
        removed, added = self.removed[old], self.new[new]
        halves = [
            (added, [function for text, function in self.new.items() if text != new], removed),
            (removed, [function for text, function in self.removed.items() if text != old], added),
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
        self, other: FunctionProfile, half: FunctionProfile, whole: FunctionProfile
    ) -> bool:
        return (
            max(self.compute_similarity(other.callers, profile.callers) for profile in (half, whole))
            >= MIN_SIMILARITY
        )

    def _canonical_name(self, text: str) -> str:
        """Return the name by which callers and callees are compared.

        A function that may have moved and is not matched yet is compared without its file.
        """
        unmatched = self.removed.get(text) or self.new.get(text)
        return f"{unmatched.frame.function} (?)" if unmatched else text
