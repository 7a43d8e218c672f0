"""How deep stacks are on two sides: the mean, three quantiles, and the largest gap between the distributions.

What is compared is samples by the depth of their stack, (D, P, T) over depths, pods and blocks. A sample is
the unit, so a side is as deep as its samples are, however many of them there are a second.

- The mean is a ratio (frames over samples) and is judged as every rate (see `spread`), with the passing of
  time measured on depth itself.
- A quantile is held in an interval by what is known of the distribution at it (Woodruff, 1952): where the
  share of samples no deeper than it is p give or take so much, it lies between the quantiles of p less and p
  plus that. The two intervals become one of the shift by MOVER (Zou and Donner, 2008), with what sides that
  are paired have in common. Depths are whole numbers and often few: percentiles of a bootstrap would jump
  between them, and a bootstrap draws pods or blocks, never both, as the shares here are clustered. p is the
  level at which the interval ends at 0.
- The largest gap is the greatest difference of the two cumulative distributions (Kolmogorov's distance), and
  its interval is the gap give or take what the largest deviation of any share is in 95 % of bootstrap rounds:
  as the gap is the largest of many, it is held by a band about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.bootstrap import Rounds, rounds, seed_of
from sidelight_collector.statistics.inference.cluster_variance import Effects, effects, judged
from sidelight_collector.statistics.inference.design import Design, Load, Side, design
from sidelight_collector.statistics.inference.student_t import POWER, quantile, two_sided

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

QUANTILES: Final = (0.5, 0.95, 0.99)
_STEPS: Final = 30
_MOST_ERRORS: Final = 40.0


@dataclass(frozen=True, slots=True)
class Gap:
    """Where the distributions are farthest apart: of B so much more than of A is deeper than `depth`."""

    depth: int
    gap: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Depths:
    """In frames: effects of the mean (1,) and the quantiles (3,), the deepest stacks, the gap."""

    mean: Effects
    quantiles: Effects
    most: tuple[int, int]
    gap: Gap


def depths(of: Design, depth: I64, a: F64, b: F64, *, count: int = 1000) -> Depths | None:
    """Compare samples by depth, (D, P, T) of each side; `depth` are the D depths, ascending.

    None where a side has no samples.
    """
    if not a.sum() or not b.sum():
        return None
    value = depth.astype(np.float64)[:, None, None]
    mean = _effects(of, a, b, [(a * value).sum(0)], [(b * value).sum(0)], _mean_samples(depth, a, b))
    deeper_a, deeper_b = _deeper(a), _deeper(b)
    share = _effects(of, a, b, deeper_a, deeper_b, None)
    return Depths(
        mean,
        _quantiles(of, depth, a, b, share),
        (_deepest(depth, a), _deepest(depth, b)),
        _gap(of, depth, (a, b), share, count),
    )


def _effects(of: Design, a: F64, b: F64, x: object, y: object, samples: tuple[F64, F64] | None) -> Effects:
    """Effects of sums over samples; of shares if no numbers of samples are given."""
    one, two = np.asarray(x, np.float64), np.asarray(y, np.float64)
    own = per_sample(of, a.sum(0), b.sum(0), one.sum(0), two.sum(0))
    if samples is None:
        samples = (share_samples(one, own.a), share_samples(two, own.b))
    return effects(own, one, two, *samples)


def per_sample(of: Design, a: F64, b: F64, whole_a: F64, whole_b: F64) -> Design:
    """The design of rates per sample (or second) that was taken: (P, T) of each side, and the whole's sums.

    What was watched are samples, and how slowly time passes is measured on what is compared itself.
    """
    one, two = replace(of.a, watched=a), replace(of.b, watched=b)
    load = Load.ASSUMED_EQUAL if of.load is Load.ASSUMED_EQUAL else Load.COURSE
    made = design(
        one,
        two,
        whole_a,
        whole_b,
        same_time=of.same_time,
        same_pods=of.same_pods,
        detect=of.detect,
        load=load,
    )
    return replace(made, alpha=of.alpha)


def _mean_samples(depth: I64, a: F64, b: F64) -> tuple[F64, F64]:
    """How many samples of a count scatter as much as the mean depth of these does."""
    found = []
    for cells in (a, b):
        weight = cells.sum((1, 2))
        mean = float(weight @ depth / weight.sum())
        variance = float(weight @ (depth - mean) ** 2 / weight.sum())
        found.append(np.array([weight.sum() * mean**2 / variance if variance else np.inf]))
    return found[0], found[1]


def share_samples(deeper: F64, side: Side) -> F64:
    """How many samples of a count scatter, relatively, as much as a share of these does: n R/(1-R)."""
    rate = deeper.sum((1, 2)) / side.whole
    with np.errstate(divide="ignore"):
        return np.where(rate > 0, side.whole * rate / (1 - rate), 0.0)


def _deeper(cells: F64) -> F64:
    """Samples deeper than each depth, in each cell."""
    found: F64 = cells.sum(0) - np.cumsum(cells, 0)
    return np.maximum(found, 0.0)


def _deepest(depth: I64, cells: F64) -> int:
    return int(depth[np.flatnonzero(cells.sum((1, 2)))[-1]])


@dataclass(frozen=True, slots=True)
class _Known:
    """One side's distribution: the share of samples no deeper than each depth, and how sure it is."""

    depth: I64
    share: F64
    variance: F64

    def at(self, p: float) -> int:
        """The place of a quantile: the least depth that so many samples do not exceed."""
        return min(int(np.searchsorted(self.share, p - 1e-12)), len(self.depth) - 1)

    def within(self, p: float, t: float) -> tuple[float, float]:
        """Between which depths a quantile lies, for so many standard errors."""
        place = self.at(p)
        # The share that is next below the quantile may be the nearer to p, and the less sure.
        error = t * float(np.sqrt(self.variance[max(place - 1, 0) : place + 1].max()))
        low, high = self.at(max(p - error, 0.0)), self.at(min(p + error, 1.0))
        return float(self.depth[low]), float(self.depth[high])


def _quantiles(of: Design, depth: I64, a: F64, b: F64, deeper: Effects) -> Effects:
    known_a = _Known(depth, 1 - deeper.baseline, deeper.variance_a)
    known_b = _Known(depth, 1 - deeper.comparison, deeper.variance_b)
    rows = [_Shift.of(known_a, known_b, p, deeper, paired=of.same_time or of.same_pods) for p in QUANTILES]
    df = np.array([row.df for row in rows])
    errors = quantile(1 - of.alpha / 2, df)
    at_a, at_b = np.array([row.a for row in rows]), np.array([row.b for row in rows])
    low, high = np.transpose([row.ends(t) for row, t in zip(rows, errors.tolist(), strict=True)])
    relative_low, relative_high = np.transpose(
        [row.relative(t) for row, t in zip(rows, errors.tolist(), strict=True)]
    )
    half = (high - low) / 2
    variance, none = (half / errors) ** 2, np.zeros(len(rows))
    needed = errors + quantile(POWER, df)
    detectable = half / errors * needed / at_a
    p = two_sided([row.farthest() for row in rows], df)
    found = Effects(
        at_a, at_b, at_b - at_a, variance, df, needed, low, high,
        at_b / at_a - 1, relative_low, relative_high, p, detectable, (),
        none, variance / 2, variance / 2, none, none,
    )  # fmt: skip
    return judged(found, of, found.p <= of.alpha)


@dataclass(frozen=True, slots=True)
class _Shift:
    """One quantile of both sides, and how far what is known of them goes together."""

    known_a: _Known
    known_b: _Known
    quantile: float
    df: float
    together: float

    @classmethod
    def of(cls, a: _Known, b: _Known, p: float, deeper: Effects, *, paired: bool) -> _Shift:
        place = a.at(p)
        both = float(np.sqrt(deeper.variance_a[place] * deeper.variance_b[place]))
        common = (deeper.variance_a[place] + deeper.variance_b[place] - deeper.variance[place]) / 2
        together = float(np.clip(common / both, 0.0, 1.0)) if paired and both else 0.0
        return cls(a, b, p, float(min(deeper.df[place], deeper.df[b.at(p)])), together)

    @property
    def a(self) -> float:
        return float(self.known_a.depth[self.known_a.at(self.quantile)])

    @property
    def b(self) -> float:
        return float(self.known_b.depth[self.known_b.at(self.quantile)])

    def ends(self, t: float) -> tuple[float, float]:
        """The interval of the shift for so many standard errors."""
        return self._mover(self.known_a.within(self.quantile, t), self.known_b.within(self.quantile, t))

    def relative(self, t: float) -> tuple[float, float]:
        """That of the relative change, its ratio on the log scale."""
        low_a, high_a = self.known_a.within(self.quantile, t)
        low_b, high_b = self.known_b.within(self.quantile, t)
        log = np.log([low_a, high_a, low_b, high_b, self.a, self.b])
        shift = float(log[5] - log[4])
        down = _joined(float(log[5] - log[2]), float(log[1] - log[4]), self.together)
        up = _joined(float(log[3] - log[5]), float(log[4] - log[0]), self.together)
        return float(np.exp(shift - down)) - 1, float(np.exp(shift + up)) - 1

    def farthest(self) -> float:
        """How many standard errors the interval takes to reach 0."""
        least, most = 0.0, _MOST_ERRORS
        for _ in range(_STEPS if self.a != self.b else 0):
            middle = (least + most) / 2
            low, high = self.ends(middle)
            least, most = (least, middle) if low <= 0 <= high else (middle, most)
        return least

    def _mover(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        delta = self.b - self.a
        down = _joined(self.b - b[0], a[1] - self.a, self.together)
        up = _joined(b[1] - self.b, self.a - a[0], self.together)
        return delta - down, delta + up


def _joined(one: float, two: float, together: float) -> float:
    return float(np.sqrt(max(one * one + two * two - 2 * together * one * two, 0.0)))


def _gap(of: Design, depth: I64, sides: tuple[F64, F64], deeper: Effects, count: int) -> Gap:
    a, b = sides
    # Of B so much more is deeper: 1 - F turns the sign of the difference.
    apart = deeper.delta
    place = int(np.argmax(np.abs(apart)))
    one, two = replace(of.a, watched=a.sum(0)), replace(of.b, watched=b.sum(0))
    drawn = rounds(replace(of, a=one, b=two), count, seed=seed_of(a, b))
    band = _band(drawn, deeper, a, b)
    gap = float(apart[place])
    return Gap(int(depth[place]), gap, max(gap - band, -1.0), min(gap + band, 1.0))


def _band(drawn: Rounds, deeper: Effects, a: F64, b: F64) -> float:
    """What the largest deviation of any share is within, in all but alpha of the rounds.

    A round draws pods or blocks. Where the shares themselves, clustered both ways, are less sure than what
    one share deviates by in the rounds, the band is wider by as much.
    """
    sums_a, sums_b = (
        np.cumsum(weights.of(cells), axis=1, dtype=np.float64)
        for weights, cells in ((drawn.a, a), (drawn.b, b))
    )
    has = (sums_a[:, -1] > 0) & (sums_b[:, -1] > 0)
    if not has.any():
        return 1.0
    shares = sums_a[has] / sums_a[has, -1:] - sums_b[has] / sums_b[has, -1:]
    off = np.abs(shares - deeper.delta)
    band, one = (
        float(np.quantile(off.max(1), 1 - drawn.alpha)),
        float(np.quantile(off, 1 - drawn.alpha, 0).max()),
    )
    sure = float(((deeper.high - deeper.low) / 2).max())
    return max(band * drawn.stretch, band * sure / one if one else sure)
