"""How far two sides differ beyond what pods and times differ by themselves.

A rate is R = ΣX/ΣW, seconds over what was watched. To first order its error is the sum over the cells of e =
(X - R W)/ΣW (linearisation; Cochran, Sampling Techniques, 1977, §6.3), so its variance is that of sums of e:

- Cells of one pod go together, and so do cells of one time: V = Vp + Vt - Vc, clustered both ways (Cameron,
  Gelbach and Miller, 2011; with times that depend on each other: Chiang, Hansen and Sasaki, 2024).
- Vp is of the sums of the rows, n/(n-1) Σ e². Vt is of the series of the sums of the columns: T times the
  mean square of its projections on the first cosines (Lazarus, Lewis, Stock and Watson, 2018), as load of one
  block resembles that of the next. Vc is the same inside each row, added up: it was counted twice.
- Where rows (or columns) of both sides belong together, e of B minus e of A takes the place of both, and what
  they share cancels.
- n samples scatter by √n at least, so a side is never held to be surer than R²/n.

Degrees of freedom are Satterthwaite's. The interval of the relative change is Fieller's (1954), which holds 0
exactly where the test of the difference does not reject; it has no upper end where A's own rate is not known
to differ from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sidelight.stacks.changes import Direction
from sidelight.verdicts.cells import Design, Side
from sidelight.verdicts.slowness import cosines
from sidelight.verdicts.student import MOST_DF, quantile, two_sided

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

POWER = 0.8
"""With which chance a change of the size that is called detectable is found."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What differs, one of each for K quantities; every array has shape (K,).

    `a`, `b`, `delta`, `low`, `high` are rates (seconds per pod-second or request), variances their squares.
    `relative` is B/A - 1 with its interval: NaN where A is 0 (`relative` and both ends), infinite where an
    end is not bounded. `detectable` is the relative change that would be found with a chance of 80 %,
    infinite where A is 0. `lasting` is the part of `variance` that more time does not take away: how much
    pods differ for good. `variance_a` and `counting_a` are of side A alone: their ratio is how over-dispersed
    it is.
    """

    a: F64
    b: F64
    delta: F64
    variance: F64
    df: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p: F64
    detectable: F64
    direction: tuple[Direction, ...]
    lasting: F64
    variance_a: F64
    variance_b: F64
    counting_a: F64
    counting_b: F64


def effects(design: Design, a: F64, b: F64, samples_a: F64, samples_b: F64) -> Effects:
    """The effects of K quantities: their seconds in the cells of each side, (K, P, T), and their samples,
    (K,).

    Infinitely many samples mean that no counting noise is to be minded. Every quantity is tested for itself
    at the level of the design: for families of them see `discovery` and `judged`.
    """
    one, two = _errors(design, design.a, a), _errors(design, design.b, b)
    counting_a, counting_b = _counting(one, two, samples_a), _counting(two, one, samples_b)
    alone_a, alone_b = _spread(design, None, one), _spread(design, None, two)
    both = _spread(design, one, two) if design.same_time or design.same_pods else _apart(alone_a, alone_b)
    floor = counting_a + counting_b
    level = 1 - design.alpha / 2
    half_seen = quantile(level, both.df) * np.sqrt(both.variance)
    half_counted = quantile(level, MOST_DF) * np.sqrt(floor)
    held = half_counted > half_seen
    variance, df = np.where(held, floor, both.variance), np.where(held, MOST_DF, both.df)
    half = np.maximum(half_seen, half_counted)
    delta = two.rate - one.rate
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(variance > 0, two_sided(delta / np.sqrt(variance), df), np.where(delta == 0, 1.0, 0.0))
        relative = np.where(one.rate > 0, two.rate / one.rate - 1, np.nan)
        needed = quantile(level, df) + quantile(POWER, df)
        detectable = np.where(one.rate > 0, needed * np.sqrt(variance) / one.rate, np.inf)
    variance_a, variance_b = (
        np.maximum(alone_a.variance, counting_a),
        np.maximum(alone_b.variance, counting_b),
    )
    ratio_low, ratio_high = _fieller(one.rate, two.rate, variance_a, variance_b, variance, half)
    watched = design.a.whole > 0 and design.b.whole > 0
    if not watched:
        p = np.ones_like(p)
    found = Effects(
        one.rate, two.rate, delta, variance, df, delta - half, delta + half,
        relative, ratio_low - 1, ratio_high - 1, p, detectable, (),
        np.minimum(both.lasting, variance), variance_a, variance_b, counting_a, counting_b,
    )  # fmt: skip
    return judged(found, design, found.p <= design.alpha)


def judged(found: Effects, design: Design, outside: Flags) -> Effects:
    """The same effects with their directions, where those `outside` noise are told, (K,): one test or a
    family's."""
    if design.a.whole <= 0 or design.b.whole <= 0:
        return replace(found, direction=(Direction.UNKNOWN,) * len(found.p))
    words = np.select(
        [outside & (found.a == 0), outside & (found.b == 0), outside & (found.delta > 0), outside,
         (found.detectable <= design.detect) | ((found.a == 0) & (found.b == 0))],
        [2, 3, 0, 1, 4], 5,
    )  # fmt: skip
    return replace(found, direction=tuple(_WORDS[word] for word in words.tolist()))


_WORDS = (Direction.MORE, Direction.LESS, Direction.NEW, Direction.GONE, Direction.SAME, Direction.UNCLEAR)


def agreement(found: Effects, design: Design, b: F64) -> tuple[NDArray[np.int64], int]:
    """How many rows of B lie on the side of the change, (K,), and of how many; `b` has shape (K, P, T)."""
    watched = design.b.watched.sum(1)
    seen = watched > 0
    rates = b.sum(2)[:, seen] / watched[seen]
    return ((rates - found.a[:, None]) * np.sign(found.delta)[:, None] > 0).sum(1), int(seen.sum())


@dataclass(frozen=True, slots=True)
class More:
    """What would do to see the change that is to be detected: minutes of the same pods, or more pods a
    side."""

    minutes: float | None
    pods: int | None


def more(found: Effects, design: Design, index: int = 0) -> More | None:
    """What is lacking, `None` where nothing is. Minutes are in all, of each side; time shrinks what does not
    last."""
    rate, variance, lasting, df = (
        float(values[index]) for values in (found.a, found.variance, found.lasting, found.df)
    )
    if float(found.detectable[index]) <= design.detect or rate <= 0:
        return None
    level = 1 - design.alpha / 2
    needed = float(quantile(level, df) + quantile(POWER, df))
    aim = (design.detect * rate / needed) ** 2
    if lasting < aim:
        blocks = max(side.watched.shape[1] * side.seconds for side in (design.a, design.b))
        return More(blocks * (variance - lasting) / (aim - lasting) / 60, None)
    pods = max(design.a.rows, design.b.rows)
    for count in range(pods + 1, 1000):
        freedom = float(count - 1 if design.same_pods else 2 * (count - 1))
        needed = float(quantile(level, freedom) + quantile(POWER, freedom))
        if needed * (variance * pods / count) ** 0.5 <= design.detect * rate:
            return More(None, count)
    return More(None, None)


@dataclass(frozen=True, slots=True)
class _Errors:
    """Rates (K,) of one side, and what each row adds to their error: as a whole (K, P), in each cosine (K, P,
    q)."""

    side: Side
    rate: F64
    row: F64
    wave: F64


@dataclass(frozen=True, slots=True)
class _Spread:
    """Variance with its degrees of freedom, and the part of it that lasts: each (K,)."""

    variance: F64
    df: F64
    lasting: F64


def _errors(design: Design, side: Side, cells: F64) -> _Errors:
    """Projections of the residuals, without ever making the residuals of all cells."""
    blocks = side.watched.shape[1]
    basis = np.column_stack([np.ones(blocks), cosines(blocks, design.frequencies)])
    sums, watched = cells @ basis, side.watched @ basis
    whole = side.whole
    rate = sums[:, :, 0].sum(1) / whole if whole > 0 else np.zeros(len(cells))
    error = (sums - rate[:, None, None] * watched) / (whole if whole > 0 else 1.0)
    return _Errors(side, rate, error[:, :, 0], error[:, :, 1:])


def _spread(design: Design, a: _Errors | None, b: _Errors) -> _Spread:
    """Of B's rate alone, or of B's minus A's with what is paired taken together."""
    count = design.frequencies
    paired_rows = a is not None and design.same_pods
    paired_columns = a is not None and design.same_time
    rows = [(b.row - a.row, b.side)] if a and paired_rows else [(one.row, one.side) for one in (a, b) if one]
    variances_p = [_between(errors, side.rows) for errors, side in rows]
    waves = [(b.wave - a.wave, b.side)] if a and paired_rows and paired_columns else [
        (one.wave, one.side) for one in (a, b) if one
    ]  # fmt: skip
    common = [(one.wave.sum(1), one.side) for one in (a, b) if one]
    if a and paired_columns:
        common = [(common[1][0] - common[0][0], b.side)]
    mean = [(_blocks(side) / count if count else 0.0) for _, side in waves]
    inside = sum((wave**2).sum((1, 2)) * each for (wave, _), each in zip(waves, mean, strict=True))
    variances_t = [(wave**2).sum(1) * (_blocks(side) / count if count else 0.0) for wave, side in common]
    pods = sum((one for one, _ in variances_p), np.zeros_like(b.rate))
    time = sum(variances_t, np.zeros_like(b.rate)) * design.slowness
    inside = inside * design.slowness
    variance = np.maximum(pods + time - inside, np.maximum(pods, time))
    unsure = sum((one**2 / df for one, df in variances_p), np.zeros_like(b.rate))
    unsure = unsure + sum(one**2 for one in variances_t) * design.slowness**2 / max(count, 1)
    return _Spread(variance, _df(variance, unsure), np.maximum(pods - inside, 0.0))


def _apart(a: _Spread, b: _Spread) -> _Spread:
    variance = a.variance + b.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        unsure = a.variance**2 / a.df + b.variance**2 / b.df
    return _Spread(variance, _df(variance, unsure), a.lasting + b.lasting)


def _between(row: F64, rows: int) -> tuple[F64, float]:
    """The variance between rows and its degrees of freedom; of one row nothing can be seen."""
    if rows < 2:
        return np.zeros(len(row)), 1.0
    return (row**2).sum(1) * (rows / (rows - 1)), rows - 1.0


def _blocks(side: Side) -> int:
    return int(side.watched.shape[1])


def _df(variance: F64, unsure: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(unsure > 0, np.clip(variance**2 / unsure, 1.0, MOST_DF), MOST_DF)


def _counting(own: _Errors, other: _Errors, samples: F64) -> F64:
    """The least variance that so many samples allow: a side with none is held to one of the other's rate."""
    count = np.asarray(samples, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen: F64 = np.where(count > 0, own.rate**2 / np.maximum(count, 1), 0.0)
    return seen


def _fieller(a: F64, b: F64, variance_a: F64, variance_b: F64, variance: F64, half: F64) -> tuple[F64, F64]:
    """The ratios for which b less so many times `a` is within t standard errors of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(variance > 0, half**2 / variance, 0.0)
    together = (variance_a + variance_b - variance) / 2
    most = np.sqrt(variance_a * variance_b)
    together = np.clip(together, -most, most)
    first = a * a - square * variance_a
    second = a * b - square * together
    third = b * b - square * variance_b
    root = np.sqrt(np.maximum(second * second - first * third, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (second - root) / first, (second + root) / first
        # where A may be 0 any large ratio will do, and from below what is left is the larger root
        open_low = np.where((second * second > first * third) & (high < 0), low, 0.0)
    bounded = first > 0
    return (
        np.where(a > 0, np.maximum(np.where(bounded, low, open_low), 0.0), np.nan),
        np.where(a > 0, np.where(bounded, high, np.inf), np.nan),
    )
