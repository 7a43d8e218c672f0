"""Read recordings for a comparison."""

from __future__ import annotations

from pathlib import Path

from sidelight_cli.compare.exit_codes import InputNotReadable
from sidelight_model.counts import ProfileType
from sidelight_model.recordings.inputs.sample_weights import RecordedSamples
from sidelight_model.recordings.recording_file import parse_recording_file, unpack_file


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
