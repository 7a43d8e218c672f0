"""What the two commands are told: flags only, for they are typed, not deployed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sidelight.settings import positive, seconds, setting, whole
from sidelight_model.counts import ProfileType

MODES: Final = ("auto", "gil", "blocking", "nonblocking")
FORMATS: Final = ("folded", "speedscope", "svg")
SORTS: Final = ("self", "total", "gil", "running", "idle", "name")
KINDS: Final = tuple(kind.value for kind in ProfileType)
DEFAULT_SECONDS: Final = 10.0
DEPTH_MOST: Final = 4096
RATE_MOST: Final = 10_000

RECORD: Final = (
    "Record a running Python process, or a program from its start to its end (after `--`), and write a "
    "flame graph (svg), a timeline (speedscope) or counted stacks (folded)."
)
TOP: Final = (
    "Show what a running Python process (or a program, after `--`) is doing, function by function, live."
)


def one_of(*words: str) -> Callable[[str], str]:
    """Reads one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return read


def _pid(text: str) -> int:
    if not (pid := whole(text)):
        raise ValueError("0 is no process")
    return pid


def _rate(text: str) -> float:
    if (rate := positive(text)) > RATE_MOST:
        raise ValueError(f"at most {RATE_MOST} samples per second")
    return rate


def _depth(text: str) -> int:
    if not 2 <= (depth := whole(text)) <= DEPTH_MOST:
        raise ValueError(f"from 2 to {DEPTH_MOST} frames")
    return depth


def _refresh(text: str) -> float:
    if not 0.1 <= (every := positive(text)) <= 3600:
        raise ValueError("from 0.1 to 3600 seconds")
    return every


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """What `sidelight record` is told."""

    pid: int | None = setting(None, "the process to record", read=_pid, also=("-p",), metavar="N")
    seconds: float | None = setting(
        None,
        "how long; 0: until Ctrl-C or until it ends (default: 10, or a program's whole run)",
        read=seconds,
        also=("-d", "--duration"),
    )
    rate: float = setting(100.0, "samples per second", read=_rate, also=("-r",))
    mode: str = setting(
        "auto", "auto, gil, blocking, or nonblocking (many stacks are wrong)", read=one_of(*MODES)
    )
    format: str | None = setting(
        None,
        "folded, speedscope or svg (default: what the file's ending says, else svg; folded to -)",
        read=one_of(*FORMATS),
        also=("-f",),
    )
    output: str = setting(
        "",
        "where to write, - is standard output (default: sidelight-PID-TIME here)",
        also=("-o",),
        metavar="FILE",
    )
    type: str | None = setting(
        None, "wall, cpu or gil (default: cpu for pictures, all states for folded)", read=one_of(*KINDS)
    )
    idle: bool = setting(False, "show waiting too: --type wall", also=("-i",))
    gil: bool = setting(False, "show only who holds the GIL: --type gil", also=("-g",))
    lines: bool | None = setting(
        None, "tell frames apart by line (default: yes in folded, no in pictures)", switch=True
    )
    states: bool = setting(True, "folded: write [idle] and [gil] as last frames")
    threads: bool = setting(False, "a root frame for each thread, with its name", also=("-t",))
    subprocesses: bool = setting(False, "Python processes below it too, added up", also=("-s",))
    processes: bool = setting(False, "like --subprocesses, with a root frame for each process")
    max_depth: int = setting(1024, "deeper stacks are cut in the middle", read=_depth, metavar="FRAMES")

    def __post_init__(self) -> None:
        asked = [self.type, "wall" if self.idle else None, "gil" if self.gil else None]
        if len({kind for kind in asked if kind}) > 1:
            raise ValueError("--type, --idle and --gil contradict each other")

    @property
    def kind(self) -> ProfileType | None:
        """The type of profile asked for, if any was."""
        if self.idle:
            return ProfileType.WALL
        if self.gil:
            return ProfileType.GIL
        return ProfileType(self.type) if self.type else None

    @property
    def follow(self) -> bool:
        return self.subprocesses or self.processes


@dataclass(frozen=True, slots=True)
class TopSettings:
    """What `sidelight top` is told."""

    pid: int | None = setting(None, "the process to watch", read=_pid, also=("-p",), metavar="N")
    rate: float = setting(100.0, "samples per second", read=_rate, also=("-r",))
    mode: str = setting(
        "auto", "auto, gil, blocking, or nonblocking (many stacks are wrong)", read=one_of(*MODES)
    )
    type: str = setting("cpu", "what SELF and TOTAL count: wall, cpu or gil", read=one_of(*KINDS))
    sort: str = setting("self", f"by {', '.join(SORTS)}", read=one_of(*SORTS))
    lines: bool = setting(False, "a row for each line instead of each function")
    subprocesses: bool = setting(False, "Python processes below it too, added up", also=("-s",))
    refresh_seconds: float = setting(1.0, "how often the table is drawn", read=_refresh)
    seconds: float = setting(
        0.0, "end after so long; 0: until q or Ctrl-C", read=seconds, also=("-d", "--duration")
    )
    rows: int = setting(25, "rows of a table that is not drawn on a terminal", read=whole)
    once: bool = setting(False, "print one table, of the first --refresh-seconds, and end")
    max_depth: int = setting(1024, "deeper stacks are cut in the middle", read=_depth, metavar="FRAMES")
