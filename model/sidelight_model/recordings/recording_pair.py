"""Two recordings and the statistics of their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.change import DEFAULT_SIZES, RelevantSizes, compute_q_values
from sidelight_model.counts import ProfileType
from sidelight_model.gates import COMPOSITION
from sidelight_model.recordings.sample_counts import SampleCounts
from sidelight_model.recordings.sampling_noise import (
    FDR,
    NO_SHIFT,
    CommonShift,
    Estimate,
    SignificanceLevel,
    classify_insignificant,
    compute_effect,
    estimate_common_shift,
    estimate_rate,
    estimate_share,
)

EQUAL_LOAD: Final = "equal_load"
CHANGED_DIRECTIONS: Final = ("increased", "decreased", "new", "removed")
"""Directions of statistically significant changes."""
MIN_SHIFT_SAMPLES: Final = 10
"""Functions with fewer samples on a side do not show how far functions differ between runs."""
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordingPair:
    """Two recordings of one profile type.

    `seconds` are the recorded durations of baseline and comparison, or None if they are unknown.
    """

    baseline: SampleCounts
    comparison: SampleCounts
    kind: ProfileType
    seconds: tuple[float, float] | None
    level: SignificanceLevel
    min_relevant: RelevantSizes = DEFAULT_SIZES

    @property
    def basis(self) -> str:
        return EQUAL_LOAD if self.seconds else COMPOSITION

    @property
    def empty_sides(self) -> list[str]:
        return [
            name
            for name, side in zip("AB", (self.baseline, self.comparison), strict=True)
            if not side.samples
        ]

    @property
    def total_rate(self) -> float:
        """The baseline's total in the unit of `compute_effect`; 1.0 for shares."""
        return self.baseline.samples / self.seconds[0] if self.seconds else 1.0

    @property
    def per_sample(self) -> tuple[float, float]:
        """The rate (or share) of one sample of each side."""
        a, b = self.estimate(1, 1)
        return a.value, b.value

    def estimate(self, a: int, b: int) -> tuple[Estimate, Estimate]:
        """Return rates per second if `seconds` are known, otherwise shares of all samples."""
        if self.seconds:
            return estimate_rate(a, self.seconds[0]), estimate_rate(b, self.seconds[1])
        return estimate_share(a, self.baseline.samples), estimate_share(b, self.comparison.samples)

    @property
    def min_relevant_delta(self) -> float:
        """The smallest relevant difference in the unit of `compute_effect`."""
        if not self.seconds:
            return self.min_relevant.share
        totals = self.estimate(self.baseline.samples, self.comparison.samples)
        return self.min_relevant.share * sum(total.value for total in totals) / 2

    def compute_effect(self, a: int, b: int, common: CommonShift = NO_SHIFT) -> JsonObject:
        """Compare `b` samples of the comparison with `a` samples of the baseline."""
        return compute_effect(
            *self.estimate(a, b), self.level, min_relevant=self.min_relevant_delta, common=common
        )

    def compute_family_effects(
        self, samples: Sequence[tuple[int, int]], common: CommonShift
    ) -> list[JsonObject]:
        """Compare samples that are tested as one family, with their q-values.

        One counts as changed only if its q-value is at most FDR. Pairs without samples on either side are not
        tested, because they would lower the q-values of the others.
        """
        effects = [self.compute_effect(*pair, common) for pair in samples]
        tested = [effect for effect, pair in zip(effects, samples, strict=True) if any(pair)]
        for effect in effects:
            effect["q"] = None
        for effect, q in zip(tested, compute_q_values([effect["p"] for effect in tested]), strict=True):
            effect["q"] = q
            if q > FDR and effect["direction"] in (*CHANGED_DIRECTIONS, "minor"):
                effect["direction"] = classify_insignificant(effect, self.level)
        return effects

    def compute_share_effect(self, a: int, b: int, common: CommonShift) -> JsonObject:
        """Compare shares of all samples, also if `seconds` are known."""
        shares = estimate_share(a, self.baseline.samples), estimate_share(b, self.comparison.samples)
        return compute_effect(*shares, self.level, min_relevant=self.min_relevant.share, common=common)

    def find_common_shift(self) -> CommonShift:
        """Estimate from the functions' self time how far unchanged functions differ.

        With equal load (`seconds`) their rates have no shift in common.
        """
        if self.seconds or self.empty_sides:
            return NO_SHIFT
        a, b = self.baseline.self_samples, self.comparison.self_samples
        usable = [name for name in a if min(a[name], b.get(name, 0)) >= MIN_SHIFT_SAMPLES]
        return estimate_common_shift([self.estimate(a[name], b[name]) for name in usable])
