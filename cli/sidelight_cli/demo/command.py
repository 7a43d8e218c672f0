"""`sidelight demo`: run the demo and clean up afterwards."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill

import aiohttp

from sidelight import settings as house
from sidelight.settings import BadSetting
from sidelight_cli.demo import demo_report
from sidelight_cli.demo.demo_run import DemoRun, RoundMeasurement
from sidelight_cli.demo.demo_screen import DemoScreen
from sidelight_cli.demo.demo_table import render_table
from sidelight_cli.demo.measurement import VersionProgress, find_problems
from sidelight_cli.demo.processes.process_group import ProcessGroup
from sidelight_cli.demo.processes.programs import DemoCommands
from sidelight_cli.demo.published_story import evaluate_story
from sidelight_cli.demo.settings import DemoSettings
from sidelight_cli.demo.versions import VERSIONS
from sidelight_model.errors import Reason, SidelightError

DESCRIPTION = "Profile four small services under the same load and compare them."
REQUIRED_PACKAGES = ("sidelight_collector", "sidelight_sidecar", "tornado")
"""Packages that the demo's processes import."""
QUERY_SECONDS = 30.0
TEXT_WIDTH = 100


def run(argv: list[str]) -> int:
    """Run the command and return its exit code.

    It is 0 if every service was profiled or the user ended a live demo, 1 if there were problems (they are
    printed), and 130 if interrupted. Raises SidelightError if the demo cannot continue.
    """
    settings = house.parse_settings(DemoSettings, "demo", DESCRIPTION, argv, os.environ)
    for package in REQUIRED_PACKAGES:
        if find_spec(package) is None:
            raise SidelightError(
                f"the demo needs the package {package!r}, which is not installed",
                reason=Reason.NOT_FOUND,
                hint="pip install 'sidelight-cli[demo]'",
            )
    screen = DemoScreen(sys.stdout, browser=settings.browser and settings.is_live)
    command = ("sidelight", "demo", *argv)
    with provide_directory(settings.keep) as directory:
        return asyncio.run(run_demo(DemoCommands(settings, directory), screen, command))


@contextmanager
def provide_directory(keep: Path | None) -> Iterator[Path]:
    """Provide the demo's directory: `keep` if given, else a temporary one.

    Raises BadSetting if `keep` is not empty or cannot be created.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sidelight-demo-") as temporary:
            yield Path(temporary)
        return
    try:
        keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_occupied = any(keep.iterdir())
    except OSError as error:
        raise BadSetting(f"--keep {keep}: {error.strerror}", hint="Name a directory to be made.") from error
    if is_occupied:
        raise BadSetting(f"--keep {keep} is not empty", hint="Name a new directory, or empty this one.")
    yield keep.resolve()


async def run_demo(programs: DemoCommands, screen: DemoScreen, command: Sequence[str]) -> int:
    """Run one demo until it is done or interrupted; returns the exit code.

    All child processes have ended when this returns.
    """
    process_group = ProcessGroup(programs.directory)
    interrupted = _install_signal_handlers(process_group)
    try:
        timeout = aiohttp.ClientTimeout(total=QUERY_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            return await _run_steps(
                DemoRun(programs, process_group, session, screen), programs, screen, command
            )
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        screen.release_block()
        screen.print_line("ending …")
        return 0 if programs.settings.is_live else 130
    finally:
        await process_group.stop_all()
        if programs.settings.keep is not None:
            screen.release_block()
            store = shlex.quote(str(programs.store_directory))
            screen.print_line(f"kept        look again with: {find_program()} collector --store {store}")


async def _run_steps(
    demo: DemoRun, programs: DemoCommands, screen: DemoScreen, command: Sequence[str]
) -> int:
    settings = programs.settings

    def show(versions: Sequence[VersionProgress]) -> None:
        screen.show_block(format_progress(versions, settings, screen.columns), is_progress=True)

    if screen.columns is not None:
        show([VersionProgress(version) for version in VERSIONS])
    await demo.start_services()
    await demo.start_sidecars()
    if settings.is_live:  # the page opens on services under load; the first round may lack some windows
        await demo.start_load()
    await demo.wait_for_profiles()
    screen.print_line(f"page        {demo.page_url}")
    screen.print_line(f"compare     {demo.compare_url}")
    screen.open_page(demo.compare_url)
    if not settings.is_live:
        await demo.start_load()
    screen.print_line(f"measuring   for {settings.round_seconds:g} s …")
    for number in range(settings.round_count):
        measurement = await demo.measure_round(show if number == 0 else None)
        problems_found = [f"{name}: its last windows did not arrive" for name in measurement.missing_versions]
        problems_found += find_problems(measurement.versions)
        if not settings.is_live:
            problems_found += await demo.stop_sidecars()
        screen.show_block(format_measurement(measurement, settings, problems_found, screen.columns))
        if settings.report is not None:
            context = demo_report.RunContext(command, demo.url, demo.compare_url, settings)
            demo_report.write_report(
                settings.report,
                demo_report.build_report(
                    context, measurement, evaluate_story(measurement.versions), problems_found
                ),
            )
    return 1 if problems_found else 0


def format_progress(versions: Sequence[VersionProgress], settings: DemoSettings, columns: int | None) -> str:
    """Format the progress of the first round: elapsed time and the table so far."""
    elapsed = [version.load.until - version.load.start for version in versions if version.load is not None]
    state = "The table fills when the services have load."
    if elapsed:
        state = f"{min(elapsed):.0f} of {settings.round_seconds:g} s:"
    return "\n".join(["", state, "", render_table(versions, columns)])


def format_measurement(
    measurement: RoundMeasurement,
    settings: DemoSettings,
    problems_found: Sequence[str],
    columns: int | None = None,
) -> str:
    """Format a measurement: table, findings about the published story, problems."""
    clock_time = time.strftime("%H:%M:%S", time.localtime(measurement.until))
    seconds = measurement.until - measurement.start
    windows = sum(measured.profile.windows for measured in measurement.versions)
    busy = sum(measured.profile.depth.samples for measured in measurement.versions)
    samples = sum(measured.profile.samples for measured in measurement.versions)
    lines = [
        "",
        f"{seconds:.0f} s until {clock_time}: {windows} windows, {samples} samples, {busy} of them busy",
        "",
        render_table(measurement.versions, columns),
        "",
        *(wrap_sentence(str(finding), columns) for finding in evaluate_story(measurement.versions)),
        *(f"problem: {problem}" for problem in problems_found),
    ]
    if settings.is_live:
        lines += ["", f"The next table comes in {settings.round_seconds:g} s. Ctrl-C ends the demo."]
    return "\n".join(lines)


def find_program() -> str:
    """Return the shell command for sidelight: its script if on PATH, else its module."""
    return "sidelight" if shutil.which("sidelight") else f"{shlex.quote(sys.executable)} -m sidelight.main"


def wrap_sentence(sentence: str, columns: int | None = None) -> str:
    """Wrap a sentence at `columns`, at most at `TEXT_WIDTH` characters."""
    return fill(
        sentence, min(TEXT_WIDTH, columns or TEXT_WIDTH), subsequent_indent="  ", break_on_hyphens=False
    )


def _install_signal_handlers(process_group: ProcessGroup) -> asyncio.Event:
    """Install handlers for end signals; returns an event that the first signal sets.

    The first signal stops the demo cleanly, the second kills its children at once.
    """
    interrupted = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def end() -> None:
        if interrupted.is_set():
            process_group.kill_all()
        else:
            interrupted.set()
            if task is not None:
                task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end)
    return interrupted
