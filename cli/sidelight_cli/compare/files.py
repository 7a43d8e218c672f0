"""Read recordings for a comparison.

The formats are folded stacks, speedscope JSON, pprof, Austin's two, Chrome traces and gecko profiles.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from sidelight_cli.compare.exit_codes import InputNotReadable
from sidelight_cli.compare.inputs.austin_input import BadAustin, parse_austin
from sidelight_cli.compare.inputs.pprof_input import parse_pprof
from sidelight_cli.compare.inputs.sample_weights import RecordedSamples, count_folded_samples
from sidelight_cli.compare.inputs.speedscope_input import parse_speedscope
from sidelight_cli.compare.inputs.timeline_input import count_gecko_samples, count_trace_samples
from sidelight_model.counts import ProfileType
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import number_lines
from sidelight_model.import_formats.austin_mojo import DamagedMojo, MojoLines
from sidelight_model.import_formats.file_format import FileFormat, identify_file
from sidelight_model.import_formats.folded_input import EmptyProfile, decode_byte_order_mark, read_folded

_GZIP: Final = b"\x1f\x8b"


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
    return parse_recording_file(str(file), unpack_file(str(file), content), kind, sample_weight)


def unpack_file(file_name: str, content: bytes) -> bytes:
    """Return content without gzip and byte order mark.

    Raises SidelightError with the reason `bad_folded`.
    """
    try:
        unpacked = gzip.decompress(content) if content.startswith(_GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise SidelightError(
            f"{file_name} cannot be unpacked: {error}",
            reason=Reason.BAD_FOLDED,
            hint="Was it written to its end?",
        ) from error
    return decode_byte_order_mark(unpacked)


def parse_recording_file(
    file_name: str, content: bytes, kind: ProfileType, sample_weight: float | None
) -> RecordedSamples:
    """Parse the samples of unpacked content without a byte order mark.

    Raises what `read_recording_file` does.
    """
    identified = identify_file(file_name, content)
    match identified.format:
        case FileFormat.SPEEDSCOPE:
            return parse_speedscope(file_name, content, kind, sample_weight)
        case FileFormat.PPROF:
            return RecordedSamples(parse_pprof(file_name, content, kind, sample_weight))
        case FileFormat.TRACE:
            counts, damaged = count_trace_samples(file_name, identified.document, sample_weight)
            return RecordedSamples(counts, damaged_parts=damaged)
        case FileFormat.GECKO:
            counts, damaged = count_gecko_samples(file_name, identified.document)
            return RecordedSamples(counts, damaged_parts=damaged)
        case FileFormat.MOJO:
            lines = MojoLines(content)
            try:
                recording = parse_austin(file_name, enumerate(lines, 1), kind, sample_weight)
            except DamagedMojo as error:
                raise BadAustin(f"{file_name} is damaged: {error}", hint="Record it again.") from error
            return replace(recording, damaged_parts=len(lines.damage))
        case FileFormat.AUSTIN:
            return parse_austin(file_name, number_lines(content), kind, sample_weight)
        case _:
            return _parse_folded(file_name, content, sample_weight)


def _parse_folded(file_name: str, content: bytes, sample_weight: float | None) -> RecordedSamples:
    try:
        profile = read_folded(content)
        if not any(map(any, profile.stacks.values())):
            raise EmptyProfile(file_name)
        recording = count_folded_samples(file_name, profile.stacks, sample_weight)
        return replace(recording, unreadable_lines=profile.unreadable_lines)
    except BadFolded as error:
        raise SidelightError(f"{file_name}, {error.message}", reason=error.reason, hint=error.hint) from error
