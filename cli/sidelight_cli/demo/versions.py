"""The four services of the demo.

They are versions of one service that differ only in framework and event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight_model.errors import Reason, SidelightError

SERVICE = "demo"

TORNADO_COROUTINES = "tornado-coroutines"
TORNADO_ASYNC = "tornado-async"
AIOHTTP = "aiohttp"
AIOHTTP_UVLOOP = "aiohttp-uvloop"


@dataclass(frozen=True, slots=True)
class DemoVersion:
    """A deployment of the demo service: version label and program under `examples/`."""

    name: str
    program: str

    @property
    def selector(self) -> str:
        """The selector that matches only this version's windows."""
        return f'{{service="{SERVICE}",version="{self.name}"}}'


VERSIONS = (
    DemoVersion(TORNADO_COROUTINES, "tornado_coroutines.py"),
    DemoVersion(TORNADO_ASYNC, "tornado_async.py"),
    DemoVersion(AIOHTTP, "aiohttp_asyncio.py"),
    DemoVersion(AIOHTTP_UVLOOP, "aiohttp_uvloop.py"),
)


def find_services_directory(package: Path = Path(__file__).parent) -> Path:
    """Find the directory with the services' programs.

    It is inside the installed package, or `examples/` of a source tree. Raises SidelightError if neither has
    them.
    """
    for directory in (package / "services", package.parents[2] / "examples"):
        if all((directory / version.program).is_file() for version in VERSIONS):
            return directory
    raise SidelightError(
        "the demo's services are neither in the installed package nor in a source tree beside it",
        reason=Reason.NOT_FOUND,
        hint="Reinstall sidelight-cli, or run the demo from a clone of the repository.",
    )
