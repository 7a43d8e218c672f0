"""Read recordings for a comparison.

The formats are folded stacks and speedscope JSON, as py-spy and `sidelight record` write them.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidelight_cli.compare.exit_codes import InputNotReadable
from sidelight_cli.compare.speedscope_input import parse_speedscope
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import Stack, number_lines, parse_folded_lines

_GZIP: Final = b"\x1f\x8b"


def read_recording_file(file: Path, kind: ProfileType) -> Mapping[Stack, Counts]:
    """Read the stacks of a file, which may be compressed with gzip.

    In folded stacks, lines that begin with `#` are comments.

    Raises InputNotReadable, SidelightError with the reason `bad_folded`, or ProfileTypeMismatch if a
    speedscope file declares another type than `kind`.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputNotReadable(
            f"cannot read {file}: {error.strerror}",
            hint="Two names are two recordings; a selector stands alone and needs --collector.",
        ) from error
    try:
        text = gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise SidelightError(
            f"{file} cannot be unpacked: {error}", reason=Reason.BAD_FOLDED, hint="Was it written to its end?"
        ) from error
    if text.lstrip()[:1] == b"{":
        return parse_speedscope(str(file), text, kind)
    try:
        return parse_folded_lines(
            (number, line) for number, line in number_lines(text) if not line.startswith("#")
        )
    except BadFolded as error:
        raise SidelightError(f"{file}, {error.message}", reason=error.reason, hint=error.hint) from error
