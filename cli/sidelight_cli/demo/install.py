"""Installation for `make demo`: targets of the Makefile, made side by side, with their progress.

    python3 -m sidelight_cli.demo.install "Python packages=.demo/.packages" "web UI (npm)=web/dist/.built"

Each argument is a name and a target. A target that is up to date is left out, and when all are, nothing is
printed. The output of a target is kept in a file and printed when it fails; then, as on Ctrl-C, the others
are ended too. It runs before anything is installed, so it imports the standard library alone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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
    """One target of the Makefile on its way; times are seconds of a monotonic clock."""

    name: str
    target: str
    log: Path
    started_at: float = 0.0
    ended_at: float | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, now: float) -> None:
        """Start to make the target, in a process group of its own, which Ctrl-C does not reach."""
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
        """The exit status, once the target is made or failed."""
        assert self.process is not None  # noqa: S101 - it was started
        status = self.process.poll()
        if status is not None and self.ended_at is None:
            self.ended_at = now
        return status

    def stop(self) -> None:
        """End the process and all it started: SIGTERM, a bounded wait, SIGKILL."""
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
        """The last line of the output so far."""
        lines = self.read_lines()
        return lines[-1].strip() if lines else ""

    def read_lines(self) -> list[str]:
        """The end of the output, without terminal codes and progress bars that were overwritten."""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            text = file.read().decode(errors="replace")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        return [last for line in text.split("\n") if (last := line.rstrip("\r").rsplit("\r", 1)[-1]).strip()]


def main(argv: Sequence[str]) -> int:
    """0 when every target is up to date or was made, 1 when one failed, 130 when interrupted."""
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


def run_steps(
    steps: Sequence[InstallStep], screen: DemoScreen, clock: Callable[[], float] = time.monotonic
) -> int:
    """Make all targets at once and show how far they are; whatever happens, no process is left."""
    numbered = [(f"[{number}/{len(steps)}] {step.name}", step) for number, step in enumerate(steps, 1)]
    try:
        for label, step in numbered:
            step.start(clock())
            if screen.columns is None:
                screen.print_line(f"{label} …")
        while any(step.ended_at is None for step in steps):
            for label, step in numbered:
                status = step.poll(clock()) if step.ended_at is None else None
                if status:
                    screen.release_block()
                    screen.print_line(format_failure(step))
                    return 1
                if status == 0 and screen.columns is None:
                    screen.print_line(format_progress(label, step, clock()))
            if screen.columns is not None:
                screen.show_block(format_steps(numbered, clock(), screen.columns), is_progress=True)
            time.sleep(POLL_SECONDS)
        return 0
    finally:
        for step in steps:
            step.stop()


def format_steps(numbered: Sequence[tuple[str, InstallStep]], now: float, columns: int) -> str:
    """The steps as lines of bounded width."""
    width = min(columns, WIDTH)
    lines = [format_progress(label, step, now) for label, step in numbered]
    return "\n".join(line if len(line) < width else f"{line[: width - 2]}…" for line in lines)


def format_progress(label: str, step: InstallStep, now: float) -> str:
    """How long a step took; of one that goes on, how long so far, and its last line of output."""
    if step.ended_at is not None:
        return f"{label}: installed in {step.ended_at - step.started_at:.0f} s"
    return f"{label}: {now - step.started_at:.0f} s …  {step.read_last_line()}"


def format_failure(step: InstallStep) -> str:
    """The end of a failed step's output, and how to see the whole."""
    output = (
        "\n".join(f"    {line}" for line in step.read_lines()[-OUTPUT_LINES:]) or "    (it wrote nothing)"
    )
    hint = f"hint: `make {step.target}` tries this step alone"
    return f"error: {step.name} could not be installed:\n{output}\n{hint}"


def is_up_to_date(target: str) -> bool:
    """Whether a target is up to date."""
    result = subprocess.run(
        [*MAKE, "--question", target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=build_environment(os.environ),
        check=False,
    )
    return result.returncode == 0


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for another make: with the variables of this one, without its job server."""
    flags = re.sub(r"(^|\s)(-j\d*|--jobserver-(auth|fds)=\S*)(?=\s|$)", "", environ.get("MAKEFLAGS", ""))
    return {**environ, "MAKEFLAGS": flags, "PYTHONUNBUFFERED": "1"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
