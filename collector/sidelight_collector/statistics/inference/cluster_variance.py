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

from sidelight_collector.statistics.inference.design import ROOM, Design, Load, Side
from sidelight_collector.statistics.inference.residuals import (
    Residuals,
    between_rows,
    of_mean,
    paired_squares,
    residuals,
)
from sidelight_collector.statistics.inference.shrinkage import Usual, learned
from sidelight_collector.statistics.inference.student_t import (
    MOST_DF,
    POWER,
    power_needs,
    quantile,
    two_sided,
)
from sidelight_collector.statistics.inference.zero_counts import absent, at_most
from sidelight_model.change import Direction

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

ALIKE: Final = 2.0
"""How many times what pods pass through by themselves may show in all at once, and still be luck: of 8
cosines it shows more in one of twenty (the F distribution of 8 and 56 degrees)."""
ALONE: Final = Usual()
"""Of what has nothing of its kind beside it."""
POOLED: Final = 0.75
"""Up to how many times what passes in pods they may lie apart and be taken to differ by that alone."""
FLOOR: Final = 1.0
"""So many standard errors of counting half an interval has at least. A quantile of them would keep intervals
of few pods too wide: Student's t allows for pods that lie near each other by luck."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What differs, one of each for K quantities; every array has shape (K,).

    `baseline`, `comparison`, `delta`, `low`, `high` are rates (seconds per pod-second or request), variances
    their squares.
    `needed`: so many standard errors large a change must be to be found with a chance of 80 %. `relative` is
    B/A - 1 with its interval: NaN where A is 0 (`relative` and both ends), infinite where an end is not
    bounded. All ends are NaN, and p is 1, where nothing tells what load does. `min_detectable_effect` is what
    is needed as a relative change, infinite where A is 0. `lasting` is the part of `variance` that more time
    does not take away: how much pods differ for good. `variance_a` and `counting_a` are of side A alone:
    their ratio is how over-dispersed it is. `usual` is how the family scatters.
    """

    baseline: F64
    comparison: F64
    delta: F64
    variance: F64
    df: F64
    needed: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p: F64
    min_detectable_effect: F64
    direction: tuple[Direction, ...]
    lasting: F64
    variance_a: F64
    variance_b: F64
    counting_a: F64
    counting_b: F64
    usual: Usual = ALONE


def effects(
    design: Design,
    a: F64,
    b: F64,
    samples_a: F64,
    samples_b: F64,
    *,
    akin: bool = False,
    family: bool = False,
    usual: Usual = ALONE,
) -> Effects:
    """The effects of K quantities: their seconds in the cells of each side, (K, P, T), and their samples,
    (K,).

    Infinitely many samples mean that no counting noise is to be minded. Every quantity is tested for itself:
    for a `family` see `discovery` and `judged`. Those that are `akin`, as functions are, tell each other how
    they scatter (`moderation`); `usual` is what others told.
    """
    one, two = residuals(design, 0, a), residuals(design, 1, b)
    counting_a = _counting(one, two, samples_a, samples_b)
    counting_b = _counting(two, one, samples_b, samples_a)
    several = akin or family
    room = 1.0 if several else ROOM
    alone_a, alone_b, both = _spread(design, one, two, pooled=several)
    floor = counting_a + counting_b
    mean = (one.rate + two.rate) / 2
    if akin:
        usual = learned(both.variance, both.df, floor, mean, _directions(design, one, two))
    both = both.moderated(usual, floor, mean)
    level = 1 - room * design.alpha / 2
    least, surest = quantile(level, both.df), quantile(level, MOST_DF)
    counted = surest if several else np.where(both.variance > 0, FLOOR, surest)
    half_seen, half_counted = least * np.sqrt(both.variance), counted * np.sqrt(floor)
    held, df = half_counted > half_seen, both.df
    # held to the floor at this level; beyond it tails are those of what was seen
    variance = np.where(held, (half_counted / least) ** 2, both.variance)
    half = np.maximum(half_seen, half_counted)
    delta = two.rate - one.rate
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(variance > 0, two_sided(delta / np.sqrt(variance), df), np.where(delta == 0, 1.0, 0.0))
        p = np.minimum(p / room, 1.0)
        relative = np.where(one.rate > 0, two.rate / one.rate - 1, np.nan)
    part = np.where(held, _part(counting_a, counting_b), both.part)
    steady = least * (surest + quantile(POWER, MOST_DF)) / counted
    needed = np.where(held, steady, power_needs(level, df, both.doubted))
    detectable = _detectable(one.rate, needed**2 * variance, part)
    ratio_low, ratio_high = _fieller(one.rate, two.rate, part * half**2, (1 - part) * half**2)
    watched = design.a.whole > 0 and design.b.whole > 0
    if not watched:
        p = np.ones_like(p)
    found = Effects(
        one.rate, two.rate, delta, variance, df, needed, delta - half, delta + half,
        relative, ratio_low - 1, ratio_high - 1, p, detectable, (),
        np.minimum(both.lasting, variance), np.maximum(alone_a, counting_a),
        np.maximum(alone_b, counting_b), counting_a, counting_b, usual,
    )  # fmt: skip
    found = _one_sided(found, design, (a, b), (samples_a, samples_b))
    if design.load is Load.UNKNOWN:
        found = _untold(found)
    return judged(found, design, found.p <= design.alpha)


def _untold(found: Effects) -> Effects:
    """The same where nothing tells how far load alone makes sides differ: as they are, without intervals."""
    none = np.full(len(found.p), np.nan)
    return replace(
        found, p=np.ones_like(none), low=none, high=none, relative_low=none, relative_high=none,
        min_detectable_effect=np.full_like(none, np.inf),
    )  # fmt: skip


def _one_sided(found: Effects, design: Design, cells: Sequence[F64], samples: Sequence[F64]) -> Effects:
    """The same, where what all pods of one side have and none of the other is known by that (`absence`)."""
    if not design.same_time or design.other_days:
        return found
    p, low, high, most = found.p.copy(), found.low.copy(), found.high.copy(), found.relative_high.copy()
    rates = found.baseline, found.comparison
    watched = [side.watched.sum(1) for side in (design.a, design.b)]
    for own, other in ((0, 1), (1, 0)):
        only = np.flatnonzero((rates[own] > 0) & (rates[other] == 0))
        of = cells[own][only].sum(2), samples[own][only], watched[own], watched[other]
        chance = absent(*of)
        sure = (chance <= design.alpha) & (chance < p[only])
        at, size = only[sure], rates[own][only[sure]]
        p[at] = chance[sure]
        # on a logarithmic scale, where 0 is infinitely far
        near = size * np.exp(-(high - low)[at] / 2 / size)
        if own:
            low[at] = near
        else:
            high[at] = -near
            most[at] = at_most(design.alpha / 2, of[1][sure], *of[2:]) - 1
    return replace(found, p=p, low=low, high=high, relative_high=most)


def _detectable(rate: F64, square: F64, part: F64) -> F64:
    """The increase that is so many standard errors large (`square` is theirs, of which A has a part),
    relative.

    What takes more scatters more: B's errors grow with it, and where they grow as fast there is none.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        of_b = np.where(rate > 0, (1 - part) * square / rate**2, np.inf)
        both = np.where(rate > 0, square / rate**2, np.inf)
        found: F64 = np.where(of_b < 1, (of_b + np.sqrt(of_b**2 + (1 - of_b) * both)) / (1 - of_b), np.inf)
    return found


def judged(found: Effects, design: Design, outside: Flags) -> Effects:
    """The same effects with their directions, where those `outside` noise are told, (K,): one test or a
    family's."""
    if design.a.whole <= 0 or design.b.whole <= 0:
        return replace(found, direction=(Direction.UNKNOWN,) * len(found.p))
    words = np.select(
        [outside & (found.baseline == 0), outside & (found.comparison == 0), outside & (found.delta > 0),
         outside,
         (found.min_detectable_effect <= design.detect)
         | ((found.baseline == 0) & (found.comparison == 0))],
        [2, 3, 0, 1, 4], 5,
    )  # fmt: skip
    return replace(found, direction=tuple(_WORDS[word] for word in words.tolist()))


_WORDS = (Direction.MORE, Direction.LESS, Direction.NEW, Direction.GONE, Direction.SAME, Direction.UNCLEAR)


def agreement(found: Effects, design: Design, b: F64) -> tuple[NDArray[np.int64], int]:
    """How many rows of B lie on the side of the change, (K,), and of how many; `b` has shape (K, P, T)."""
    watched = design.b.watched.sum(1)
    seen = watched > 0
    rates = b.sum(2)[:, seen] / watched[seen]
    return ((rates - found.baseline[:, None]) * np.sign(found.delta)[:, None] > 0).sum(1), int(seen.sum())


@dataclass(frozen=True, slots=True)
class _Spread:
    """Variance, its degrees of freedom, those with which it would be seen again, how much of it lasts, and
    what part of it is A's: each (K,)."""

    variance: F64
    df: F64
    doubted: F64
    lasting: F64
    part: F64

    def moderated(self, usual: Usual, counting: F64, rate: F64) -> _Spread:
        """The same as others of its kind have it."""
        if not usual.gained:
            return self
        variance = usual.moderated(self.variance, self.df, counting, rate)
        return replace(
            self, variance=variance, df=self.df + usual.gained, doubted=self.doubted + usual.gained
        )


def _directions(design: Design, a: Residuals, b: Residuals) -> F64:
    """What the error of each difference is made of, (K, D): of pods, and where sides are apart of times."""
    rows = [b.row - a.row] if design.same_pods else [a.row, b.row]
    if design.same_time and not design.other_days:
        return np.concatenate(rows, 1)
    times = [one.series * np.sqrt(one.weight) for one in (a, b)]
    return np.concatenate([*rows, *times], 1)


def _spread(design: Design, a: Residuals, b: Residuals, *, pooled: bool) -> tuple[F64, F64, _Spread]:
    """The variance of A's rate, of B's, and the spread of their difference with what is paired taken
    together. Pods that seem alike are `pooled` with what passes in them."""
    sides = (a, b)
    squares = [one.squares for one in sides]
    if design.same_time:
        squares = [_borrowed(a, squares[0], b, squares[1]), _borrowed(b, squares[1], a, squares[0])]
    inside = [_plain(design.a, squares[0]), _plain(design.b, squares[1])]
    shared = [_shared(design, one.series, one, of) for one, of in zip(sides, squares, strict=True)]
    for_good, passes, freedom = _lasting(a, b, inside, pooled=pooled)
    lasting = [for_good * one.part for one in sides]
    mine = [last + own * passes for last, own in zip(lasting, inside, strict=True)]
    alone = [own + time for own, time in zip(mine, shared, strict=True)]
    none = np.zeros(len(for_good))
    # what is shared by both sides and cancels is neither's: the rest tells whose the variance is
    part = _part(*(mine if design.same_time else alone))
    lasts, variance = lasting[0] + lasting[1], mine[0] + mine[1]
    if design.same_pods:
        variance, lasts, freedom = _same_pods(design, a, b, inside, pooled=pooled)
    if design.same_time:
        shared = [_difference(design, a, b, squares)]
    times = zip((b, a), reversed(shared), strict=False)
    unsure = sum((time**2 / one.cosines for one, time in times), none)
    pods, variance = variance**2 / freedom, variance + sum(shared, none)
    df, doubted = _df(variance, pods + unsure), _df(variance, pods + unsure / design.passing.doubt)
    return alone[0], alone[1], _Spread(variance, df, doubted, lasts, part)


def _same_pods(
    design: Design, a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool
) -> tuple[F64, F64, float]:
    """The variance of the difference of the same pods, how much of it lasts, and its degrees of freedom."""
    like_a, like_b = of_mean(a, b)
    if design.same_time:
        own, waves = _plain(design.b, paired_squares(a, b)), b.wave.shape[2]
    else:
        own, waves = inside[0] + inside[1], a.wave.shape[2] + b.wave.shape[2]
    between = between_rows(b.row * like_b[:, None] - a.row * like_a[:, None], b.freedom)
    variance = _pooled(between, own, b.freedom, b.freedom * waves) if pooled else between
    return variance, np.maximum(between - own, 0.0), float(max(b.freedom, 1))


def _difference(design: Design, a: Residuals, b: Residuals, squares: Sequence[F64]) -> F64:
    """The variance of what passes in all rows of both sides, and not at once."""
    like_a, like_b = of_mean(a, b)
    if design.same_pods:
        joint = paired_squares(a, b)
    else:
        joint = squares[0] * like_a[:, None] ** 2 + squares[1] * like_b[:, None] ** 2
    series = b.series * like_b[:, None] - a.series * like_a[:, None]
    return _shared(design, series, b, joint)


def _plain(side: Side, squares: F64) -> F64:
    """The variance of what passes in each row, taken to forget fast: what lasts longer is seen between
    rows."""
    plain: F64 = squares.sum(1) * (side.watched.shape[1] / max(squares.shape[1], 1))
    return plain


def _borrowed(own: Residuals, squares: F64, other: Residuals, others: F64) -> F64:
    """Of a single row that is compared with many at the same time: it is taken to pass as each of the many
    does."""
    if own.freedom or not other.freedom:
        return squares
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(other.rate > 0, own.rate**2 / other.rate**2, 0.0) * (
            own.concentration / other.concentration
        )
    return others * scale[:, None]


def _shared(design: Design, series: F64, one: Residuals, squares: F64) -> F64:
    """The variance of what passes in all rows at once: what the rows by themselves do not account for.

    Load that both sides had at once has cancelled. So where twice what the rows account for is not exceeded
    (which they do by luck in one of twenty), there is taken to be none.
    """
    seen = series**2
    shared: F64 = (seen - squares) @ one.weight
    if design.same_time and not design.other_days:
        return np.where(seen.sum(1) > ALIKE * squares.sum(1), np.maximum(shared, 0.0), 0.0)
    return np.maximum(shared, 0.0)


def _lasting(a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool) -> tuple[F64, F64, float]:
    """How much pods differ for good: the variance of one pod relative to its rate squared, (K,); what passes
    in them, in parts of what was seen of it; and the degrees of freedom of both together.

    Pods of both sides are taken to differ alike, so that a side of few pods borrows from the other what it
    cannot know. Both parts together are what lies between pods, also where more passes in them: pods that
    happen to lie near each other may differ all the same, and the tails of few degrees allow for it.
    """
    none = np.zeros(len(a.rate))
    seen = [(one, own) for one, own in zip((a, b), inside, strict=True) if one.freedom]
    scale = sum((one.freedom * one.rate**2 for one, _ in seen), none)
    between = sum((one.freedom * one.between / one.concentration for one, _ in seen), none)
    own = sum((one.freedom * of / one.concentration for one, of in seen), none)
    freedom = a.freedom + b.freedom
    waves = sum(one.freedom * one.wave.shape[2] for one in (a, b))
    variance = _pooled(between, own, freedom, waves) if pooled else between
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0, np.maximum(between - own, 0.0) / scale, 0.0)
        passes = np.where(own > 0, np.minimum(variance / own, 1.0), 1.0)
    return relative, passes, float(max(freedom, 1))


def _pooled(between: F64, own: F64, freedom: int, passing: int) -> F64:
    """The variance of sums of pods, (K,), for one of a family.

    Among hundreds of functions some have pods that lie near each other by luck, and these would be found.
    Where pods lie no farther apart than what passes in them (`own`, of so many degrees) explains, both say
    the same and are taken together (Paull, 1950), as sure as they are at 5 % and with the tails of the
    degrees that pods have. For one quantity alone that is too wide where pods are alike.
    """
    freedom = max(freedom, 1)
    alike = (between <= POOLED * own) & (passing > 0)
    both = freedom + passing
    tails = float(quantile(0.975, both) / quantile(0.975, freedom)) ** 2
    return np.where(alike, (freedom * between + passing * own) / both * tails, between)


def _df(variance: F64, unsure: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(unsure > 0, np.clip(variance**2 / unsure, 1.0, MOST_DF), MOST_DF)


def _counting(own: Residuals, other: Residuals, samples: F64, others: F64) -> F64:
    """The least variance that so many samples allow, and one more, so that none is not sure to be none.

    A side without any is taken to have samples as long as the other's.
    """
    count, most = np.asarray(samples, float), np.asarray(others, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(
            count > 0, own.rate / count, np.where(most > 0, other.rate * other.whole / most / own.whole, 0.0)
        )
        least: F64 = np.where(np.isinf(count), 0.0, (count + 1) * each**2)
    return least


def _part(a: F64, b: F64) -> F64:
    """What part of both is A's."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part: F64 = np.where(a + b > 0, a / (a + b), 0.5)
    return part


def _fieller(a: F64, b: F64, square_a: F64, square_b: F64) -> tuple[F64, F64]:
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
