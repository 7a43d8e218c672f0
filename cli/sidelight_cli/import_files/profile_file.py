"""Read the file of a profile."""

from __future__ import annotations

from pathlib import Path

from sidelight_model.recordings.imported_profile import BadFile, ImportedProfile, parse_profile
from sidelight_model.recordings.recording_file import unpack_file


def read_profile_file(file: Path, rate_hz: float) -> ImportedProfile:
    """Read a file; `rate_hz` is its sampling rate if it does not state one.

    Raises BadFile and other SidelightErrors of the reason `bad_folded`, with the name of the file.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BadFile(f"cannot read {file}: {error.strerror}", hint="Check the path.") from error
    return parse_profile(str(file), unpack_file(str(file), content), rate_hz)
