"""Read folded text as other tools and people write it.

`folded.parse_folded` reads the format itself. Files and uploads hold more:

- a byte order mark of UTF-8 or UTF-16 (editors, PowerShell);
- comments: lines that begin with `#` (Austin, perf, exports of Sidelight) or with `py-spy> `;
- frames as `file:function:line` (CPython's profiling.sampling, Austin), read as `function (file:line)`;
- process and thread ids as first frames, which differ from run to run: `tid:7`, `process 7:"…"`,
  `thread (0x7F): name`. The ids are left out, a name stays as the frame `thread name`;
- frames with the suffix `_[p]` or `_[pn]` of Python (gProfiler), which is left out;
- a count alone, of samples without frames (py-spy, before a program begins);
- damaged lines. Up to MAX_UNREADABLE_SHARE of the lines may be unreadable. They are left out and listed.

Two counts on each line are differences of two profiles (difffolded.pl), and not a profile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sidelight_model.counts import Counts
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import Stack, decode_line, join_frames, parse_folded_lines, split_stack
from sidelight_model.frames import NO_FRAMES, Frame, escape_frame

PYSPY_COMMENT_PREFIX: Final = "py-spy> "
"""Prefix of the messages that `py-spy record -o /dev/stdout` prints. No Python frame begins with it."""
COMMENT_PREFIXES: Final = ("#", PYSPY_COMMENT_PREFIX)
MAX_UNREADABLE_SHARE: Final = 0.01
MAX_LISTED_LINES: Final = 10
"""Unreadable lines beyond these are counted, not listed."""

_SAMPLE_LINES: Final = 20
"""The number of first lines that show the form of all."""
_SAMPLE_BYTES: Final = 1 << 16
_BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_TWO_COUNTS: Final = re.compile(r".+ [0-9]+ [0-9]+")
_COLON_FRAME: Final = re.compile(r"(?P<file>.+?):(?P<function>[^:]+):(?P<line>[0-9]{1,18})")
_WINDOW_HEADER_FIELD: Final = '"format":'
_UNKNOWN_FILE: Final = "~"
_RUNTIME_SUFFIX: Final = re.compile(r"_\[pn?\]$")
_COUNT_ALONE: Final = re.compile(r"[ \t]*[0-9]{1,18}\r?", re.ASCII)
_BLANK_STACK: Final = re.compile(rb"^[ \t]+[0-9]+\r?$", re.MULTILINE)
_ROOT: Final = re.compile(
    r'tid:[0-9]+|pid:[0-9]+|process [0-9]+(?::".*)?|thread \([0-9A-Fa-fx]+\)(?:: (?P<name>.+))?'
)


class DifferentialProfile(BadFolded):
    """A file holds the counts of two profiles."""

    def __init__(self, line: int) -> None:
        super().__init__(line, "each line has two counts, as difffolded.pl writes them")
        self.hint = "Give the two profiles that were compared, one at a time."


class EmptyProfile(SidelightError):
    """A profile has no samples, which is nearly always a failure of the profiler."""

    reason = Reason.BAD_FOLDED

    def __init__(self, name: str = "the profile") -> None:
        super().__init__(
            f"{name} has no samples",
            hint="See the messages of the profiler that wrote it.",
        )


@dataclass(frozen=True, slots=True)
class UnreadableLines:
    """The lines that were left out: their number, and the errors of the first ones."""

    count: int = 0
    errors: tuple[BadFolded, ...] = ()


NO_UNREADABLE_LINES: Final = UnreadableLines()


@dataclass(frozen=True, slots=True)
class FoldedInput:
    """The stacks of a text, and the lines that were left out."""

    stacks: dict[Stack, Counts]
    unreadable_lines: UnreadableLines


def decode_byte_order_mark(text: bytes) -> bytes:
    """Return the text in UTF-8 and without a byte order mark."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if text.startswith(mark):
            content = text[len(mark) :]
            return content if encoding == "utf-8" else content.decode(encoding, "replace").encode()
    return text


def read_folded(text: bytes, *, max_stacks: int | None = None, max_depth: int | None = None) -> FoldedInput:
    """Parse a text of folded stacks, whatever tool wrote it.

    Raises BadFolded for the first unreadable line if there are too many of them, DifferentialProfile, and
    LimitExceeded as `parse_folded` does.
    """
    content = decode_byte_order_mark(text)
    numbers, sample = _read_sample(content)
    if sample and all(map(_TWO_COUNTS.fullmatch, sample)):
        raise DifferentialProfile(numbers[0])
    max_unreadable = int((content.count(b"\n") + 1) * MAX_UNREADABLE_SHARE)
    errors: list[BadFolded] = []

    def skip(error: BadFolded) -> None:
        errors.append(error)
        if len(errors) > max_unreadable:
            raise errors[0]

    lines = _iter_stack_lines(content, skip)
    if has_foreign_frames(sample):
        lines = ((number, _convert_line(line)) for number, line in lines)
    stacks = parse_folded_lines(lines, max_stacks=max_stacks, max_depth=max_depth, on_error=skip)
    return FoldedInput(stacks, UnreadableLines(len(errors), tuple(errors[:MAX_LISTED_LINES])))


def is_plain_folded(text: bytes) -> bool:
    """Return whether a text needs no conversion before `parse_folded`."""
    if text.startswith((*(mark for mark, _ in _BYTE_ORDER_MARKS), b"#")) or b"\n#" in text:
        return False
    if _BLANK_STACK.search(text):
        return False
    _, sample = _read_sample(text)
    return not has_foreign_frames(sample) and not any(map(_TWO_COUNTS.fullmatch, sample))


def has_foreign_frames(lines: Iterable[str]) -> bool:
    """Return whether stacks have roots with ids, or frames `file:function:line`.

    A frame with a suffix of gProfiler counts too.
    """
    stacks = [line.rpartition(" ")[0].split(";") for line in lines]
    if any(_ROOT.fullmatch(frames[0]) for frames in stacks):
        return True
    frames = [frame for stack in stacks for frame in stack]
    if any(frame.endswith(("_[p]", "_[pn]")) for frame in frames):
        return True
    return bool(frames) and all(_COLON_FRAME.fullmatch(frame) for frame in frames)


def parse_colon_frame(text: str) -> Frame:
    """Parse `file:function:line`; another text is the name of a function."""
    match = _COLON_FRAME.fullmatch(text)
    if match is None:
        return Frame(text)
    file = "" if match["file"] == _UNKNOWN_FILE else match["file"]
    return Frame(match["function"], file, int(match["line"]))


def strip_root_ids(text: str) -> str:
    """Return one of the first frames without ids of process and thread.

    It is empty if it has nothing else, and another frame is returned as it is.
    """
    root = _ROOT.fullmatch(text)
    if root is None:
        return text
    return f"thread {root['name']}" if root["name"] else ""


def _read_sample(text: bytes) -> tuple[list[int], list[str]]:
    """Return the numbers and the texts of the first lines with stacks."""
    lines = list(islice(_iter_stack_lines(text[:_SAMPLE_BYTES], lambda _: None), _SAMPLE_LINES))
    return [number for number, _ in lines], [line.removesuffix("\r") for _, line in lines]


def _iter_stack_lines(text: bytes, on_error: Callable[[BadFolded], None]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line with a stack.

    `on_error` is called for a line that is not UTF-8. Raises BadFolded for the header of a window, whose
    lines would count as those of this profile.
    """
    for number, raw in enumerate(text.split(b"\n"), 1):
        try:
            line = decode_line(number, raw)
        except BadFolded as error:
            on_error(error)
            continue
        if line.startswith("# {") and _WINDOW_HEADER_FIELD in line:
            raise BadFolded(number, "a window's header, in text that does not begin with one")
        if line not in ("", "\r") and not line.startswith(COMMENT_PREFIXES):
            yield number, f"{NO_FRAMES} {line.strip()}" if _COUNT_ALONE.fullmatch(line) else line


def _convert_line(line: str) -> str:
    """Convert the frames of a line to the form of folded text."""
    stack, space, count = line.rpartition(" ")
    frames = []
    for at, text in enumerate(split_stack(Stack(stack))):
        frame = _RUNTIME_SUFFIX.sub("", strip_root_ids(text) if at <= 1 else text)
        if frame and _COLON_FRAME.fullmatch(frame):
            frame = escape_frame(parse_colon_frame(frame).text)
        if frame:
            frames.append(frame)
    return f"{join_frames(frames)}{space}{count}"
