"""The console script: `sidelight COMMAND …`, each command imported only when asked for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import NamedTuple

from sidelight import __version__
from sidelight_model.errors import SidelightError


class Command(NamedTuple):
    """A command: the module that runs it, the extra it takes, and packages that only its children import."""

    module: str
    summary: str
    extra: str
    children_need: tuple[str, ...] = ()


COMMANDS = {
    "sidecar": Command(
        "sidelight_sidecar.command", "sample the Python processes beside it and ship windows", "sidecar"
    ),
    "collector": Command(
        "sidelight_collector.command", "store windows; serve the API and the web UI", "collector"
    ),
    "injector": Command(
        "sidelight_injector.command", "put sidecars into pods: an admission webhook", "collector"
    ),
    "store": Command(
        "sidelight_collector.storage_command", "what a store keeps: rotation, pins, lifecycle", "collector"
    ),
    "doctor": Command(
        "sidelight_collector.doctor.command", "check a store, and mend what is safe to mend", "collector"
    ),
    "export": Command(
        "sidelight_cli.export_command",
        "write a stored profile: folded, speedscope, pprof, CSV, SVG, HTML",
        "",
    ),
    "compare": Command(
        "sidelight_cli.compare.command",
        "say what takes more or less time in B than in A, for people and CI",
        "",
    ),
    "capture": Command(
        "sidelight_cli.capture_command", "sample a service's pods now, through the collector", ""
    ),
    "ask": Command(
        "sidelight_cli.query_command", "write the JSON answer of any path of the collector's API", ""
    ),
    "record": Command(
        "sidelight_cli.local.record_command", "record a running process, or a program, to a file", ""
    ),
    "top": Command("sidelight_cli.local.top_command", "show live what a running process is doing", ""),
    "demo": Command(
        "sidelight_cli.demo.command",
        "profile four small services and compare them",
        "demo",
        children_need=("numpy", "pyarrow", "tornado", "uvloop"),
    ),
}


def main() -> None:
    """Entry point of the console script; never returns."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run one command; 0 is success, 2 a wrong option, 130 an interrupt, anything else a failure."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version", "version"):
        print(f"sidelight {__version__}")
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        print(f"error: there is no command {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    try:
        module = importlib.import_module(COMMANDS[name].module)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("sidelight."):
            raise
        return _missing(name, error.name)
    for package in COMMANDS[name].children_need:
        if importlib.util.find_spec(package) is None:
            return _missing(name, package)
    try:
        return int(module.run(rest))
    except SidelightError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2 if error.reason == "bad_setting" else 1
    except KeyboardInterrupt:
        return 130


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: sidelight COMMAND [OPTIONS]",
            "",
            *lines,
            "",
            "sidelight COMMAND --help explains its options.",
        ]
    )


def _missing(name: str, package: str) -> int:
    extra = COMMANDS[name].extra
    print(f"error: `sidelight {name}` needs the package {package!r}, which is not installed", file=sys.stderr)
    print(
        f"hint: pip install 'sidelight[{extra}]'" if extra else "hint: reinstall sidelight", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    main()
