"""Read recordings for a comparison.

The formats are folded stacks, speedscope JSON, pprof, Austin's two, Chrome traces and gecko profiles.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from dataclasses import replace
from typing import Final

from sidelight_model.counts import Counts, ProfileType
from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import number_lines
from sidelight_model.import_formats.austin_mojo import DamagedMojo, MojoLines
from sidelight_model.import_formats.file_format import FileFormat, identify_file
from sidelight_model.import_formats.folded_input import EmptyProfile, decode_byte_order_mark, read_folded
from sidelight_model.import_formats.perf_script import NoTimeInPerf, PerfSummary, iter_perf_samples
from sidelight_model.recordings.inputs.austin_input import BadAustin, parse_austin
from sidelight_model.recordings.inputs.pprof_input import parse_pprof
from sidelight_model.recordings.inputs.sample_weights import RecordedSamples, count_folded_samples
from sidelight_model.recordings.inputs.speedscope_input import parse_speedscope
from sidelight_model.recordings.inputs.timeline_input import count_gecko_samples, count_trace_samples

_GZIP: Final = b"\x1f\x8b"


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

    `sample_weight` is the weight of one sample in files that do not state it. Raises SidelightError with the
    reason `bad_folded`, or ProfileTypeMismatch if the file declares another type than `kind`.
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
        case FileFormat.PERF:
            return _parse_perf(file_name, content)
        case _:
            return _parse_folded(file_name, content, sample_weight)


def _parse_perf(file_name: str, content: bytes) -> RecordedSamples:
    summary = PerfSummary()
    try:
        samples = Counter(sample.stack for sample in iter_perf_samples(content, summary))
    except (BadFolded, NoTimeInPerf) as error:
        raise SidelightError(f"{file_name}: {error.message}", reason=error.reason, hint=error.hint) from error
    if not samples:
        raise EmptyProfile(file_name)
    return RecordedSamples(
        {stack: Counts(running=count) for stack, count in samples.items()},
        unreadable_lines=summary.unreadable_lines,
        damaged_parts=summary.other_samples,
    )


def _parse_folded(file_name: str, content: bytes, sample_weight: float | None) -> RecordedSamples:
    try:
        profile = read_folded(content)
        if not any(map(any, profile.stacks.values())):
            raise EmptyProfile(file_name)
        recording = count_folded_samples(file_name, profile.stacks, sample_weight)
        return replace(recording, unreadable_lines=profile.unreadable_lines)
    except BadFolded as error:
        raise SidelightError(f"{file_name}, {error.message}", reason=error.reason, hint=error.hint) from error
