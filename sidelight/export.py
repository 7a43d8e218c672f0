"""`sidelight export`: a stored profile on standard output, as folded text, speedscope JSON or SVG."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.client import NOT_A_COLLECTOR, Answer, Client, Unreachable
from sidelight.settings import BadSetting, joined, parse, positive, setting
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.errors import SidelightError

DESCRIPTION: Final = (
    "Write the profile of the windows that a selector matches to standard output, "
    "added up by the collector over a range of time."
)
FORMATS: Final = ("folded", "speedscope", "svg")


def one_of(*words: str) -> Callable[[str], str]:
    """Reads one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is not one of {', '.join(words)}")
        return text

    return read


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """What `sidelight export` is told."""

    selector: str = setting(
        "", 'which windows, as Prometheus matchers: \'{service="shop", version=~"2026.*"}\'', positional=True
    )
    collector: str = setting("", "the collector's address", required=True, metavar="URL")
    format: str = setting("folded", "folded, speedscope or svg", read=one_of(*FORMATS))
    type: str = setting("wall", "wall, cpu or gil", read=one_of(*(kind.value for kind in ProfileType)))
    from_: str = setting("-1h", "first moment: RFC 3339, Unix seconds, now, or -15m", metavar="TIME")
    until: str = setting("now", "end, itself excluded; written like --from", metavar="TIME")
    lines: bool = setting(default=False, help="tell frames apart by line")
    states: bool = setting(default=True, help="folded: write [idle] and [gil] as last frames")
    token_file: Path | None = setting(None, "a file with a bearer token", read=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "after which an answer is given up", read=positive)


class OutputFailed(SidelightError):
    """Standard output does not take the profile."""


def run(argv: Sequence[str]) -> int:
    """Export once; 0 when something or nothing matched. Raises SidelightError for the rest."""
    settings = parse(ExportSettings, "export", DESCRIPTION, joined(argv), os.environ)
    client = Client(
        settings.collector, token=token(settings.token_file), timeout_seconds=settings.timeout_seconds
    )
    try:
        with client.stream("export", parameters(settings)) as answer:
            if "Sidelight-Windows" not in answer.headers:
                raise Unreachable(f"{settings.collector} answered no profile", hint=NOT_A_COLLECTOR)
            notes = list(remarks(answer, settings))
            for chunk in answer.chunks:
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except OSError as error:
        # Nothing must be flushed at exit into what takes no more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0  # whoever read the output has seen enough
        raise OutputFailed(
            f"cannot write to standard output: {error.strerror}",
            hint="What was written before this is only the beginning of the profile.",
        ) from error
    sys.stderr.writelines(f"{note}\n" for note in notes)
    return 0


def parameters(settings: ExportSettings) -> Mapping[str, str]:
    """The query of the request."""
    return {
        "query": settings.selector,
        "from": settings.from_,
        "until": settings.until,
        "type": settings.type,
        "format": settings.format,
        "lines": "1" if settings.lines else "0",
        "states": "1" if settings.states else "0",
    }


def token(file: Path | None) -> str:
    """The bearer token in a file, empty without one."""
    if file is None:
        return ""
    try:
        found = file.read_text("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"cannot read the token in {file}: {error}", hint="Check --token-file.") from error
    if not found:
        raise BadSetting(f"there is no token in {file}", hint="Check --token-file.")
    return found


def remarks(answer: Answer, settings: ExportSettings) -> Iterable[str]:
    """What a person should know about the output, for standard error."""
    if unreadable := answer.number("Sidelight-Unreadable-Segments"):
        yield f"warning: {unreadable} stored segments could not be read; their windows are missing here"
    if unresolved := answer.number("Sidelight-Unresolved-Windows"):
        yield f"warning: {unresolved} windows are left out: their stacks are kept only together with others"
    if not answer.number("Sidelight-Windows"):
        selector = settings.selector or "{}"
        yield f"note: nothing matched {selector} from {settings.from_} until {settings.until}"
        yield (
            "hint: check the selector against /api/v1/services, widen --from, and see that a sidecar ships "
            f"(/api/v1/status of {settings.collector})"
        )
    elif not answer.number("Sidelight-Samples"):
        yield f"note: windows matched, and none has samples of type {settings.type}"
