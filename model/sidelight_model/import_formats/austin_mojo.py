"""Read MOJO, the binary format of Austin 3, as lines of its text format.

The format is described in https://github.com/P403n1x87/austin/wiki/The-MOJO-file-format: a head (`MOJ` and
the version), and events of one byte and its fields. Integers have 6 bits in their first byte, with a sign,
and 7 in each further one. Texts end with a zero byte. Frames are defined before a stack refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

MAGIC: Final = b"MOJ"
VERSIONS: Final = (1, 2, 3)
_METADATA, _STACK, _FRAME, _INVALID, _FRAME_REF, _KERNEL, _GC, _IDLE = range(1, 9)
_TIME, _MEMORY, _STRING, _STRING_REF = range(9, 13)
_UNKNOWN_TEXT: Final = 1
_MAX_INTEGER_BYTES: Final = 10


class DamagedMojo(ValueError):
    """A file ends within an event, or has an unknown event or reference.

    `offset` is its place.
    """

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"{problem} at byte {offset}")
        self.offset = offset


def is_mojo(content: bytes) -> bool:
    """Return whether content begins as a MOJO file does."""
    return content.startswith(MAGIC)


def iter_austin_lines(content: bytes) -> Iterator[str]:
    """Yield the lines of Austin's text format.

    Raises DamagedMojo where the file is damaged: the lines before it are good.
    """
    return _MojoReader(content).iter_lines()


class MojoLines:
    """The good lines of a file; `damage` has the error that ended them, if any.

    Iteration raises DamagedMojo if there is no good line.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.damage: list[DamagedMojo] = []

    def __iter__(self) -> Iterator[str]:
        lines = 0
        try:
            for line in iter_austin_lines(self._content):
                lines += not line.startswith("#")
                yield line
        except DamagedMojo as error:
            if not lines:
                raise
            self.damage.append(error)


class _MojoReader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = len(MAGIC)
        self._texts: dict[int, str] = {_UNKNOWN_TEXT: "<unknown>"}
        self._frames: dict[int, str] = {}
        self._version = 0

    def iter_lines(self) -> Iterator[str]:
        """Yield the lines."""
        self._version = self._read_integer()
        if self._version not in VERSIONS:
            raise DamagedMojo(len(MAGIC), f"version {self._version} is not known")
        stack: list[str] | None = None
        time_us: int | None = None
        memory, is_idle = "", False
        while self._at < len(self._content):
            start = self._at
            event = self._content[start]
            self._at += 1
            if event == _METADATA:
                yield f"# {self._read_text()}: {self._read_text()}"
            elif event == _STACK:
                if stack is not None and time_us is not None:
                    yield _format_line(stack, time_us, memory, is_idle=is_idle)
                stack, time_us, memory, is_idle = [self._read_stack()], None, "", False
            elif event == _STRING:
                key = self._read_integer()
                self._texts[key] = self._read_text()
            elif event == _FRAME:
                key, frame = self._read_frame(start)
                self._frames[key] = frame
            elif event == _FRAME_REF:
                key = self._read_integer()
                if key not in self._frames:
                    raise DamagedMojo(start, "a frame is missing")
                _add(stack, self._frames[key], start)
            elif event == _INVALID:
                _add(stack, ":INVALID:", start)
            elif event == _KERNEL:
                _add(stack, f"kernel:{self._read_text()}:0", start)
            elif event == _GC:
                _add(stack, ":GC:", start)
            elif event == _IDLE:
                is_idle = True
            elif event == _TIME:
                time_us = self._read_integer()
            elif event == _MEMORY:
                memory = str(self._read_integer())
            elif event == _STRING_REF:
                self._read_integer()
            else:
                raise DamagedMojo(start, f"event {event} is not known")
        if stack is not None and time_us is not None:
            yield _format_line(stack, time_us, memory, is_idle=is_idle)

    def _read_stack(self) -> str:
        """Read the first words of a line: process, interpreter and thread."""
        process = self._read_integer()
        interpreter = f"{self._read_integer()}:" if self._version >= 3 else ""
        return f"P{process};T{interpreter}{self._read_text()}"

    def _read_frame(self, start: int) -> tuple[int, str]:
        key = self._read_integer()
        file, scope = self._read_reference(start), self._read_reference(start)
        line = self._read_integer()
        if self._version >= 2:
            for _ in range(3):  # the last line, and two columns
                self._read_integer()
        return key, f"{file}:{scope}:{max(line, 0)}"

    def _read_reference(self, start: int) -> str:
        key = self._read_integer()
        if key not in self._texts:
            raise DamagedMojo(start, "a text is missing")
        return self._texts[key]

    def _read_integer(self) -> int:
        start, value, shift, sign = self._at, 0, 6, 1
        for place, byte in enumerate(self._content[start : start + _MAX_INTEGER_BYTES]):
            self._at += 1
            if place == 0:
                value, sign = byte & 0x3F, -1 if byte & 0x40 else 1
            else:
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                return sign * value
        raise DamagedMojo(start, "a number has no end")

    def _read_text(self) -> str:
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise DamagedMojo(self._at, "a text has no end")
        text = self._content[self._at : end].decode(errors="replace")
        self._at = end + 1
        # A line of text cannot hold these, and Austin's text format has no escapes.
        return text.replace("\n", " ").replace("\r", " ").replace(";", ",")


def _add(stack: list[str] | None, frame: str, start: int) -> None:
    if stack is None:
        raise DamagedMojo(start, "a frame is outside of any stack")
    stack.append(frame)


def _format_line(stack: list[str], time_us: int, memory: str, *, is_idle: bool) -> str:
    """Return a line; the full mode has time, whether the thread is idle, and bytes."""
    time_us = max(time_us, 0)
    metrics = f"{time_us},{int(is_idle)},{memory}" if memory else str(time_us)
    return f"{';'.join(stack)} {metrics}"
