"""Read recordings for a comparison.

The formats are folded stacks, speedscope JSON, pprof, and Austin's text.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from sidelight_cli.compare.exit_codes import InputNotReadable
from sidelight_cli.compare.inputs.austin_input import BadAustin, is_austin, parse_austin
from sidelight_cli.compare.inputs.pprof_input import parse_pprof
from sidelight_cli.compare.inputs.sample_weights import RecordedSamples, count_folded_samples
from sidelight_cli.compare.inputs.speedscope_input import parse_speedscope
from sidelight_model.counts import ProfileType
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import number_lines
from sidelight_model.import_formats.folded_input import EmptyProfile, decode_byte_order_mark, read_folded
from sidelight_model.import_formats.pprof_profile import is_pprof

_GZIP: Final = b"\x1f\x8b"
_MOJO: Final = b"MOJ"


def read_recording_file(file: Path, kind: ProfileType, sample_weight: float | None = None) -> RecordedSamples:
    """Read the samples of a file by stack; the file may be compressed with gzip.

    Folded stacks may come from any tool (see `folded_input`). `sample_weight` is the weight of one sample in
    files that do not state it.

    Raises InputNotReadable, SidelightError with the reason `bad_folded`, or ProfileTypeMismatch if the file
    declares another type than `kind`.
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
    text = decode_byte_order_mark(text)
    if text.lstrip()[:1] == b"{":
        return parse_speedscope(str(file), text, kind, sample_weight)
    if is_pprof(text):
        return RecordedSamples(parse_pprof(str(file), text, kind, sample_weight))
    if text.startswith(_MOJO):
        raise BadAustin(
            f"{file} is Austin's binary format", hint=f"Convert it: mojo2austin {file} NAME.austin"
        )
    try:
        if is_austin(line for _, line in number_lines(text)):
            return RecordedSamples(parse_austin(str(file), number_lines(text), kind, sample_weight))
        profile = read_folded(text)
        if not any(map(any, profile.stacks.values())):
            raise EmptyProfile(str(file))
        recording = count_folded_samples(str(file), profile.stacks, sample_weight)
        return replace(recording, unreadable_lines=profile.unreadable_lines)
    except BadFolded as error:
        raise SidelightError(f"{file}, {error.message}", reason=error.reason, hint=error.hint) from error
