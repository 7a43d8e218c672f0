"""What came before the sides of a comparison at different times: how ranges as long as they differ by
themselves (`sidelight.verdicts.history`).

The earlier side's own selector is looked at in the ranges before it, back to back. Where it names another
version than the later side's does, the ranges between both are looked at as well: they are later, and nothing
that came with the new version is among them. Only the windows' own numbers are read, by the hour where ranges
have whole hours, and no stacks; `most` ranges, and fewer where windows have to be read one by one and that is
more than `most_rows` of samples. Of hours that lie far apart, as those of two weeks do, one of several is
taken, so that as many reach as far back. A version that has not run for long enough has the past of those
before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import one, sum_of
from sidelight.collector.query.cells import F64, I64, Cut, Cuts, floats, whole
from sidelight.collector.query.frames import STATES_OF
from sidelight.collector.query.prometheus import Blocks, RequestsUnknown
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.sides import THREADS, telling
from sidelight.collector.query.watched import processes, watched_and_time
from sidelight.collector.query.windows import Question, choose
from sidelight.collector.store.tables import DAY_NS, HOUR_NS, STATES
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.selectors import Op, Selector
from sidelight.verdicts.history import FEWEST, Flags, History, crowded

LEAST: Final = 0.2
"""Of a range in which less than this part of the usual pod-seconds was watched nothing is taken."""

FARTHER: Final = 2
"""So many times as far back is looked as lies between the sides."""
PARTS: Final = 24
"""A side that is longer than the other is so many ranges as long as that one, spread over it, at most."""


@dataclass(frozen=True, slots=True)
class Before:
    """Ranges of `seconds` each that came before, the latest first: how long was watched (pod-seconds) and
    sampled of each type, how long pods were there, and what they took by the kernel's clock (each (N,)).
    `waited`: of all threads and of each kind how long they waited, and all of their time.

    `sides`: how many ranges after the end of the last of them each part of A began, and of B; `used`: which
    of them (N,) hold nothing of either. `requests`: where rates are per request, those of each range. One of
    each `step` ranges is used.
    """

    seconds: float
    sides: tuple[F64, F64]
    watched: F64
    sampled: Mapping[ProfileType, F64]
    alive: F64
    clock: F64
    waited: Mapping[str | None, tuple[F64, F64]]
    used: Flags
    step: int = 1
    requests: F64 | None = None

    @property
    def tells(self) -> bool:
        """Whether enough ranges were watched."""
        return self._history(self.watched, self.watched).tells

    def of(self, kind: ProfileType) -> History:
        """What samples of a type tell."""
        return self._history(self.sampled[kind], self._served(self.watched), self._crowded)

    def by_clock(self) -> History:
        """What the kernel's clock tells."""
        return self._history(self.clock, self._served(self.alive))

    def idle(self, thread: str | None) -> History:
        """What the share of their time tells in which threads waited; it does not rise as load does."""
        return replace(self._history(*self.waited[thread], self._crowded), directed=False)

    @property
    def _crowded(self) -> Flags:
        """Ranges of which samples say less of load, as processes waited for a CPU (N,), among those that are
        used. Ticks that failed watched nothing, and the clock went on: both are of the time in which pods
        were there."""
        sampled = np.where(self.used, self.sampled[ProfileType.CPU], 0.0)
        return crowded(sampled * self.alive, self.clock * self.watched)

    def _served(self, time: F64) -> F64:
        """So much of each range as rates are of: pod-seconds, or the requests that came in these."""
        if self.requests is None:
            return time
        return time * np.divide(self.requests, self.alive, out=np.zeros_like(time), where=self.alive > 0)

    def _history(self, taken: F64, time: F64, left_out: Flags | bool = False) -> History:
        told = self.used & (taken > 0) & (time > 0) & (np.arange(len(taken)) % self.step == 0)
        if told.any():
            told &= time >= LEAST * np.median(time[told])
        rest = told & np.logical_not(left_out)
        if rest.sum() >= FEWEST:
            told = rest
        at = np.flatnonzero(told)
        day = DAY_NS / SECOND_NS / self.seconds
        rates = np.asarray(taken[at] / time[at], np.float64)
        return History(rates, (-1.0 - at).astype(np.float64), self.sides, day)


def before(
    reading: Reading,
    sides: Sequence[Question],
    cuts: Cuts,
    *,
    most: int,
    most_rows: int,
    per_request: bool = False,
) -> Before | None:
    """What came before the earlier side; None for sides of the same time, and where nothing is to be had.

    `per_request`: with the requests of each range, as Prometheus tells them.
    """
    if cuts.paired == "time" or not (len(cuts.a.windows.table) and len(cuts.b.windows.table)):
        return None
    spans = [_span(own) for own in (cuts.a, cuts.b)]
    length, step = min(long for _, long in spans), 1
    early, late = sorted((0, 1), key=lambda at: spans[at][0])
    first, until = (spans[at][0] for at in (early, late))
    if length >= HOUR_NS:
        first, until, length = (at // HOUR_NS * HOUR_NS for at in (first, until, length))
        step = max(-(-FARTHER * (until - first) // (length * most)), 1)
    own, other = (sides[at].selector for at in (early, late))
    # of one version what changed between the sides would be taken for load, and not be told
    between = _other_versions(own, other) and FARTHER * (until - first) + length <= most * step * length
    for selector, end in {own: until if between else first, _of_all_versions(own): first}.items():
        count = _count(reading, end, length, most, most_rows) * step
        if not count:
            continue
        question = Question(selector, max(end - count * length, 0), end)
        found, watched = _read(reading, question, length, count, spans)
        found = replace(found, step=step)
        if found.tells:
            return _per_request(reading, found, watched, end) if per_request else found
    return None


def _other_versions(one: Selector, other: Selector) -> bool:
    """Whether both name versions, and not the same: what one selects is without what came with the other."""
    named = [
        {each.value for each in side.matchers if each.name == "version" and each.op is Op.EQUAL}
        for side in (one, other)
    ]
    return all(named) and named[0].isdisjoint(named[1])


def _of_all_versions(selector: Selector) -> Selector:
    """The same without its versions: where one has not run for long, those before it tell."""
    return Selector(tuple(one for one in selector.matchers if one.name != "version"))


def _count(reading: Reading, first: int, length: int, most: int, most_rows: int) -> int:
    """How many ranges are read: fewer, or none, where windows have to be read one by one and are too many."""
    count = most
    while count >= FEWEST and length % HOUR_NS:
        refs = reading.segments(max(first - count * length, 0), first)
        if sum(ref.rows for ref in refs) <= most_rows:
            break
        count //= 2
    return count if count >= FEWEST else 0


def _per_request(reading: Reading, found: Before, watched: pa.Table, until_ns: int) -> Before | None:
    """The same with the requests of each range; None where Prometheus does not tell them."""
    start_ns = until_ns - round(found.seconds * SECOND_NS) * len(found.alive)
    blocks = Blocks(start_ns, found.seconds, found.alive[None, ::-1], watched)
    told = reading.prometheus
    try:
        requests = told.requests("what came before", blocks, reading.deadline.remaining()) if told else None
    except RequestsUnknown:
        reading.passing = True
        return None
    return None if requests is None else replace(found, requests=requests[0, ::-1])


def _read(
    reading: Reading, question: Question, length: int, count: int, spans: Sequence[tuple[int, int]]
) -> tuple[Before, pa.Table]:
    """What the ranges tell, and the windows that they were made of."""
    end = question.until_ns
    chosen = choose(reading, question, stacks=False, step_ns=length)
    table, watched = chosen.table, processes(chosen.watched)
    if length % HOUR_NS:
        # hours say nothing of what is shorter
        table, watched = (rows.filter(pc.is_null(one(rows["group"]))) for rows in (table, watched))

    def ranges(rows: pa.Table) -> I64:
        return np.clip((end - 1 - whole(rows["ts"])) // length, 0, count - 1)

    at, period = ranges(table), floats(table["period_ns"]) / SECOND_NS
    sampled = {
        kind: np.bincount(at, floats(sum_of(table, states)) * period, count).astype(np.float64)
        for kind, states in STATES_OF.items()
    }

    def waited(thread: str | None) -> tuple[F64, F64]:
        rows = telling(table, thread)
        idle, every = (
            np.bincount(at[rows], (floats(sum_of(table, states)) * period)[rows], count).astype(np.float64)
            for states in (("idle",), STATES)
        )
        return idle, every

    where = ranges(watched)
    clock = np.bincount(where, floats(watched["target_cpu_ns"]), count).astype(np.float64) / SECOND_NS
    seconds, alive = np.zeros((2, count))
    for first, covered, ns in watched_and_time(watched.append_column("range", pa.array(where)), "range"):
        seconds[where[first]] += covered
        alive[where[first]] += ns / SECOND_NS
    kinds = {thread: waited(thread) for thread in (None, *THREADS)}
    a, b = (_parts(start - end, long, length) for start, long in spans)
    (start, long), begins = min(spans), end - length * np.arange(1, count + 1)
    used = (begins + length <= start) | (begins >= start + long)
    return Before(length / SECOND_NS, (a, b), seconds, sampled, alive, clock, kinds, used), watched


def _parts(start: int, long: int, length: int) -> F64:
    """Where ranges of `length` (ns) begin that a side is made of, in such lengths: at most PARTS of them."""
    count = min(max(round(long / length), 1), PARTS)
    found: F64 = np.linspace(start, max(start + long - length, start), count) / length
    return found


def _span(own: Cut) -> tuple[int, int]:
    """When the first block of a side began and how long all of them are (ns)."""
    return own.start_ns, round(own.side.seconds * SECOND_NS) * own.side.watched.shape[1]
