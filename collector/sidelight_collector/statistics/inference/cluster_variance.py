"""How far two sides differ beyond what pods and times differ by themselves.

A rate is R = ΣX/ΣW, seconds over what was watched. To first order its error is the sum over the cells of e =
(X - R W)/ΣW (linearisation; Cochran, Sampling Techniques, 1977, §6.3), so its variance is that of sums of e:

- Cells of one pod go together, and so do cells of one time, so the variance is clustered both ways (Cameron,
  Gelbach and Miller, 2011; with times that depend on each other: Chiang, Hansen and Sasaki, 2024). It is
  added up of three parts that can be told apart: how pods differ for good, what passes in each pod by itself,
  and what passes in all pods at once.
- What passes in all at once is the series of the sums of the columns; `slowness` tells how its projections on
  waves make a variance. What the pods by themselves account for is taken off.
- What passes in each is what remains in its row. How pods differ for good is what the sums of rows, n/(n-1)
  times the sum of e squared, have beyond that. Relative to their rate pods of both sides are taken to differ
  alike: a canary of one pod has the differences of the pods it is compared with. In families pods that seem
  alike are taken for that; for a quantity alone they are not, as a test that decides so first is too sure of
  pods that differ a little, and not sure enough of all others.
- Where rows (or columns) of both sides belong together, e of B minus e of A, each in parts of its rate, takes
  the place of both, and what they share cancels.
- n samples scatter by the square root of n. Half an interval is no less than a standard error of that, and
  of a family, or where nothing else is seen, no less than half an interval of that.
- What only one side has at all may be surer than Student's t has it (`absence`).

Degrees of freedom are Satterthwaite's. The interval of the relative change is Fieller's (1954), which holds 0
exactly where the test of the difference does not reject; it has no upper end where A's own rate is not known
to differ from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import (
    SINGLE_TEST_LEVEL_FACTOR,
    Design,
    LoadAssumption,
    SideMatrix,
)
from sidelight_collector.statistics.inference.residuals import (
    Residuals,
    compute_between_variance,
    compute_paired_squares,
    compute_residuals,
    scale_to_mean,
)
from sidelight_collector.statistics.inference.shrinkage import PriorVariance, estimate_prior_variance
from sidelight_collector.statistics.inference.student_t import (
    MAX_DF,
    POWER,
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)
from sidelight_collector.statistics.inference.zero_counts import (
    compute_zero_count_p_value,
    upper_bound_for_zero,
)
from sidelight_model.change import Direction

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_COMMON_RATIO: Final = 2.0
"""How many times what pods pass through by themselves may show in all at once, and still be luck: of 8
cosines it shows more in one of twenty (the F distribution of 8 and 56 degrees)."""
NO_PRIOR: Final = PriorVariance()
"""Of what has nothing of its kind beside it."""
MAX_POOLING_RATIO: Final = 0.75
"""Up to how many times what passes in pods they may lie apart and be taken to differ by that alone."""
MIN_COUNTING_ERRORS: Final = 1.0
"""So many standard errors of counting half an interval has at least. A quantile of them would keep intervals
of few pods too wide: Student's t allows for pods that lie near each other by luck."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What differs, one of each for K quantities; every array has shape (K,).

    `baseline`, `comparison`, `delta`, `low`, `high` are rates (seconds per pod-second or request), variances
    their squares.
    `required_errors`: so many standard errors large a change must be to be found with a chance of 80 %.
    `relative` is B/A - 1 with its interval: NaN where A is 0 (`relative` and both ends), infinite where an
    end is not bounded. All ends are NaN, and p is 1, where nothing tells what load does.
    `min_detectable_effect` is what is needed as a relative change, infinite where A is 0.
    `lasting_variance` is the part of `variance` that more time does not take away: how much pods differ for
    good. `variance_a` and `counting_variance_a` are of side A alone: their ratio is how over-dispersed it
    is. `prior` is how the family scatters.
    """

    baseline: F64
    comparison: F64
    delta: F64
    variance: F64
    df: F64
    required_errors: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p: F64
    min_detectable_effect: F64
    direction: tuple[Direction, ...]
    lasting_variance: F64
    variance_a: F64
    variance_b: F64
    counting_variance_a: F64
    counting_variance_b: F64
    prior: PriorVariance = NO_PRIOR


def compute_effects(
    design: Design,
    a: F64,
    b: F64,
    samples_a: F64,
    samples_b: F64,
    *,
    with_shrinkage: bool = False,
    is_family: bool = False,
    prior: PriorVariance = NO_PRIOR,
) -> Effects:
    """The effects of K quantities: their seconds in the cells of each side, (K, P, T), and their samples,
    (K,).

    Infinitely many samples mean that no counting noise is to be minded. Every quantity is tested for itself:
    for a `is_family` see `discovery` and `assign_directions`. Those that are `with_shrinkage`, as functions
    are, tell each other how they scatter (`moderation`); `prior` is what others told.
    """
    one, two = compute_residuals(design, 0, a), compute_residuals(design, 1, b)
    counting_a = _compute_counting_variance(one, two, samples_a, samples_b)
    counting_b = _compute_counting_variance(two, one, samples_b, samples_a)
    several = with_shrinkage or is_family
    level_factor = 1.0 if several else SINGLE_TEST_LEVEL_FACTOR
    alone_a, alone_b, both = _estimate_variance(design, one, two, pooled=several)
    floor = counting_a + counting_b
    mean = (one.rate + two.rate) / 2
    if with_shrinkage:
        prior = estimate_prior_variance(
            both.variance, both.df, floor, mean, _build_error_matrix(design, one, two)
        )
    both = both.shrink(prior, floor, mean)
    level = 1 - level_factor * design.alpha / 2
    least, surest = t_quantile(level, both.df), t_quantile(level, MAX_DF)
    counted = surest if several else np.where(both.variance > 0, MIN_COUNTING_ERRORS, surest)
    half_seen, half_counted = least * np.sqrt(both.variance), counted * np.sqrt(floor)
    is_counting_limited, df = half_counted > half_seen, both.df
    # held to the floor at this level; beyond it tails are those of what was seen
    variance = np.where(is_counting_limited, (half_counted / least) ** 2, both.variance)
    half = np.maximum(half_seen, half_counted)
    delta = two.rate - one.rate
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(
            variance > 0, two_sided_p_value(delta / np.sqrt(variance), df), np.where(delta == 0, 1.0, 0.0)
        )
        p = np.minimum(p / level_factor, 1.0)
        relative = np.where(one.rate > 0, two.rate / one.rate - 1, np.nan)
    part = np.where(is_counting_limited, _compute_share_a(counting_a, counting_b), both.share_a)
    steady = least * (surest + t_quantile(POWER, MAX_DF)) / counted
    needed = np.where(is_counting_limited, steady, compute_required_errors(level, df, both.replication_df))
    detectable = _compute_detectable(one.rate, needed**2 * variance, part)
    ratio_low, ratio_high = _compute_fieller_interval(
        one.rate, two.rate, part * half**2, (1 - part) * half**2
    )
    watched = design.a.total_exposure > 0 and design.b.total_exposure > 0
    if not watched:
        p = np.ones_like(p)
    found = Effects(
        one.rate, two.rate, delta, variance, df, needed, delta - half, delta + half,
        relative, ratio_low - 1, ratio_high - 1, p, detectable, (),
        np.minimum(both.lasting_variance, variance), np.maximum(alone_a, counting_a),
        np.maximum(alone_b, counting_b), counting_a, counting_b, prior,
    )  # fmt: skip
    found = _apply_zero_count_test(found, design, (a, b), (samples_a, samples_b))
    if design.load is LoadAssumption.UNKNOWN:
        found = _drop_intervals(found)
    return assign_directions(found, design, found.p <= design.alpha)


def _drop_intervals(found: Effects) -> Effects:
    """The same where nothing tells how far load alone makes sides differ: as they are, without intervals."""
    none = np.full(len(found.p), np.nan)
    return replace(
        found, p=np.ones_like(none), low=none, high=none, relative_low=none, relative_high=none,
        min_detectable_effect=np.full_like(none, np.inf),
    )  # fmt: skip


def _apply_zero_count_test(
    found: Effects, design: Design, cells: Sequence[F64], samples: Sequence[F64]
) -> Effects:
    """The same, where what all pods of one side have and none of the other is known by that (`absence`)."""
    if not design.same_time or design.other_days:
        return found
    p, low, high, relative_high = (
        found.p.copy(),
        found.low.copy(),
        found.high.copy(),
        found.relative_high.copy(),
    )
    rates = found.baseline, found.comparison
    watched = [side.exposure.sum(1) for side in (design.a, design.b)]
    for own, other in ((0, 1), (1, 0)):
        only = np.flatnonzero((rates[own] > 0) & (rates[other] == 0))
        of = cells[own][only].sum(2), samples[own][only], watched[own], watched[other]
        chance = compute_zero_count_p_value(*of)
        sure = (chance <= design.alpha) & (chance < p[only])
        at, size = only[sure], rates[own][only[sure]]
        p[at] = chance[sure]
        # on a logarithmic scale, where 0 is infinitely far
        near = size * np.exp(-(high - low)[at] / 2 / size)
        if own:
            low[at] = near
        else:
            high[at] = -near
            relative_high[at] = upper_bound_for_zero(design.alpha / 2, of[1][sure], *of[2:]) - 1
    return replace(found, p=p, low=low, high=high, relative_high=relative_high)


def _compute_detectable(rate: F64, square: F64, share_a: F64) -> F64:
    """The increase that is so many standard errors large (`square` is theirs, of which A has a part),
    relative.

    What takes more scatters more: B's errors grow with it, and where they grow as fast there is none.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        of_b = np.where(rate > 0, (1 - share_a) * square / rate**2, np.inf)
        both = np.where(rate > 0, square / rate**2, np.inf)
        found: F64 = np.where(of_b < 1, (of_b + np.sqrt(of_b**2 + (1 - of_b) * both)) / (1 - of_b), np.inf)
    return found


def assign_directions(found: Effects, design: Design, is_significant: Flags) -> Effects:
    """The same effects with their directions, where those `is_significant` noise are told, (K,): one test
    or a family's."""
    if design.a.total_exposure <= 0 or design.b.total_exposure <= 0:
        return replace(found, direction=(Direction.NO_DATA,) * len(found.p))
    words = np.select(
        [is_significant & (found.baseline == 0),
         is_significant & (found.comparison == 0),
         is_significant & (found.delta > 0),
         is_significant,
         (found.min_detectable_effect <= design.min_effect)
         | ((found.baseline == 0) & (found.comparison == 0))],
        [2, 3, 0, 1, 4], 5,
    )  # fmt: skip
    return replace(found, direction=tuple(_DIRECTIONS[word] for word in words.tolist()))


_DIRECTIONS = (
    Direction.INCREASED,
    Direction.DECREASED,
    Direction.NEW,
    Direction.REMOVED,
    Direction.UNCHANGED,
    Direction.INCONCLUSIVE,
)


def count_agreeing_rows(found: Effects, design: Design, b: F64) -> tuple[NDArray[np.int64], int]:
    """How many rows of B lie on the side of the change, (K,), and of how many; `b` has shape (K, P, T)."""
    watched = design.b.exposure.sum(1)
    seen = watched > 0
    rates = b.sum(2)[:, seen] / watched[seen]
    return ((rates - found.baseline[:, None]) * np.sign(found.delta)[:, None] > 0).sum(1), int(seen.sum())


@dataclass(frozen=True, slots=True)
class _VarianceEstimate:
    """Variance, its degrees of freedom, those with which it would be seen again, how much of it lasts, and
    what part of it is A's: each (K,)."""

    variance: F64
    df: F64
    replication_df: F64
    lasting_variance: F64
    share_a: F64

    def shrink(self, prior: PriorVariance, counting: F64, rate: F64) -> _VarianceEstimate:
        """The same as others of its kind have it."""
        if not prior.df:
            return self
        variance = prior.shrink(self.variance, self.df, counting, rate)
        return replace(
            self, variance=variance, df=self.df + prior.df, replication_df=self.replication_df + prior.df
        )


def _build_error_matrix(design: Design, a: Residuals, b: Residuals) -> F64:
    """What the error of each difference is made of, (K, D): of pods, and where sides are apart of times."""
    rows = [b.row_residuals - a.row_residuals] if design.same_pods else [a.row_residuals, b.row_residuals]
    if design.same_time and not design.other_days:
        return np.concatenate(rows, 1)
    times = [one.series * np.sqrt(one.wave_weights) for one in (a, b)]
    return np.concatenate([*rows, *times], 1)


def _estimate_variance(
    design: Design, a: Residuals, b: Residuals, *, pooled: bool
) -> tuple[F64, F64, _VarianceEstimate]:
    """The variance of A's rate, of B's, and the spread of their difference with what is paired taken
    together. Pods that seem alike are `pooled` with what passes in them."""
    sides = (a, b)
    squares = [one.squares for one in sides]
    if design.same_time:
        squares = [
            _borrow_squares(a, squares[0], b, squares[1]),
            _borrow_squares(b, squares[1], a, squares[0]),
        ]
    inside = [_estimate_row_variance(design.a, squares[0]), _estimate_row_variance(design.b, squares[1])]
    shared = [
        _estimate_common_variance(design, one.series, one, of) for one, of in zip(sides, squares, strict=True)
    ]
    for_good, passes, freedom = _estimate_pod_variance(a, b, inside, pooled=pooled)
    lasting = [for_good * one.variance_factor for one in sides]
    mine = [last + own * passes for last, own in zip(lasting, inside, strict=True)]
    alone = [own + time for own, time in zip(mine, shared, strict=True)]
    none = np.zeros(len(for_good))
    # what is shared by both sides and cancels is neither's: the rest tells whose the variance is
    part = _compute_share_a(*(mine if design.same_time else alone))
    lasts, variance = lasting[0] + lasting[1], mine[0] + mine[1]
    if design.same_pods:
        variance, lasts, freedom = _estimate_paired_pod_variance(design, a, b, inside, pooled=pooled)
    if design.same_time:
        shared = [_estimate_paired_common_variance(design, a, b, squares)]
    times = zip((b, a), reversed(shared), strict=False)
    unsure = sum((time**2 / one.wave_count for one, time in times), none)
    pods, variance = variance**2 / freedom, variance + sum(shared, none)
    df, doubted = (
        _compute_df(variance, pods + unsure),
        _compute_df(variance, pods + unsure / design.har_weights.replication_df_ratio),
    )
    return alone[0], alone[1], _VarianceEstimate(variance, df, doubted, lasts, part)


def _estimate_paired_pod_variance(
    design: Design, a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool
) -> tuple[F64, F64, float]:
    """The variance of the difference of the same pods, how much of it lasts, and its degrees of freedom."""
    like_a, like_b = scale_to_mean(a, b)
    if design.same_time:
        own, waves = _estimate_row_variance(design.b, compute_paired_squares(a, b)), b.wave_residuals.shape[2]
    else:
        own, waves = inside[0] + inside[1], a.wave_residuals.shape[2] + b.wave_residuals.shape[2]
    between = compute_between_variance(
        b.row_residuals * like_b[:, None] - a.row_residuals * like_a[:, None], b.df
    )
    variance = _pool_variance(between, own, b.df, b.df * waves) if pooled else between
    return variance, np.maximum(between - own, 0.0), float(max(b.df, 1))


def _estimate_paired_common_variance(
    design: Design, a: Residuals, b: Residuals, squares: Sequence[F64]
) -> F64:
    """The variance of what passes in all rows of both sides, and not at once."""
    like_a, like_b = scale_to_mean(a, b)
    if design.same_pods:
        joint = compute_paired_squares(a, b)
    else:
        joint = squares[0] * like_a[:, None] ** 2 + squares[1] * like_b[:, None] ** 2
    series = b.series * like_b[:, None] - a.series * like_a[:, None]
    return _estimate_common_variance(design, series, b, joint)


def _estimate_row_variance(side: SideMatrix, squares: F64) -> F64:
    """The variance of what passes in each row, taken to forget fast: what lasts longer is seen between
    rows."""
    plain: F64 = squares.sum(1) * (side.exposure.shape[1] / max(squares.shape[1], 1))
    return plain


def _borrow_squares(own: Residuals, squares: F64, other: Residuals, others: F64) -> F64:
    """Of a single row that is compared with many at the same time: it is taken to pass as each of the many
    does."""
    if own.df or not other.df:
        return squares
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(other.rate > 0, own.rate**2 / other.rate**2, 0.0) * (
            own.concentration / other.concentration
        )
    return others * scale[:, None]


def _estimate_common_variance(design: Design, series: F64, residuals: Residuals, squares: F64) -> F64:
    """The variance of what passes in all rows at once: what the rows by themselves do not account for.

    Load that both sides had at once has cancelled. So where twice what the rows account for is not exceeded
    (which they do by luck in one of twenty), there is taken to be none.
    """
    seen = series**2
    shared: F64 = (seen - squares) @ residuals.wave_weights
    if design.same_time and not design.other_days:
        return np.where(seen.sum(1) > MAX_COMMON_RATIO * squares.sum(1), np.maximum(shared, 0.0), 0.0)
    return np.maximum(shared, 0.0)


def _estimate_pod_variance(
    a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool
) -> tuple[F64, F64, float]:
    """How much pods differ for good: the variance of one pod relative to its rate squared, (K,); what passes
    in them, in parts of what was seen of it; and the degrees of freedom of both together.

    Pods of both sides are taken to differ alike, so that a side of few pods borrows from the other what it
    cannot know. Both parts together are what lies between pods, also where more passes in them: pods that
    happen to lie near each other may differ all the same, and the tails of few degrees allow for it.
    """
    none = np.zeros(len(a.rate))
    seen = [(one, own) for one, own in zip((a, b), inside, strict=True) if one.df]
    scale = sum((one.df * one.rate**2 for one, _ in seen), none)
    between = sum((one.df * one.between_variance / one.concentration for one, _ in seen), none)
    own = sum((one.df * of / one.concentration for one, of in seen), none)
    freedom = a.df + b.df
    waves = sum(one.df * one.wave_residuals.shape[2] for one in (a, b))
    variance = _pool_variance(between, own, freedom, waves) if pooled else between
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0, np.maximum(between - own, 0.0) / scale, 0.0)
        passes = np.where(own > 0, np.minimum(variance / own, 1.0), 1.0)
    return relative, passes, float(max(freedom, 1))


def _pool_variance(between: F64, own: F64, between_df: int, within_df: int) -> F64:
    """The variance of sums of pods, (K,), for one of a family.

    Among hundreds of functions some have pods that lie near each other by luck, and these would be found.
    Where pods lie no farther apart than what passes in them (`own`, of so many degrees) explains, both say
    the same and are taken together (Paull, 1950), as sure as they are at 5 % and with the tails of the
    degrees that pods have. For one quantity alone that is too wide where pods are alike.
    """
    between_df = max(between_df, 1)
    alike = (between <= MAX_POOLING_RATIO * own) & (within_df > 0)
    both = between_df + within_df
    tails = float(t_quantile(0.975, both) / t_quantile(0.975, between_df)) ** 2
    return np.where(alike, (between_df * between + within_df * own) / both * tails, between)


def _compute_df(variance: F64, unsure: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(unsure > 0, np.clip(variance**2 / unsure, 1.0, MAX_DF), MAX_DF)


def _compute_counting_variance(own: Residuals, other: Residuals, samples: F64, others: F64) -> F64:
    """The least variance that so many samples allow, and one more, so that none is not sure to be none.

    A side without any is taken to have samples as long as the other's.
    """
    count, most = np.asarray(samples, float), np.asarray(others, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(
            count > 0,
            own.rate / count,
            np.where(most > 0, other.rate * other.total_exposure / most / own.total_exposure, 0.0),
        )
        least: F64 = np.where(np.isinf(count), 0.0, (count + 1) * each**2)
    return least


def _compute_share_a(a: F64, b: F64) -> F64:
    """What part of both is A's."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part: F64 = np.where(a + b > 0, a / (a + b), 0.5)
    return part


def _compute_fieller_interval(a: F64, b: F64, square_a: F64, square_b: F64) -> tuple[F64, F64]:
    """The ratios r for which b - r a is within half an interval of 0, squares of halves being of A and of
    B."""
    first, third = a * a - square_a, b * b - square_b
    inner = (a * b) ** 2 - first * third
    root = np.sqrt(np.maximum(inner, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (a * b - root) / first, (a * b + root) / first
    # where A may be 0 any large ratio will do, and from below what is left is the larger root
    bounded = first > 0
    least = np.where(bounded, low, np.where((inner > 0) & (third > 0), low, 0.0))
    return (
        np.where(a > 0, np.maximum(least, 0.0), np.nan),
        np.where(a > 0, np.where(bounded, high, np.inf), np.nan),
    )
