"""Standard output and standard error that show control characters as text.

Commands print process titles, file names, labels and answers of servers. Any of these may contain sequences
that control a terminal, or characters that reverse the order of letters. `escape_standard_streams` replaces
`sys.stdout` and `sys.stderr`, so that every text leaves through `EscapedStream.write`.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from sidelight_model.terminal_width import escape_lines


class TerminalSequence(str):
    """Control characters that the program itself sends to a terminal."""

    __slots__ = ()


CLEAR_LINE: Final = TerminalSequence("\r\x1b[K")
"""Moves to the start of the line and erases it."""


class EscapedStream:
    """A text stream that escapes control characters.

    It writes line ends, tabs and a `TerminalSequence` as they are. Bytes written to `buffer` are escaped only
    on a terminal: a file or a pipe gets them unchanged.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._escaped_buffer = _EscapedBuffer(stream) if stream.isatty() else None

    @property
    def unescaped(self) -> TextIO:
        """The stream itself, for text that is already escaped."""
        return self._stream

    @property
    def buffer(self) -> Any:
        return self._escaped_buffer or self._stream.buffer

    def write(self, text: str) -> int:
        self._stream.write(text if isinstance(text, TerminalSequence) else escape_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _EscapedBuffer(io.RawIOBase):
    """The bytes of a terminal: UTF-8 that is escaped, anything else as escapes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, content: Any, /) -> int:
        self._stream.write(escape_lines(self._decoder.decode(bytes(content))))
        return memoryview(content).nbytes

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def escape_standard_streams() -> Iterator[None]:
    """Escape all text that is printed inside the context."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrap_stream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _wrap_stream(stream: Any) -> Any:
    # A program without a terminal or a file there, such as a daemon, has None.
    return stream if stream is None or isinstance(stream, EscapedStream) else EscapedStream(stream)


def unwrap_stream(stream: TextIO) -> TextIO:
    """Return the stream below an `EscapedStream`, and any other stream as it is."""
    return stream.unescaped if isinstance(stream, EscapedStream) else stream
