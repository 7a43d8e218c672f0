"""Folded text: one `frame;frame;frame COUNT` per line, the root first.

The format is Brendan Gregg's (flamegraph.pl), as `py-spy record -f raw` writes it. Sidelight adds the state
as a last pseudo-frame, such as `[idle]`, `[gil]` or `[lock]`, or none for running. Tools without a notion of
states draw it as a frame, and plain py-spy output is valid input.

Frames contain spaces, so the count is the text after the last space. Only `\\n` ends a line:
`str.splitlines` would also split at characters that occur in names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NewType

from sidelight_model.counts import STATE_FRAMES, STATES, STATES_BY_TYPE, Counts, ProfileType
from sidelight_model.errors import BadFolded, LimitExceeded, Reason
from sidelight_model.frames import truncate_stack

Stack = NewType("Stack", str)
"""Escaped frames joined by `;`, the root first, without a state; never empty."""

_EMPTY_FRAME = re.compile(";;")  # as a pattern: `in` takes more than twice as long on stacks
_STATE_SUFFIXES = tuple(frame and f";{frame}" for frame in STATE_FRAMES)
_STATE_NUMBERS = {frame: number for number, frame in enumerate(STATE_FRAMES) if frame}
_RUNNING = STATES.index("running")


def raise_error(error: BadFolded) -> None:
    """Raise an error, as every line that cannot be parsed does by default."""
    raise error


def parse_folded(
    text: str | bytes, *, max_stacks: int | None = None, max_depth: int | None = None, first_line: int = 1
) -> dict[Stack, Counts]:
    """Parse folded text; add up equal stacks and skip empty lines.

    Stacks deeper than `max_depth` frames are truncated with a `(truncated)` frame. Raises BadFolded with
    the line number (the first line has the number `first_line`), and LimitExceeded (`too_many_stacks`) for
    more than `max_stacks` different stacks.
    """
    return parse_folded_lines(number_lines(text, first_line), max_stacks=max_stacks, max_depth=max_depth)


def parse_folded_lines(
    lines: Iterable[tuple[int, str]],
    *,
    max_stacks: int | None = None,
    max_depth: int | None = None,
    on_error: Callable[[BadFolded], None] = raise_error,
) -> dict[Stack, Counts]:
    """Parse folded text, as `parse_folded` does, from pairs of (line number, line).

    `on_error` is called for a line that cannot be parsed, which is left out unless it raises the error.
    """
    rows: dict[Stack, list[int]] = {}
    for number, raw in lines:
        line = raw.removesuffix("\r")
        if not line:
            continue
        try:
            stack, state, count = _parse_line(number, line)
        except BadFolded as error:
            on_error(error)
            continue
        if max_depth is not None and stack.count(";") >= max_depth:
            stack = Stack(";".join(truncate_stack(stack.split(";"), max_depth)))
        row = rows.get(stack)
        if row is None:
            row = rows[stack] = [0] * len(STATES)
        row[state] += count
        if max_stacks is not None and len(rows) > max_stacks:
            raise LimitExceeded(
                f"line {number}: more than {max_stacks} different stacks in one window",
                reason=Reason.TOO_MANY_STACKS,
                hint="Ship shorter windows, or raise the collector's --max-stacks.",
            )
    return {stack: Counts(*row) for stack, row in rows.items()}


def render_folded(
    counts: Mapping[Stack, Counts], kind: ProfileType | None = ProfileType.WALL, *, states: bool = True
) -> str:
    """Render folded text with sorted stacks, so that equal counts give equal text.

    `kind` selects the states; None selects all, of threads and of tasks. With `states` false the states of a
    stack are added up and the pseudo-frames are omitted, for tools that would show `[gil]` as a function.
    """
    return "".join(render_folded_lines(counts, kind, states=states))


def render_folded_lines(
    counts: Mapping[Stack, Counts], kind: ProfileType | None = ProfileType.WALL, *, states: bool = True
) -> Iterable[str]:
    """Yield the lines of `render_folded`, each with its newline."""
    selected = STATES_BY_TYPE[kind] if kind else STATES
    for stack in sorted(counts):
        count = counts[stack]
        if not states:
            if total := count.for_type(kind) if kind else sum(count):
                yield f"{stack} {total}\n"
            continue
        for state, samples, suffix in zip(STATES, count, _STATE_SUFFIXES, strict=True):
            if samples and state in selected:
                yield f"{stack}{suffix} {samples}\n"


def split_stack(stack: Stack) -> list[str]:
    """Split a stack into its escaped frames, the root first."""
    return stack.split(";")


def join_frames(frames: Iterable[str]) -> Stack:
    """Join frames that are already escaped, the root first."""
    return Stack(";".join(frames))


def number_lines(text: str | bytes, first_line: int = 1) -> Iterable[tuple[int, str]]:
    """Yield (line number, line) for a text.

    Raises BadFolded for a line that is not UTF-8.
    """
    if isinstance(text, str):
        yield from enumerate(text.split("\n"), first_line)
        return
    for number, line in enumerate(text.split(b"\n"), first_line):
        yield number, decode_line(number, line)


def decode_line(number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadFolded(number, f"not UTF-8 at byte {error.start} of the line") from error


def _parse_line(number: int, line: str) -> tuple[Stack, int, int]:
    stack, space, digits = line.rpartition(" ")
    if not space or not stack:
        raise BadFolded(number, "a stack, a space and a count were expected")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise BadFolded(number, f"the count {digits[:40]!r} is not a whole number below 10^15")
    head, semicolon, leaf = stack.rpartition(";")
    state = _STATE_NUMBERS.get(leaf, _RUNNING) if semicolon else _RUNNING
    if state != _RUNNING:
        stack = head
    if stack in _STATE_NUMBERS:
        raise BadFolded(number, "a state without a stack")
    if stack == "" or stack[0] == ";" or stack[-1] == ";" or _EMPTY_FRAME.search(stack):
        raise BadFolded(number, "a frame is empty")
    return Stack(stack), state, int(digits)
