"""Settings of `sidelight record` and `sidelight top`.

They come from options only, not from the environment, because people type these commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidelight.settings import (
    make_choice_parser,
    parse_nonnegative_int,
    parse_positive_float,
    parse_seconds,
    setting,
)
from sidelight_model.counts import ProfileType

SAMPLING_MODES: Final = ("auto", "gil", "blocking", "nonblocking")
OUTPUT_FORMATS: Final = ("folded", "speedscope", "svg")
SORT_KEYS: Final = (
    "self",
    "total",
    "gil",
    "running",
    "cpu_wait",
    "gil_wait",
    "lock",
    "poll",
    "io",
    "sleep",
    "idle",
    "name",
)
PROFILE_TYPES: Final = tuple(kind.value for kind in ProfileType)
TOP_TYPES: Final = tuple(kind for kind in PROFILE_TYPES if kind != ProfileType.TASKS)
DEFAULT_SECONDS: Final = 10.0
MAX_DEPTH: Final = 4096
MAX_RATE: Final = 10_000

RECORD_DESCRIPTION: Final = (
    "Record a running Python process, or a program from its start to its end (after `--`), and write a "
    "flame graph (svg), a timeline (speedscope) or counted stacks (folded)."
)
TOP_DESCRIPTION: Final = (
    "Show what a running Python process (or a program, after `--`) is doing, function by function, live."
)


def _parse_pid(text: str) -> int:
    if not (pid := parse_nonnegative_int(text)):
        raise ValueError("0 is no process")
    return pid


def _parse_rate(text: str) -> float:
    if (rate := parse_positive_float(text)) > MAX_RATE:
        raise ValueError(f"at most {MAX_RATE} samples per second")
    return rate


def _parse_depth(text: str) -> int:
    if not 2 <= (depth := parse_nonnegative_int(text)) <= MAX_DEPTH:
        raise ValueError(f"from 2 to {MAX_DEPTH} frames")
    return depth


def _parse_refresh(text: str) -> float:
    if not 0.1 <= (seconds := parse_positive_float(text)) <= 3600:
        raise ValueError("from 0.1 to 3600 seconds")
    return seconds


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """Settings of `sidelight record`."""

    pid: int | None = setting(
        None, "id of the process to record", parse=_parse_pid, aliases=("-p",), metavar="N"
    )
    seconds: float | None = setting(
        None,
        "recording time; 0: until Ctrl-C or until the process ends (default: 10, or a program's whole run)",
        parse=parse_seconds,
        aliases=("-d", "--duration"),
    )
    rate: float = setting(100.0, "samples per second", parse=_parse_rate, aliases=("-r",))
    mode: str = setting(
        "auto",
        "how to read stacks: auto, gil, blocking, or nonblocking (many stacks are wrong)",
        parse=make_choice_parser(*SAMPLING_MODES),
    )
    format: str | None = setting(
        None,
        "folded, speedscope or svg (default: by the file's ending, else svg; folded for -)",
        parse=make_choice_parser(*OUTPUT_FORMATS),
        aliases=("-f",),
    )
    output: str = setting(
        "",
        "output file; - is standard output (default: sidelight-PID-TIME in this directory)",
        aliases=("-o",),
        metavar="FILE",
    )
    type: str | None = setting(
        None,
        "profile type: wall, cpu, gil, gil_wait, off_cpu or tasks (default: cpu; wall for folded)",
        parse=make_choice_parser(*PROFILE_TYPES),
    )
    idle: bool = setting(False, "include waiting threads: --type wall", aliases=("-i",))
    gil: bool = setting(False, "only threads that hold the GIL: --type gil", aliases=("-g",))
    lines: bool | None = setting(
        None,
        "one frame per line number instead of per function (default: yes for folded, no for pictures)",
        is_boolean=True,
    )
    states: bool = setting(True, "folded: add the state as a last frame, such as [gil] or [poll]")
    threads: bool = setting(False, "add a root frame with the name of each thread", aliases=("-t",))
    subprocesses: bool = setting(False, "include Python subprocesses in the sums", aliases=("-s",))
    processes: bool = setting(False, "like --subprocesses, with a root frame for each process")
    max_depth: int = setting(
        1024, "most frames of a stack; deeper stacks lose their middle", parse=_parse_depth, metavar="FRAMES"
    )

    def __post_init__(self) -> None:
        requested_types = [self.type, "wall" if self.idle else None, "gil" if self.gil else None]
        if len({kind for kind in requested_types if kind}) > 1:
            raise ValueError("--type, --idle and --gil contradict each other")

    @property
    def profile_type(self) -> ProfileType | None:
        """The requested profile type; None if there is none."""
        if self.idle:
            return ProfileType.WALL
        if self.gil:
            return ProfileType.GIL
        return ProfileType(self.type) if self.type else None

    @property
    def include_children(self) -> bool:
        return self.subprocesses or self.processes


@dataclass(frozen=True, slots=True)
class TopSettings:
    """Settings of `sidelight top`."""

    pid: int | None = setting(
        None, "id of the process to profile", parse=_parse_pid, aliases=("-p",), metavar="N"
    )
    rate: float = setting(100.0, "samples per second", parse=_parse_rate, aliases=("-r",))
    mode: str = setting(
        "auto",
        "how to read stacks: auto, gil, blocking, or nonblocking (many stacks are wrong)",
        parse=make_choice_parser(*SAMPLING_MODES),
    )
    type: str = setting(
        "cpu",
        "profile type of SELF and TOTAL: wall, cpu, gil, gil_wait or off_cpu",
        parse=make_choice_parser(*TOP_TYPES),
    )
    sort: str = setting("self", f"sort order: {', '.join(SORT_KEYS)}", parse=make_choice_parser(*SORT_KEYS))
    lines: bool = setting(False, "one row per line instead of per function")
    subprocesses: bool = setting(False, "include Python subprocesses in the sums", aliases=("-s",))
    refresh_seconds: float = setting(1.0, "time between updates of the table", parse=_parse_refresh)
    seconds: float = setting(
        0.0, "end after this time; 0: until q or Ctrl-C", parse=parse_seconds, aliases=("-d", "--duration")
    )
    rows: int = setting(25, "rows of the table outside a terminal", parse=parse_nonnegative_int)
    once: bool = setting(False, "print one table, over the first --refresh-seconds, and exit")
    max_depth: int = setting(
        1024, "most frames of a stack; deeper stacks lose their middle", parse=_parse_depth, metavar="FRAMES"
    )
