"""Tries at length what a sampler could do to its target: what `make test-harm` runs.

    python -m tests.harm [--only killed] [--much 0.1] [--page bench/results/harm.md]

Runs on the interpreter of the tests, the oldest and the newest Python found, and a free-threaded one. Takes
half an hour.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from tests.harm import trials
from tests.harm.trials import Report
from tests.truth import interpreters
from tests.truth.page import machine

Trial = tuple[str, Callable[[Path, float], Report]]
EVERYWHERE: list[Trial] = [
    ("waiting", lambda python, much: trials.waiting(python, int(20_000 * much))),
    ("signalled", lambda python, much: trials.signalled(python, int(200_000 * much))),
    ("stopped", lambda python, much: trials.stopped(python, int(200 * much))),
    ("killed", lambda python, much: trials.killed(python, int(1000 * much))),
    ("crowded", lambda python, much: trials.crowded(python, int(3000 * much))),
    ("twice", lambda python, much: trials.twice(python, 20 * much)),
    ("storm", lambda python, much: trials.storm(python, 30 * much)),
]
# With a GIL, and from the first version whose tasks can be read.
TASKS: Trial = ("tasks", lambda python, much: trials.tasks(python, int(2000 * much)))
HERE: list[Trial] = [
    ("soaked", lambda python, much: trials.soaked(python, int(10_000_000 * much), 900 * much)),
    # It grows until it has as many stacks as it may, which takes as long however much is asked for.
    ("names", lambda python, much: trials.soaked(python, 10_000_000, 120 * max(much, 1), names=True)),
]
HEAD = """\
# What sampling does to its target: results

`make test-harm` wrote this file. docs/performance-appendix.md explains it.

**{result}.** The sampler's memory may grow by {growth} MiB after the first fifth.

"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harm")
    parser.add_argument("--only", default="", help="only trials whose name holds this")
    parser.add_argument("--page", type=Path, help="write the page here")
    parser.add_argument("--much", type=float, default=1, help="so many times as much; 0.1 is quick")
    options = parser.parse_args(arguments)
    broken = count = 0
    lines: list[str] = []
    pythons = {f"3.{minor}": python for minor, python in interpreters.few().items()}
    pythons |= interpreters.free_threaded()
    for version, python in pythons.items():
        here = version == f"3.{sys.version_info.minor}"
        lines += [f"## Python {version}", "", "| trial | what was seen |", "|---|---|"]
        minor = version.removeprefix("3.")
        with_tasks = [TASKS] if minor.isdigit() and int(minor) >= 11 else []
        for name, trial in EVERYWHERE + with_tasks + (HERE if here else []):
            if options.only in name:
                report = trial(python, options.much)
                print(f"{version} {told(report)}", flush=True)
                lines.append(f"| {report.trial} | {told(report).partition(': ')[2]} |")
                broken += len(report.broken)
                count += 1
        lines.append("")
    if options.page:
        result = (
            f"{count} trials on {len(pythons)} Pythons found {f'{broken} failures' if broken else 'no harm'}"
        )
        head = HEAD.format(result=result, growth=trials.GROWTH_BYTES >> 20)
        options.page.write_text("\n".join([head + machine(), "", *lines]))
    return bool(broken)


def told(report: Report) -> str:
    figures = "; ".join(f"{name}: {text}" for name, text in report.figures.items())
    return f"{report.trial}: {figures}" + "".join(f"; **{what}**" for what in report.broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
