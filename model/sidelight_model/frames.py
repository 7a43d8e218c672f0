"""Frames: one call of a stack, written `function (file:line)`.

Folded text has no escaping: a `;` in a file name or a newline in a thread name would cut a stack in two.
Sidelight therefore escapes frames, by the shortest rule that can be undone:

- `;`, newline and carriage return become `%3B`, `%0A` and `%0D`;
- a `%` becomes `%25` only where it would read as an escape;
- a frame that would read as a state (such as `[idle]` and `[gil]`) or as a header (a leading `#`) has its
  first character escaped.

Everything else stays as it is, including spaces and letters of any script, so ordinary frames are the same
in both forms. The sampler escapes frames once. They stay escaped in every stack and are unescaped where
people read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sidelight_model.counts import STATE_FRAMES

TRUNCATED = "(truncated)"
OTHER = "(other)"
NO_FRAMES = "(no frames)"
"""The frame of samples that their sender recorded without any."""

_ESCAPE_CODES = {";": "%3B", "\n": "%0A", "\r": "%0D", "%": "%25", "#": "%23", "[": "%5B"}
_ESCAPED_CHARACTERS = {code: character for character, code in _ESCAPE_CODES.items()}
_TO_ESCAPE = re.compile("[;\n\r]|%(?=3B|0A|0D|25|23|5B)")
_ESCAPED = re.compile("|".join(_ESCAPED_CHARACTERS))
_FRAME = re.compile(r"(?P<function>.*) \((?P<file>.*?)(?::(?P<line>[0-9]+))?\)", re.DOTALL)
_LINE_SUFFIX = re.compile(r":[0-9]+\)$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a stack, not escaped.

    An empty `file` or a `line` of 0 is unknown.
    """

    function: str
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """The frame as py-spy prints it: `function (file:line)`, without unknown parts."""
        if not self.file:
            return self.function
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"

    @classmethod
    def parse(cls, text: str) -> Frame:
        """Parse the output of `text`.

        Every text is a valid frame: one that does not match the format is a function name.
        """
        match = _FRAME.fullmatch(text)
        if match is None:
            return cls(text)
        return cls(match["function"], match["file"], int(match["line"] or 0))


def escape_frame(text: str) -> str:
    """Escape any text as one frame of folded text; `unescape_frame` undoes it exactly."""
    escaped = _TO_ESCAPE.sub(lambda match: _ESCAPE_CODES[match[0]], text)
    if escaped.startswith("#") or (escaped and escaped in STATE_FRAMES):
        return _ESCAPE_CODES[escaped[0]] + escaped[1:]
    return escaped


def unescape_frame(text: str) -> str:
    """Undo `escape_frame`."""
    return _ESCAPED.sub(lambda match: _ESCAPED_CHARACTERS[match[0]], text) if "%" in text else text


def strip_line_number(frame: str) -> str:
    """Turn `f (a.py:3)` into `f (a.py)`.

    Lines move between deployments; functions stay.
    """
    return _LINE_SUFFIX.sub(")", frame) if frame.endswith(")") else frame


def truncate_stack(frames: Sequence[str], max_depth: int) -> tuple[str, ...]:
    """Truncate a stack to `max_depth` frames (at least 1).

    One `(truncated)` frame replaces the middle. Both ends stay because both are read: the root shows which
    request this is, the leaf shows what ran. Stacks of at most `max_depth` frames are returned unchanged.
    """
    if len(frames) <= max_depth:
        return tuple(frames)
    remaining = max_depth - 1
    root, leaf = (remaining + 1) // 2, remaining // 2
    return (*frames[:root], TRUNCATED, *frames[len(frames) - leaf :])
