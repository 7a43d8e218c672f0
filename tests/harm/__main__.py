"""Tries at length what a sampler could do to its target, and writes docs/harm.md: what `make test-harm` runs.

    python -m tests.harm [--only killed] [--much 0.1] [--page docs/harm.md]

Runs on the interpreter of the tests, the oldest and the newest Python found. Takes half an hour.
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
HERE: list[Trial] = [
    ("soaked", lambda python, much: trials.soaked(python, int(10_000_000 * much), 900 * much)),
    # It grows until it has as many stacks as it may, which takes as long however much is asked for.
    ("names", lambda python, much: trials.soaked(python, 10_000_000, 120 * max(much, 1), names=True)),
]
HEAD = f"""\
# Harm

`make test-harm` wrote this page. It samples programs that notice what is done to them
(`tests/harm/targets/`), in the mode that each Python gets by default, and looks for harm:

- **calls that wait**: `epoll_wait`, `poll`, `recv` with SO_RCVTIMEO and `nanosleep` of 50 ms, in
  threads that Python does not know (c), in Python's threads that stay in C (inside) and in ones that
  come back to Python after every call (again), beside threads that work. A call that is interrupted
  returns EINTR, which much C code takes for an error. A thread that gives the GIL away between the look
  at who holds it and the stop can still be stopped in its wait (again).
- **signals**: real-time signals, queued for the process and for each of its threads, each with a value
  of its own: every one is handled exactly once.
- **SIGSTOP and SIGCONT** by somebody else: the target stands from the one to the other, all threads in
  state T, and it still stands when the sampler has gone.
- **sampler killed**: SIGKILL at a random moment, with signals on their way, while it runs on another CPU
  than the target and so has to stop it: no thread stays in state T or t, the target works on, and every
  signal is handled.
- **other processes that spin** on all CPUs; **two samplers at once**; **fork, exec and exit** of
  targets while they are attached to: every child ends with the exit status it meant to.
- **many samples**: of two processes with 102 threads each and one whose threads and code come and go,
  four takes a second, until there are ten million. The sampler's memory may differ by
  {trials.GROWTH_BYTES >> 20} MiB from what it was after the first fifth. Then code whose names never
  were before, for two minutes, with at most 2,000 stacks told apart (50,000 by default).

The longest stop is what the sampler measured. The bound is 2 ms; it is passed only where the kernel did
not let the sampler go on in time.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harm")
    parser.add_argument("--only", default="", help="only trials whose name holds this")
    parser.add_argument("--page", type=Path, help="write the page here")
    parser.add_argument("--much", type=float, default=1, help="so many times as much; 0.1 is quick")
    options = parser.parse_args(arguments)
    broken = 0
    lines = [HEAD, machine(), ""]
    for minor, python in interpreters.few().items():
        here = minor == sys.version_info.minor
        lines += [f"## Python 3.{minor}", "", "| trial | what was seen |", "|---|---|"]
        for name, trial in EVERYWHERE + (HERE if here else []):
            if options.only in name:
                report = trial(python, options.much)
                print(f"3.{minor} {told(report)}", flush=True)
                lines.append(f"| {report.trial} | {told(report).partition(': ')[2]} |")
                broken += len(report.broken)
        lines.append("")
    if options.page:
        options.page.write_text("\n".join(lines))
    return bool(broken)


def told(report: Report) -> str:
    figures = "; ".join(f"{name}: {text}" for name, text in report.figures.items())
    return f"{report.trial}: {figures}" + "".join(f"; **{what}**" for what in report.broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
