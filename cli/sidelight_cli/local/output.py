"""Choose and check a recording's path and format before sampling starts; write it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.file_output import is_special_file, write_output_file
from sidelight.settings import BadSetting
from sidelight.terminal_output import write_standard_output
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
    """The recording cannot be written to its output."""


@dataclass(frozen=True, slots=True)
class RecordingOutput:
    """A format and a path; the path is None for standard output."""

    format: str
    path: Path | None

    @property
    def display_name(self) -> str:
        return "standard output" if self.path is None else str(self.path)


def choose_output(path_text: str, format_name: str | None, pid: int, now: float) -> RecordingOutput:
    """Choose the output for `--output` and `--format`.

    Without a path the file name contains `pid` and the local time `now` (Unix seconds). Raises BadSetting if
    no format is given and the file's suffix is unknown.
    """
    if path_text == STDOUT:
        return RecordingOutput(format_name or "folded", None)
    if not path_text:
        format_name = format_name or "svg"
        when = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
        return RecordingOutput(format_name, Path(f"sidelight-{pid}-{when}{_SUFFIXES[format_name]}"))
    return RecordingOutput(format_name or infer_format(path_text), Path(path_text))


def infer_format(path: str) -> str:
    """Infer the format from a file's suffix; svg without one.

    Raises BadSetting if the suffix is unknown.
    """
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
    """Check before the recording that the output can be written.

    Raises RecordingWriteFailed if the path is a folder, or its folder does not exist or is not writable.
    """
    if output.path is None:
        return
    folder = output.path.parent
    if output.path.is_dir():
        raise RecordingWriteFailed(f"{output.path} is a folder", hint="Give --output a file in it.")
    if not folder.is_dir():
        raise RecordingWriteFailed(
            f"there is no folder {folder}", hint="Create it, or give --output another file."
        )
    writable = output.path if is_special_file(output.path) else folder
    if not os.access(writable, os.W_OK):
        raise RecordingWriteFailed(f"{writable} is not writable", hint="Give --output a file somewhere else.")


def write_output(output: RecordingOutput, content: bytes) -> None:
    """Write the complete content.

    An existing file is replaced atomically, once the new one is complete. Raises RecordingWriteFailed, or
    StandardOutputError.
    """
    if output.path is None:
        write_standard_output(content)
        return
    try:
        write_output_file(output.path, content)
    except OSError as error:
        raise RecordingWriteFailed(
            f"cannot write to {output.display_name}: {error.strerror}", hint="The recording is lost."
        ) from error
