"""Which samples of the chosen windows an answer is about, by what their stacks are.

Windows are chosen by labels and time, and added up by stack. Here stacks are left out of what was added up:
by how deep they are, as the store says; by a function that they hold; by the call path that they begin with.
So it makes no difference who added up.

A call path is named as in the addresses of the pages (`web/src/flamegraph/tree/focus.ts`, held to the same
vectors in `web/test/vectors/focus.json`): 16 hexadecimal digits, which are two hashes over the names of its
frames from the root down, a dot, and the first 80 characters of the last name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array, Lists, integers, one, strings, total, words
from sidelight_collector.query.data_basis import SideNumbers
from sidelight_collector.query.engine.stack_text import MISSING, Pool, Weights, numbers
from sidelight_collector.query.query_context import Reading, View
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.frames import Frame, unescape, without_line

NAME_CHARACTERS: Final = 80
"""How much of the last name a call path's word has."""

_WORD: Final = 0xFFFFFFFF
_SEEDS: Final = (0x811C9DC5, 0x9747B28C)

Numbers = TypeVar("Numbers", bound=SideNumbers)


@dataclass(frozen=True, slots=True)
class Pick:
    """Stacks to look at: so many frames deep (both included), with this function, below this call path.

    `function` is `name (file)`, or a name alone for that name in any file. Empty is any.
    """

    min_depth: int | None = None
    max_depth: int | None = None
    function: str = ""
    focus: str = ""

    @property
    def all(self) -> bool:
        """Whether no stack is left out."""
        return self == Pick()


ALL: Final = Pick()


def picked(reading: Reading, windows: Windows, weights: Weights, pick: Pick) -> Weights:
    """The weights of those stacks that are to be looked at."""
    for pool in _pools(reading, pick):
        stack = numbers(reading, windows, weights.service, weights.h, pool)
        weights = only(weights, pool.accepted().take(stack))
        reading.deadline.remaining()
    return weights


def only(weights: Weights, rows: Array) -> Weights:
    """The weights of these rows."""
    service = pa.DictionaryArray.from_arrays(weights.service.indices.filter(rows), weights.service.dictionary)
    h, samples, period_ns = (
        column.filter(rows) for column in (weights.h, weights.samples, weights.period_ns)
    )
    cell = None if weights.cell is None else weights.cell.filter(rows)
    return Weights(service, h, samples, period_ns, cell)


def narrowed(side: Numbers, weights: Weights, pick: Pick) -> Numbers:
    """A side's numbers with samples and seconds of what was picked only."""
    if pick.all:
        return side
    counted = zip(integers(weights.samples), integers(weights.period_ns), strict=True)
    seconds = sum(samples * period_ns for samples, period_ns in counted) / SECOND_NS
    side["samples"], side["seconds"] = total(weights.samples), seconds
    return side


class _Sieve(Pool, Protocol):
    def accepted(self) -> Array:
        """For each stack of the pool whether it is looked at."""


def _pools(reading: Reading, pick: Pick) -> Iterator[_Sieve]:
    if pick.min_depth is not None or pick.max_depth is not None:
        yield _Deep(pick.min_depth, pick.max_depth)
    if pick.function:
        yield _Holding(pick.function)
    if pick.focus:
        yield _Below(reading, pick.focus)


class DepthPool:
    """How deep stacks are, as the store says: their frames are not looked at. MISSING is one frame."""

    view: View = "depths"

    def __init__(self) -> None:
        self._parts: list[Array] = [pa.array([1], pa.int32())]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def take(self, table: pa.Table, rows: Array) -> None:
        self._parts.append(one(table["depth"]).take(rows))

    def depths(self) -> Array:
        return one(pa.chunked_array(self._parts))


class _Deep(DepthPool):
    """Stacks so many frames deep."""

    def __init__(self, least: int | None, most: int | None) -> None:
        super().__init__()
        self._least, self._most = least, most

    def accepted(self) -> Array:
        depths = self.depths()
        inside = one(depths.is_valid())
        if self._least is not None:
            inside = pc.and_(inside, pc.greater_equal(depths, pa.scalar(self._least)))
        if self._most is not None:
            inside = pc.and_(inside, pc.less_equal(depths, pa.scalar(self._most)))
        return inside


class _Framed(ABC):
    """Stacks whose frames are looked at; `first` says whether MISSING is accepted."""

    view: View = "stacks"

    def __init__(self, *, first: bool) -> None:
        self._parts: list[Array] = [pa.array([first], pa.bool_())]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def take(self, table: pa.Table, rows: Array) -> None:
        self._parts.append(self._sifted(cast("Lists", one(table["frames"]).take(rows))))

    @abstractmethod
    def _sifted(self, frames: Lists) -> Array:
        """Whether each of these stacks is accepted."""

    def accepted(self) -> Array:
        return one(pa.chunked_array(self._parts))


class _Holding(_Framed):
    """Stacks with a function at least once."""

    def __init__(self, function: str) -> None:
        self._function = without_line(function)
        super().__init__(first=self._is(MISSING))

    def _is(self, frame: str) -> bool:
        text = unescape(without_line(frame))
        return self._function in (text, Frame.parse(text).function)

    def _sifted(self, frames: Lists) -> Array:
        return _with_any(frames, self._is)


class _Below(_Framed):
    """Stacks that begin with a call path, its frames named with or without their lines."""

    def __init__(self, reading: Reading, word: str) -> None:
        self._reading = reading
        self._name = word[17:]
        self._wanted = int(word[:8], 16), int(word[8:16], 16)
        self._plain, self._lined = _Paths(), _Paths()
        super().__init__(first=self._is_below([MISSING]))

    def _is_last(self, frame: str) -> bool:
        return self._name in (_name(without_line(frame)), _name(frame))

    def _sifted(self, frames: Lists) -> Array:
        # Few stacks have the last frame at all, and only theirs are walked.
        has = _with_any(frames, self._is_last)
        found = iter(self._walked(frames.filter(has)))
        return pa.array([wanted and next(found) for wanted in has.to_pylist()], pa.bool_())

    def _walked(self, frames: Lists) -> Iterator[bool]:
        flat = words(frames.flatten())
        texts = strings(flat.dictionary)
        codes = array("i", integers(flat.indices))
        start = 0
        for at, length in enumerate(integers(frames.value_lengths())):
            if at % 1024 == 0:
                self._reading.deadline.remaining()
            yield self._is_below([texts[code] for code in codes[start : start + length]])
            start += length

    def _is_below(self, frames: list[str]) -> bool:
        return self._plain.has(map(without_line, frames), self._wanted) or self._lined.has(
            iter(frames), self._wanted
        )


class _Paths:
    """The hashes of call paths, each step made once."""

    def __init__(self) -> None:
        self._steps: dict[tuple[tuple[int, int], str], tuple[int, int]] = {}

    def has(self, frames: Iterator[str], wanted: tuple[int, int]) -> bool:
        """Whether any path from the root has the wanted hashes."""
        at = _SEEDS
        for frame in frames:
            step = self._steps.get((at, frame))
            if step is None:
                step = self._steps[at, frame] = step_to(at, unescape(frame))
            if step == wanted:
                return True
            at = step
        return False


def focus_word(names: list[str]) -> str:
    """The word of a call path, from the names of its frames below the root."""
    at = _SEEDS
    for name in names:
        at = step_to(at, name)
    return f"{at[0]:08x}{at[1]:08x}.{names[-1][:NAME_CHARACTERS]}"


def step_to(path: tuple[int, int], name: str) -> tuple[int, int]:
    """Both hashes of a path that goes on with a name."""
    units = name.encode("utf-16-le", "surrogatepass")
    high, low = (_mixed(at, _fnv(units, seed)) for at, seed in zip(path, _SEEDS, strict=True))
    return high, low


def _fnv(units: bytes, seed: int) -> int:
    """FNV-1a over UTF-16 units."""
    value = seed
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low | high << 8)) * 0x01000193) & _WORD
    return value


def _mixed(path: int, name: int) -> int:
    """A path's hash with a name's mixed in, by murmur3's finaliser."""
    value = ((path ^ name) * 0xCC9E2D51) & _WORD
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _WORD
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _WORD
    return ((value ^ value >> 16) + 0x9E3779B9) & _WORD


def _name(frame: str) -> str:
    return unescape(frame)[:NAME_CHARACTERS]


def _with_any(frames: Lists, is_one: Callable[[str], bool]) -> Array:
    """For each list whether it has a word like this."""
    flat = words(frames.flatten())
    wanted = pa.array(list(map(is_one, strings(flat.dictionary))), pa.bool_())
    hits = pc.unique(pc.list_parent_indices(frames).filter(wanted.take(flat.indices)))
    rows = pa.array(range(len(frames)), pa.int64())
    return cast("Array", pc.is_in(rows, value_set=hits.cast(pa.int64())))
