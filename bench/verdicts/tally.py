"""Counts of false and true statements over many comparisons with known truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.trials import Comparison
from sidelight_collector.statistics.inference.effect_size import Effects

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Truth:
    """The true relative changes of a comparison.

    `total` is that of the whole. `own` (F,) and `total_time` (F,) are those of functions' self and total
    time, in the unit of the comparison; `own_changed` and `total_changed` mark the functions in which
    something changed, `paths_changed` the call paths. `total_time` is None if it is not known. `planted`
    are the functions whose self time changed by `factor`.
    """

    total: float
    own: F64
    own_changed: Flags
    total_time: F64 | None = None
    total_changed: Flags | None = None
    paths_changed: Flags | None = None
    planted: I64 = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(slots=True)
class Tally:
    """Counts over many comparisons of one kind.

    `any_changed` counts the comparisons that call a function changed without a cause, `any_minor` those in
    which a function of any size is outside noise without a cause.
    """

    comparisons: int = 0
    total_changed: int = 0
    total_covered: int = 0
    any_changed: int = 0
    any_minor: int = 0
    planted: int = 0
    detected: int = 0
    false_shares: list[float] = field(default_factory=list)
    path_false_shares: list[float] = field(default_factory=list)
    own_covered: list[Flags] = field(default_factory=list)
    total_time_covered: list[Flags] = field(default_factory=list)
    total_detectable: list[float] = field(default_factory=list)
    planted_detectable: list[float] = field(default_factory=list)

    def add(self, result: Comparison, truth: Truth) -> None:
        self.comparisons += 1
        self.total_changed += bool(result.total.p[0] <= result.design.alpha)
        self.total_covered += bool(_is_covered(result.total, np.array([truth.total]))[0])
        self.total_detectable.append(float(result.total.min_detectable_effect[0]))
        called = false = minor = 0
        families = (
            (result.own, truth.own, truth.own_changed, self.own_covered),
            (result.total_time, truth.total_time, truth.total_changed, self.total_time_covered),
        )
        for family, relative, is_real, covered in families:
            if relative is None or is_real is None:
                continue
            effects, actual, real = family.effects, relative[result.selected], is_real[result.selected]
            called += int(family.is_changed.sum())
            false += int((family.is_changed & ~real).sum())
            minor += int(((family.q <= result.design.alpha) & ~real).sum())
            is_large = np.maximum(effects.baseline, effects.comparison) >= result.design.min_relevant
            covered.append(_is_covered(effects, actual)[is_large & (effects.baseline > 0)])
        self.any_changed += bool(false)
        self.any_minor += bool(minor)
        self.false_shares.append(false / max(called, 1))
        is_planted = np.isin(result.selected, truth.planted)
        self.planted += len(truth.planted)
        self.detected += int((result.own.is_changed & is_planted).sum())
        self.planted_detectable += result.own.effects.min_detectable_effect[is_planted].tolist()
        if truth.paths_changed is not None:
            changed = result.changed_paths
            self.path_false_shares.append(
                int((changed & ~truth.paths_changed).sum()) / max(int(changed.sum()), 1)
            )


def compute_coverage(covered: list[Flags]) -> float:
    """Return the share of intervals that contain the truth; NaN if there are none."""
    every = np.concatenate(covered) if covered else np.zeros(0, bool)
    return float(every.mean()) if len(every) else float("nan")


def _is_covered(effects: Effects, truth: F64) -> Flags:
    tolerance = 1e-9
    covered: Flags = (effects.relative_low - tolerance <= truth) & (
        truth <= effects.relative_high + tolerance
    )
    return covered
