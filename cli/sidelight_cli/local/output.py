"""Where a recording goes, and in which format: decided and checked before anything is sampled."""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting
from sidelight_model.errors import SidelightError

STANDARD: Final = "-"
_ENDINGS: Final = {"svg": ".svg", "speedscope": ".speedscope.json", "folded": ".folded"}
_FORMATS: Final = {
    ".svg": "svg",
    ".json": "speedscope",
    ".speedscope": "speedscope",
    ".folded": "folded",
    ".txt": "folded",
    ".raw": "folded",
    ".collapsed": "folded",
}


class OutputFailed(SidelightError):
    """The recording cannot be written where it was meant to go."""


@dataclass(frozen=True, slots=True)
class Output:
    """A format and a path; the path is None for standard output."""

    format: str
    path: Path | None

    @property
    def name(self) -> str:
        return "standard output" if self.path is None else str(self.path)


def choose(given: str, asked: str | None, pid: int, now: float) -> Output:
    """The output for `-o` and `--format` as given. Raises BadSetting where the ending tells no format."""
    if given == STANDARD:
        return Output(asked or "folded", None)
    if not given:
        asked = asked or "svg"
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        return Output(asked, Path(f"sidelight-{pid}-{when}{_ENDINGS[asked]}"))
    return Output(asked or ending(given), Path(given))


def ending(path: str) -> str:
    """The format that a file's name asks for. Raises BadSetting."""
    suffix = Path(path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if not suffix:
        return "svg"
    raise BadSetting(
        f"--output: the ending {suffix!r} of {path!r} says no format",
        hint="Give --format, or end the name in .svg, .speedscope.json or .folded.",
    )


def check(output: Output) -> None:
    """Raises OutputFailed now rather than after the recording, where it can be known now."""
    if output.path is None:
        return
    folder = output.path.parent
    if output.path.is_dir():
        raise OutputFailed(f"{output.path} is a folder", hint="Give --output a file in it.")
    if not folder.is_dir():
        raise OutputFailed(f"there is no folder {folder}", hint="Create it, or give --output another file.")
    wanted = output.path if _is_special(output.path) else folder
    if not os.access(wanted, os.W_OK):
        raise OutputFailed(f"{wanted} is not writable", hint="Give --output a file somewhere else.")


def write(output: Output, content: bytes) -> None:
    """Write it all or raise OutputFailed; a file that is there is replaced, once the new one is whole."""
    try:
        if output.path is None:
            _to_standard(content)
        elif _is_special(output.path):
            output.path.write_bytes(content)
        else:
            _replace(output.path.resolve(), content)
    except OSError as error:
        raise OutputFailed(
            f"cannot write to {output.name}: {error.strerror}", hint="The recording is lost."
        ) from error


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _to_standard(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        # Nothing must be flushed at exit into what takes no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            raise


def _is_special(path: Path) -> bool:
    """A device or pipe, which is written into rather than replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
