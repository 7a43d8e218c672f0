"""`sidelight import`: send profile files to a collector."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sidelight.settings import parse_settings
from sidelight.terminal_output import write_standard_output
from sidelight_cli.collector_api import CollectorApiClient, read_token
from sidelight_cli.collector_errors import RequestRefused
from sidelight_cli.import_files.profile_file import read_profile_file
from sidelight_cli.import_files.push_body import MAX_DURATION_NS, MAX_PARTS, encode_push
from sidelight_cli.import_files.settings import DESCRIPTION, ImportSettings
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.recordings.imported_profile import BadFile, ImportedProfile

PUSH_PATH: Final = "push.v1.PusherService/Push"
LARGE_BYTES: Final = 8 << 20
"""The command announces larger files before it reads them."""
_MS_NS: Final = 10**6


def run(argv: Sequence[str]) -> int:
    """Send all files; returns 1 if one of them failed.

    Raises SidelightError for invalid settings.
    """
    settings = parse_settings(ImportSettings, "import", DESCRIPTION, argv, os.environ)
    client = CollectorApiClient(
        settings.collector,
        token=read_token(settings.token_file),
        timeout_seconds=settings.timeout_seconds,
        ca_file=settings.ca_file,
    )
    failures = 0
    for number, file in enumerate(settings.files, 1):
        progress = f"[{number}/{len(settings.files)}] " if len(settings.files) > 1 else ""
        try:
            line = _send_file(file, settings, client, progress)
        except SidelightError as error:
            failures += 1
            if error.reason in (Reason.COLLECTOR_UNREACHABLE, Reason.UNAUTHORIZED):
                raise
            sys.stderr.write(f"{progress}error: {error.message}\n")
            if hint := error.hint:
                sys.stderr.write(f"hint: {hint}\n")
            continue
        write_standard_output(f"{progress}{line}\n".encode())
    return 1 if failures else 0


def _send_file(file: Path, settings: ImportSettings, client: CollectorApiClient, progress: str) -> str:
    """Send a file, and return a line about it. Raises SidelightError."""
    _announce(file, progress)
    profile = read_profile_file(file, settings.rate)
    if profile.damaged_parts:
        sys.stderr.write(
            f"{progress}warning: {file}: {profile.damaged_parts:,} damaged lines or events left out\n"
        )
    duration_ns = round((settings.seconds or 0) * 1e9) or profile.duration_ns
    duration_ns = duration_ns or max(profile.total_ns, profile.period_ns)
    if duration_ns > MAX_PARTS * MAX_DURATION_NS:
        raise BadFile(
            f"{file} covers {duration_ns / MAX_DURATION_NS:,.0f} hours, more than {MAX_PARTS:,}",
            hint="Give its duration with --seconds.",
        )
    start_ns = settings.start or profile.start_ns or find_start(file, duration_ns)
    labels = {"service_name": settings.service, "version": settings.version, **dict(settings.label)}
    kind = ProfileType(settings.type)
    body = encode_push(profile, labels, kind, start_ns=start_ns, duration_ns=max(duration_ns, 1))
    try:
        client.post(PUSH_PATH, gzip.compress(body, 6, mtime=0), "application/proto")
    except RequestRefused as error:
        message = error.message.removesuffix(f". {error.hint}")
        hint = error.hint
        if error.reason is Reason.TOO_OLD:
            hint = "Give another --start, or raise the collector's --max-age-days."
        elif error.status in (404, 405):
            hint = "The collector needs --pyroscope-ingest, which receives files."
        raise SidelightError(f"{file}: {message}", reason=error.reason, hint=hint) from error
    return describe(file, profile, start_ns, duration_ns)


def describe(file: Path, profile: ImportedProfile, start_ns: int, duration_ns: int) -> str:
    """Return a line about a profile that was sent."""
    start = datetime.fromtimestamp(start_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{file}: {profile.format}, {len({stack for stack, _ in profile.times}):,} stacks, "
        f"{profile.total_ns / 1e9:.2f} thread-seconds in {duration_ns / 1e9:.1f} s from {start}"
    )


def find_start(file: Path, duration_ns: int) -> int:
    """Return when a file's profile began, if it ended when the file was last written."""
    return max((file.stat().st_mtime_ns - duration_ns) // _MS_NS * _MS_NS, 1)


def _announce(file: Path, progress: str) -> None:
    try:
        size = file.stat().st_size
    except OSError:
        return  # reading it reports the error
    if size >= LARGE_BYTES:
        sys.stderr.write(f"{progress}reading {file} ({size >> 20} MiB)\n")
        sys.stderr.flush()
