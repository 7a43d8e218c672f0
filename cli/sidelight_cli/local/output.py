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

STDOUT: Final = "-"
_SUFFIXES: Final = {"svg": ".svg", "speedscope": ".speedscope.json", "folded": ".folded"}
_FORMATS_BY_SUFFIX: Final = {
    ".svg": "svg",
    ".json": "speedscope",
    ".speedscope": "speedscope",
    ".folded": "folded",
    ".txt": "folded",
    ".raw": "folded",
    ".collapsed": "folded",
}


class RecordingWriteFailed(SidelightError):
    """The recording cannot be written where it was meant to go."""


@dataclass(frozen=True, slots=True)
class RecordingOutput:
    """A format and a path; the path is None for standard output."""

    format: str
    path: Path | None

    @property
    def display_name(self) -> str:
        return "standard output" if self.path is None else str(self.path)


def choose_output(path_text: str, format_name: str | None, pid: int, now: float) -> RecordingOutput:
    """The output for `-o` and `--format` as given. Raises BadSetting where the ending tells no format."""
    if path_text == STDOUT:
        return RecordingOutput(format_name or "folded", None)
    if not path_text:
        format_name = format_name or "svg"
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        return RecordingOutput(format_name, Path(f"sidelight-{pid}-{when}{_SUFFIXES[format_name]}"))
    return RecordingOutput(format_name or infer_format(path_text), Path(path_text))


def infer_format(path: str) -> str:
    """The format that a file's name asks for. Raises BadSetting."""
    suffix = Path(path).suffix.lower()
    if suffix in _FORMATS_BY_SUFFIX:
        return _FORMATS_BY_SUFFIX[suffix]
    if not suffix:
        return "svg"
    raise BadSetting(
        f"--output: the ending {suffix!r} of {path!r} says no format",
        hint="Give --format, or end the name in .svg, .speedscope.json or .folded.",
    )


def check_output(output: RecordingOutput) -> None:
    """Raises OutputFailed now rather than after the recording, where it can be known now."""
    if output.path is None:
        return
    folder = output.path.parent
    if output.path.is_dir():
        raise RecordingWriteFailed(f"{output.path} is a folder", hint="Give --output a file in it.")
    if not folder.is_dir():
        raise RecordingWriteFailed(
            f"there is no folder {folder}", hint="Create it, or give --output another file."
        )
    writable = output.path if _is_special_file(output.path) else folder
    if not os.access(writable, os.W_OK):
        raise RecordingWriteFailed(f"{writable} is not writable", hint="Give --output a file somewhere else.")


def write_output(output: RecordingOutput, content: bytes) -> None:
    """Write it all or raise OutputFailed; a file that is there is replaced, once the new one is whole."""
    try:
        if output.path is None:
            _write_stdout(content)
        elif _is_special_file(output.path):
            output.path.write_bytes(content)
        else:
            _replace_file(output.path.resolve(), content)
    except OSError as error:
        raise RecordingWriteFailed(
            f"cannot write to {output.display_name}: {error.strerror}", hint="The recording is lost."
        ) from error


def _replace_file(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _write_stdout(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        # Nothing must be flushed at exit into what takes no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whoever read it has seen enough
            raise


def _is_special_file(path: Path) -> bool:
    """A device or pipe, which is written into rather than replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
