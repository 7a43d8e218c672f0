"""The same promises where it is known what came before: on recordings of thirty days, and on their load drawn
for hundreds of days."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.drawn import drawn
from bench.verdicts.page import Table, share
from bench.verdicts.real import DAY, SECONDS, Grid, grid
from bench.verdicts.recordings import DAYS, load, names
from bench.verdicts.trials import Windows, compared, families
from bench.verdicts.weather import DAY_SECONDS, KINDS
from sidelight.verdicts.discovery import benjamini_hochberg
from sidelight.verdicts.history import MOST, History, crowded

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

KNOWN: Final = 24
"""So many ranges come before the first that is compared, at least."""
DRAWN: Final = 40
"""Days of each service that is drawn."""
SIDE: Final = 9
"""Windows of the longer sides."""
FIRST: Final = 5
"""So many days of a recording are told apart from the later ones."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How two sides are cut out of a recording, and so how they are compared: one after the other or at the
    same hours of a day and the next, by time or per request. `versions`: they are taken to be of different
    versions, so that what is between them tells of the earlier one as well."""

    other_days: bool = False
    per_request: bool = False
    versions: bool = True

    @property
    def how(self) -> dict[str, bool]:
        """What a comparison is told of it."""
        return {"same_time": self.other_days, "other_days": self.other_days}


CUTS: Mapping[str, Cut] = {
    "apart": Cut(),
    "same hours of another day": Cut(other_days=True),
    "the same of one version": Cut(other_days=True, versions=False),
    "apart, per request": Cut(per_request=True),
    "same hours, per request": Cut(other_days=True, per_request=True),
    "per request, of one version": Cut(other_days=True, per_request=True, versions=False),
}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which sides are cut out of the days of a recording: of so many pods and windows."""

    cut: Cut
    pods: int
    windows: int

    def days(self, whole: Grid) -> range:
        """The days that A may be of: before them enough is known, and after them there is room for B."""
        last = whole.watched.shape[1] - self.windows - self.later
        return range(-(-KNOWN * self.windows // DAY), last // DAY + 1)

    @property
    def later(self) -> int:
        """So many windows after A began B began."""
        return DAY if self.cut.other_days else self.windows

    def drawn(self, whole: Grid, luck: np.random.Generator, day: int) -> tuple[Windows, Windows, History]:
        """Two equal sides, and the ranges before them, up to as many as a collector reads."""
        order, length = luck.permutation(len(whole.watched)), self.windows
        later = self.later
        last = min(whole.watched.shape[1] - length - later, (day + 1) * DAY - 1)
        start = int(luck.integers(day * DAY, last + 1))
        of_a, of_b = order[: self.pods], order[self.pods : 2 * self.pods]
        a, b = (
            whole.part(rows, slice(at, at + length), per_request=self.cut.per_request)
            for rows, at in ((of_a, start), (of_b, start + later))
        )
        before = self.before(whole, of_a, start)
        return (a, b, before) if luck.random() < 0.5 else (b, a, replace(before, sides=before.sides[::-1]))

    def before(self, whole: Grid, pods: I64, start: int) -> History:
        """The ranges before A, which began with window `start`; of versions also those between the sides."""
        length, later = self.windows, self.later
        end = later if self.cut.versions else 0
        count = min(MOST, (start + end) // length)
        known = slice(start + end - count * length, start + end)
        part = whole.part(pods, known, per_request=self.cut.per_request)
        time = part.watched if part.requests is None else part.requests
        taken, watched, ran = (
            each.sum(0).reshape(count, length).sum(1)
            for each in (part.samples[0], time, whole.clock[pods, known])
        )
        starts = end / length - np.arange(float(count), 0, -1)
        beside = np.abs(starts) >= 1
        told = beside & (taken > 0) & (watched > 0) & ~crowded(np.where(beside, taken, 0.0), ran)
        sides = np.zeros(1), np.array([later / length])
        return History(taken[told] / watched[told], starts[told], sides, DAY / length)

    def whole(self, whole: Grid, luck: np.random.Generator, day: int) -> tuple[bool, float]:
        """Whether a change of the whole is seen that is none, and which would be detectable."""
        a, b, before = self.drawn(whole, luck, day)
        _, found = compared(a, b, **self.cut.how, day=DAY_SECONDS, before=before)
        return bool(found.p[0] <= 0.05), float(found.detectable[0])

    def any_function(self, whole: Grid, luck: np.random.Generator, day: int) -> tuple[bool, float]:
        """Whether any function is called changed, of its own or in total."""
        a, b, before = self.drawn(whole, luck, day)
        own, total, _ = families(a, b, whole.functions, **self.cut.how, day=DAY_SECONDS, before=before)
        return any((benjamini_hochberg(family) <= 0.05).any() for family in (own, total)), np.inf


Try = Callable[[Pairs, Grid, np.random.Generator, int], tuple[bool, float]]
"""Whether a change is seen between sides that begin on a day, and which would be detectable."""


@dataclass(frozen=True, slots=True)
class Column:
    """What is tried, of which part of a recording, and how often on each day."""

    head: str
    part: Callable[[Grid], Grid]
    one: Try
    trials: int
    with_detectable: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen on each day (D,), NaN where before it too little is known: how often a change, and which
    change was detectable in the median trial."""

    changed: F64
    detectable: float

    @classmethod
    def of(cls, grids: Sequence[Grid], pairs: Pairs, column: Column) -> Seen:
        luck = np.random.default_rng(11)
        changed = np.full((len(grids), -(-grids[0].watched.shape[1] // DAY)), np.nan)
        detectable = []
        for at, whole in enumerate(map(column.part, grids)):
            for day in pairs.days(whole):
                found = [column.one(pairs, whole, luck, day) for _ in range(column.trials)]
                changed[at, day] = np.mean([changed for changed, _ in found])
                detectable += [change for _, change in found]
        return cls(changed.ravel(), float(np.median(detectable)))

    @property
    def often(self) -> str:
        return _sure(self.changed[~np.isnan(self.changed)])


def recorded(trials: int) -> Table:
    """Equal sides of recordings of many days."""
    each = _recordings()
    days = max(sum(-(-one.watched.shape[1] // DAY) for one in grids) for grids in each.values())
    title = f"Real recordings of {days} days, of which it is known what came before (± one standard error)"
    return _table(title, "recording", each, _of_the_whole(max(trials // 40, 1)))


def together() -> Table:
    """How far what a request takes moves from a day to the next in both services at once.

    They are recorded side by side, and their loads have but the hour of the day in common: what moves both
    is the machine.
    """
    rows = []
    for number, pair in enumerate(zip(*_recordings().values(), strict=True), 1):
        moved = [_moved(each, SIDE) for each in pair]
        most = min(map(len, moved))
        for when, at in ((f"first {FIRST}", slice(0, FIRST * DAY)), ("later", slice(FIRST * DAY, most))):
            one, two = (each[:most][at] for each in moved)
            sizes = [f"{float(np.sqrt(np.mean(each**2))):.3f}" for each in (one, two)]
            correlation = float(np.mean(one * two) / np.sqrt(np.mean(one**2) * np.mean(two**2)))
            rows.append([f"{number}", when, *sizes, f"{correlation:.2f}"])
    title = f"How far what a request takes lies from that a day before (logarithms, {SIDE * SECONDS:.0f} s)"
    return Table(title, ["recording", "days", *_recordings(), "correlation"], rows)


def _recordings() -> dict[str, list[Grid]]:
    """What is recorded of each service, of which there may be several."""
    each: dict[str, list[Grid]] = {}
    for name in names(DAYS):
        each.setdefault(name.partition("-")[0], []).append(grid(load(str(DAYS / f"{name}.npz"))))
    return each


def _moved(whole: Grid, length: int) -> F64:
    """By how much the logarithm of the clock's time per request of ranges of all pods changed in a day, of a
    range that begins at each window."""
    clock, requests = (
        np.lib.stride_tricks.sliding_window_view(each.sum(0), length).sum(1)
        for each in (whole.clock, whole.requests)
    )
    cost = np.log(clock / requests)
    moved: F64 = cost[DAY:] - cost[:-DAY]
    return moved


def repeated(trials: int) -> Table:
    """The same of their load, drawn for hundreds of days, with other pods every 40 of them."""
    seeds = range(max(trials // 100, 1))
    each = {service: [drawn(service, DRAWN, seed) for seed in seeds] for service in KINDS}
    title = f"Their load, drawn for {DRAWN * len(seeds)} days (± one standard error)"
    functions = Column("functions: any false change", lambda whole: whole, Pairs.any_function, 1, False)
    return _table(title, "drawn", each, [*_of_the_whole(1), functions])


def _of_the_whole(trials: int) -> list[Column]:
    return [
        Column("false change by samples", Grid.alone, Pairs.whole, trials),
        Column("by the kernel's clock", Grid.clocked, Pairs.whole, trials),
    ]


def _table(title: str, of: str, each: Mapping[str, Sequence[Grid]], columns: Sequence[Column]) -> Table:
    """A row for each service and pairs of sides, and one for all of the same cut."""
    rows = []
    for what, cut in CUTS.items():
        by_service = []
        for name, grids in each.items():
            by_day = []
            for length, pods in product((3, SIDE), (2, 6)):
                seen = [Seen.of(grids, Pairs(cut, pods, length), column) for column in columns]
                sides = [name, what, f"{pods} and {pods}", f"{length * SECONDS:.0f} s"]
                rows.append([*sides, *_cells(columns, [(one.often, share(one.detectable)) for one in seen])])
                by_day.append([one.changed for one in seen])
            # what is of the same day is not told apart
            by_service.append(np.ma.masked_invalid(by_day).mean(0).filled(np.nan))
        told = [(_sure(one[~np.isnan(one)]), "") for one in np.concatenate(by_service, 1)]
        rows.append(["all", what, "", "", *_cells(columns, told)])
    head = _cells(columns, [(column.head, "detectable") for column in columns])
    return Table(title, [of, "", "pods", "sides of", *head], rows)


def _cells(columns: Sequence[Column], told: Sequence[tuple[str, str]]) -> list[str]:
    """What is told in each column, with what is detectable where a column tells that."""
    pairs = zip(columns, told, strict=True)
    return [cell for column, pair in pairs for cell in (pair if column.with_detectable else pair[:1])]


def _sure(often: F64) -> str:
    """How often on average of days, with its standard error."""
    return f"{share(float(often.mean()))} ± {share(float(often.std(ddof=1)) / len(often) ** 0.5)}"
