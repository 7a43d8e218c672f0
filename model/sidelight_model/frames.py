"""A frame is one line of a stack: function, file, line, written `function (file:line)`.

Folded text has no escaping: a `;` in a file name or a newline in a thread name would cut a
stack in two. What Sidelight writes is therefore escaped, by the shortest rule that can be
undone: `;`, newline and carriage return become `%3B`, `%0A` and `%0D`; a `%` is escaped only
where it would read as one of these; and a frame that would read as a state (`[idle]`, `[gil]`)
or as a header (a leading `#`) has its first character escaped. Everything else, spaces and
letters of any script included, stands as it is, so ordinary frames are the same in both forms.

Frames are escaped once, by whoever makes them (the sampler), and stay escaped inside every
stack; they are unescaped where a person reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

IDLE = "[idle]"
GIL = "[gil]"
TRUNCATED = "(truncated)"
OTHER = "(other)"

_ESCAPE_CODES = {";": "%3B", "\n": "%0A", "\r": "%0D", "%": "%25", "#": "%23", "[": "%5B"}
_ESCAPED_CHARACTERS = {code: character for character, code in _ESCAPE_CODES.items()}
_TO_ESCAPE = re.compile("[;\n\r]|%(?=3B|0A|0D|25|23|5B)")
_ESCAPED = re.compile("|".join(_ESCAPED_CHARACTERS))
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::(?P<line>[0-9]+))?\)", re.DOTALL)
_LINE_SUFFIX = re.compile(r":[0-9]+\)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack, as a person names it (not escaped). `line` 0 means not known."""

    function: str
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """The frame as py-spy prints it: `function (file:line)`, without what is not known."""
        if not self.file:
            return self.function
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"

    @classmethod
    def parse(cls, text: str) -> Frame:
        """Read what `text` wrote; any text is a frame, at worst one that is all function."""
        match = _FRAME.fullmatch(text)
        if match is None:
            return cls(text)
        return cls(match["function"], match["file"], int(match["line"] or 0))


def escape_frame(text: str) -> str:
    """Make any text one frame of folded text; `unescape_frame` undoes it exactly."""
    escaped = _TO_ESCAPE.sub(lambda found: _ESCAPE_CODES[found[0]], text)
    if escaped.startswith("#") or escaped in (IDLE, GIL):
        return _ESCAPE_CODES[escaped[0]] + escaped[1:]
    return escaped


def unescape_frame(text: str) -> str:
    """The text that `escape_frame` was given."""
    return _ESCAPED.sub(lambda found: _ESCAPED_CHARACTERS[found[0]], text) if "%" in text else text


def strip_line_number(frame: str) -> str:
    """`f (a.py:3)` as `f (a.py)`: lines move between deployments, functions stay."""
    return _LINE_SUFFIX.sub(")", frame) if frame.endswith(")") else frame


def truncate_stack(frames: Sequence[str], max_depth: int) -> tuple[str, ...]:
    """Cut a stack to `max_depth` frames (at least 1), the middle becoming one `(truncated)`.

    Both ends are kept because both are read: the root says which request this is, the leaf says
    what ran. Stacks no deeper than `max_depth` come back unchanged.
    """
    if len(frames) <= max_depth:
        return tuple(frames)
    kept = max_depth - 1
    root, leaf = (kept + 1) // 2, kept // 2
    return (*frames[:root], TRUNCATED, *frames[len(frames) - leaf :])
