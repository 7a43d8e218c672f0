"""Restrict a query to some stacks: by endpoint, depth, a function, or a call path.

Windows are selected by labels and time, and summed by stack. The filter applies to the sums: by the stored
depth of a stack, by a function that it contains, or by the call path that it begins with. It is therefore
independent of the engine that sums. Matchers on `endpoint` in a selector filter in the same way.

A call path has the same identifier as in the URLs of the UI (`web/src/flamegraph/tree/focus.ts`; the test
vectors in `web/test/vectors/focus.json` cover both): 16 hexadecimal digits, which are two hashes over the
names of its frames from the root down, a dot, and the first 80 characters of the last name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    ListColumn,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    sum_ints,
    to_ints,
    to_strings,
)
from sidelight_collector.query.data_basis import SideSummary
from sidelight_collector.query.engine.stack_endpoints import UNKNOWN
from sidelight_collector.query.engine.stack_text import (
    MISSING_STACK,
    StackPool,
    StackView,
    StackWeights,
    resolve_stacks,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import match_endpoints
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.times import SECOND_NS
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.selectors import Matcher

MAX_NAME_CHARACTERS: Final = 80
"""Length of the name in the identifier of a call path."""

_TEXT_CODES: Final = cast("Any", pa.dictionary(pa.int32(), pa.string()))
_UINT32_MASK: Final = 0xFFFFFFFF
_SEEDS: Final = (0x811C9DC5, 0x9747B28C)

AnySideSummary = TypeVar("AnySideSummary", bound=SideSummary)


@dataclass(frozen=True, slots=True)
class StackFilter:
    """A filter of stacks by depth, function and call path; all conditions must hold.

    min_depth, max_depth: bounds of the number of frames, both included.
    function: `name (file)`, or a name alone for that name in any file; empty for any function.
    focus: the identifier of a call path that stacks begin with; empty for any path.
    """

    min_depth: int | None = None
    max_depth: int | None = None
    function: str = ""
    focus: str = ""

    @property
    def accepts_all(self) -> bool:
        return self == StackFilter()


NO_FILTER: Final = StackFilter()


def apply_filter(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, stack_filter: StackFilter
) -> StackWeights:
    """Keep the weights of stacks that the filter and matchers on `endpoint` accept."""
    pools: list[_FilterPool] = list(_iter_filter_pools(context, stack_filter))
    if windows.endpoint_matchers:
        pools.insert(0, _EndpointFilterPool(windows.endpoint_matchers))
    for pool in pools:
        stack_ids = resolve_stacks(context, windows, weights.service, weights.hashes, pool)
        weights = select_weights(weights, pool.accepts().take(stack_ids))
        context.deadline.remaining()
    return weights


def select_weights(weights: StackWeights, mask: Array) -> StackWeights:
    """Keep the weights of the rows in `mask`."""
    service = pa.DictionaryArray.from_arrays(weights.service.indices.filter(mask), weights.service.dictionary)
    hashes, samples, period_ns = (
        column.filter(mask) for column in (weights.hashes, weights.samples, weights.period_ns)
    )
    cell = None if weights.cell_ids is None else weights.cell_ids.filter(mask)
    return StackWeights(service, hashes, samples, period_ns, cell)


def narrow_summary(
    side: AnySideSummary, windows: SelectedWindows, weights: StackWeights, stack_filter: StackFilter
) -> AnySideSummary:
    """Limit the samples and seconds of a summary to the accepted stacks."""
    if stack_filter.accepts_all and not windows.endpoint_matchers:
        return side
    counted = zip(to_ints(weights.samples), to_ints(weights.period_ns), strict=True)
    seconds = sum(samples * period_ns for samples, period_ns in counted) / SECOND_NS
    side["samples"], side["seconds"] = sum_ints(weights.samples), seconds
    return side


class _FilterPool(StackPool, Protocol):
    def accepts(self) -> Array:
        """Return a mask of the stacks of the pool that the filter accepts."""


def _iter_filter_pools(context: QueryContext, stack_filter: StackFilter) -> Iterator[_FilterPool]:
    if stack_filter.min_depth is not None or stack_filter.max_depth is not None:
        yield _DepthFilterPool(stack_filter.min_depth, stack_filter.max_depth)
    if stack_filter.function:
        yield _FunctionFilterPool(stack_filter.function)
    if stack_filter.focus:
        yield _CallPathFilterPool(context, stack_filter.focus)


class DepthPool:
    """The stored depths of stacks, without their frames; MISSING_STACK has depth 1."""

    view: StackView = "depths"

    def __init__(self) -> None:
        self._parts: list[Array] = [pa.array([1], pa.int32())]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        self._parts.append(combine_chunks(table["depth"]).take(rows))

    def depths(self) -> Array:
        return combine_chunks(pa.chunked_array(self._parts))


class _DepthFilterPool(DepthPool):
    """Accepts stacks with a depth between two bounds."""

    def __init__(self, min_depth: int | None, max_depth: int | None) -> None:
        super().__init__()
        self._min_depth, self._max_depth = min_depth, max_depth

    def accepts(self) -> Array:
        depths = self.depths()
        inside = combine_chunks(depths.is_valid())
        if self._min_depth is not None:
            inside = pc.and_(inside, pc.greater_equal(depths, pa.scalar(self._min_depth)))
        if self._max_depth is not None:
            inside = pc.and_(inside, pc.less_equal(depths, pa.scalar(self._max_depth)))
        return inside


class EndpointPool:
    """The endpoints and frameworks of stacks; MISSING_STACK has none."""

    view: StackView = "endpoints"

    def __init__(self) -> None:
        unknown = {"endpoint": UNKNOWN.name, "framework": UNKNOWN.framework}
        self._parts = [pa.table({name: pa.array([text], _TEXT_CODES) for name, text in unknown.items()})]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        self._parts.append(table.select(["endpoint", "framework"]).take(rows))

    def endpoints(self) -> pa.Table:
        """Return a table with the columns `endpoint` and `framework`."""
        return concat_tables(self._parts)


class _EndpointFilterPool(EndpointPool):
    """Accepts stacks by the name of their endpoint."""

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        super().__init__()
        self._matchers = matchers

    def accepts(self) -> Array:
        names = dictionary_encode(self.endpoints()["endpoint"])
        return match_endpoints(names.dictionary, self._matchers).take(names.indices)


class _FrameFilterPool(ABC):
    """Accepts stacks by their frames, and MISSING_STACK if `accepts_missing`."""

    view: StackView = "stacks"

    def __init__(self, *, accepts_missing: bool) -> None:
        self._parts: list[Array] = [pa.array([accepts_missing], pa.bool_())]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        self._parts.append(self._match_stacks(cast("ListColumn", combine_chunks(table["frames"]).take(rows))))

    @abstractmethod
    def _match_stacks(self, frames: ListColumn) -> Array:
        """Return a mask of the accepted stacks."""

    def accepts(self) -> Array:
        return combine_chunks(pa.chunked_array(self._parts))


class _FunctionFilterPool(_FrameFilterPool):
    """Accepts stacks that contain a function."""

    def __init__(self, function: str) -> None:
        self._function = strip_line_number(function)
        super().__init__(accepts_missing=self._is_function(MISSING_STACK))

    def _is_function(self, frame: str) -> bool:
        text = unescape_frame(strip_line_number(frame))
        return self._function in (text, Frame.parse(text).function)

    def _match_stacks(self, frames: ListColumn) -> Array:
        return _contains_any(frames, self._is_function)


class _CallPathFilterPool(_FrameFilterPool):
    """Accepts stacks that begin with a call path, given with or without line numbers."""

    def __init__(self, context: QueryContext, focus: str) -> None:
        self._context = context
        self._name = focus[17:]
        self._path_hash = int(focus[:8], 16), int(focus[8:16], 16)
        self._paths_without_lines, self._paths_with_lines = _PathHasher(), _PathHasher()
        super().__init__(accepts_missing=self._is_below([MISSING_STACK]))

    def _is_last_frame(self, frame: str) -> bool:
        return self._name in (_truncate_name(strip_line_number(frame)), _truncate_name(frame))

    def _match_stacks(self, frames: ListColumn) -> Array:
        # Only a few stacks contain the last frame of the path: hash the paths of those alone.
        has_last_frame = _contains_any(frames, self._is_last_frame)
        results = iter(self._walk_stacks(frames.filter(has_last_frame)))
        return pa.array([has and next(results) for has in has_last_frame.to_pylist()], pa.bool_())

    def _walk_stacks(self, frames: ListColumn) -> Iterator[bool]:
        flat = dictionary_encode(frames.flatten())
        texts = to_strings(flat.dictionary)
        codes = array("i", to_ints(flat.indices))
        start = 0
        for at, length in enumerate(to_ints(frames.value_lengths())):
            if at % 1024 == 0:
                self._context.deadline.remaining()
            yield self._is_below([texts[code] for code in codes[start : start + length]])
            start += length

    def _is_below(self, frames: list[str]) -> bool:
        return self._paths_without_lines.has_path(
            map(strip_line_number, frames), self._path_hash
        ) or self._paths_with_lines.has_path(iter(frames), self._path_hash)


class _PathHasher:
    """Hashes of call paths, which computes each step once."""

    def __init__(self) -> None:
        self._step_hashes: dict[tuple[tuple[int, int], str], tuple[int, int]] = {}

    def has_path(self, frames: Iterator[str], path_hash: tuple[int, int]) -> bool:
        """Whether any path from the root has these hashes."""
        at = _SEEDS
        for frame in frames:
            step = self._step_hashes.get((at, frame))
            if step is None:
                step = self._step_hashes[at, frame] = extend_path_hash(at, unescape_frame(frame))
            if step == path_hash:
                return True
            at = step
        return False


def build_focus(names: list[str]) -> str:
    """Build the identifier of a call path from the names of its frames below the root."""
    at = _SEEDS
    for name in names:
        at = extend_path_hash(at, name)
    return f"{at[0]:08x}{at[1]:08x}.{names[-1][:MAX_NAME_CHARACTERS]}"


def extend_path_hash(path: tuple[int, int], name: str) -> tuple[int, int]:
    """Return both hashes of a path that is extended by a name."""
    units = name.encode("utf-16-le", "surrogatepass")
    high, low = (_mix_hashes(at, _hash_fnv1a(units, seed)) for at, seed in zip(path, _SEEDS, strict=True))
    return high, low


def _hash_fnv1a(units: bytes, seed: int) -> int:
    """Compute FNV-1a over UTF-16 units."""
    value = seed
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = ((value ^ (low | high << 8)) * 0x01000193) & _UINT32_MASK
    return value


def _mix_hashes(path: int, name: int) -> int:
    """Mix the hash of a name into that of a path, with the finalizer of murmur3."""
    value = ((path ^ name) * 0xCC9E2D51) & _UINT32_MASK
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _UINT32_MASK
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _UINT32_MASK
    return ((value ^ value >> 16) + 0x9E3779B9) & _UINT32_MASK


def _truncate_name(frame: str) -> str:
    return unescape_frame(frame)[:MAX_NAME_CHARACTERS]


def _contains_any(frames: ListColumn, matches: Callable[[str], bool]) -> Array:
    """Return a mask of the lists that contain a matching string."""
    flat = dictionary_encode(frames.flatten())
    is_match = pa.array(list(map(matches, to_strings(flat.dictionary))), pa.bool_())
    hits = pc.unique(pc.list_parent_indices(frames).filter(is_match.take(flat.indices)))
    rows = pa.array(range(len(frames)), pa.int64())
    return cast("Array", pc.is_in(rows, value_set=hits.cast(pa.int64())))
