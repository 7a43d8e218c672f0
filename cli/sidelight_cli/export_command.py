"""`sidelight export`: write a stored profile, or two sides, in an export format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import (
    BadSetting,
    join_negative_times,
    make_choice_parser,
    parse_nonnegative_int,
    parse_positive_float,
    parse_settings,
    setting,
)
from sidelight.terminal_output import write_standard_output
from sidelight_cli.collector_api import (
    CA_FILE_HELP,
    CollectorApiClient,
    ResponseStream,
    read_token,
)
from sidelight_cli.collector_errors import NOT_A_COLLECTOR_HINT, CollectorUnreachable
from sidelight_model.counts import ProfileType
from sidelight_model.selectors import ENDPOINT_LABEL, Matcher, Op, add_matcher, expand_side

DESCRIPTION: Final = (
    "Write the profile of the windows that a selector matches to standard output, added up by the collector "
    "over a range of time. With --baseline and --comparison, each version:VERSION or matchers, folded "
    "text, "
    "CSV and HTML have two sides."
)
EXPORT_FORMATS: Final = ("folded", "speedscope", "pprof", "otlp", "csv", "svg", "html")
COMPARISON_FORMATS: Final = ("folded", "csv", "html")
SIDES: Final = (
    *("baseline", "baseline_from", "baseline_until"),
    *("comparison", "comparison_from", "comparison_until"),
)
BOOLEAN_PARAMETERS: Final = ("lines", "states", "about")


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Settings of `sidelight export`."""

    selector: str = setting(
        "",
        'windows to export, as Prometheus matchers: \'{service="shop", version=~"2026.*"}\'',
        positional=True,
    )
    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    format: str = setting(
        "folded",
        "output format: folded, speedscope, pprof, otlp, csv, svg or html",
        parse=make_choice_parser(*EXPORT_FORMATS),
    )
    type: str = setting(
        "wall",
        "profile type: wall, cpu, gil, gil_wait, off_cpu or tasks",
        parse=make_choice_parser(*(kind.value for kind in ProfileType)),
    )
    from_: str = setting(
        "",
        "start of the range: RFC 3339, Unix seconds, now, or -15m; otherwise -1h, and for a comparison "
        "without any time the collector chooses",
        metavar="TIME",
    )
    until: str = setting(
        "", "end of the range, exclusive; same format as --from; otherwise now", metavar="TIME"
    )
    baseline: str = setting(
        "",
        "for a comparison: the baseline, as version:VERSION or matchers; otherwise the version before",
        metavar="SIDE",
    )
    comparison: str = setting(
        "",
        "for a comparison: the other side, in the same format as --baseline; otherwise the newest version",
        metavar="SIDE",
    )
    baseline_from: str = setting("", "start of the baseline, if it differs from --from", metavar="TIME")
    baseline_until: str = setting("", "end of the baseline, if it differs from --until", metavar="TIME")
    comparison_from: str = setting(
        "", "start of the comparison side, if it differs from --from", metavar="TIME"
    )
    comparison_until: str = setting(
        "", "end of the comparison side, if it differs from --until", metavar="TIME"
    )
    min_depth: int | None = setting(
        None, "only stacks with at least this many frames", parse=parse_nonnegative_int
    )
    max_depth: int | None = setting(
        None, "only stacks with at most this many frames", parse=parse_nonnegative_int
    )
    function: str = setting("", "only stacks that contain this function: 'name (file)', or a name")
    focus: str = setting("", "only stacks below this call path, in the format of page addresses")
    endpoint: str = setting(
        "", "only stacks of this endpoint: 'function (file)', as the collector lists them", metavar="NAME"
    )
    group_by: str = setting(
        "",
        "endpoint: put a frame for its endpoint above each stack",
        parse=make_choice_parser("", "endpoint"),
    )
    lines: bool | None = setting(
        None,
        "one frame per line number, not per function (default: pprof and otlp only)",
        is_boolean=True,
    )
    states: bool = setting(
        default=True, help="folded: add the state as a last frame, such as [gil] or [poll]"
    )
    about: bool = setting(default=False, help="folded, csv: add header lines that describe the data")
    nodes: str = setting(
        "", "speedscope, html: number of heaviest call paths to include, or all", metavar="COUNT"
    )
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(60.0, "timeout of the request", parse=parse_positive_float)

    @property
    def is_comparison(self) -> bool:
        """Whether two sides are exported."""
        return any(getattr(self, name) for name in SIDES)

    def __post_init__(self) -> None:
        if self.is_comparison and self.format not in COMPARISON_FORMATS:
            raise BadSetting(
                f"--format {self.format} has one side",
                hint=f"Export each side by its own selector, or take one of {', '.join(COMPARISON_FORMATS)}.",
            )


def run(argv: Sequence[str]) -> int:
    """Export once; returns 0, even if nothing matched.

    Raises SidelightError.
    """
    settings = parse_settings(ExportSettings, "export", DESCRIPTION, join_negative_times(argv), os.environ)
    token = read_token(settings.token_file)
    client = CollectorApiClient(
        settings.collector, token=token, timeout_seconds=settings.timeout_seconds, ca_file=settings.ca_file
    )
    path = "export/compare" if settings.is_comparison else "export"
    with client.stream(path, build_parameters(settings)) as answer:
        if "Sidelight-Windows" not in answer.headers:
            raise CollectorUnreachable(f"{settings.collector} answered no profile", hint=NOT_A_COLLECTOR_HINT)
        notes = list(list_notes(answer, settings))
        for chunk in answer.chunks:
            if not write_standard_output(chunk):
                return 0
    sys.stderr.writelines(f"{note}\n" for note in notes)
    return 0


def build_parameters(settings: ExportSettings) -> Mapping[str, str]:
    """Build the query parameters, without those left to the collector's defaults."""
    values = {
        "query": select_endpoint(settings.selector, settings.endpoint),
        "from": settings.from_,
        "until": settings.until,
        "type": settings.type,
        "format": settings.format,
        "nodes": settings.nodes,
        "min_depth": format_optional_int(settings.min_depth),
        "max_depth": format_optional_int(settings.max_depth),
        "function": settings.function,
        "focus": settings.focus,
        "group_by": settings.group_by,
        "baseline_from": settings.baseline_from,
        "baseline_until": settings.baseline_until,
        "comparison_from": settings.comparison_from,
        "comparison_until": settings.comparison_until,
    }
    query = {name: text for name, text in values.items() if text}
    # The collector chooses a side that is missing; `match:` selects everything.
    sides = {name: getattr(settings, name) for name in ("baseline", "comparison")}
    query |= {name: expand_side(side) or "{}" for name, side in sides.items() if side}
    for name in BOOLEAN_PARAMETERS:
        if (on := getattr(settings, name)) is not None:
            query[name] = "1" if on else "0"
    return query


def select_endpoint(selector: str, endpoint: str) -> str:
    """Return a selector that selects this endpoint too; an empty one selects any."""
    return add_matcher(selector, Matcher(ENDPOINT_LABEL, Op.EQUAL, endpoint)) if endpoint else selector


def format_optional_int(value: int | None) -> str:
    """Format a number as a parameter; None gives an empty text."""
    return "" if value is None else str(value)


def list_notes(response: ResponseStream, settings: ExportSettings) -> Iterable[str]:
    """Yield warnings and notes about the output, for standard error."""
    if unreadable := response.get_int("Sidelight-Unreadable-Segments"):
        yield f"warning: {unreadable} stored segments could not be read; their windows are missing here"
    if unresolved := response.get_int("Sidelight-Unresolved-Windows"):
        yield f"warning: {unresolved} windows are left out: their stacks are kept only together with others"
    if not response.get_int("Sidelight-Windows"):
        selector = settings.selector or "{}"
        is_chosen = settings.is_comparison and not (settings.from_ or settings.until)
        times = f"from {settings.from_ or '-1h'} until {settings.until or 'now'}"
        yield f"note: nothing matched {selector} {'in the chosen time' if is_chosen else times}"
        yield (
            "hint: check the selector against /api/v1/services, widen --from, and see that a sidecar ships "
            f"(/api/v1/status of {settings.collector})"
        )
    elif not response.get_int("Sidelight-Samples"):
        yield f"note: windows matched, and none has samples of type {settings.type}"
