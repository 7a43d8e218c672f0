"""Install what `make demo` needs.

Several Makefile targets are made in parallel, with their progress on the terminal:

    python3 -m sidelight_cli.demo.install "Python packages=.demo/.packages" "web UI (npm)=web/dist/.built"

Each argument is a name and a target. Targets that are up to date are skipped; if all are, nothing is printed.
The output of a target goes to a file and is printed if the target fails. A failure, like Ctrl-C, ends the
other targets too. This module runs before anything is installed, so it imports only the standard library.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sidelight_cli.demo.demo_screen import DemoScreen

MAKE = ("make", "--no-print-directory")
POLL_SECONDS = 0.1
STOP_TIMEOUT_SECONDS = 10.0
OUTPUT_LINES = 40
WIDTH = 100


@dataclass(slots=True)
class InstallStep:
    """A Makefile target being made; times are seconds of a monotonic clock."""

    name: str
    target: str
    log: Path
    started_at: float = 0.0
    ended_at: float | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, now: float) -> None:
        """Start to make the target in its own process group, which Ctrl-C does not reach."""
        self.started_at = now
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*MAKE, self.target],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=build_environment(os.environ),
                process_group=0,
            )

    def poll(self, now: float) -> int | None:
        """Return the exit status, or None while the target is being made."""
        assert self.process is not None  # noqa: S101 - it was started
        status = self.process.poll()
        if status is not None and self.ended_at is None:
            self.ended_at = now
        return status

    def stop(self) -> None:
        """End the process and all its children: SIGTERM, a bounded wait, SIGKILL."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_TIMEOUT_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def read_last_line(self) -> str:
        """Return the last line of the output so far."""
        lines = self.read_lines()
        return lines[-1].strip() if lines else ""

    def read_lines(self) -> list[str]:
        """Return the end of the output, without terminal codes and overwritten lines."""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            text = file.read().decode(errors="replace")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        return [last for line in text.split("\n") if (last := line.rstrip("\r").rsplit("\r", 1)[-1]).strip()]


def main(argv: Sequence[str]) -> int:
    """Make the targets that are not up to date; returns the exit code.

    It is 0 if all targets are up to date or were made, 1 if one failed, and 130 if interrupted.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    screen = DemoScreen(sys.stdout)
    try:
        targets = [argument.rsplit("=", 1) for argument in argv]
        missing = [(name, target) for name, target in targets if not is_up_to_date(target)]
        with tempfile.TemporaryDirectory(prefix="sidelight-install-") as folder:
            logs = [Path(folder) / str(number) for number in range(len(missing))]
            steps = [
                InstallStep(name, target, log) for (name, target), log in zip(missing, logs, strict=True)
            ]
            return run_steps(steps, screen)
    except KeyboardInterrupt:
        screen.release_block()
        screen.print_line("interrupted: the next `make demo` goes on from here")
        return 130


def run_steps(steps: Sequence[InstallStep], screen: DemoScreen) -> int:
    """Make all targets in parallel and show their progress.

    Returns 0, or 1 as soon as a target fails. No process is left running in any case.
    """
    numbered = [(f"[{number}/{len(steps)}] {step.name}", step) for number, step in enumerate(steps, 1)]
    try:
        for label, step in numbered:
            step.start(time.monotonic())
            if screen.columns is None:
                screen.print_line(f"{label} …")
        while any(step.ended_at is None for step in steps):
            for label, step in numbered:
                status = step.poll(time.monotonic()) if step.ended_at is None else None
                if status:
                    screen.release_block()
                    screen.print_line(format_failure(step))
                    return 1
                if status == 0 and screen.columns is None:
                    screen.print_line(format_progress(label, step, time.monotonic()))
            if screen.columns is not None:
                screen.show_block(format_steps(numbered, time.monotonic(), screen.columns), is_progress=True)
            time.sleep(POLL_SECONDS)
        return 0
    finally:
        for step in steps:
            step.stop()


def format_steps(numbered: Sequence[tuple[str, InstallStep]], now: float, columns: int) -> str:
    """Format the steps as lines of at most `columns` characters."""
    width = min(columns, WIDTH)
    lines = [format_progress(label, step, now) for label, step in numbered]
    return "\n".join(line if len(line) < width else f"{line[: width - 2]}…" for line in lines)


def format_progress(label: str, step: InstallStep, now: float) -> str:
    """Format a step's duration and, while it runs, its last line of output."""
    if step.ended_at is not None:
        return f"{label}: installed in {step.ended_at - step.started_at:.0f} s"
    return f"{label}: {now - step.started_at:.0f} s …  {step.read_last_line()}"


def format_failure(step: InstallStep) -> str:
    """Format the end of a failed step's output, and the command to repeat the step."""
    output = (
        "\n".join(f"    {line}" for line in step.read_lines()[-OUTPUT_LINES:]) or "    (it wrote nothing)"
    )
    hint = f"hint: `make {step.target}` tries this step alone"
    return f"error: {step.name} could not be installed:\n{output}\n{hint}"


def is_up_to_date(target: str) -> bool:
    result = subprocess.run(
        [*MAKE, "--question", target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=build_environment(os.environ),
        check=False,
    )
    return result.returncode == 0


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Build the environment for a nested make: all variables, but no job server."""
    flags = re.sub(r"(^|\s)(-j\d*|--jobserver-(auth|fds)=\S*)(?=\s|$)", "", environ.get("MAKEFLAGS", ""))
    return {**environ, "MAKEFLAGS": flags, "PYTHONUNBUFFERED": "1"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
