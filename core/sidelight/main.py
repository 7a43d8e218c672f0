"""The console script `sidelight COMMAND …`.

A command is imported only when it runs. A distribution declares its commands as entry points of the group
`sidelight.commands`: a name, and a function that takes the arguments and returns the exit status. `COMMANDS`
repeats those of this project, because reading the metadata of all installed distributions takes 20 ms.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from sidelight import __version__
from sidelight.terminal_output import (
    StandardOutputError,
    discard_standard_output,
    escape_standard_streams,
    write_standard_output,
)
from sidelight_model.errors import SidelightError
from sidelight_model.terminal_width import escape_unprintable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

ENTRY_POINT_GROUP: Final = "sidelight.commands"


class CommandEntry(NamedTuple):
    """A command of Sidelight: its distribution, entry point and help text."""

    distribution: str
    entry_point: str
    summary: str


class CommandFunction(NamedTuple):
    """The function of an installed command, as `module:function`."""

    name: str
    entry_point: str

    @property
    def package(self) -> str:
        """The top-level package that has the function."""
        return self.entry_point.partition(":")[0].partition(".")[0]

    def load(self) -> Callable[[list[str]], int]:
        """Import the function. Raises ModuleNotFoundError if a package is missing."""
        module, _, function = self.entry_point.partition(":")
        return cast("Callable[[list[str]], int]", getattr(import_module(module), function))


COMMANDS: Final = {
    "sidecar": CommandEntry(
        "sidelight-sidecar",
        "sidelight_sidecar.command:run",
        "sample the Python processes beside it and ship windows",
    ),
    "collector": CommandEntry(
        "sidelight-collector",
        "sidelight_collector.command:run",
        "store windows; serve the API and the web UI",
    ),
    "injector": CommandEntry(
        "sidelight-injector", "sidelight_injector.command:run", "put sidecars into pods: an admission webhook"
    ),
    "agent": CommandEntry(
        "sidelight-sidecar[agent]",
        "sidelight_sidecar.agent.command:run",
        "sample the pods of a node that ask for it",
    ),
    "storage": CommandEntry(
        "sidelight-collector",
        "sidelight_collector.storage_command:run",
        "what a store keeps: retention, pins, lifecycle",
    ),
    "doctor": CommandEntry(
        "sidelight-collector",
        "sidelight_collector.doctor.command:run",
        "check a store, and mend what is safe to mend",
    ),
    "export": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.export_command:run",
        "write a stored profile: folded, speedscope, pprof, OTLP, CSV, SVG, HTML",
    ),
    "compare": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.compare.command:run",
        "say what takes more or less time in B than in A, for people and CI",
    ),
    "import": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.import_files.command:run",
        "send profile files of other tools to a collector",
    ),
    "capture": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.capture_command:run",
        "sample a service's pods now, through the collector",
    ),
    "notes": CommandEntry(
        "sidelight-cli", "sidelight_cli.notes_command:run", "list, add and remove notes on a service"
    ),
    "query": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.query_command:run",
        "write the JSON answer of any path of the collector's API",
    ),
    "mcp": CommandEntry(
        "sidelight-cli[mcp]", "sidelight_cli.mcp_command:run", "serve tools for coding agents (MCP)"
    ),
    "record": CommandEntry(
        "sidelight-cli",
        "sidelight_cli.local.record_command:run",
        "record a running process, or a program, to a file",
    ),
    "top": CommandEntry(
        "sidelight-cli", "sidelight_cli.local.top_command:run", "show live what a running process is doing"
    ),
    "demo": CommandEntry(
        "sidelight-cli[demo]",
        "sidelight_cli.demo.command:run",
        "profile four small services and compare them",
    ),
}


def main() -> None:
    """Run the command in `sys.argv` and exit with its status; never returns."""
    # Imported modules stay: collecting garbage after every 700 new objects would be a tenth of a start.
    gc.set_threshold(10_000)
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
    command = find_command(name)
    if command is None:
        return _report_not_installed(name)
    try:
        return _run_command(command, arguments)
    except KeyboardInterrupt:
        return 130


def find_command(name: str) -> CommandFunction | None:
    """Return the function of an installed command, or None."""
    if name in COMMANDS:
        known = CommandFunction(name, COMMANDS[name].entry_point)
        if find_spec(known.package) is not None:
            return known
    point = next((point for point in _read_entry_points() if point.name == name), None)
    return None if point is None else CommandFunction(name, point.value)


def _read_entry_points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINT_GROUP)


def _run_command(command: CommandFunction, arguments: list[str]) -> int:
    try:
        # Commands import much only once they run.
        return int(command.load()(arguments))
    except SidelightError as error:
        return _print_error(error.message, error.hint, 2 if error.reason == "bad_setting" else 1)
    except ModuleNotFoundError as error:
        own = ("sidelight", command.package)
        if error.name is None or error.name.partition(".")[0] in own:
            raise
        return _print_error(
            f"`sidelight {command.name}` needs the package {error.name!r}, which is not installed",
            f"pip install '{COMMANDS[command.name].distribution}'" if command.name in COMMANDS else "",
            1,
        )


def format_usage() -> str:
    """Format the usage text: the installed commands with one line each."""
    installed = {point.name for point in _read_entry_points()}
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
