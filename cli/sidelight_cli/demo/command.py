"""`sidelight demo`: options to settings, settings to a demo that leaves nothing behind."""

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
from sidelight_cli.demo.demo_run import Demo, Measurement
from sidelight_cli.demo.demo_screen import Screen
from sidelight_cli.demo.demo_table import table
from sidelight_cli.demo.measurement import Progress, problems
from sidelight_cli.demo.processes.process_group import Crew
from sidelight_cli.demo.processes.programs import Programs
from sidelight_cli.demo.published_story import story
from sidelight_cli.demo.settings import Settings
from sidelight_cli.demo.versions import VERSIONS
from sidelight_model.errors import Reason, SidelightError

DESCRIPTION = "Profile four small services under the same load and compare them."
NEEDED = ("sidelight_collector", "sidelight_sidecar", "tornado")
"""What the processes of the demo import."""
QUERY_SECONDS = 30.0
WIDTH = 100


def run(argv: list[str]) -> int:
    """0 when every service was profiled or a live demo was ended, 1 with the cause, 130 if interrupted.

    Raises SidelightError for what keeps the demo from going on.
    """
    settings = house.parse(Settings, "demo", DESCRIPTION, argv, os.environ)
    for package in NEEDED:
        if find_spec(package) is None:
            raise SidelightError(
                f"the demo needs the package {package!r}, which is not installed",
                reason=Reason.NOT_FOUND,
                hint="pip install 'sidelight-cli[demo]'",
            )
    screen = Screen(sys.stdout, browser=settings.browser and settings.live)
    command = ("sidelight", "demo", *argv)
    with directory(settings.keep) as kept:
        return asyncio.run(demo(Programs(settings, kept), screen, command))


@contextmanager
def directory(keep: Path | None) -> Iterator[Path]:
    """The demo's directory: the one to keep, which must be new or empty, or a temporary one."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="sidelight-demo-") as temporary:
            yield Path(temporary)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except OSError as error:
        raise BadSetting(f"--keep {keep}: {error.strerror}", hint="Name a directory to be made.") from error
    if taken:
        raise BadSetting(f"--keep {keep} is not empty", hint="Name a new directory, or empty this one.")
    yield keep.resolve()


async def demo(programs: Programs, screen: Screen, command: Sequence[str]) -> int:
    """Run one demo until it is done or somebody ends it; every child has ended when this returns."""
    crew = Crew(programs.directory)
    interrupted = _end_at_signals(crew)
    try:
        timeout = aiohttp.ClientTimeout(total=QUERY_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            return await _steps(Demo(programs, crew, session, screen), programs, screen, command)
    except asyncio.CancelledError:
        if not interrupted.is_set():
            raise
        screen.leave()
        screen.say("ending …")
        return 0 if programs.settings.live else 130
    finally:
        await crew.end()
        if programs.settings.keep is not None:
            screen.leave()
            store = shlex.quote(str(programs.store))
            screen.say(f"kept        look again with: {program()} collector --store {store}")


async def _steps(demo: Demo, programs: Programs, screen: Screen, command: Sequence[str]) -> int:
    settings = programs.settings

    def show(versions: Sequence[Progress]) -> None:
        screen.show(progress(versions, settings, screen.columns), passing=True)

    if screen.columns is not None:
        show([Progress(version) for version in VERSIONS])
    await demo.serve()
    await demo.watch()
    if settings.live:  # a page that opens on services under load; the first round may lack a window or two
        await demo.load()
    await demo.profiles()
    screen.say(f"page        {demo.page_url}")
    screen.say(f"compare     {demo.compare_url}")
    screen.open(demo.compare_url)
    if not settings.live:
        await demo.load()
    screen.say(f"measuring   for {settings.round_seconds:g} s …")
    for number in range(settings.rounds):
        measurement = await demo.measure(show if number == 0 else None)
        found = [f"{name}: its last windows did not arrive" for name in measurement.missing]
        found += problems(measurement.versions)
        if not settings.live:
            found += await demo.dismiss_sidecars()
        screen.show(block(measurement, settings, found, screen.columns))
        if settings.report is not None:
            made = demo_report.Setting(command, demo.url, demo.compare_url, settings)
            demo_report.write(
                settings.report, demo_report.report(made, measurement, story(measurement.versions), found)
            )
    return 1 if found else 0


def progress(versions: Sequence[Progress], settings: Settings, columns: int | None) -> str:
    """The first round so far as text: how much of it is over, and the table with what there is."""
    over = [one.load.until - one.load.start for one in versions if one.load is not None]
    state = "The table fills when the services have load."
    if over:
        state = f"{min(over):.0f} of {settings.round_seconds:g} s:"
    return "\n".join(["", state, "", table(versions, columns)])


def block(
    measurement: Measurement, settings: Settings, found: Sequence[str], columns: int | None = None
) -> str:
    """A measurement as text: the table, what it says about the story, and what went wrong."""
    at = time.strftime("%H:%M:%S", time.localtime(measurement.until))
    seconds = measurement.until - measurement.start
    windows = sum(one.profile.windows for one in measurement.versions)
    busy = sum(one.profile.depth.samples for one in measurement.versions)
    samples = sum(one.profile.samples for one in measurement.versions)
    lines = [
        "",
        f"{seconds:.0f} s until {at}: {windows} windows, {samples} samples, {busy} of them busy",
        "",
        table(measurement.versions, columns),
        "",
        *(wrapped(str(finding), columns) for finding in story(measurement.versions)),
        *(f"problem: {problem}" for problem in found),
    ]
    if settings.live:
        lines += ["", f"The next table comes in {settings.round_seconds:g} s. Ctrl-C ends the demo."]
    return "\n".join(lines)


def program() -> str:
    """How to run sidelight from a shell: its script, or its module where the script is not on PATH."""
    return "sidelight" if shutil.which("sidelight") else f"{shlex.quote(sys.executable)} -m sidelight.main"


def wrapped(sentence: str, columns: int | None = None) -> str:
    """A sentence as lines of bounded length."""
    return fill(sentence, min(WIDTH, columns or WIDTH), subsequent_indent="  ", break_on_hyphens=False)


def _end_at_signals(crew: Crew) -> asyncio.Event:
    """The first signal ends the demo in order, the second kills its children at once."""
    interrupted = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def end() -> None:
        if interrupted.is_set():
            crew.kill()
        else:
            interrupted.set()
            if task is not None:
                task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end)
    return interrupted
