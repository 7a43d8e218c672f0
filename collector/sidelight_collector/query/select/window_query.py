"""Which windows a question is about, each counted once.

A window belongs to a range if from <= start < until. A window that lies in several segments (its sidecar sent
it again because an answer was lost) counts in the first segment in order of key and nowhere else.

Of blocks whole hours are taken as rows that tell of many windows at once (`hours`) wherever that says the
same: where the hour is in the range as a whole, no segment may hold one of its windows once more, and, if
stacks are wanted, where everything was chosen that is added up in one group of stacks. Windows that are not
kept one by one any longer belong to a range if what they were added up to, an hour or a day, began in it.

A matcher on `thread` picks samples, not time: while a process's other threads were not looked at, or did not
exist, the process was watched all the same. So the rates of its kinds of threads add up to its own.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    filtered,
    firsts,
    integers,
    is_word,
    numbered,
    one,
    row_numbers,
    same,
    stacked,
    total,
)
from sidelight_collector.query.query_context import Incomplete, Reading
from sidelight_collector.query.select.matchers import matching
from sidelight_collector.query.windows import Question, Windows
from sidelight_collector.storage.hourly_rollup import ROWS, by_window
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS, Part
from sidelight_collector.storage.tables import hours as hours_of
from sidelight_model.selectors import Selector

_SEGMENT: Final = pa.field("segment", pa.int32())
_ROWS: Final = pa.schema([*ROWS, _SEGMENT])
_EMPTY_HOURS: Final = pa.schema(
    [
        *_ROWS,
        pa.field("apart", pa.bool_()),
        pa.field("daily", pa.bool_()),
        pa.field("key", pa.int32()),
    ]
).empty_table()


def choose(reading: Reading, question: Question, *, stacks: bool = True, step_ns: int = HOUR_NS) -> Windows:
    """The windows that answer one question, in the order of their segments."""
    return choose_all(reading, [question], stacks=stacks, step_ns=step_ns)[0]


def choose_all(
    reading: Reading, sides: Sequence[Question], *, stacks: bool = True, step_ns: int = HOUR_NS
) -> list[Windows]:
    """The windows of each side; those that are on two sides are the same rows on both.

    Without `stacks` nothing but the windows' own numbers is wanted, in steps of `step_ns`.
    """
    alone = step_ns % HOUR_NS != 0 or any(side.by_window for side in sides)
    bounds = chain.from_iterable((side.from_ns, side.until_ns) for side in sides)
    cut = {bound // HOUR_NS * HOUR_NS for bound in bounds if bound % HOUR_NS}
    made = [_Side(reading, side, stacks=stacks, alone=alone) for side in sides]
    cut |= set(chain.from_iterable(side.touched() for side in made))
    cut |= set(chain.from_iterable(side.partly(cut) for side in made))
    return [side.windows(cut) for side in made]


class _Side:
    """One side while it is being answered: which of its hours are taken as a whole is up to all sides."""

    def __init__(self, reading: Reading, question: Question, *, stacks: bool, alone: bool) -> None:
        self._reading = reading
        self._question = question
        self._stacks = stacks
        self._refs = reading.segments(question.from_ns, question.until_ns)
        parts = [reading.readable(ref) for ref in self._refs]
        summed = [at for at, of in enumerate(parts) if _is_summed(of, stacks=stacks, alone=alone)]
        read = reading.parts([(self._refs[at], "hours") for at in summed])
        self._hours = dict(zip(summed, read, strict=True))
        self._rows = _EMPTY_HOURS
        if self._hours:
            rows = [self._numbered(at, table, parts[at]) for at, table in self._hours.items()]
            if not stacks:  # then it does not matter what else there is, and it may be very much
                rows = [matching(of, without_threads(question.selector)) for of in rows]
            self._rows = stacked(rows)
            # A block whose days only are known apart is chosen by day.
            group = pc.if_else(self._rows["daily"], self._rows["day"], self._rows["group"])
            keys = pa.table({name: self._rows[name] for name in ("segment", "daily")})
            self._rows = self._rows.append_column("key", numbered(keys.append_column("group", group)))

    def _numbered(self, at: int, hours: pa.Table, parts: Collection[Part]) -> pa.Table:
        """Rows of a block with what tells them from those of others."""
        rows = len(hours)
        numbers = pc.cast(row_numbers(rows), pa.string())
        prefix = pa.repeat(pa.scalar(self._refs[at].key_prefix), rows)
        names = pc.binary_join_element_wise(prefix, numbers, pa.repeat(pa.scalar(""), rows))
        daily = self._stacks and not {"sums", "profiles"} & set(parts)
        more = {
            "wid": names,
            "segment": same(at, pa.int32(), rows),
            "apart": pa.array(["profiles" in parts] * rows, pa.bool_()),
            "daily": pa.array([daily] * rows, pa.bool_()),
        }
        return pa.table({**{name: hours[name] for name in hours.column_names}, **more})

    def touched(self) -> Iterator[int]:
        """Hours of windows that are read one by one: those of segments may be in a block too."""
        for at, ref in enumerate(self._refs):
            if at not in self._hours:
                yield from ref.hours()

    def partly(self, cut: Collection[int]) -> Iterator[int]:
        """Hours in which windows are chosen and others of the same group of stacks are not."""
        if self._stacks:
            rows = self._whole(cut)
            rows = rows.filter(pc.and_(rows["apart"], self._is_partly(rows)))
            yield from integers(pc.unique(rows["hour"]))

    def windows(self, cut: Collection[int]) -> Windows:
        """What is chosen, when nothing is taken as a whole of the hours that are cut."""
        rows, unresolved = self._whole(cut), 0
        if self._stacks:
            partly = self._is_partly(rows)
            unresolved = total(rows.filter(partly)["windows"])
            rows = rows.filter(pc.invert(partly))
        alone, stored = self._alone(cut)
        table = stacked([alone, rows.select(_ROWS.names)])
        chosen, watched = chosen_and_watched(table, self._question.selector)
        hours = {self._refs[at]: table for at, table in self._hours.items()}
        return Windows(chosen, watched, self._refs, stored, hours, unresolved)

    def _whole(self, cut: Collection[int]) -> pa.Table:
        """Rows of those hours, or days, that began in the range and are not cut."""
        rows = self._rows
        day = one(pc.multiply(pc.divide(rows["hour"], pa.scalar(DAY_NS)), pa.scalar(DAY_NS)))
        start = pc.if_else(rows["daily"], day, rows["hour"])
        whole = pc.invert(pc.and_(rows["apart"], pc.is_in(rows["hour"], value_set=_numbers(cut))))
        return filtered(rows, pc.and_(_between(start, self._question), whole))

    def _is_partly(self, rows: pa.Table) -> Array:
        """For each row whether it is chosen, and another of its group is not."""
        at = row_numbers(len(rows))
        taken = matching(rows.append_column("at", at), self._question.selector)["at"]
        chosen = pc.is_in(at, value_set=one(taken))
        left = pc.unique(rows["key"].filter(pc.invert(chosen)))
        return pc.and_(chosen, pc.is_in(one(rows["key"]), value_set=left))

    def _alone(self, cut: Collection[int]) -> tuple[pa.Table, dict[SegmentRef, int]]:
        """Windows one by one, of the hours that are cut, and how many each segment holds that was read."""
        values = _numbers(cut)
        read = []
        for at in range(len(self._refs)):
            hours = self._hours.get(at)
            if hours is None:
                read.append(at)
            elif "profiles" in self._refs[at].parts:
                here = hours.filter(pc.is_in(hours["hour"], value_set=values))
                if len(here.filter(self._meets(here))):
                    read.append(at)
        found = self._reading.profiles([self._refs[at] for at in read])
        where = {ref: at for at, ref in enumerate(self._refs)}
        tables = [
            profiles.append_column(_SEGMENT, same(where[ref], pa.int32(), len(profiles)))
            for ref, profiles in found
        ]
        stored = {ref: len(profiles) for ref, profiles in found}
        if any(at in self._hours and self._refs[at] not in stored for at in read):
            raise Incomplete
        if not tables:
            return _ROWS.empty_table(), stored
        table = stacked(tables)
        wanted = _between(table["ts"], self._question)
        if self._hours:
            whole = pc.is_in(table["segment"], value_set=pa.array(list(self._hours), pa.int32()))
            alone = pc.or_(pc.invert(whole), pc.is_in(hours_of(table), value_set=values))
            wanted = pc.and_(wanted, alone)
        table = table.filter(wanted)
        if len(tables) > 1:
            table = once(table)
        return by_window(table).append_column(_SEGMENT, table["segment"]), stored

    def _meets(self, hours: pa.Table) -> Array:
        after = pc.greater(hours["hour"], pa.scalar(self._question.from_ns - HOUR_NS))
        return pc.and_(after, pc.less(hours["hour"], pa.scalar(self._question.until_ns)))


def _is_summed(parts: Collection[Part], *, stacks: bool, alone: bool) -> bool:
    """Whether windows of a block with these tables are taken by the hour where they can be."""
    if "hours" not in parts:
        return False
    return "profiles" not in parts or (not alone and ("sums" in parts or not stacks))


def _between(column: Column, question: Question) -> Array:
    least, beyond = pa.scalar(question.from_ns), pa.scalar(question.until_ns)
    return pc.and_(pc.greater_equal(one(column), least), pc.less(one(column), beyond))


def _numbers(values: Iterable[int]) -> Array:
    return pa.array(sorted(values), pa.int64())


def chosen_and_watched(table: pa.Table, selector: Selector) -> tuple[pa.Table, pa.Table]:
    """The windows that a selector accepts, and those of their processes."""
    threads = Selector(tuple(one for one in selector.matchers if one.name == "thread"))
    if not threads.matchers:
        chosen = matching(table, selector)
        return chosen, chosen
    watched = matching(table, without_threads(selector))
    chosen = matching(watched, threads)
    # Of a process that was not shipped by kind of thread nobody knows which thread was watched.
    whole = chosen.filter(is_word(chosen["thread"], ""))
    return chosen, stacked([whole, watched.filter(pc.invert(is_word(watched["thread"], "")))])


def without_threads(selector: Selector) -> Selector:
    """What a selector asks of processes."""
    return Selector(tuple(one for one in selector.matchers if one.name != "thread"))


def once(table: pa.Table) -> pa.Table:
    """The first row of each window id, in their order."""
    return firsts(table, ["wid"])
