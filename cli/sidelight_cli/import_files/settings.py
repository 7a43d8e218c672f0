"""Settings of `sidelight import`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting, make_choice_parser, parse_positive_float, setting
from sidelight_cli.collector_api import CA_FILE_HELP
from sidelight_model.counts import ProfileType

DESCRIPTION: Final = (
    "Send profiles that other tools wrote to a collector: pprof, speedscope, folded text (py-spy, perf, "
    "CPython, gProfiler), Austin's text and MOJO, Chrome traces and profiles of the Firefox Profiler. The "
    "content decides which, not the name."
)


def parse_start(text: str) -> int:
    """Parse RFC 3339 or Unix seconds, and return nanoseconds. Raises ValueError."""
    try:
        return int(float(text) * 1e9)
    except (ValueError, OverflowError):
        pass
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not RFC 3339 (2026-11-26T12:00:00Z) nor Unix seconds") from None
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1e9)


def parse_label(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """Settings of `sidelight import`."""

    files: tuple[Path, ...] = setting(
        (), "profiles to send, also compressed with gzip", parse=Path, positional=True, metavar="FILE"
    )
    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    service: str = setting("", "service that the profiles belong to", required=True, metavar="NAME")
    version: str = setting("", "version of the service", metavar="VERSION")
    label: tuple[tuple[str, str], ...] = setting(
        (), "another label, such as pod; may be repeated", parse=parse_label, metavar="NAME=VALUE"
    )
    type: str = setting(
        "cpu",
        "what a sample without a state is: cpu, or wall for time that may be waiting",
        parse=make_choice_parser(ProfileType.CPU.value, ProfileType.WALL.value),
    )
    rate: float = setting(
        100.0, "samples per second, for files that do not state it", parse=parse_positive_float
    )
    seconds: float | None = setting(
        None,
        "duration of each recording; otherwise the file's, or the time of all samples",
        parse=parse_positive_float,
    )
    start: int | None = setting(
        None,
        "start of the profiles: RFC 3339 or Unix seconds; otherwise the file's, or when it was last written",
        parse=parse_start,
        metavar="TIME",
    )
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "timeout of each request", parse=parse_positive_float)

    def __post_init__(self) -> None:
        if not self.files:
            raise BadSetting("no file is given", hint="Give FILE, or several.")
