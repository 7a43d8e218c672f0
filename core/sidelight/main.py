"""The console script `sidelight COMMAND …`.

A command is imported only when it runs. A distribution declares its commands as entry points of the group
`sidelight.commands`: a name, and a function that takes the arguments and returns the exit status.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple

from sidelight import __version__
from sidelight.terminal_output import (
    StandardOutputError,
    discard_standard_output,
    escape_standard_streams,
    write_standard_output,
)
from sidelight_model.errors import SidelightError
from sidelight_model.terminal_width import escape_unprintable

ENTRY_POINT_GROUP: Final = "sidelight.commands"


class CommandEntry(NamedTuple):
    """A command of Sidelight: its distribution and its help text."""

    distribution: str
    summary: str


COMMANDS: Final = {
    "sidecar": CommandEntry("sidelight-sidecar", "sample the Python processes beside it and ship windows"),
    "collector": CommandEntry("sidelight-collector", "store windows; serve the API and the web UI"),
    "injector": CommandEntry("sidelight-injector", "put sidecars into pods: an admission webhook"),
    "storage": CommandEntry("sidelight-collector", "what a store keeps: retention, pins, lifecycle"),
    "doctor": CommandEntry("sidelight-collector", "check a store, and mend what is safe to mend"),
    "export": CommandEntry(
        "sidelight-cli", "write a stored profile: folded, speedscope, pprof, OTLP, CSV, SVG, HTML"
    ),
    "compare": CommandEntry(
        "sidelight-cli", "say what takes more or less time in B than in A, for people and CI"
    ),
    "import": CommandEntry("sidelight-cli", "send profile files of other tools to a collector"),
    "capture": CommandEntry("sidelight-cli", "sample a service's pods now, through the collector"),
    "query": CommandEntry("sidelight-cli", "write the JSON answer of any path of the collector's API"),
    "mcp": CommandEntry("sidelight-cli[mcp]", "serve tools for coding agents (MCP)"),
    "record": CommandEntry("sidelight-cli", "record a running process, or a program, to a file"),
    "top": CommandEntry("sidelight-cli", "show live what a running process is doing"),
    "demo": CommandEntry("sidelight-cli[demo]", "profile four small services and compare them"),
}


def main() -> None:
    """Run the command in `sys.argv` and exit with its status; never returns."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run one command and return its exit status.

    0 is success, 2 a wrong option, 130 an interrupt; any other status is a failure. Control characters in
    what the command prints are escaped.
    """
    with escape_standard_streams():
        try:
            status = _run(argv)
            write_standard_output("")
            return status
        except BrokenPipeError:
            discard_standard_output()
            return 0
        except StandardOutputError as error:
            discard_standard_output()
            return _print_error(error.message, error.hint, 1)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(format_usage())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version", "version"):
        print(f"sidelight {__version__}")
        return 0
    name, *arguments = argv
    point = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    if point is None:
        return _report_not_installed(name)
    try:
        return _run_entry_point(point, arguments)
    except KeyboardInterrupt:
        return 130


def _run_entry_point(point: EntryPoint, arguments: list[str]) -> int:
    try:
        command = point.load()
    except ModuleNotFoundError as error:
        own = ("sidelight", point.module.partition(".")[0])
        if error.name is None or error.name.partition(".")[0] in own:
            raise
        return _print_error(
            f"`sidelight {point.name}` needs the package {error.name!r}, which is not installed",
            f"pip install '{COMMANDS[point.name].distribution}'" if point.name in COMMANDS else "",
            1,
        )
    try:
        return int(command(arguments))
    except SidelightError as error:
        return _print_error(error.message, error.hint, 2 if error.reason == "bad_setting" else 1)


def format_usage() -> str:
    """Format the usage text: the installed commands with one line each."""
    installed = {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    summaries = {name: command.summary for name, command in COMMANDS.items() if name in installed}
    summaries |= dict.fromkeys(sorted(installed - COMMANDS.keys()), "")
    width = max(map(len, summaries), default=0)
    missing = [name for name in COMMANDS if name not in installed]
    return "\n".join(
        [
            "usage: sidelight COMMAND [OPTIONS]",
            "",
            *(f"  {name:<{width}}  {summary}".rstrip() for name, summary in summaries.items()),
            "",
            *([f"Not installed here: {', '.join(missing)}.", ""] if missing else []),
            "sidelight COMMAND --help explains its options.",
        ]
    )


def _report_not_installed(name: str) -> int:
    if name in COMMANDS:
        distribution = COMMANDS[name].distribution
        return _print_error(f"`sidelight {name}` is not installed", f"pip install '{distribution}'", 1)
    print(f"error: there is no command {name!r}\n\n{format_usage()}", file=sys.stderr)
    return 2


def _print_error(message: str, hint: str, status: int) -> int:
    # A line end in a quoted name must not begin a line that looks like another message.
    print(f"error: {escape_unprintable(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {escape_unprintable(hint)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
