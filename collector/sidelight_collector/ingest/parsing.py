"""Parse the text of a body into windows with hashed stacks.

There are two implementations with identical results: the native kernel and the Python reference
(`sidelight_model.window.decode_windows` and `stack_hashing.hash_window`). The reference raises all errors:
a body that the native kernel rejects is parsed again by the reference.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import (
    HashedStacks,
    HashedWindow,
    PackedStacks,
    build_hashed_stacks,
    build_hashed_window,
    hash_window,
)
from sidelight_model.errors import BadHeader
from sidelight_model.import_formats.folded_input import (
    NO_UNREADABLE_LINES,
    PYSPY_COMMENT_PREFIX,
    EmptyProfile,
    UnreadableLines,
    is_plain_folded,
    read_folded,
)
from sidelight_model.window import Window, WindowLimits, decode_windows, parse_header, too_many_windows_error


def parse_windows(text: bytes, limits: WindowLimits, native: Any | None = NATIVE) -> list[HashedWindow]:
    """Parse the windows of a body. Raises what `decode_windows` and `hash_window` do."""
    if native is not None:
        try:
            return [build_hashed_window(*window) for window in _parse_windows_native(text, limits, native)]
        except ValueError:
            pass
    return [hash_window(window) for window in decode_windows(text, limits)]


@dataclass(frozen=True, slots=True)
class FoldedProfile:
    """A profile without a header, and the lines that were left out."""

    stacks: HashedStacks
    unreadable_lines: UnreadableLines


def parse_folded_profile(text: bytes, limits: WindowLimits, native: Any | None = NATIVE) -> FoldedProfile:
    """Parse a body of folded text without headers, whatever tool wrote it.

    Raises what `read_folded` does, and EmptyProfile.
    """
    profile = None
    if native is not None and is_plain_folded(text):
        with suppress(ValueError):
            profile = FoldedProfile(
                _fold_native(native, text, 0, limits, remark=PYSPY_COMMENT_PREFIX)[0], NO_UNREADABLE_LINES
            )
    if profile is None:
        found = read_folded(text, max_stacks=limits.max_stacks, max_depth=limits.max_depth)
        profile = FoldedProfile(build_hashed_stacks(found.stacks), found.unreadable_lines)
    if not profile.stacks.samples:
        raise EmptyProfile
    return profile


def _parse_windows_native(
    text: bytes, limits: WindowLimits, native: Any
) -> list[tuple[Window, HashedStacks]]:
    """Parse windows as `decode_windows` does, but raise ValueError for bad stacks.

    That is where `decode_windows` raises BadFolded or LimitExceeded.
    """
    windows: list[tuple[Window, HashedStacks]] = []
    start = len(text) - len(text.lstrip())
    number = text.count(b"\n", 0, start) + 1
    if start < len(text) and text[text.rfind(b"\n", 0, start) + 1] != ord("#"):
        raise BadHeader(number, "folded lines before any header")
    header: int | None = start if start < len(text) else None
    while header is not None:
        if len(windows) == limits.max_windows:
            raise too_many_windows_error(limits.max_windows)
        newline = text.find(b"\n", header)
        end = len(text) if newline < 0 else newline
        counted, lines, following = _fold_native(native, text, end + 1, limits)
        window = parse_header(number, text[header:end], limits, truncated_samples=counted.truncated_samples)
        windows.append((window, counted))
        header, number = following, number + 1 + lines
    return windows


def _fold_native(
    native: Any, text: bytes, start: int, limits: WindowLimits, *, remark: str | None = None
) -> tuple[HashedStacks, int, int | None]:
    """Parse the stacks up to the next header or the end of the text.

    Returns the stacks, the number of lines, and the offset of the header, if any.
    """
    hashes, numbers, stacks, samples, clipped, lines, following = native.fold(
        text, start, remark=remark, max_stacks=limits.max_stacks, max_depth=limits.max_depth
    )
    counts = tuple(_to_array("q", column) for column in numbers)
    hashed = HashedStacks(_to_array("Q", hashes), counts, PackedStacks(*stacks), samples, clipped)
    return hashed, lines, following


def _to_array(code: str, numbers: bytes) -> array[int]:
    column = array(code)
    column.frombytes(numbers)
    return column
