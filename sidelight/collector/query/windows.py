"""Which windows a question is about, each counted once.

A window belongs to a range if from <= start < until. A window that lies in several segments (its sidecar sent
it again because an answer was lost) counts in the first segment in order of key and nowhere else.

A matcher on `thread` picks samples, not time: while a process's other threads were not looked at, or did not
exist, the process was watched all the same. So the rates of its kinds of threads add up to its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import Array, firsts, integers, is_word, one, same, stacked
from sidelight.collector.query.matching import matching
from sidelight.collector.query.reading import COLUMNS, Reading
from sidelight.collector.store.segments import SegmentRef
from sidelight.collector.store.tables import PROFILES
from sidelight.stacks.selectors import Selector


@dataclass(frozen=True, slots=True)
class Question:
    """One side of a query: which windows, by labels and by when they began (Unix ns, until excluded)."""

    selector: Selector
    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Chosen windows: a row each, as in the stored table, with `segment`, an index into `segments`.

    `watched` has all windows of the processes that they are of, whatever kind of thread was asked for.
    `stored[i]` says how many windows segment i holds, chosen or not.
    """

    table: pa.Table
    watched: pa.Table
    segments: Sequence[SegmentRef]
    stored: Sequence[int]

    def by_segment(self) -> Iterator[tuple[SegmentRef, Array | None]]:
        """Each segment with chosen windows, and their ids; None in place of all its ids."""
        wids = one(self.table["wid"])
        start = 0
        for segment, run in groupby(integers(self.table["segment"])):
            end = start + sum(1 for _ in run)
            everything = end - start == self.stored[segment]
            yield self.segments[segment], None if everything else wids.slice(start, end - start)
            start = end


_SEGMENT = pa.field("segment", pa.int32())
_EMPTY = pa.schema([*(PROFILES.field(name) for name in COLUMNS["profiles"]), _SEGMENT]).empty_table()


def choose(reading: Reading, question: Question) -> Windows:
    """The windows that answer a question, in the order of their segments."""
    found = reading.profiles(reading.segments(question.from_ns, question.until_ns))
    tables = [
        profiles.append_column(_SEGMENT, same(at, pa.int32(), len(profiles)))
        for at, (_, profiles) in enumerate(found)
    ]
    table = stacked(tables) if tables else _EMPTY
    table = once(within(table, question.from_ns, question.until_ns))
    chosen, watched = chosen_and_watched(table, question.selector)
    return Windows(
        chosen,
        watched,
        [ref for ref, _ in found],
        [len(profiles) for _, profiles in found],
    )


def chosen_and_watched(table: pa.Table, selector: Selector) -> tuple[pa.Table, pa.Table]:
    """The windows that a selector accepts, and those of their processes."""
    threads = Selector(tuple(one for one in selector.matchers if one.name == "thread"))
    if not threads.matchers:
        chosen = matching(table, selector)
        return chosen, chosen
    others = Selector(tuple(one for one in selector.matchers if one.name != "thread"))
    watched = matching(table, others)
    chosen = matching(watched, threads)
    # Of a process that was not shipped by kind of thread nobody knows which thread was watched.
    whole = chosen.filter(is_word(chosen["thread"], ""))
    return chosen, stacked([whole, watched.filter(pc.invert(is_word(watched["thread"], "")))])


def within(table: pa.Table, from_ns: int, until_ns: int) -> pa.Table:
    """The windows that began in the range."""
    ts = table["ts"]
    return table.filter(pc.and_(pc.greater_equal(ts, pa.scalar(from_ns)), pc.less(ts, pa.scalar(until_ns))))


def once(table: pa.Table) -> pa.Table:
    """The first row of each window id, in their order."""
    return firsts(table, ["wid"])
