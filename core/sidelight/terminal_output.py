"""Standard output and standard error that show control characters as text.

Commands print process titles, file names, labels and answers of servers. Any of these may contain sequences
that control a terminal, or characters that reverse the order of letters. `escape_standard_streams` replaces
`sys.stdout` and `sys.stderr`, so that every text leaves through `EscapedStream.write`. Characters that the
encoding of a stream lacks become similar ones of ASCII, or `?`.

Results leave through `write_standard_output`, which reports a full disk and ignores a closed pipe.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from sidelight_model.errors import SidelightError
from sidelight_model.terminal_width import escape_lines


class StandardOutputError(SidelightError):
    """Standard output cannot be written, as on a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"cannot write to standard output: {error.strerror}",
            hint="What was written before this is only the beginning of the result.",
        )


ASCII_ERRORS: Final = "sidelight.ascii"
"""Name of the error handler of encodings that lack a character."""
_SIMILAR_CHARACTERS: Final = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
    "\u00b7": ".",
    "\u00d7": "x",
    "\u0394": "d",
    "\u2026": "...",
    "\u203a": ">",
    "\u2192": "->",
    "\u25b2": "^",
    "\u25bc": "v",
    "\u2500": "-",
    "\u2588": "#",
    "\u00a0": " ",
    "\u202f": " ",
}


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_SIMILAR_CHARACTERS.get(character, "?") for character in text), error.end


codecs.register_error(ASCII_ERRORS, _replace_unencodable)


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
        with _report_failed_output():
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


def write_standard_output(content: str | bytes) -> bool:
    """Write a result and flush it; returns False if nobody reads it.

    That is so if standard output is closed, or the reader of its pipe. Bytes are written as they are. Raises
    StandardOutputError.
    """
    if sys.stdout is None:  # the descriptor was closed before the program started
        return False
    try:
        with _report_failed_output():
            if isinstance(content, str):
                sys.stdout.write(content)
            else:
                sys.stdout.flush()
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()
            sys.stdout.flush()
    except BrokenPipeError:
        discard_standard_output()
        return False
    except StandardOutputError:
        discard_standard_output()
        raise
    return True


def discard_standard_output() -> None:
    """Let Python flush at exit without failing again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


@contextmanager
def _report_failed_output() -> Iterator[None]:
    """Turn an OSError, but for that of a closed pipe, into StandardOutputError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StandardOutputError(error) from error


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
    if stream is None or isinstance(stream, EscapedStream):
        return stream
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=ASCII_ERRORS)
    return EscapedStream(stream)


def unwrap_stream(stream: TextIO) -> TextIO:
    """Return the stream below an `EscapedStream`, and any other stream as it is."""
    return stream.unescaped if isinstance(stream, EscapedStream) else stream
