"""`sidelight capture`: request a capture from a service's sidecars and follow it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.settings import (
    BadSetting,
    parse_nonnegative_int,
    parse_positive_float,
    parse_settings,
    setting,
)
from sidelight.terminal_output import CLEAR_LINE, write_standard_output
from sidelight_cli.collector_api import (
    CA_FILE_HELP,
    CollectorApiClient,
    read_token,
)
from sidelight_cli.collector_errors import CollectorUnreachable, RequestRefused
from sidelight_cli.download import open_in_browser, parse_output_path, save_profile
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width

DESCRIPTION: Final = (
    "Ask sidecars of a service to sample now, and wait until the profile can be queried. WHAT is a service, "
    "or one of list, show, stop and delete, of which the last three take the ID of a capture (start SERVICE "
    "is for a service of such a name). Ctrl-C ends a capture early and keeps what was sampled; a second one "
    "leaves it."
)
SUBCOMMANDS: Final = ("start", "list", "show", "stop", "delete")
FINAL_STATES: Final = ("ready", "stopped", "failed")
LOG_INTERVAL_SECONDS: Final = 10.0
"""Time between progress lines without a terminal, unless the state changes."""
UNREACHABLE_TIMEOUT_SECONDS: Final = 120.0
"""Time without a response from the collector after which the command stops following a capture."""


def parse_pods(text: str) -> int | str | list[str]:
    """Parse a number of pods, a comma-separated list of names, or `all`."""
    if text == "all":
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ValueError(f"{text!r} is not a number, names with commas between, or all")
    return names


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Settings of `sidelight capture`."""

    what: str = setting("", "a service to capture, or list, show, stop, delete", positional=True)
    which: str = setting("", "id of a capture, or a service after start", positional=True, metavar="ID")
    collector: str = setting("", "URL of the collector", required=True, metavar="URL")
    pods: int | str | list[str] = setting(
        1, "number of pods, chosen at random; pod names separated by commas; or all", parse=parse_pods
    )
    seconds: float = setting(60.0, "sampling time", parse=parse_positive_float)
    rate: int = setting(100, "samples per second", parse=parse_nonnegative_int)
    mode: str = setting("auto", "how to read stacks: auto, gil, blocking, nonblocking, command or native")
    query: str = setting("", "matchers on the labels of sidecars: 'version=\"2\"'", metavar="MATCHERS")
    timeline: bool = setting(default=True, help="also send a timeline recording: samples in time order")
    attach: bool = setting(
        default=False, help="also capture pods that nothing profiles: by a node agent or an attached sidecar"
    )
    container: str = setting("", "with --attach: the container to sample", metavar="NAME")
    save: Path | None = setting(
        None,
        "file for the profile; format by ending: .folded, .json (speedscope), .pb.gz, .svg, .html or .csv",
        parse=parse_output_path,
        metavar="FILE",
    )
    open: bool = setting(default=False, help="open the result in a browser")
    detach: bool = setting(default=False, help="print id and URL of the capture and exit without waiting")
    json: bool = setting(default=False, help="write the capture as JSON to standard output")
    limit: int = setting(20, "list: most captures to list", parse=parse_nonnegative_int, metavar="COUNT")
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector", parse=Path, metavar="FILE"
    )
    ca_file: Path | None = setting(None, CA_FILE_HELP, parse=Path, metavar="FILE")
    timeout_seconds: float = setting(30.0, "timeout of one request", parse=parse_positive_float)

    def __post_init__(self) -> None:
        if not self.what:
            raise BadSetting("nothing to do", hint="Give a service, or list; see sidelight capture --help.")
        if self.what in ("show", "stop", "delete", "start") and not self.which:
            kind = "a service" if self.what == "start" else "the id of a capture"
            raise BadSetting(f"{self.what} needs {kind}", hint="sidelight capture list shows captures.")
        if self.container and not self.attach:
            raise BadSetting("--container is for --attach", hint="It names what an attached sidecar samples.")
        if self.detach and (self.save or self.open):
            raise BadSetting("--detach does not wait for what --save and --open need")
        if self.which and (self.what not in SUBCOMMANDS or self.what == "list"):
            raise BadSetting(f"nothing may follow {self.what!r}", hint="See sidelight capture --help.")


def run(argv: Sequence[str]) -> int:
    """Run the command; returns 0, or 1 if the capture failed.

    Raises SidelightError.
    """
    # No other environment variable applies: SIDELIGHT_RATE and SIDELIGHT_MODE are for sidecars.
    variables = {"--collector": "SIDELIGHT_COLLECTOR", "--ca-file": "SIDELIGHT_CA_FILE"}
    default = [f"{flag}={os.environ[name]}" for flag, name in variables.items() if os.environ.get(name)]
    settings = parse_settings(CaptureSettings, "capture", DESCRIPTION, [*default, *argv], None)
    client = CollectorApiClient(
        settings.collector,
        token=read_token(settings.token_file),
        timeout_seconds=settings.timeout_seconds,
        ca_file=settings.ca_file,
    )
    if settings.what == "list":
        return _list_captures(client, settings)
    if settings.what in ("show", "stop", "delete"):
        return _run_subcommand(client, settings)
    return _start_capture(client, settings)


def _start_capture(client: CollectorApiClient, settings: CaptureSettings) -> int:
    capture_request: dict[str, object] = {
        "service": settings.which if settings.what == "start" else settings.what,
        "query": settings.query,
        "pods": settings.pods,
        "seconds": settings.seconds,
        "rate": settings.rate,
        "mode": settings.mode,
        "timeline": settings.timeline,
    }
    if settings.attach:
        capture_request |= {"attach": True} | (
            {"container": settings.container} if settings.container else {}
        )
    capture = client.send("POST", "captures", capture_request)
    if settings.detach:
        _print_result(
            json.dumps(capture) if settings.json else f"{capture['id']}\n{_build_page_url(settings, capture)}"
        )
        return 0
    _print_status(f"{capture['id']}  {_build_page_url(settings, capture)}")
    capture = wait_for_capture(client, capture, CaptureProgressLine(sys.stderr.isatty(), _print_status))
    status = _report_result(capture, settings)
    if status == 0 and settings.save is not None:
        save_profile(client, capture, settings.save)
        _print_status(f"written to {settings.save}")
    if settings.open and not open_in_browser(_build_page_url(settings, capture)):
        _print_status("note: there is no browser here; the address is above")
    return status


def _run_subcommand(client: CollectorApiClient, settings: CaptureSettings) -> int:
    path = f"captures/{settings.which}"
    if settings.what == "delete":
        client.send("DELETE", path)
        _print_status(f"{settings.which} is deleted; its windows stay as long as others")
        return 0
    capture = client.send("POST", f"{path}/stop") if settings.what == "stop" else client.get(path, {})
    if settings.json:
        _print_result(json.dumps(capture))
    else:
        _print_result("\n".join((*format_capture(capture), _build_page_url(settings, capture))))
    return 1 if capture["state"] == "failed" else 0


def _list_captures(client: CollectorApiClient, settings: CaptureSettings) -> int:
    captures = client.get("captures", {"limit": str(max(1, settings.limit))})["captures"]
    if settings.json:
        _print_result(json.dumps(captures))
        return 0
    rows = [("id", "state", "service", "created", "seconds", "pods", "samples")]
    for capture in captures:
        names = (capture["id"], capture["state"], capture["service"], capture["created"][:19] + "Z")
        rows.append((*names, f"{capture['seconds']:g}", str(capture["pods"]), str(capture["samples"])))
    widths = [max(len(escape_unprintable(row[at])) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        _print_result("  ".join(f"{escape_unprintable(cell):<{width}}" for cell, width in cells).rstrip())
    if not captures:
        _print_status("note: no captures are kept; sidelight capture SERVICE starts one")
    return 0


def _report_result(capture: Mapping[str, Any], settings: CaptureSettings) -> int:
    if settings.json:
        _print_result(json.dumps(capture))
    for line in format_capture(capture):
        _print_status(line)
    if capture["state"] == "failed":
        return 1
    if not settings.json:
        _print_result(_build_page_url(settings, capture))
        _print_result(format_export_command(settings.collector, capture))
    return 0


def wait_for_capture(
    client: CollectorApiClient, capture: Mapping[str, Any], progress: CaptureProgressLine
) -> Mapping[str, Any]:
    """Wait until a capture has ended; returns its last state.

    The first Ctrl-C ends the capture, a second one raises KeyboardInterrupt. Temporary failures (no response,
    HTTP 5xx or 429) are retried for `UNREACHABLE_TIMEOUT_SECONDS`, then raised as CollectorUnreachable or
    RequestRefused.
    """
    path, last_response_at = f"captures/{capture['id']}", time.monotonic()
    with _catch_first_interrupt() as interrupted:
        stop_requested = False
        while True:
            try:
                if interrupted() and not stop_requested:
                    capture, stop_requested = client.send("POST", f"{path}/stop"), True
                    progress.note("ending it: what was sampled is kept (again: leave it)")
                else:
                    capture = client.get(path, {})
                last_response_at = time.monotonic()
            except (CollectorUnreachable, RequestRefused) as error:
                if isinstance(error, RequestRefused) and error.status < 500 and error.status != 429:
                    raise
                if time.monotonic() - last_response_at > UNREACHABLE_TIMEOUT_SECONDS:
                    error.hint = f"The capture goes on without this: sidelight capture show {capture['id']}"
                    raise
                progress.note(f"{error.message}; trying again")
            else:
                progress.show(capture)
                if capture["state"] in FINAL_STATES:
                    progress.end()
                    return capture
            until = time.monotonic() + 1.0
            while time.monotonic() < until and (stop_requested or not interrupted()):
                time.sleep(0.05)


class CaptureProgressLine:
    """A progress line that is overwritten on a terminal; elsewhere occasional lines."""

    def __init__(
        self, terminal: bool, print_line: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ):
        self._is_terminal = terminal
        self._print_line = print_line
        self._clock = clock
        self._printed_state = ""
        self._printed_at = 0.0
        self._last_note = ""

    def show(self, capture: Mapping[str, Any]) -> None:
        self._last_note = ""
        line = format_progress(capture)
        if self._is_terminal:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.write(truncate_to_width(line, _measure_columns() - 1))
            sys.stderr.flush()
        elif (
            capture["state"] != self._printed_state
            or self._clock() - self._printed_at >= LOG_INTERVAL_SECONDS
        ):
            self._print_line(line)
            self._printed_state, self._printed_at = capture["state"], self._clock()

    def note(self, text: str) -> None:
        """Write a line of its own, unless it repeats the last note."""
        if text != self._last_note:
            self.end()
            self._print_line(escape_unprintable(text))
            self._last_note = text

    def end(self) -> None:
        """Clear the progress line on a terminal."""
        if self._is_terminal:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


def format_progress(capture: Mapping[str, Any]) -> str:
    """Format the progress of a capture in one line."""
    state = "ending" if capture.get("stopping") else capture["state"]
    parts = [state]
    if capture["state"] in ("sampling", "uploading"):
        parts.append(f"{capture['elapsed_seconds']:.0f}/{capture['seconds']:g} s")
        parts.append(f"{capture['samples']:,} samples")
    if capture["pods"]:
        parts.append(f"{capture['pods']} pod{'s' if capture['pods'] != 1 else ''}")
    samples_by_function: dict[str, int] = {}
    for part in capture.get("parts", ()):
        for row in part.get("top_functions", ()):
            samples_by_function[row["function"]] = (
                samples_by_function.get(row["function"], 0) + row["self_samples"]
            )
    if samples_by_function:
        heaviest = max(samples_by_function, key=lambda name: samples_by_function[name])
        parts.append(f"most in {heaviest} ({samples_by_function[heaviest]:,})")
    return escape_unprintable(" · ".join(parts))


def format_capture(capture: Mapping[str, Any]) -> Iterator[str]:
    """Format a capture with its parts, problems and hints as lines of text."""
    samples = f"{capture['samples']:,} samples in {capture['elapsed_seconds']:.1f} s"
    yield escape_unprintable(f"{capture['id']}  {capture['service']}  {capture['state']}: {samples}")
    for part in capture.get("parts", ()):
        pod = part["labels"].get("pod") or part["agent"]
        kinds = ", ".join(f"{times} {kind}" for kind, times in part.get("errors", {}).items())
        errors = f", failed ticks: {kinds}" if kinds else ""
        attached = f" (attached as {part['ephemeral_container']})" if part.get("ephemeral_container") else ""
        yield escape_unprintable(
            f"  {pod}: {part['state']}, {part.get('samples', 0):,} samples{errors}{attached}"
        )
        if part["problem"]:
            yield escape_unprintable(f"    {part['problem']}")
            if part["hint"]:
                yield escape_unprintable(f"    hint: {part['hint']}")
    if capture["problem"]:
        yield escape_unprintable(
            f"{'error' if capture['state'] == 'failed' else 'note'}: {capture['problem']}"
        )
        if capture["hint"]:
            yield escape_unprintable(f"hint: {capture['hint']}")


def format_export_command(collector: str, capture: Mapping[str, Any]) -> str:
    """Format the command that exports the capture's profile."""
    return (
        f"sidelight export --collector {collector} --from {capture['from']} --until {capture['until']} "
        f"--type wall '{{capture=\"{capture['id']}\"}}' > {capture['id']}.folded"
    )


@contextmanager
def _catch_first_interrupt() -> Iterator[Callable[[], bool]]:
    """Catch the first Ctrl-C; a second one raises KeyboardInterrupt.

    Yields a function that returns whether there was a Ctrl-C.
    """
    is_interrupted = False

    def handle_first(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous_handler = signal.signal(signal.SIGINT, handle_first)
    try:
        yield lambda: is_interrupted
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _build_page_url(settings: CaptureSettings, capture: Mapping[str, Any]) -> str:
    return f"{settings.collector.rstrip('/')}/captures/{capture['id']}"


def _measure_columns() -> int:
    try:
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns)
    except OSError:
        return 80


def _print_status(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _print_result(text: str) -> None:
    write_standard_output(f"{text}\n")
