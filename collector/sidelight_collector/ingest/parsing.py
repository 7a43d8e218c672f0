"""The text of a body becomes windows with their stacks named: natively or by the reference, with one result.

The reference is `sidelight_model.window.decode` and `store.hashed`. It has the last word on what is refused:
a body that the native kernel does not take is read again by the reference, which says why.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import (
    HashedStacks,
    HashedWindow,
    build_hashed_stacks,
    build_hashed_window,
    hash_window,
)
from sidelight_model.errors import BadHeader
from sidelight_model.folded import number_lines, parse_folded_lines
from sidelight_model.window import Window, WindowLimits, decode_windows, parse_header, too_many_windows_error

PYSPY_REMARK_PREFIX: Final = "py-spy> "
"""Begins what `py-spy record -o /dev/stdout` says of itself between its stacks; no frame of Python's does."""


def parse_windows(text: bytes, limits: WindowLimits, native: Any | None = NATIVE) -> list[HashedWindow]:
    """The windows of a body, as `decode` reads them. Raises what `decode` and `hashed` do."""
    if native is not None:
        try:
            return [build_hashed_window(*window) for window in _parse_windows_native(text, limits, native)]
        except ValueError:
            pass
    return [hash_window(window) for window in decode_windows(text, limits)]


def parse_folded_profile(text: bytes, limits: WindowLimits, native: Any | None = NATIVE) -> HashedStacks:
    """A body that is folded text alone, in which py-spy's remarks about itself may stand.

    Raises BadFolded with the line's number, LimitExceeded.
    """
    if native is not None:
        try:
            return _fold_native(native, text, 0, limits, remark=PYSPY_REMARK_PREFIX)[0]
        except ValueError:
            pass
    lines = (
        (number, line) for number, line in number_lines(text) if not line.startswith(PYSPY_REMARK_PREFIX)
    )
    return build_hashed_stacks(
        parse_folded_lines(lines, max_stacks=limits.max_stacks, max_depth=limits.max_depth)
    )


def _parse_windows_native(
    text: bytes, limits: WindowLimits, native: Any
) -> list[tuple[Window, HashedStacks]]:
    """What `decode` makes of a body. Raises ValueError where it would raise BadFolded, or LimitExceeded."""
    found: list[tuple[Window, HashedStacks]] = []
    start = len(text) - len(text.lstrip())
    number = text.count(b"\n", 0, start) + 1
    if start < len(text) and text[text.rfind(b"\n", 0, start) + 1] != ord("#"):
        raise BadHeader(number, "folded lines before any header")
    header: int | None = start if start < len(text) else None
    while header is not None:
        if len(found) == limits.max_windows:
            raise too_many_windows_error(limits.max_windows)
        newline = text.find(b"\n", header)
        end = len(text) if newline < 0 else newline
        counted, lines, following = _fold_native(native, text, end + 1, limits)
        window = parse_header(number, text[header:end], limits, truncated_samples=counted.truncated_samples)
        found.append((window, counted))
        header, number = following, number + 1 + lines
    return found


def _fold_native(
    native: Any, text: bytes, start: int, limits: WindowLimits, *, remark: str | None = None
) -> tuple[HashedStacks, int, int | None]:
    """Stacks up to the next header or the end, how many lines that were, and where that header is."""
    *numbers, stacks, samples, clipped, lines, following = native.fold(
        text, start, remark=remark, max_stacks=limits.max_stacks, max_depth=limits.max_depth
    )
    hashes, idle, running, gil = map(_to_array, "Qqqq", numbers)
    return HashedStacks(hashes, idle, running, gil, stacks, samples, clipped), lines, following


def _to_array(code: str, numbers: bytes) -> array[int]:
    column = array(code)
    column.frombytes(numbers)
    return column
