"""The text of a body becomes windows with their stacks named: natively or by the reference, with one result.

The reference is `sidelight_model.window.decode` and `store.hashed`. It has the last word on what is refused:
a body that the native kernel does not take is read again by the reference, which says why.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import Columns, HashedWindow, columns, hashed, named
from sidelight_model.errors import BadHeader
from sidelight_model.folded import numbered, parse_lines
from sidelight_model.window import Limits, Window, decode, read_header, too_many_windows

REMARK: Final = "py-spy> "
"""Begins what `py-spy record -o /dev/stdout` says of itself between its stacks; no frame of Python's does."""


def windows(text: bytes, limits: Limits, native: Any | None = NATIVE) -> list[HashedWindow]:
    """The windows of a body, as `decode` reads them. Raises what `decode` and `hashed` do."""
    if native is not None:
        try:
            return [named(*window) for window in _decode(text, limits, native)]
        except ValueError:
            pass
    return [hashed(window) for window in decode(text, limits)]


def profile(text: bytes, limits: Limits, native: Any | None = NATIVE) -> Columns:
    """A body that is folded text alone, in which py-spy's remarks about itself may stand.

    Raises BadFolded with the line's number, LimitExceeded.
    """
    if native is not None:
        try:
            return _fold(native, text, 0, limits, remark=REMARK)[0]
        except ValueError:
            pass
    lines = ((number, line) for number, line in numbered(text) if not line.startswith(REMARK))
    return columns(parse_lines(lines, max_stacks=limits.max_stacks, max_depth=limits.max_depth))


def _decode(text: bytes, limits: Limits, native: Any) -> list[tuple[Window, Columns]]:
    """What `decode` makes of a body. Raises ValueError where it would raise BadFolded, or LimitExceeded."""
    found: list[tuple[Window, Columns]] = []
    start = len(text) - len(text.lstrip())
    number = text.count(b"\n", 0, start) + 1
    if start < len(text) and text[text.rfind(b"\n", 0, start) + 1] != ord("#"):
        raise BadHeader(number, "folded lines before any header")
    header: int | None = start if start < len(text) else None
    while header is not None:
        if len(found) == limits.max_windows:
            raise too_many_windows(limits.max_windows)
        newline = text.find(b"\n", header)
        end = len(text) if newline < 0 else newline
        counted, lines, following = _fold(native, text, end + 1, limits)
        window = read_header(number, text[header:end], limits, clipped=counted.clipped)
        found.append((window, counted))
        header, number = following, number + 1 + lines
    return found


def _fold(
    native: Any, text: bytes, start: int, limits: Limits, *, remark: str | None = None
) -> tuple[Columns, int, int | None]:
    """Stacks up to the next header or the end, how many lines that were, and where that header is."""
    *numbers, stacks, samples, clipped, lines, following = native.fold(
        text, start, remark=remark, max_stacks=limits.max_stacks, max_depth=limits.max_depth
    )
    hashes, idle, running, gil = map(_column, "Qqqq", numbers)
    return Columns(hashes, idle, running, gil, stacks, samples, clipped), lines, following


def _column(code: str, numbers: bytes) -> array[int]:
    column = array(code)
    column.frombytes(numbers)
    return column
